//! What can be watched.

use super::cause::Cause;
use crate::drive::example::{exit_of, register_of};
use crate::plan::Needs;
use crate::workload;
use arch::apic::{DeliveryMode, Icr};
use arch::identity::RequesterId;
use bench::{Configuration, InterruptChip, Timer};
use device::map;
use trace::{Event, Record};

/// Which interrupt, or what else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IPI to a vCPU that runs.
    Ipi,
    /// An interrupt of the guest's APIC timer.
    Timer,
    /// An IPI to a vCPU that has halted.
    Wake,
    /// A device's interrupt to a vCPU that runs.
    Device,
    /// The same to a vCPU that has halted.
    DeviceWake,
    /// KVM takes AVIC or APICv away from a vCPU that runs, and gives it back.
    Inhibit(Cause),
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
            Self::Device => "A device's interrupt to a vCPU that runs",
            Self::DeviceWake => "A device's interrupt to a halted vCPU",
            Self::Inhibit(_) => "KVM inhibits a vCPU that runs",
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
            // Where no device sends it waits for one, and does nothing else.
            Self::Device | Self::Inhibit(_) => "tests=device targets=spinning",
            Self::DeviceWake => "tests=device targets=halted",
        }
    }

    /// The workload whose surroundings the guest has, and which of its steps it is.
    pub(super) const fn step(self) -> (&'static str, &'static str) {
        match self {
            Self::Ipi | Self::Timer | Self::Wake => ("ipi", "ipi"),
            Self::Device => ("device", "running"),
            Self::DeviceWake => ("device", "halted"),
            Self::Inhibit(cause) => ("inhibited", cause.step()),
        }
    }

    /// What the guest prints before it begins.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Device | Self::DeviceWake | Self::Inhibit(_) => "\"record\":\"device_ready\"",
            Self::Ipi | Self::Timer | Self::Wake => "\"record\":\"start\"",
        }
    }

    /// What the host has to have.
    pub fn needs(self) -> Needs {
        match self {
            // A vCPU that polls before it sleeps counts as running, and nothing has to wake it.
            Self::Wake => Needs { parameters: &["kvm.halt_poll_ns=0"], ..Needs::default() },
            Self::Ipi | Self::Timer | Self::Inhibit(_) => Needs::default(),
            Self::Device | Self::DeviceWake => {
                workload::named("device").map(|device| device.needs()).unwrap_or_default()
            }
        }
    }

    /// The function that interrupts, if one does.
    pub(super) const fn function(self) -> Option<RequesterId> {
        match self {
            Self::Device | Self::DeviceWake => Some(map::PULSE.requester()),
            Self::Ipi | Self::Timer | Self::Wake | Self::Inhibit(_) => None,
        }
    }

    /// What KVM inhibits for, if it does.
    pub(super) const fn cause(self) -> Option<Cause> {
        match self {
            Self::Inhibit(cause) => Some(cause),
            _ => None,
        }
    }

    /// What virtual machines have for it.
    pub(super) fn configuration(self) -> Configuration {
        let configuration = Configuration { vcpus: self.vcpus(), ..Configuration::default() };
        match self {
            Self::Inhibit(Cause::Pit) => Configuration {
                interrupt_chip: InterruptChip::Full,
                timer: Timer::KernelDiscard,
                ..configuration
            },
            _ => configuration,
        }
    }

    /// vCPUs that take part.
    pub(super) const fn vcpus(self) -> u16 {
        match self {
            Self::Ipi | Self::Wake => 2,
            Self::Timer | Self::Device | Self::DeviceWake | Self::Inhibit(_) => 1,
        }
    }

    /// What the vCPU that begins it is called.
    pub(super) const fn first(self) -> &'static str {
        match self {
            Self::Ipi | Self::Wake => "sender",
            Self::Timer | Self::Inhibit(_) => "vCPU",
            Self::Device | Self::DeviceWake => "device",
        }
    }

    /// Whether an interrupt begins here. The MSR that a guest left for is told right behind its
    /// `exit`.
    pub(super) fn begins(self, record: &Record, exit: Option<&Record>) -> bool {
        if let Some(function) = self.function() {
            return matches!(record.event, Event::MessageSignalled { requester, .. } if requester == function);
        }
        if self.cause().is_some() {
            // It is code that begins it, not the silicon.
            return false;
        }
        let is_timer = self == Self::Timer;
        let (register, msr) =
            if is_timer { (INITIAL_COUNT, INITIAL_COUNT_MSR) } else { (ICR, ICR_MSR) };
        match record.event {
            Event::VirtualIpiSent { icr, .. } => {
                !is_timer && Icr::from_bits(icr).delivery_mode() == DeliveryMode::Fixed
            }
            Event::MsrWrite { index, value } => {
                index == msr && value != 0 && exit.is_some_and(|one| exit_of(one).is_some())
            }
            _ => register_of(record) == Some(register),
        }
    }
}
