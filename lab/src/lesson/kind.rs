//! The interrupts that can be watched.

use crate::drive::example::{exit_of, register_of};
use arch::apic::{DeliveryMode, Icr};
use trace::{Event, Record};

/// Which interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IPI to a vCPU that runs.
    Ipi,
    /// An interrupt of the guest's APIC timer.
    Timer,
    /// An IPI to a vCPU that has halted.
    Wake,
}

/// Registers that begin one: of the APIC's page, and MSRs of x2APIC mode. [SDM3 "Local APIC
/// Register Address Map"]
const ICR: u64 = 0x300;
/// What the benchmark counts; with another vector it starts work on a processor.
const COUNTED_VECTOR: u8 = 0xE1;
const INITIAL_COUNT: u64 = 0x380;
pub(super) const ICR_MSR: u32 = 0x830;
const INITIAL_COUNT_MSR: u32 = 0x838;

impl Kind {
    /// What it is called.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ipi => "An IPI to a vCPU that runs",
            Self::Timer => "A timer interrupt",
            Self::Wake => "An IPI to a halted vCPU",
        }
    }

    /// What the benchmark does, again and again.
    pub(super) const fn benchmark(self) -> &'static str {
        match self {
            Self::Ipi => "tests=ipi targets=spinning samples=100000 warmup=0",
            Self::Timer => "tests=timer samples=100000",
            Self::Wake => "tests=ipi targets=halted gap=500 samples=100000 warmup=0",
        }
    }

    /// A vCPU that polls before it sleeps counts as running, and nothing has to wake it.
    pub(super) const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Ipi | Self::Timer => &[],
            Self::Wake => &["kvm.halt_poll_ns=0"],
        }
    }

    /// vCPUs that take part.
    pub(super) const fn vcpus(self) -> u16 {
        match self {
            Self::Ipi | Self::Wake => 2,
            Self::Timer => 1,
        }
    }

    /// What the vCPU that begins it is called.
    pub(super) const fn first(self) -> &'static str {
        match self {
            Self::Ipi | Self::Wake => "sender",
            Self::Timer => "vCPU",
        }
    }

    /// Whether the processor sends an IPI of the kind itself.
    pub(super) fn is_sent(self, record: &Record) -> bool {
        let Event::VirtualIpiSent { icr, .. } = record.event else { return false };
        let icr = Icr::from_bits(icr);
        let is_counted = icr.vector() == COUNTED_VECTOR;
        self != Self::Timer && icr.delivery_mode() == DeliveryMode::Fixed && is_counted
    }

    /// Whether an interrupt begins here. The MSR that a guest left for is told right behind its
    /// `exit`.
    pub(super) fn begins(self, record: &Record, exit: Option<&Record>) -> bool {
        let (register, msr) = match self {
            Self::Ipi | Self::Wake => (ICR, ICR_MSR),
            Self::Timer => (INITIAL_COUNT, INITIAL_COUNT_MSR),
        };
        match record.event {
            Event::VirtualIpiSent { .. } => self.is_sent(record),
            Event::MsrWrite { index, value } => {
                index == msr && value != 0 && exit.is_some_and(|one| exit_of(one).is_some())
            }
            _ => register_of(record) == Some(register),
        }
    }
}
