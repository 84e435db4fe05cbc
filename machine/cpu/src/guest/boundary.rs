//! What waits at an instruction boundary, in order of priority.
//!
//! The order is [`COMMON`], a row for each kind of event with the rule it follows. A vendor adds
//! the events of its guests where its manual puts them; what they are, the vendor knows.

use super::arrival::Arrival;
use super::row::{Added, Look, Row};
use crate::stop::Kind;
use crate::system::debug;
use crate::system::event;
use crate::system::uintr;
use crate::system::waiting;
use crate::{Activity, Attention, Bus, Cpu, RunEnd, Stop};

/// Those of every processor, the highest priority first.
const COMMON: [Row; 10] = [
    // Of this machine: devices and other processors get their turn.
    Row { waits: Attention::YIELD, take: |_, _| Look::End(RunEnd::Yield) },
    // What belongs to the instruction before: exits that follow it, an injected event.
    // [APM2 "Event Injection"]
    Row { waits: Attention::GUEST_BOUNDARY, take: finish_instruction },
    // HLT, MWAIT, shutdown: only what wakes goes on. [APM3 "HLT"] [APM3 "MWAIT"]
    Row { waits: Attention::INACTIVE, take: wake },
    // Traps of the instruction before. [APM2 "Priorities"]
    Row { waits: Attention::DEBUG_TRAP, take: take_debug_trap },
    // SMI, then INIT. [APM2 "Priorities"]
    Row { waits: Attention::HELD, take: take_held },
    // The instruction behind STI, MOV SS and POP SS comes first. [APM2 "Priorities"]
    Row { waits: Attention::SHADOW, take: |_, _| Look::Done },
    // [APM2 "NMI—Non-Maskable-Interrupt Exception"]
    Row { waits: Attention::NMI, take: take_nmi },
    // [APM2 "Maskable External Interrupts"]
    Row { waits: Attention::INTERRUPT, take: take_interrupt },
    // Just below ordinary interrupts. [SDM3 "User-Interrupt Delivery"]
    Row { waits: Attention::USER_INTERRUPT, take: take_user_interrupt },
    // After all physical ones. [APM2 "Virtual Interrupts"]
    Row { waits: Attention::VIRTUAL, take: take_virtual },
];

/// The rows of every processor, and a vendor's among them.
pub(crate) const fn order<const N: usize>(added: &[Added]) -> [Row; N] {
    let mut rows = [COMMON[0]; N];
    let (mut at, mut common) = (0, 0);
    while common < COMMON.len() {
        let mut vendor = 0;
        while vendor < added.len() {
            if added[vendor].before.bits() == COMMON[common].waits.bits() {
                rows[at] = added[vendor].row;
                at += 1;
            }
            vendor += 1;
        }
        rows[at] = COMMON[common];
        at += 1;
        common += 1;
    }
    assert!(at == N && N == COMMON.len() + added.len(), "each row has its place");
    rows
}

/// Looks at everything that waits.
#[inline(always)]
pub(crate) fn attend(cpu: &mut Cpu, bus: &mut Bus<'_>, order: &[Row]) -> Result<(), RunEnd> {
    for row in order {
        if !cpu.pending.has(row.waits) {
            continue;
        }
        match (row.take)(cpu, bus) {
            Look::Further => {}
            Look::Done => break,
            Look::End(end) => return Err(end),
        }
        // What was delivered at this boundary may have the place of an instruction.
        if let Err(stop) = cpu.exit_after_delivery() {
            cpu.settle(bus, Err(stop));
            break;
        }
    }
    Ok(())
}

/// What a hypervisor asked to be told of.
pub(crate) fn window(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    look: fn(&mut Cpu) -> Result<(), Stop>,
) -> Look {
    match look(cpu) {
        Ok(()) => Look::Further,
        Err(stop) => {
            cpu.settle(bus, Err(stop));
            Look::Done
        }
    }
}

fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    match cpu.finish_instruction(bus) {
        Ok(false) => Look::Further,
        Ok(true) => Look::End(RunEnd::Yield),
        Err(stop) => {
            cpu.settle(bus, Err(stop));
            Look::Done
        }
    }
}

