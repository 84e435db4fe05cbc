//! Waiting for events: what ends it, and what arrives meanwhile.

use crate::{Activity, Attention, Bus, Cpu};
use bus::Happening;
use interrupt::local_apic::Acceptance;

/// Whether an inactive processor has reason to run again; it then does.
pub(crate) fn wakes(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool {
    let woken = match cpu.pending.activity() {
        Activity::Running => true,
        Activity::WaitForStartup | Activity::Shutdown => false,
        Activity::Halted => has_wake_event(cpu) || cpu.has_virtual_event(bus) || cpu.guest_wakes(),
        Activity::Waiting => {
            ends_wait(cpu)
                || cpu.has_virtual_event(bus)
                || cpu.guest_wakes()
                || !cpu.pending.monitor_is_armed(bus.memory)
        }
    };
    if woken {
        bus.platform.record(cpu.visit(), Happening::Wake { ip: cpu.registers.ip });
        cpu.pending.disarm();
        cpu.note_wake();
        cpu.pending.set_activity(Activity::Running);
    }
    woken
}

fn has_wake_event(cpu: &Cpu) -> bool {
    cpu.apic.has_interrupt() && cpu.accepts_physical_interrupts()
        || cpu.pending.has(Attention::NMI) && cpu.accepts_nmis()
        || cpu.pending.has(Attention::HELD) && cpu.admits_events() && !cpu.blocks_init()
}

/// As `has_wake_event`, for MWAIT and its extension. [APM3 "MWAIT"]
fn ends_wait(cpu: &Cpu) -> bool {
    let breaks = cpu.pending.masked_interrupts_wake() && cpu.admits_events();
    has_wake_event(cpu) || breaks && cpu.apic.has_interrupt()
}

pub(crate) fn take_init(cpu: &mut Cpu) {
    cpu.apic.init();
    cpu.initialize();
    if !cpu.apic.model().is_bootstrap {
        cpu.pending.set_activity(Activity::WaitForStartup);
    }
}

impl Cpu {
    /// Whether a run would do anything now, for the board's schedule.
    pub fn is_runnable(&self, memory: &bus::GuestMemory) -> bool {
        match self.pending.activity() {
            Activity::Running => true,
            Activity::WaitForStartup | Activity::Shutdown => false,
            Activity::Halted => {
                has_wake_event(self) || self.pending.has(Attention::VIRTUAL) || self.guest_wakes()
            }
            Activity::Waiting => {
                ends_wait(self)
                    || self.pending.has(Attention::VIRTUAL)
                    || !self.pending.monitor_is_armed(memory)
            }
        }
    }

    /// Something arrived at the local APIC.
    pub fn accepted(&mut self, acceptance: Acceptance) {
        match acceptance {
            Acceptance::Queued | Acceptance::ExtInt => self.pending.raise(Attention::INTERRUPT),
            Acceptance::Nmi => self.pending.accept_nmi(),
            Acceptance::Init if self.holds_init() => self.pending.raise(Attention::INIT),
            Acceptance::Init => take_init(self),
            Acceptance::Startup(vector) => {
                if self.pending.activity() == Activity::WaitForStartup {
                    self.startup(vector)
                }
            }
            Acceptance::Smi => self.pending.raise(Attention::SMI),
            Acceptance::Ignored => {}
        }
    }
}
