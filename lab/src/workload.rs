//! Workloads as plans: which virtual machines run, in which order.

use crate::device;
use crate::experiment::Arm;
use crate::files::which;
use crate::network;
use crate::protocol::{Guest, Sending, Step};
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
    /// Interrupts of a device that the guest has been given.
    Device,
    /// A network function that a Linux guest has been given, from which it sends to the host.
    Network,
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
            "device" => Self::Device,
            "network" => Self::Network,
            command => {
                let program = command.split_ascii_whitespace().next().unwrap_or_default();
                if which(program).is_none() {
                    return Err(format!(
                        "{program:?} is neither ipi, threads, mesh, timer, device, network nor a program \
                         of this machine"
                    ));
                }
                Self::Command(command.into())
            }
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
            Self::Device => "device",
            Self::Network => "network",
            Self::Command(command) => command,
        })
    }
}

impl Workload {
    /// The benchmark's options, if the benchmark is what runs.
    pub fn benchmark_options(&self) -> Option<&'static str> {
        match self {
            Self::Ipi => Some("tests=ipi targets=spinning samples=500 warmup=50"),
            Self::Mesh => Some("tests=throughput messages=1000"),
            Self::Timer => Some("tests=timer samples=200"),
            Self::Threads | Self::Device | Self::Network | Self::Command(_) => None,
        }
    }

    /// Modules that the host needs for it besides KVM's.
    pub fn modules(&self) -> &'static [&'static str] {
        match self {
            Self::Device => &device::MODULES,
            Self::Network => &network::MODULES,
            _ => &[],
        }
    }

    /// Whether guests are given a function of the host's, which takes an IOMMU.
    pub fn needs_function(&self) -> bool {
        matches!(self, Self::Device | Self::Network)
    }

    /// Whether the guest is a Linux.
    pub fn is_linux(&self) -> bool {
        matches!(self, Self::Threads | Self::Network | Self::Command(_))
    }

    /// The steps of an arm. `configuration` says what a virtual machine has besides the APIC's
    /// mode, `tsc_khz` how fast time stamp counters run, `append` what a Linux guest's kernel is
    /// told besides, `limit` after how many seconds of the host a virtual machine is stopped,
    /// `posts` whether the host has an IOMMU that can post.
    pub fn steps(
        &self,
        arm: &Arm,
        configuration: &Configuration,
        tsc_khz: u64,
        append: &str,
        limit: u64,
        posts: bool,
    ) -> Vec<Step> {
        let step = |name: &str, has_x2apic: bool, guest: Guest, is_traced: bool| Step {
            name: name.into(),
            arm: arm.clone(),
            configuration: Configuration { has_x2apic, ..*configuration },
            guest,
            is_traced,
            limit,
        };
        let benchmark = |name: &str, has_x2apic: bool, options: &str| {
            let apic = if has_x2apic { "x2apic" } else { "xapic" };
            let options = format!("output=memory tsc_khz={tsc_khz} apic={apic} {options}");
            // What takes time is measured without tracepoints, which take time themselves.
            [false, true].map(|is_traced| {
                step(name, has_x2apic, Guest::Benchmark(options.clone()), is_traced)
            })
        };
        if *self == Self::Device {
            let receiver = |name: &str, target: &str, sending: Sending| {
                let options = format!(
                    "output=memory tsc_khz={tsc_khz} apic=xapic tests=device targets={target}"
                );
                step(name, false, Guest::Device { options, sending, posts }, true)
            };
            return vec![
                receiver("running", "spinning", device::RUNNING),
                receiver("halted", "halted", device::HALTED),
                receiver("phases", "halted", device::PHASES),
            ];
        }
        if let Some(options) = self.benchmark_options() {
            return [benchmark("xAPIC", false, options), benchmark("x2APIC", true, options)]
                .concat();
        }
        if *self == Self::Network {
            let bytes = network::BYTES;
            let guest = Guest::Network { options: append.into(), bytes, posts };
            return vec![step("x2APIC", true, guest, true)];
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
    use crate::experiment::{Experiment, Setting};

    #[test]
    fn what_takes_time_is_measured_apart_from_what_is_traced() {
        let arm = Experiment::default().arm(Setting::On);
        let steps = Workload::Ipi.steps(&arm, &Configuration::default(), 2_400_000, "", 60, false);
        let places: Vec<_> = steps.iter().map(|one| (one.name.as_str(), one.is_traced)).collect();
        assert_eq!(
            places,
            [("xAPIC", false), ("xAPIC", true), ("x2APIC", false), ("x2APIC", true)]
        );
        assert!(steps.iter().all(|step| step.arm == arm));
    }

    #[test]
    fn what_is_no_command_of_this_machine_is_no_workload() {
        assert_eq!("ls -l".parse(), Ok(Workload::Command("ls -l".into())));
        for text in ["", "   ", "nosuch", "nosuch --with arguments"] {
            let error = text.parse::<Workload>().expect_err(text);
            assert!(error.contains("ipi, threads, mesh, timer"), "{error}");
        }
    }
}