fn wake(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if waiting::wakes(cpu, bus) {
        return Look::Further;
    }
    Look::End(match cpu.pending.activity() {
        Activity::Shutdown => RunEnd::Shutdown,
        _ => RunEnd::Idle,
    })
}

fn take_debug_trap(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if !cpu.pending.has(Attention::STACK_SHADOW) {
        let result = debug::take_debug_trap(cpu, bus);
        cpu.settle(bus, result);
    }
    Look::Further
}

/// An SMI or INIT that waited. One that is intercepted goes on waiting, for the host.
/// [APM2 "SMI Intercept"] [APM2 "INIT Intercept"]
fn take_held(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let waits_for_init =
        cpu.pending.has(Attention::INIT) && !cpu.pending.has(Attention::SMI) && cpu.blocks_init();
    if !cpu.admits_events() || waits_for_init {
        return Look::Further;
    }
    let result = take_smi(cpu).and_then(|()| take_held_init(cpu, bus));
    cpu.settle(bus, result);
    Look::Done
}

fn take_nmi(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    if cpu.accepts_nmis() {
        let result = cpu.arrives(Arrival::Nmi).and_then(|()| event::take_nmi(cpu, bus));
        cpu.settle(bus, result);
    }
    Look::Further
}

/// Takes a maskable interrupt if there is one and IF allows it.
fn take_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    // STI, POPF, IRET and the local APIC raise the flag again when something changes.
    cpu.pending.clear(Attention::INTERRUPT);
    if !cpu.accepts_physical_interrupts() || !cpu.apic.has_interrupt() {
        return Look::Further;
    }
    let acknowledges = cpu.acknowledges_for_exit();
    if !acknowledges && let Err(stop) = cpu.arrives(Arrival::Interrupt) {
        cpu.settle(bus, Err(stop));
        return Look::Further;
    }
    let vector = if cpu.apic.pending().is_some() {
        cpu.apic.acknowledge().0
    } else if cpu.apic.extint_pending() {
        // The acknowledge lowers the 8259s' output: the next instruction must find it so.
        cpu.pending.raise(Attention::YIELD);
        bus.platform.acknowledge_legacy(cpu.visit())
    } else {
        return Look::Further;
    };
    cpu.look_for_interrupt();
    let result = if acknowledges {
        cpu.acknowledged(bus, vector)
    } else {
        event::take_interrupt(cpu, bus, vector)
    };
    cpu.settle(bus, result);
    Look::Further
}

/// A fault on the way is one of the interrupted flow: nothing was in delivery.
fn take_user_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    // What can make one deliverable raises the flag again.
    cpu.pending.clear(Attention::USER_INTERRUPT);
    if !uintr::is_deliverable(cpu) {
        return Look::Further;
    }
    let result = match uintr::deliver(cpu, bus) {
        Ok(()) => {
            cpu.note_delivery();
            Ok(())
        }
        Err(stop) => match stop.kind() {
            Kind::Exception { vector, error } => event::raise_exception(cpu, bus, vector, error),
            _ => Err(stop),
        },
    };
    cpu.settle(bus, result);
    Look::Further
}

fn take_virtual(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let result = cpu.take_virtual(bus);
    cpu.settle(bus, result);
    Look::Further
}

impl Cpu {
    pub(crate) fn accepts_nmis(&self) -> bool {
        !self.pending.blocks_nmis() && self.admits_events()
    }
}

fn take_smi(cpu: &mut Cpu) -> Result<(), Stop> {
    if cpu.pending.has(Attention::SMI) {
        cpu.arrives(Arrival::Smi)?;
        // DEVIATION(APM2 "System-Management Mode"): there is no SMM; an SMI that nobody
        // intercepts is as if its handler had returned at once.
        cpu.pending.clear(Attention::SMI);
    }
    Ok(())
}

fn take_held_init(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    if cpu.pending.has(Attention::INIT) && !cpu.blocks_init() {
        cpu.arrives(Arrival::Init)?;
        cpu.pending.clear(Attention::INIT);
        if let Some((vector, error)) = cpu.init_becomes() {
            return event::raise_exception(cpu, bus, vector, Some(error));
        }
        waiting::take_init(cpu);
    }
    Ok(())
}
