//! A network function that a Linux guest has been given: what the guest moved over its wire to the
//! host, and who took the function's interrupts.

use crate::counters::Tally;
use crate::protocol::Guest;
use crate::session::Observed;
use report::grid::grouped;
use serde::Serialize;
use serde_json::Value as Json;

/// Modules of the host for it, and of the guest.
pub const MODULES: [&str; 3] = ["vfio_iommu_type1", "vfio_pci", DRIVER];
/// It drives both functions, and needs no other module.
pub(crate) const DRIVER: &str = "ixgbevf";
/// Where the board has the two functions at the ends of a wire: the guest's, and the host's own.
pub(crate) const ADDRESS: &str = "0000:00:15.0";
pub(crate) const OWN_ADDRESS: &str = "0000:00:16.0";
/// What the guest sends in one stream.
pub(crate) const BYTES: u64 = 50_000_000;
/// In one write.
pub(crate) const MESSAGE: usize = 16_384;
/// Messages of one byte that the host answers, one after the other, before the stream.
pub(crate) const ROUND_TRIPS: u32 = 500;
/// Records on the guest's console: it is about to begin, it is over.
pub(crate) const BEGINS: &str = "network_begins";
pub(crate) const OVER: &str = "network";
/// What the host adds.
pub(crate) const OF_HOST: &str = "network_host";

/// What one guest did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Whether the feature was on.
    pub is_on: bool,
    /// Bytes of the stream that the guest sent.
    pub sent: u64,
    /// As the host counted them.
    pub received: u64,
    /// Megabits a second of the stream.
    pub megabits: f64,
    /// Microseconds from a byte of the guest's to the host's answer.
    pub round_trip: f64,
    /// Interrupts of the function as the guest counted them.
    pub interrupts: u64,
    /// Interrupts of the function that the host took.
    pub taken: u64,
    /// VM exits but waiting, by interrupts of the function.
    pub exits: f64,
    /// Vectors that were put into the guest's virtual APIC or its posted-interrupt descriptor: by
    /// the IOMMU, and IPIs by the processor or KVM.
    pub posted: u64,
    /// Entries in the IOMMU's log of interrupts whose virtual processor did not run: AMD.
    pub logged: u64,
    /// Whether the IOMMU can post and the feature was on all the time, or the feature was off.
    #[serde(skip)]
    is_judged: bool,
}

impl Traffic {
    /// None where no network function was there. `tally` is of the part that counts.
    pub(crate) fn of(observed: &Observed, tally: &Tally, is_inhibited: bool) -> Option<Self> {
        let Guest::Network { posts, .. } = observed.step.guest else { return None };
        let is_on = observed.step.arm.setting.is_on();
        let guest = record(&observed.result.console, OVER)?;
        let host = record(&observed.result.console, OF_HOST)?;
        let exits = tally.exits.iter().filter(|(reason, _)| !reason.is_wait());
        let exits: u64 = exits.map(|(_, count)| count.exits).sum();
        let interrupts = guest["interrupts"].as_u64()?;
        let sent = guest["sent"].as_u64()?;
        Some(Self {
            is_on,
            sent,
            received: guest["received"].as_u64()?,
            megabits: sent as f64 * 8.0 / 1e6 / guest["seconds"].as_f64()?,
            round_trip: guest["round_trip"].as_f64()? * 1e6,
            interrupts,
            taken: host["taken"].as_u64()?,
            exits: exits as f64 / interrupts.max(1) as f64,
            posted: tally.posted,
            logged: tally.logged,
            is_judged: !is_inhibited && (posts || !is_on),
        })
    }

    /// What is not as it should be.
    pub(crate) fn faults(&self) -> Vec<String> {
        let side = if self.is_on { "on" } else { "off" };
        let mut faults = Vec::new();
        if self.received != self.sent || self.sent == 0 {
            let (received, sent) = (grouped(self.received), grouped(self.sent));
            faults.push(format!("{side}: {received} of {sent} bytes arrived"));
        }
        let (taken, all) = (grouped(self.taken), grouped(self.interrupts));
        if self.is_judged && self.is_on && self.taken > 0 {
            faults.push(format!(
                "{side}: the host took {taken} interrupts of the function, none of which was posted, \
                 and the guest {all}"
            ));
        }
        if self.is_judged && (self.interrupts == 0 || !self.is_on && self.taken == 0) {
            faults.push(format!(
                "{side}: the host took {taken} interrupts of the function, and the guest {all}"
            ));
        }
        faults
    }
}

/// The last record of a kind.
fn record(console: &[String], kind: &str) -> Option<Json> {
    let records = console.iter().rev();
    let mut records = records.filter_map(|line| serde_json::from_str::<Json>(line).ok());
    records.find(|one| one["record"].as_str() == Some(kind))
}

/// What is said of both sides in the verdict.
pub(crate) fn sentence<'a>(sides: impl Iterator<Item = &'a Traffic>) -> Option<String> {
    let taken: Vec<String> = sides.map(|side| grouped(side.taken)).collect();
    (!taken.is_empty())
        .then(|| format!("interrupts of the function that the host took: {}", taken.join(" -> ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_lost_and_interrupts_that_the_host_takes_or_not_are_faults() {
        let side = |is_on, taken| Traffic {
            is_on,
            sent: 100,
            received: 100,
            megabits: 9000.0,
            round_trip: 50.0,
            interrupts: 10,
            taken,
            exits: 0.1,
            posted: 10,
            logged: 5,
            is_judged: true,
        };
        for (one, faults) in [
            (side(true, 0), 0),
            (side(true, 1), 1),
            (side(false, 12), 0),
            (side(false, 0), 1),
            (Traffic { received: 99, ..side(true, 0) }, 1),
            (Traffic { interrupts: 0, ..side(true, 0) }, 1),
            (Traffic { is_judged: false, ..side(true, 10) }, 0),
        ] {
            assert_eq!(one.faults().len(), faults, "{one:?}");
        }
    }

    #[test]
    fn the_last_record_of_a_kind_counts() {
        let console =
            ["Linux", r#"{"record":"network","sent":1}"#, r#"{"record":"network","sent":2}"#]
                .map(str::to_owned);
        assert_eq!(record(&console, OVER).and_then(|found| found["sent"].as_u64()), Some(2));
        assert_eq!(record(&console, OF_HOST), None);
    }
}
