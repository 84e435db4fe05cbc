//! Interrupts of a device that a guest has been given: how many of those sent arrived, and what
//! they took. What is to be expected is the same of AMD's IOMMUs and of Intel's: with posting
//! nothing but waiting exits, without it each interrupt does, and none is lost.

use crate::counters::Tally;
use crate::protocol::Guest;
use crate::session::Observed;
use report::grid::grouped;
use serde::Serialize;
use serde_json::Value as Json;

/// Modules of the host that hand a function to a process.
pub const MODULES: [&str; 2] = ["vfio_iommu_type1", "vfio_pci"];
/// A virtual processor that polls before it sleeps counts as running, and nothing has to wake it.
pub(crate) const PARAMETER: &str = "kvm.halt_poll_ns=0";
/// Where the board has its function for measuring interrupts.
pub(crate) const ADDRESS: &str = "0000:00:1d.0";
/// In one run.
pub(crate) const INTERRUPTS: u32 = 10_000;
/// Apart from each other: longer than a handler with exits takes, so that no two become one.
pub(crate) const PERIOD_NS: u32 = 20_000;
/// The same where the virtual processor goes to sleep in between, and the host may do other work
/// before it wakes it.
pub(crate) const PERIOD_HALTED_NS: u32 = 200_000;

/// Exits for each interrupt that are the host's own: its timers, and the beginning and the end.
const OTHER: f64 = 0.05;
/// What an interrupt takes at least that the host takes first.
const LEAST_WITHOUT: f64 = 1.0;

/// The interrupts of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInterrupts {
    /// Whether the feature was on.
    pub is_on: bool,
    /// By the function's own count.
    pub sent: u64,
    /// Handled by the guest.
    pub arrived: u64,
    /// VM exits but waiting, by interrupts sent.
    pub exits: f64,
    /// Vectors that the IOMMU put into the guest's virtual APIC itself.
    pub posted: u64,
    /// Those of them that became one with the one before, since the guest had not taken that yet:
    /// a virtual APIC has one bit for a vector.
    pub merged: u64,
    /// Entries in the IOMMU's log of interrupts whose virtual processor did not run: AMD.
    pub logged: u64,
    /// `kvm_avic_ga_log`: such entries as KVM took them; None where its kernel has no such event.
    /// On Intel, which has no such log, interrupts with the vector that wakes: `PIW`.
    pub woken: Option<u64>,
    /// Times that KVM changed how the interrupt reaches the guest: `kvm_pi_irte_update`.
    pub routes: Option<u64>,
    /// Whether the feature was on all the time and the IOMMU can post, or the feature was off: then
    /// something is expected.
    #[serde(skip)]
    is_judged: bool,
}

impl DeviceInterrupts {
    /// None where no device was there. `tally` is of the part that counts.
    pub(crate) fn of(observed: &Observed, tally: &Tally, is_inhibited: bool) -> Option<Self> {
        let Guest::Device { posts, .. } = observed.step.guest else { return None };
        let is_on = observed.step.arm.setting.is_on();
        let console = &observed.result.console;
        let (sent, arrived) =
            (number(console, "device_sent", "sent")?, number(console, "device", "arrived")?);
        let exits = tally.exits.iter().filter(|(reason, _)| !reason.is_wait());
        let exits: u64 = exits.map(|(_, count)| count.exits).sum();
        let points = observed.result.tracepoints.as_ref();
        Some(Self {
            is_on,
            sent,
            arrived,
            exits: exits as f64 / sent.max(1) as f64,
            posted: tally.posted,
            merged: tally.merged,
            logged: tally.logged,
            woken: points.and_then(|points| points.woken),
            routes: points.and_then(|points| points.routes),
            is_judged: !is_inhibited && (posts || !is_on),
        })
    }

    /// What is not as it should be.
    pub(crate) fn faults(&self) -> Vec<String> {
        let side = if self.is_on { "on" } else { "off" };
        let mut faults = Vec::new();
        if self.arrived + self.merged != self.sent || self.sent == 0 {
            let (arrived, sent) = (grouped(self.arrived), grouped(self.sent));
            let merged = grouped(self.merged);
            faults.push(format!(
                "{side}: {arrived} of {sent} interrupts of the device arrived, and {merged} became \
                 one with the one before"
            ));
        }
        // Without an exit an interrupt can also come by way of another processor of the host.
        if self.is_judged && self.is_on && self.posted != self.sent {
            let (posted, sent) = (grouped(self.posted), grouped(self.sent));
            faults.push(format!("{side}: the IOMMU posted {posted} of {sent} interrupts"));
        }
        let is_expected = if self.is_on { self.exits < OTHER } else { self.exits >= LEAST_WITHOUT };
        if self.is_judged && !is_expected {
            let rule = match self.is_on {
                true => "fewer than 0.05 were expected of what is posted",
                false => "one or more of each that is not posted were expected",
            };
            faults.push(format!("{side}: {:.2} exits for each interrupt: {rule}", self.exits));
        }
        faults
    }
}

/// A number in the last record of a kind.
fn number(console: &[String], record: &str, key: &str) -> Option<u64> {
    let records = console.iter().rev();
    let mut records = records.filter_map(|line| serde_json::from_str::<Json>(line).ok());
    records.find(|one| one["record"].as_str() == Some(record))?[key].as_u64()
}

/// What is said of all of them in the verdict.
pub(crate) fn sentence<'a>(
    runs: impl Iterator<Item = (&'a str, &'a [DeviceInterrupts])>,
) -> Option<String> {
    let each = runs.filter(|(_, sides)| !sides.is_empty()).map(|(name, sides)| {
        let exits = sides.iter().map(|side| format!("{:.2}", side.exits));
        format!("{name} {}", exits.collect::<Vec<_>>().join(" -> "))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| format!("exits for each interrupt of the device: {each}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_or_exits_where_it_should_not_is_a_fault() {
        let found = |is_on, arrived, exits, is_judged| DeviceInterrupts {
            is_on,
            sent: 100,
            arrived,
            exits,
            posted: if is_on && exits < 1.0 { 100 } else { 0 },
            merged: u64::from(arrived == 98),
            logged: 0,
            woken: None,
            routes: None,
            is_judged,
        };
        for (one, faults) in [
            (found(true, 100, 0.003, true), 0),
            (found(true, 99, 0.003, true), 1),
            (found(true, 98, 0.003, true), 1),
            (found(true, 100, 2.0, true), 2),
            (DeviceInterrupts { posted: 0, ..found(true, 100, 0.003, true) }, 1),
            (found(true, 100, 2.0, false), 0),
            (found(false, 100, 2.0, true), 0),
            (found(false, 100, 0.9, true), 1),
            (found(false, 0, 0.0, true), 2),
        ] {
            assert_eq!(one.faults().len(), faults, "{one:?}");
        }
    }

    #[test]
    fn the_last_record_of_a_kind_counts() {
        let console = [
            "Linux",
            r#"{"record":"device","arrived":1}"#,
            r#"{"record":"device","arrived":2}"#,
            r#"{"record":"end"}"#,
        ]
        .map(str::to_owned);
        assert_eq!(number(&console, "device", "arrived"), Some(2));
        assert_eq!(number(&console, "device_sent", "sent"), None);
    }
}
