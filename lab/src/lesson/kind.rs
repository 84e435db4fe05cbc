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

    /// What the benchmark does, again and again: it warms up for half a second at least, with the
    /// first of its tests alone, which sends to a physical destination. Of samples it takes no more
    /// than it has room for, and then goes on to another test.
    pub(super) const fn benchmark(self) -> &'static str {
        match self {
            Self::Ipi => "tests=ipi targets=spinning warmup=1000000",
            Self::Timer => "tests=timer warmup=1000000",
            Self::Wake => "tests=ipi targets=halted gap=500 warmup=1000000",
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

    /// Whether an interrupt begins here. The MSR that a guest left for is told right behind its
    /// `exit`.
    pub(super) fn begins(self, record: &Record, exit: Option<&Record>) -> bool {
        let (register, msr) = match self {
            Self::Ipi | Self::Wake => (ICR, ICR_MSR),
            Self::Timer => (INITIAL_COUNT, INITIAL_COUNT_MSR),
        };
        match record.event {
            Event::VirtualIpiSent { icr, .. } => {
                self != Self::Timer && Icr::from_bits(icr).delivery_mode() == DeliveryMode::Fixed
            }
            Event::MsrWrite { index, value } => {
                index == msr && value != 0 && exit.is_some_and(|one| exit_of(one).is_some())
            }
            _ => register_of(record) == Some(register),
        }
    }
}
