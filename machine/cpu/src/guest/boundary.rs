//! What waits at an instruction boundary, in order of priority.
//!
//! The order is [`ORDER`], a row for each kind of event with the rule it follows. A guest's own
//! events stand where the vendor's manual puts them; what they are, the vendor knows.

use super::Arrival;
use crate::{Activity, Attention, Bus, Cpu, RunEnd, Stop};

/// What comes of looking at one row.
enum Look {
    /// At the next row.
    Further,
    /// No further at this boundary: what was taken has to be executed first, or comes alone.
    Done,
    /// The run ends.
    End(RunEnd),
}

/// One kind of event.
struct Row {
    /// What says that it may wait.
    waits: Attention,
    take: fn(&mut Cpu, &mut Bus<'_>) -> Look,
}

/// What GIF holds back and a hypervisor may intercept, besides interrupts.
pub(crate) const HELD: Attention = Attention::INIT.union(Attention::SMI);

/// Events of the running guest that no physical event stands for.
pub(crate) const VIRTUAL: Attention = Attention::VIRTUAL_INTERRUPT.union(Attention::VIRTUAL_NMI);

/// The highest priority first.
const ORDER: [Row; 13] = [
    // Of this machine: devices and other processors get their turn.
    Row { waits: Attention::YIELD, take: |_, _| Look::End(RunEnd::Yield) },
    // What belongs to the instruction before: exits that follow it, an injected event.
    // [APM2 "Event Injection"]
    Row { waits: Attention::GUEST_BOUNDARY, take: finish_instruction },
    // [SDM3 "Monitor Trap Flag"]
    Row { waits: Attention::WINDOW, take: |cpu, bus| window(cpu, bus, Cpu::vmx_monitor_trap) },
    // HLT, MWAIT, shutdown: only what wakes goes on. [APM3 "HLT"] [APM3 "MWAIT"]
    Row { waits: Attention::INACTIVE, take: wake },
    // Traps of the instruction before. [APM2 "Priorities"]
    Row { waits: Attention::DEBUG_TRAP, take: take_debug_trap },
    // SMI, then INIT. [APM2 "Priorities"]
    Row { waits: HELD, take: take_held },
    // [SDM3 "VMX-Preemption Timer"]
    Row { waits: Attention::WINDOW, take: |cpu, bus| window(cpu, bus, Cpu::vmx_timer) },
    // The instruction behind STI, MOV SS and POP SS comes first. [APM2 "Priorities"]
    Row { waits: Attention::SHADOW, take: |_, _| Look::Done },
    // [SDM3 "NMI-Window Exiting"]
    Row { waits: Attention::WINDOW, take: |cpu, bus| window(cpu, bus, Cpu::vmx_nmi_window) },
    // [APM2 "NMI—Non-Maskable-Interrupt Exception"]
    Row { waits: Attention::NMI, take: take_nmi },
    // [SDM3 "Interrupt-Window Exiting and Virtual-Interrupt Delivery"]
    Row { waits: Attention::WINDOW.union(Attention::VIRTUAL_INTERRUPT), take: interrupt_window },
    // [APM2 "Maskable External Interrupts"]
    Row { waits: Attention::INTERRUPT, take: take_interrupt },
    // After all physical ones. [APM2 "Virtual Interrupts"]
    Row { waits: VIRTUAL, take: take_virtual },
];

impl Cpu {
    /// Looks at everything that waits.
    pub(crate) fn attend(&mut self, bus: &mut Bus<'_>) -> Result<(), RunEnd> {
        for row in &ORDER {
            if !self.pending.attention.intersects(row.waits) {
                continue;
            }
            match (row.take)(self, bus) {
                Look::Further => {}
                Look::Done => break,
                Look::End(end) => return Err(end),
            }
            if self.vmx_monitor_trap_is_due() {
                // What was delivered at this boundary has the place of an instruction.
                window(self, bus, Cpu::vmx_monitor_trap);
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn has_interrupt(&self) -> bool {
        self.apic.pending().is_some() || self.apic.extint_pending()
    }

    /// Whether an event of the running guest would end HLT now.
    pub(crate) fn has_virtual_event(&mut self, bus: &mut Bus<'_>) -> bool {
        self.svm_has_virtual_event(bus)
    }

    pub(crate) fn accepts_nmis(&self) -> bool {
        !self.pending.nmi_blocked && self.admits_events()
    }
}

fn interrupt_window(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let result = cpu.vmx_interrupt_window(bus);
    cpu.settle(bus, result);
    Look::Further
}

/// What a hypervisor asked to be told of.
fn window(cpu: &mut Cpu, bus: &mut Bus<'_>, look: fn(&mut Cpu) -> Result<(), Stop>) -> Look {
    match look(cpu) {
        Ok(()) => Look::Further,
        Err(stop) => {
            cpu.settle(bus, Err(stop));
            Look::Done
        }
    }
}

fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let finished = if cpu.guest.vmx.current.is_some() {
        cpu.vmx_finish_instruction(bus).map(|()| false)
    } else {
        cpu.svm_finish_instruction(bus)
    };
    match finished {
        Ok(false) => Look::Further,
        Ok(true) => Look::End(RunEnd::Yield),
        Err(stop) => {
            cpu.settle(bus, Err(stop));
            Look::Done
        }
    }
}

fn wake(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if cpu.wakes(bus) {
        return Look::Further;
    }
    Look::End(match cpu.pending.activity {
        Activity::Shutdown => RunEnd::Shutdown,
        _ => RunEnd::Idle,
    })
}

fn take_debug_trap(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if !cpu.pending.attention.contains(Attention::STACK_SHADOW) {
        let result = cpu.take_debug_trap(bus);
        cpu.settle(bus, result);
    }
    Look::Further
}

/// An SMI or INIT that waited. One that is intercepted goes on waiting, for the host.
/// [APM2 "SMI Intercept"] [APM2 "INIT Intercept"]
fn take_held(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let waits_for_init = cpu.pending.attention & HELD == Attention::INIT && cpu.blocks_init();
    if !cpu.admits_events() || waits_for_init {
        return Look::Further;
    }
    let result = cpu.take_smi().and_then(|()| cpu.take_held_init(bus));
    cpu.settle(bus, result);
    Look::Done
}

fn take_nmi(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if cpu.accepts_nmis() {
        let result = cpu.arrives(Arrival::Nmi).and_then(|()| cpu.take_nmi(bus));
        cpu.settle(bus, result);
    }
    Look::Further
}

/// Takes a maskable interrupt if there is one and IF allows it.
fn take_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    // STI, POPF, IRET and the local APIC raise the flag again when something changes.
    cpu.pending.attention.remove(Attention::INTERRUPT);
    if !cpu.accepts_physical_interrupts() || !cpu.has_interrupt() {
        return Look::Further;
    }
    let acknowledges = cpu.vmx_acknowledges();
    if !acknowledges && let Err(stop) = cpu.arrives(Arrival::Interrupt) {
        cpu.settle(bus, Err(stop));
        return Look::Further;
    }
    let vector = if cpu.apic.pending().is_some() {
        cpu.apic.acknowledge().0
    } else if cpu.apic.extint_pending() {
        // The acknowledge lowers the 8259s' output: the next instruction must find it so.
        cpu.pending.attention |= Attention::YIELD;
        bus.platform.acknowledge_legacy(cpu.visit())
    } else {
        return Look::Further;
    };
    cpu.pending.attention |= Attention::INTERRUPT;
    let result = if acknowledges && cpu.vmx_posted(bus, vector) {
        Ok(())
    } else if acknowledges {
        Err(cpu.vmx_exit_of_interrupt(vector))
    } else {
        cpu.take_interrupt(bus, vector)
    };
    cpu.settle(bus, result);
    Look::Further
}

fn take_virtual(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let result = if cpu.guest.vmx.current.is_some() {
        // What a notification has posted at this boundary; STI and kin raise the flag again.
        cpu.pending.attention.remove(VIRTUAL);
        cpu.vmx_virtual_interrupt(bus)
    } else {
        cpu.svm_take_virtual_events(bus)
    };
    cpu.settle(bus, result);
    Look::Further
}

impl Cpu {
    fn take_smi(&mut self) -> Result<(), Stop> {
        if self.pending.attention.contains(Attention::SMI) {
            self.arrives(Arrival::Smi)?;
            // DEVIATION(APM2 "System-Management Mode"): there is no SMM; an SMI that nobody
            // intercepts is as if its handler had returned at once.
            self.pending.attention.remove(Attention::SMI);
        }
        Ok(())
    }

    fn take_held_init(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        if self.pending.attention.contains(Attention::INIT) && !self.blocks_init() {
            self.arrives(Arrival::Init)?;
            self.pending.attention.remove(Attention::INIT);
            if let Some((vector, error)) = self.init_becomes() {
                return self.raise_exception(bus, vector, Some(error));
            }
            self.take_init();
        }
        Ok(())
    }
}
