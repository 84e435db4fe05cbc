//! Interrupts of a device that a guest has been given: how many of those sent arrived, and what
//! they took. What is to be expected is the same of AMD's IOMMUs and of Intel's: with posting
//! nothing but HLT exits, without it each interrupt does, and none is lost.

mod driven;

pub use driven::Driven;
pub(super) use driven::give;

use super::figure::Figure;
use super::found::{Found, Row, Run, Said, record};
use super::kind::{Attendant, Conditions, Workload};
use crate::plan::{Function, Needs};
use crate::protocol::{Bursts, Sending, Step};
use bench::VirtualMachine;
use report::grid::{Value, grouped};
use serde::Serialize;

/// Modules of the host that hand a function to a process.
pub const MODULES: [&str; 2] = ["vfio_iommu_type1", "vfio_pci"];
/// A vCPU that polls before it sleeps counts as running, and nothing has to wake it.
const PARAMETER: &str = "kvm.halt_poll_ns=0";
/// Since 6.16 a parameter of each vendor's module.
const POSTING: &str = "enable_device_posted_irqs";
/// Apart from each other for longer than a handler with exits takes, so that no two become one.
const RUNNING: Sending = Sending { period_ns: 20_000, count: 10_000, bursts: None };
/// The same where the vCPU goes to sleep in between, and the host may do other work
/// before it wakes it.
const HALTED: Sending = Sending { period_ns: 200_000, ..RUNNING };
/// A few for the guest to compare its clock with the function's, and then a thousand bursts whose
/// interrupts come from 0.5 us to 50 us behind each other, 50 ns more in each burst. That is from
/// less than it takes to wake the processor to more than it takes until it sleeps again.
const PHASES: Sending = Sending {
    count: 10,
    bursts: Some(Bursts { bursts: 1000, count: 10, first_ns: 500, step_ns: 50 }),
    ..HALTED
};

/// What the virtual machines are called, how their processor waits, and when it is interrupted.
const MACHINES: [(&str, &str, Sending); 3] =
    [("running", "spinning", RUNNING), ("halted", "halted", HALTED), ("phases", "halted", PHASES)];

/// The figure of what an interrupt takes, by its median.
const LATENCY: &str = "write to handler";
/// Exits for each interrupt that are the host's own: its timers, and the beginning and the end.
const OTHER: f64 = 0.05;
/// What an interrupt takes at least that the host takes first.
const LEAST_WITHOUT: f64 = 1.0;

pub(super) struct Device;

impl Workload for Device {
    fn name(&self) -> &'static str {
        "device"
    }

    fn summary(&self) -> &'static str {
        "interrupts of a function that the guest is given"
    }

    fn needs(&self) -> Needs {
        Needs {
            modules: &MODULES,
            parameters: &[PARAMETER],
            function: Some(Function::Pulse),
            linux: None,
            ..Needs::default()
        }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let steps = MACHINES.iter().map(|(name, target, _)| {
            let options = format!("tests=device targets={target}");
            conditions.step(self.name(), name, false, conditions.benchmark(false, &options))
        });
        steps.collect()
    }

    fn attend(&self, step: &Step) -> anyhow::Result<Option<Box<dyn Attendant>>> {
        Ok(sending(step).map(|sending| Box::new(Giver { sending, driven: None }) as Box<_>))
    }

    fn headline(&self) -> (&'static str, &'static str) {
        (LATENCY, "a device's write to its handler")
    }

    fn find(&self, run: &Run<'_>) -> Option<Found> {
        DeviceInterrupts::of(run).map(|one| one.found())
    }

    fn gloss(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("posted", "the IOMMU itself put the vector into the guest's virtual APIC"),
            (
                "merged",
                "posted where the one before still waited: the APIC has one bit for a vector",
            ),
            ("logged", "the IOMMU found the vCPU asleep, and told KVM so"),
            (
                "KVM woke",
                "KVM took that from the IOMMU's log, kvm_avic_ga_log; Intel: the wake-up vector, PIW",
            ),
            (
                "routes",
                "times that KVM changed how the interrupt gets to the guest: kvm_pi_irte_update",
            ),
        ]
    }
}

fn sending(step: &Step) -> Option<Sending> {
    MACHINES.iter().find(|(name, ..)| *name == step.name).map(|(.., sending)| *sending)
}

/// Gives the function to a virtual machine, and drives it then.
struct Giver {
    sending: Sending,
    driven: Option<Driven>,
}

impl Attendant for Giver {
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()> {
        self.driven = Some(Driven::new(vm, self.sending)?);
        Ok(())
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        self.driven.as_mut().map_or(Ok(()), |driven| driven.take(line))
    }

    fn look(&mut self) -> anyhow::Result<Option<String>> {
        self.driven.as_mut().map_or(Ok(None), Driven::look)
    }
}

