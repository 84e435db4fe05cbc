//! A network function that a Linux guest has been given: what the guest moved over its wire to the
//! host, and who took the function's interrupts.

mod peer;
mod traffic;
mod wire;

use super::figure::{Figure, rate};
use super::found::{Found, Row, Run, Said};
use super::kind::{Attendant, Conditions, Workload};
use crate::plan::{Function, LinuxGuest, Needs};
use crate::protocol::Step;
use peer::Peer;
use report::grid::{Value, grouped};
use serde::Serialize;
use serde_json::Value as Json;
use wire::{BYTES, OF_HOST, OVER, ROUND_TRIPS};

/// Modules of the host for it, and of the guest.
const MODULES: [&str; 3] = ["vfio_iommu_type1", "vfio_pci", DRIVER];
/// It drives both functions, and needs no other module.
const DRIVER: &str = "ixgbevf";
pub(super) struct Network;

impl Workload for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn summary(&self) -> &'static str {
        "a Linux guest that is given a network function"
    }

    fn needs(&self) -> Needs {
        Needs {
            modules: &MODULES,
            parameters: &[],
            function: Some(Function::Wire),
            linux: Some(LinuxGuest { modules: &[DRIVER], ..LinuxGuest::default() }),
            ..Needs::default()
        }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        vec![conditions.step(self.name(), "x2APIC", true, conditions.linux(""))]
    }

    fn attend(&self, step: &Step) -> anyhow::Result<Option<Box<dyn Attendant>>> {
        Ok(Some(Box::new(Peer::start(step.configuration.vcpus, BYTES)?)))
    }

    fn work(&self, words: &str) -> anyhow::Result<()> {
        traffic::send(words)
    }

    fn figure(&self, record: &Json) -> Option<Figure> {
        rate(record, OVER, "stream to the host", "sent", "bytes/s")
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("round trip", "a round trip to the host")
    }

    fn find(&self, run: &Run<'_>) -> Option<Found> {
        Traffic::of(run).map(|one| one.found())
    }

    fn gloss(&self) -> &'static [(&'static str, &'static str)] {
        &[("host took", "interrupts of the guest's function that the host had to pass on")]
    }
}

/// What one guest did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// VM exits other than HLT, by interrupts of the function.
    pub exits: f64,
    /// Vectors that were put into the guest's virtual APIC or its posted-interrupt descriptor: by
    /// the IOMMU, and IPIs by the processor or KVM.
    pub posted: u64,
    /// Entries in the IOMMU's log of interrupts whose vCPU did not run: AMD.
    pub logged: u64,
    /// Whether the IOMMU can post and the feature was on all the time, or the feature was off.
    #[serde(skip)]
    is_judged: bool,
}

impl Traffic {
    /// None where no network function was there.
    fn of(run: &Run<'_>) -> Option<Self> {
        let is_on = run.is_on();
        let (guest, host) = (run.record(OVER)?, run.record(OF_HOST)?);
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
            exits: run.work() as f64 / interrupts.max(1) as f64,
            posted: run.tally.posted,
            logged: run.tally.logged,
            is_judged: !run.is_inhibited && (run.observed.step.posts || !is_on),
        })
    }

    fn found(&self) -> Found {
        let row = Row {
            title: "the network function",
            is_scoped: true,
            columns: &[
                "side",
                "MB",
                "Mb/s",
                "round trip µs",
                "interrupts",
                "host took",
                "exits per interrupt",
                "posted, IPIs too",
                "logged",
            ],
            cells: vec![
                Value::text(if self.is_on { "on" } else { "off" }),
                Value::Number(self.received as f64 / 1e6, 1),
                Value::Number(self.megabits, 0),
                Value::Number(self.round_trip, 1),
                Value::Count(self.interrupts),
                Value::Count(self.taken),
                Value::Number(self.exits, 2),
                Value::Count(self.posted),
                Value::Count(self.logged),
            ],
        };
        let round_trip = Figure {
            name: "round trip".into(),
            unit: "µs",
            value: self.round_trip,
            samples: ROUND_TRIPS.into(),
            mean: None,
            usual: None,
        };
        Found {
            is_on: self.is_on,
            figures: vec![round_trip],
            causes: Vec::new(),
            row: Some(("traffic", serde_json::to_value(self).unwrap_or_default())),
            rows: vec![row],
            said: Some(Said {
                what: "interrupts of the function that the host took",
                is_named: false,
                value: grouped(self.taken),
            }),
            faults: self.faults(),
        }
    }

    /// What is not as it should be.
    fn faults(&self) -> Vec<String> {
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
}
