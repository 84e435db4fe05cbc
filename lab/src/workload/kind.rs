//! What a workload is: everything that one is asked for, and what its steps are made from.

use super::figure::{self, Figure};
use super::found::{Found, Run};
use crate::plan::{Arm, Needs};
use crate::protocol::{Guest, Step};
use bench::{Configuration, VirtualMachine};
use serde_json::Value as Json;

/// What guests do.
pub trait Workload: Send + Sync {
    /// As users write it.
    fn name(&self) -> &'static str;

    /// What it does, in a few words, for the help.
    fn summary(&self) -> &'static str;

    /// What users wrote, which results repeat: the name, but of a command the command.
    fn title(&self) -> String {
        self.name().to_owned()
    }

    /// What the host has to have for it.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Options of the built-in benchmark, where it is what runs in both modes of the APIC and needs
    /// nothing else: the built-in hypervisor can do that, too.
    fn benchmark(&self) -> Option<&'static str> {
        None
    }

    /// Whether the built-in benchmark measures its figures once more from seeds. Rates it does not.
    fn is_measured_from_seeds(&self) -> bool {
        true
    }

    /// Whether several guests can do it on the same processors: those that poll instead of halting
    /// keep each other from it.
    fn shares_processors(&self) -> bool {
        true
    }

    /// The virtual machines of an arm, in order.
    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let tests = self.benchmark().unwrap_or_default();
        conditions.benchmark_in_both_modes(self.name(), tests)
    }

    /// On the emulated host, before a virtual machine is made: what gives it a function of the host
    /// and looks after it.
    fn attend(&self, _step: &Step) -> anyhow::Result<Option<Box<dyn Attendant>>> {
        Ok(None)
    }

    /// In a Linux guest, as its first process: the work itself. It prints records, a line of JSON
    /// each. `words` are what stands behind the workload's name on the guest's command line.
    fn work(&self, _words: &str) -> anyhow::Result<()> {
        anyhow::bail!("{} has no part in a Linux guest", self.name())
    }

    /// The figure in a record of the guest's.
    fn figure(&self, record: &Json) -> Option<Figure> {
        figure::of_benchmark(record)
    }

    /// The figure that its first screen is about, and what that is called there.
    fn headline(&self) -> (&'static str, &'static str) {
        (self.name(), self.name())
    }

    /// What it finds of its own in a run, and what is not as it should be.
    fn find(&self, _run: &Run<'_>) -> Option<Found> {
        None
    }

    /// Words of its tables, and what they mean.
    fn gloss(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// What looks after a virtual machine from the emulated host.
pub trait Attendant {
    /// More words for the guest's command line.
    fn words(&self) -> String {
        String::new()
    }

    /// Gives a virtual machine that has not run yet what it is to have.
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()>;

    /// Takes a line of the guest's console.
    fn take(&mut self, line: &str) -> anyhow::Result<()>;

    /// Looks after it; a record for the guest's console, if there is one.
    fn look(&mut self) -> anyhow::Result<Option<String>>;
}

/// What the steps of an arm are made from.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// What they stand for.
    pub arm: &'a Arm,
    /// What a virtual machine has besides the APIC's mode.
    pub configuration: &'a Configuration,
    /// How fast time stamp counters run.
    pub tsc_khz: u64,
    /// What a Linux guest's kernel is told besides.
    pub append: &'a str,
    /// Seconds of the host after which a virtual machine is stopped.
    pub limit: u64,
    /// Whether the host has an IOMMU that can post, and KVM may have it do so.
    pub posts: bool,
}

#[cfg(test)]
impl<'a> Conditions<'a> {
    /// Those of a plain virtual machine.
    pub fn plain(arm: &'a Arm, configuration: &'a Configuration) -> Self {
        let (tsc_khz, append, limit, posts) = (2_400_000, "", 60, true);
        Self { arm, configuration, tsc_khz, append, limit, posts }
    }
}

impl Conditions<'_> {
    /// One virtual machine.
    pub fn step(&self, workload: &str, name: &str, has_x2apic: bool, guest: Guest) -> Step {
        Step {
            name: name.into(),
            workload: workload.into(),
            arm: self.arm.clone(),
            configuration: Configuration { has_x2apic, ..*self.configuration },
            guest,
            posts: self.posts,
            is_traced: true,
            guests: 1,
            limit: self.limit,
        }
    }

    /// The built-in benchmark with options in a mode of the APIC.
    pub fn benchmark(&self, has_x2apic: bool, options: &str) -> Guest {
        let apic = if has_x2apic { "x2apic" } else { "xapic" };
        let tsc_khz = self.tsc_khz;
        Guest::Benchmark(format!("output=memory tsc_khz={tsc_khz} apic={apic} {options}"))
    }

    /// The kernel of the host, told so.
    pub fn linux(&self, words: &str) -> Guest {
        Guest::Linux(format!("{} {words}", self.append))
    }

    /// Both modes of the APIC. What takes time is measured without tracepoints, which take time
    /// themselves.
    pub fn benchmark_in_both_modes(&self, workload: &str, options: &str) -> Vec<Step> {
        let modes = [("xAPIC", false), ("x2APIC", true)].into_iter();
        let steps = modes.flat_map(|(name, has_x2apic)| {
            let guest = self.benchmark(has_x2apic, options);
            let step = self.step(workload, name, has_x2apic, guest);
            [Step { is_traced: false, ..step.clone() }, step]
        });
        steps.collect()
    }
}