/// The interrupts of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceInterrupts {
    /// Whether the feature was on.
    pub is_on: bool,
    /// By the function's own count.
    pub sent: u64,
    /// Handled by the guest.
    pub arrived: u64,
    /// VM exits other than HLT, by interrupts sent.
    pub exits: f64,
    /// Vectors that the IOMMU put into the guest's virtual APIC itself.
    pub posted: u64,
    /// Those of them that became one with the one before, since the guest had not taken that yet:
    /// a virtual APIC has one bit for a vector.
    pub merged: u64,
    /// Those that had waited for more than a millisecond when the guest took them: nobody woke its
    /// processor for them.
    pub late: u64,
    /// Entries in the IOMMU's log of interrupts whose vCPU did not run: AMD.
    pub logged: u64,
    /// `kvm_avic_ga_log`: such entries as KVM took them; None where its kernel has no such event.
    /// On Intel, which has no such log, interrupts with the vector that wakes: `PIW`.
    pub woken: Option<u64>,
    /// Times that KVM changed how the interrupt reaches the guest: `kvm_pi_irte_update`.
    pub routes: Option<u64>,
    /// From the function's write to the guest's handler; None of interrupts in bursts.
    pub latency: Option<Latency>,
    /// Interrupts were so close that some were to be merged.
    #[serde(skip)]
    is_crowded: bool,
    /// Whether the feature was on all the time and the IOMMU can post, or the feature was off: then
    /// something is expected.
    #[serde(skip)]
    is_judged: bool,
}

/// What an interrupt took from the function's write to memory to the guest's handler, in
/// nanoseconds. What the clocks are compared by is off by less than 100 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// What 90 of 100 do not exceed.
    pub p90: u64,
    /// What 99 of 100 do not exceed.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// How many were measured.
    pub samples: u64,
}

impl Latency {
    fn of(console: &[String]) -> Option<Self> {
        let figure = |key| number(console, "device_latency", key);
        Some(Self {
            min: figure("min")?,
            p50: figure("p50")?,
            p90: figure("p90")?,
            p99: figure("p99")?,
            max: figure("max")?,
            samples: figure("samples")?,
        })
    }
}

impl DeviceInterrupts {
    /// None where no device was there.
    fn of(run: &Run<'_>) -> Option<Self> {
        let is_crowded = sending(&run.observed.step)?.bursts.is_some();
        let is_on = run.is_on();
        let console = &run.observed.result.console;
        let (sent, arrived) =
            (number(console, "device_sent", "sent")?, number(console, "device", "arrived")?);
        let points = run.observed.result.tracepoints.as_ref();
        Some(Self {
            is_on,
            sent,
            arrived,
            exits: run.work() as f64 / sent.max(1) as f64,
            posted: run.tally.posted,
            merged: run.tally.merged,
            late: run.tally.late,
            logged: run.tally.logged,
            woken: points.and_then(|points| points.woken),
            routes: points.and_then(|points| points.routes),
            // The last write is often not that of the interrupt that a burst has come to.
            latency: (!is_crowded).then(|| Latency::of(console)).flatten(),
            is_crowded,
            is_judged: !run.is_inhibited && is_judged(run),
        })
    }

    /// Why an interrupt takes longer to a guest that sleeps than it did without the feature: what
    /// the IOMMU posts does not wake it, so another interrupt of the host has to.
    fn cause(&self) -> Option<String> {
        let by = match (self.is_on, self.logged, self.woken) {
            (true, 1.., _) => "the IOMMU's log (GA log)",
            (true, 0, Some(1..)) => "the wake-up vector",
            _ => return None,
        };
        Some(format!(
            "a halted target now waits until {by} has interrupted the host, which wakes it"
        ))
    }

    fn found(&self) -> Found {
        let side = || Value::text(if self.is_on { "on" } else { "off" });
        let known = |count: Option<u64>| count.map_or(Value::Missing, Value::Count);
        let interrupts = Row {
            title: "interrupts of the device",
            is_scoped: true,
            columns: &[
                "side",
                "sent",
                "arrived",
                "exits per interrupt",
                "posted",
                "merged",
                "late",
                "logged",
                "KVM woke",
                "routes",
            ],
            cells: vec![
                side(),
                Value::Count(self.sent),
                Value::Count(self.arrived),
                Value::Number(self.exits, 2),
                Value::Count(self.posted),
                Value::Count(self.merged),
                Value::Count(self.late),
                Value::Count(self.logged),
                known(self.woken),
                known(self.routes),
            ],
        };
        let latency = self.latency.map(|one| Row {
            title: "from the device's write to the guest's handler, ns",
            is_scoped: false,
            columns: &["side", "min", "p50", "p90", "p99", "max", "samples"],
            cells: [one.min, one.p50, one.p90, one.p99, one.max, one.samples].into_iter().fold(
                vec![side()],
                |mut cells, figure| {
                    cells.push(Value::Count(figure));
                    cells
                },
            ),
        });
        let figure = |one: Latency| Figure {
            name: LATENCY.into(),
            unit: "ns",
            value: one.p50 as f64,
            samples: one.samples,
            mean: None,
            usual: None,
        };
        Found {
            is_on: self.is_on,
            figures: self.latency.map(figure).into_iter().collect(),
            causes: self.cause().into_iter().map(|cause| (LATENCY, cause)).collect(),
            row: Some(("device_interrupts", serde_json::to_value(self).unwrap_or_default())),
            rows: std::iter::once(interrupts).chain(latency).collect(),
            said: Some(Said {
                what: "exits for each interrupt of the device",
                is_named: true,
                value: format!("{:.2}", self.exits),
            }),
            faults: self.faults(),
        }
    }

