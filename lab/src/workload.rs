//! Workloads as plans: which virtual machines run, in which order.

use crate::protocol::{Guest, Step};
use bench::Configuration;
use std::str::FromStr;

/// What the guests do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One IPI at a time to a processor that spins.
    Ipi,
    /// Threads on a few locks, in a Linux guest: mostly wake-ups of one processor by another.
    Threads,
    /// IPIs from everyone to random others.
    Mesh,
    /// Timer interrupts.
    Timer,
    /// A command of this machine, in a Linux guest.
    Command(String),
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "ipi" => Self::Ipi,
            "threads" => Self::Threads,
            "mesh" => Self::Mesh,
            "timer" => Self::Timer,
            "" => return Err("ipi, threads, mesh, timer or a command".into()),
            command => Self::Command(command.into()),
        })
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ipi => "ipi",
            Self::Threads => "threads",
            Self::Mesh => "mesh",
            Self::Timer => "timer",
            Self::Command(command) => command,
        })
    }
}

/// Which settings of the feature are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Off,
    On,
    Both,
}

impl Feature {
    /// Off comes first.
    pub fn settings(self) -> &'static [bool] {
        match self {
            Self::Off => &[false],
            Self::On => &[true],
            Self::Both => &[false, true],
        }
    }
}

impl Workload {
    /// The benchmark's options, if the benchmark is what runs.
    pub fn benchmark_options(&self) -> Option<&'static str> {
        match self {
            Self::Ipi => Some("tests=ipi targets=spinning samples=500 warmup=50"),
            Self::Mesh => Some("tests=throughput messages=1000"),
            Self::Timer => Some("tests=timer samples=200"),
            Self::Threads | Self::Command(_) => None,
        }
    }

    /// Whether the guest is a Linux.
    pub fn is_linux(&self) -> bool {
        matches!(self, Self::Threads | Self::Command(_))
    }

    /// The steps, all with the feature off before those with it on: its module is loaded once for
    /// each. `configuration` says what a virtual machine has besides the APIC's mode, `tsc_khz` how
    /// fast time stamp counters run, `append` what a Linux guest's kernel is told besides.
    pub fn steps(
        &self,
        feature: Feature,
        configuration: &Configuration,
        tsc_khz: u64,
        append: &str,
    ) -> Vec<Step> {
        feature
            .settings()
            .iter()
            .flat_map(|is_on| self.steps_with(*is_on, configuration, tsc_khz, append))
            .collect()
    }

    fn steps_with(
        &self,
        is_on: bool,
        configuration: &Configuration,
        tsc_khz: u64,
        append: &str,
    ) -> Vec<Step> {
        let step = |name: &str, has_x2apic: bool, guest: Guest, is_traced: bool| Step {
            name: name.into(),
            is_on,
            configuration: Configuration { has_x2apic, ..*configuration },
            guest,
            is_traced,
            limit: 60,
        };
        let benchmark = |name: &str, has_x2apic: bool, options: &str| {
            let apic = if has_x2apic { "x2apic" } else { "xapic" };
            let options = format!("output=memory tsc_khz={tsc_khz} apic={apic} {options}");
            // What takes time is measured without tracepoints, which take time themselves.
            [false, true].map(|is_traced| {
                step(name, has_x2apic, Guest::Benchmark(options.clone()), is_traced)
            })
        };
        if let Some(options) = self.benchmark_options() {
            return [benchmark("xAPIC", false, options), benchmark("x2APIC", true, options)]
                .concat();
        }
        let guest = match self {
            Self::Command(_) => "avicenna.guest=command",
            // The published guests hardly ever halt; this one polls before it does, too.
            _ => "cpuidle_haltpoll.force=Y avicenna.guest=threads",
        };
        vec![step("x2APIC", true, Guest::Linux(format!("{append} {guest}")), true)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_comes_first_and_traced_runs_are_apart() {
        let steps = Workload::Ipi.steps(Feature::Both, &Configuration::default(), 2_400_000, "");
        assert_eq!(steps.len(), 8);
        assert!(steps.is_sorted_by_key(|step| step.is_on));
        assert_eq!(steps.iter().filter(|step| step.is_traced).count(), 4);
        assert!("".parse::<Workload>().is_err());
        assert_eq!("sleep 1".parse(), Ok(Workload::Command("sleep 1".into())));
    }
}
