//! What a perturbation decides.

use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What silicon's own steps and messages may be late by.
const SILICON: Picoseconds = Picoseconds::from_nanoseconds(2_000);
/// What a processor may be held up by.
const PROCESSOR: Picoseconds = Picoseconds::from_nanoseconds(100_000);

/// What a processor has done, as its silicon shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anchor {
    /// Nothing since the perturbation began.
    Start,
    /// It entered a guest.
    Entry,
    /// A guest of its left.
    Exit,
    /// It halted.
    Halt,
    /// It woke.
    Wake,
    /// Its local APIC accepted an interrupt.
    Arrival,
    /// It entered an interrupt's handler, the host's or a guest's.
    Interrupt,
    /// It put a vector where a vCPU finds it.
    Post,
    /// Its guest began an IPI that the processor delivers.
    Send,
}

impl Anchor {
    /// In the order of their values.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Entry,
        Self::Exit,
        Self::Halt,
        Self::Wake,
        Self::Arrival,
        Self::Interrupt,
        Self::Post,
        Self::Send,
    ];

    /// For how long a processor may be held behind it: between the steps of an IPI it is the
    /// silicon alone that is slow.
    pub const fn longest_delay(self) -> Picoseconds {
        match self {
            Self::Post | Self::Send => SILICON,
            _ => PROCESSOR,
        }
    }

    /// For readers, behind a number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Entry => "VM entry",
            Self::Exit => "VM exit",
            Self::Halt => "halt",
            Self::Wake => "wake-up",
            Self::Arrival => "arrival of an interrupt",
            Self::Interrupt => "interrupt handler",
            Self::Post => "posted vector",
            Self::Send => "virtual IPI",
        }
    }
}

/// A processor is held up once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Which.
    pub cpu: CpuIndex,
    /// What it did last.
    pub after: Anchor,
    /// The how-manieth of such it was, from 1; 0 for the start.
    pub count: u32,
    /// How long after that, on its own clock, without what it has been held since.
    pub offset: Picoseconds,
    /// For how long; zero where its turn ends and it is not held, since it did something else by
    /// then.
    pub delay: Picoseconds,
}

/// A decision that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What was decided.
    pub decision: Decision,
    /// When the processor came there.
    pub at: Picoseconds,
    /// The instruction that was to be next.
    pub rip: Linear,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |time: Picoseconds| time.0.div_ceil(1000);
        let (cpu, delay, offset) = (self.cpu.0, ns(self.delay), ns(self.offset));
        match delay {
            0 => write!(f, "CPU {cpu} overtaken, ")?,
            _ => write!(f, "CPU {cpu} held {delay} ns, ")?,
        }
        match self.after {
            Anchor::Start => write!(f, "{offset} ns after the start"),
            after => write!(f, "{offset} ns after its {} no. {}", after.name(), self.count),
        }
    }
}