    /// What is not as it should be.
    fn faults(&self) -> Vec<String> {
        let side = if self.is_on { "on" } else { "off" };
        let mut faults = Vec::new();
        let is_complete = match (self.is_crowded, self.posted) {
            (false, _) => self.arrived + self.merged == self.sent,
            // The host may find a second one where it has not injected the first.
            (true, 0) => (1..=self.sent).contains(&self.arrived),
            // Intel's have a bit in the descriptor and one in the virtual APIC: what is posted
            // while the one before is in the latter is taken for merged, and need not be.
            (true, _) => self.arrived <= self.sent && self.arrived + self.merged >= self.sent,
        };
        if !is_complete || self.sent == 0 {
            let (arrived, sent) = (grouped(self.arrived), grouped(self.sent));
            let merged = grouped(self.merged);
            faults.push(format!(
                "{side}: {arrived} of {sent} interrupts of the device arrived, and {merged} became \
                 one with the one before"
            ));
        }
        if self.late > 0 {
            let late = grouped(self.late);
            faults.push(format!(
                "{side}: {late} interrupts of the device waited for more than a millisecond: \
                 nobody woke the vCPU"
            ));
        }
        // Without an exit an interrupt can also come by way of another processor of the host.
        if self.is_judged && self.is_on && self.posted != self.sent {
            let (posted, sent) = (grouped(self.posted), grouped(self.sent));
            faults.push(format!("{side}: the IOMMU posted {posted} of {sent} interrupts"));
        }
        let is_expected = match self.is_on {
            true => self.exits < OTHER,
            // What comes while the one before is handled the host takes with it.
            false => self.exits >= LEAST_WITHOUT || self.is_crowded,
        };
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

/// Whether a parameter of a module, `MODULE.NAME=VALUE`, has KVM leave interrupts of devices to the
/// host: then nothing is expected of posting.
pub(crate) fn keeps_from_posting(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, "1"));
    name.rsplit('.').next() == Some(POSTING) && matches!(value, "0" | "N" | "n" | "off")
}

/// Whether something is expected: of posting, where the IOMMU can; and of an arm without it, where
/// the guest has no AVIC or APICv by which KVM could interrupt it without an exit.
fn is_judged(run: &Run<'_>) -> bool {
    let is_feature = |name: &str| ["avic", "enable_apicv"].contains(&name);
    let shown = run.observed.result.parameters.iter();
    let mut features = shown.filter(|one| is_feature(&one.name));
    match run.is_on() {
        true => run.observed.step.posts,
        false => !features.any(|one| ["Y", "1"].contains(&one.value.as_str())),
    }
}

/// A number in the last record of a kind.
fn number(console: &[String], kind: &str, key: &str) -> Option<u64> {
    record(console, kind)?[key].as_u64()
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
            late: 0,
            logged: 0,
            woken: None,
            routes: None,
            latency: None,
            is_crowded: false,
            is_judged,
        };
        let crowded = |one| DeviceInterrupts { is_crowded: true, ..one };
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
            (DeviceInterrupts { late: 1, ..found(true, 100, 0.003, true) }, 1),
            (crowded(found(false, 80, 0.9, true)), 0),
            (crowded(found(false, 0, 0.9, true)), 1),
            (crowded(found(true, 80, 0.003, true)), 1),
            (crowded(DeviceInterrupts { merged: 3, ..found(true, 98, 0.003, true) }), 0),
            (crowded(DeviceInterrupts { merged: 1, ..found(true, 98, 0.003, true) }), 1),
        ] {
            assert_eq!(one.faults().len(), faults, "{one:?}");
        }
    }

    #[test]
    fn a_parameter_that_keeps_from_posting_is_known_by_its_name_and_value() {
        for (parameter, is) in [
            ("kvm_intel.enable_device_posted_irqs=0", true),
            ("kvm_amd.enable_device_posted_irqs=N", true),
            ("kvm_amd.enable_device_posted_irqs=1", false),
            ("kvm_amd.enable_device_posted_irqs", false),
            ("kvm.halt_poll_ns=0", false),
        ] {
            assert_eq!(keeps_from_posting(parameter), is, "{parameter}");
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
