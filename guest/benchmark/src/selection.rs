//! What the command line asks for:
//! `tests=ipi,self,throughput,lock,timer,eoi,exits,arm,device,mix apic=xapic|x2apic|both fence=on|off|both
//! targets=spinning|halted|both samples=N warmup=N messages=N gap=CYCLES patience=CYCLES
//! seed=N seeds=N cpus=N lines=1 starts=1`.

use crate::path::mode_name;
use crate::patience;
use crate::statistics::MOST_SAMPLES;
use arch::apic::Mode;
use runtime::BootInformation;
use runtime::apic::Fence;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Ipi,
    SelfIpi,
    Throughput,
    /// Only where it is named.
    Lock,
    Timer,
    Eoi,
    Exits,
    /// Only where it is named.
    Arm,
    /// Only where it is named: the host has to let a function interrupt.
    Device,
    /// Only where it is named: it has no end.
    Mix,
}

const NAMES: [(&str, Test); 10] = [
    ("ipi", Test::Ipi),
    ("self", Test::SelfIpi),
    ("throughput", Test::Throughput),
    ("lock", Test::Lock),
    ("timer", Test::Timer),
    ("eoi", Test::Eoi),
    ("exits", Test::Exits),
    ("arm", Test::Arm),
    ("device", Test::Device),
    ("mix", Test::Mix),
];

/// Of each seed.
const LEAST_SAMPLES: usize = 20;
const LEAST_WARMUP: usize = 5;

pub struct Selection<'a> {
    tests: Option<&'a str>,
    apic: &'a str,
    fence: &'a str,
    targets: &'a str,
    pub samples: usize,
    pub warmup: usize,
    /// What each sender sends in a throughput test.
    pub messages: u64,
    /// Cycles between interrupts to a halted processor, for it to halt again.
    pub gap: u64,
    /// Of the random gaps between samples, zero for none, and of the mix.
    pub seed: u64,
    /// From how many seeds latencies are measured once more, each with its share of the samples.
    pub seeds: u64,
    /// Cycles after which an interrupt is lost.
    pub patience: u64,
    /// The mix takes interrupts of the I/O APIC, which the host raises.
    pub lines: bool,
    /// Its processors are started again now and then.
    pub starts: bool,
    /// The counter's rate is given, and not measured here.
    pub knows_rate: bool,
}

impl<'a> Selection<'a> {
    pub fn read(boot: &'a BootInformation) -> Self {
        Self {
            tests: boot.option("tests"),
            apic: boot.option("apic").unwrap_or("both"),
            fence: boot.option("fence").unwrap_or("both"),
            targets: boot.option("targets").unwrap_or("both"),
            samples: (boot.number("samples", 1000) as usize).clamp(1, MOST_SAMPLES),
            warmup: boot.number("warmup", 100).min(1_000_000) as usize,
            messages: boot.number("messages", 2000).clamp(1, 1 << 32),
            gap: boot.number("gap", 20_000).min(1 << 32),
            seed: boot.number("seed", 0),
            seeds: boot.number("seeds", 0).min(1000),
            patience: boot.number("patience", patience::DEFAULT).max(1_000_000),
            lines: boot.number("lines", 0) != 0,
            starts: boot.number("starts", 0) != 0,
            knows_rate: boot.option("tsc_khz").is_some(),
        }
    }

    /// The part that one of the seeds has.
    pub fn share(&self) -> Self {
        let seeds = self.seeds.max(1) as usize;
        Self {
            samples: (self.samples / seeds).max(LEAST_SAMPLES),
            warmup: (self.warmup / seeds).max(LEAST_WARMUP),
            ..*self
        }
    }

    pub fn wants(&self, test: Test) -> bool {
        self.tests.is_none() || self.names(test)
    }

    pub fn names(&self, test: Test) -> bool {
        let named = |name: &str| NAMES.contains(&(name, test));
        self.tests.is_some_and(|tests| tests.split(',').any(named))
    }

    pub fn wants_mode(&self, mode: Mode) -> bool {
        self.apic == "both" || self.apic == mode_name(mode)
    }

    /// Whether targets are wanted that wait in the way of this name.
    pub fn wants_targets(&self, name: &str) -> bool {
        self.targets == "both" || self.targets == name
    }

    pub fn wants_fence(&self, fence: Fence) -> bool {
        match self.fence {
            "on" => fence == Fence::Full,
            "off" => fence == Fence::None,
            _ => true,
        }
    }
}
