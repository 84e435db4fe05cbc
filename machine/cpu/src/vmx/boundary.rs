//! What happens to a guest between two instructions: the injected event, the monitor trap flag, the
//! preemption timer, the windows. [SDM3 "Event Injection"] [SDM3 "Special Features of VM Entry"]

use super::state::{Exit, Injection, MonitorTrap};
use crate::guest::boundary::{order, window};
use crate::guest::row::{Added, Look, Row};
use crate::state::{Event, Origin};
use crate::stop::{Kind, SoftwareSource};
use crate::system::event;
use crate::vmx::apic;
use crate::vmx::entry;
use crate::vmx::intercept;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::rflags;
use arch::time::Picoseconds;
use arch::vmx::control::{PinControls, PrimaryControls};
use arch::vmx::{ExitReason, InterruptionType};

/// What VMX adds to what waits at a boundary.
const ADDED: [Added; 4] = [
    // [SDM3 "Monitor Trap Flag"]
    Added {
        before: Attention::INACTIVE,
        row: of_window(|cpu, bus| window(cpu, bus, monitor_trap)),
    },
    // [SDM3 "VMX-Preemption Timer"]
    Added { before: Attention::SHADOW, row: of_window(|cpu, bus| window(cpu, bus, timer)) },
    // [SDM3 "NMI-Window Exiting"]
    Added { before: Attention::NMI, row: of_window(|cpu, bus| window(cpu, bus, nmi_window)) },
    // [SDM3 "Interrupt-Window Exiting and Virtual-Interrupt Delivery"]
    Added {
        before: Attention::INTERRUPT,
        row: Row {
            waits: Attention::WINDOW.union(Attention::VIRTUAL_INTERRUPT),
            take: interrupt_window,
        },
    },
];

/// What waits at a boundary, the highest priority first.
pub(super) const ORDER: [Row; 14] = order(&ADDED);

const fn of_window(take: fn(&mut Cpu, &mut Bus<'_>) -> Look) -> Row {
    Row { waits: Attention::WINDOW, take }
}

fn interrupt_window(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Look {
    let result = vmx_interrupt_window(cpu, bus);
    cpu.settle(bus, result);
    Look::Further
}

/// First of all at a boundary: what the last instruction, or the entry, left to be done.
pub(crate) fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    apic::apicv_complete_operation(cpu, bus);
    let Some(guest) = cpu.guest.running.vmx_mut() else {
        cpu.pending.clear(Attention::GUEST_BOUNDARY);
        return Ok(());
    };
    if guest.exit.is_some() {
        return Err(Stop::VM_EXIT);
    }
    cpu.pending.clear(Attention::GUEST_BOUNDARY);
    if guest.monitor_trap == Some(MonitorTrap::Entry) {
        guest.monitor_trap = Some(MonitorTrap::Instruction(cpu.clock.instructions()));
    }
    let due = guest.due_after_injection.take();
    if let Some(injection) = guest.injection.take() {
        inject(cpu, bus, injection)?;
    }
    match due {
        Some(exit) => {
            let exit = Exit::qualified(exit.reason(), exit.qualification());
            Err(intercept::exit_with(cpu, exit))
        }
        None => Ok(()),
    }
}

/// Unconditional, whatever IF and the shadow say.
fn inject(cpu: &mut Cpu, bus: &mut Bus<'_>, injection: Injection) -> Result<(), Stop> {
    let vector = injection.event.vector();
    let error = injection.event.has_error_code().then_some(injection.error_code);
    let Some(guest) = cpu.guest.running.vmx_mut() else { return Ok(()) };
    let virtual_nmis = guest.controls.pin.contains(PinControls::VIRTUAL_NMIS);
    guest.monitor_trap = guest.monitor_trap.map(|_| MonitorTrap::Due);
    let origin = match injection.event.kind() {
        InterruptionType::Other => {
            guest.monitor_trap = Some(MonitorTrap::Due);
            cpu.pending.raise(Attention::WINDOW);
            return Ok(());
        }
        InterruptionType::Nmi => {
            guest.blocks_virtual_nmis |= virtual_nmis;
            cpu.pending.set_blocks_nmis(cpu.pending.blocks_nmis() || !virtual_nmis);
            Origin::External
        }
        InterruptionType::External | InterruptionType::Reserved => Origin::External,
        InterruptionType::HardwareException => Origin::Exception,
        InterruptionType::SoftwareInterrupt => Origin::Software(SoftwareSource::Int),
        InterruptionType::PrivilegedSoftwareException => Origin::Software(SoftwareSource::Int1),
        InterruptionType::SoftwareException => Origin::Software(SoftwareSource::Int3),
    };
    cpu.pending.clear(Attention::SHADOW | Attention::STACK_SHADOW);
    let event = Event { vector, error, origin };
    match origin {
        Origin::Software(_) => inject_software(cpu, bus, event, injection.length.into()),
        // It may be a notification of user interrupts. [SDM3 "Event Injection"]
        Origin::External if injection.event.kind() == InterruptionType::External => {
            event::raise_interrupt(cpu, bus, vector)
        }
        _ => event::raise_injected(cpu, bus, event),
    }
}

/// Returns behind the instruction that would have raised it; a fault on the way is reported at
/// the instruction itself.
fn inject_software(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    event: Event,
    length: u64,
) -> Result<(), Stop> {
    let this = cpu.registers.ip;
    cpu.registers.ip = this.wrapping_add(length);
    cpu.pending.set_software_length(length);
    cpu.pending.begin_delivery(event);
    let Err(stop) = event::deliver(cpu, bus, event) else {
        cpu.pending.end_delivery();
        return Ok(());
    };
    cpu.registers.ip = this;
    match stop.kind() {
        Kind::Exception { vector, error, .. } => event::raise_exception(cpu, bus, vector, error),
        _ => Err(stop),
    }
}

/// An instruction has completed under the monitor trap flag, an event was delivered in the
/// place of one, or a pending exit was injected.
pub(crate) fn monitor_trap(cpu: &mut Cpu) -> Result<(), Stop> {
    let is_due = match cpu.guest.running.vmx().and_then(|guest| guest.monitor_trap) {
        None | Some(MonitorTrap::Entry) => false,
        Some(MonitorTrap::Instruction(start)) => start != cpu.clock.instructions(),
        Some(MonitorTrap::Due) => true,
    };
    if is_due {
        return Err(intercept::exit_with(cpu, Exit::new(ExitReason::MonitorTrapFlag)));
    }
    Ok(())
}

/// An event has been delivered: its handler's first instruction comes after the exit of the
/// monitor trap flag. [SDM3 "Monitor Trap Flag"]
pub(crate) fn note_delivery(cpu: &mut Cpu) {
    if let Some(guest) = cpu.guest.running.vmx_mut() {
        guest.monitor_trap = guest.monitor_trap.map(|_| MonitorTrap::Due);
    }
}

/// The exit where an event was delivered at this boundary under the monitor trap flag.
pub(crate) fn exit_after_delivery(cpu: &mut Cpu) -> Result<(), Stop> {
    let guest = cpu.guest.running.vmx();
    if guest.is_some_and(|guest| guest.monitor_trap == Some(MonitorTrap::Due)) {
        return monitor_trap(cpu);
    }
    Ok(())
}

/// [SDM3 "VMX-Preemption Timer"]
pub(crate) fn timer(cpu: &mut Cpu) -> Result<(), Stop> {
    if timer_has_expired(cpu) {
        return Err(intercept::exit_with(cpu, Exit::new(ExitReason::PreemptionTimer)));
    }
    Ok(())
}

fn timer_has_expired(cpu: &Cpu) -> bool {
    let end = cpu.guest.running.vmx().and_then(|guest| guest.timer);
    end.is_some_and(|end| cpu.clock.tsc() >> entry::timer_rate(cpu) >= end)
}

/// A SIPI has come: only a guest that waits for it leaves.
pub(crate) fn startup(cpu: &mut Cpu, vector: u8) {
    if let Some(guest) = cpu.guest.running.vmx_mut() {
        guest.exit = Some(Exit::qualified(ExitReason::Sipi, vector.into()));
        cpu.pending.raise(Attention::GUEST_BOUNDARY);
        cpu.pending.set_activity(crate::Activity::Running);
    }
}

/// When the preemption timer is going to expire; a guest that waits for a SIPI does not see it.
pub(super) fn deadline(cpu: &Cpu) -> Option<Picoseconds> {
    if cpu.pending.activity() == crate::Activity::WaitForStartup {
        return None;
    }
    let end = cpu.guest.running.vmx()?.timer?;
    Some(cpu.clock.time_of_tsc(end << entry::timer_rate(cpu)))
}

fn nmi_window_is_open(cpu: &Cpu) -> bool {
    cpu.guest.running.vmx().is_some_and(|guest| {
        guest.controls.primary.contains(PrimaryControls::NMI_WINDOW_EXITING)
            && !guest.blocks_virtual_nmis
    })
}

fn interrupt_window_is_open(cpu: &Cpu) -> bool {
    let window = PrimaryControls::INTERRUPT_WINDOW_EXITING;
    let guest = cpu.guest.running.vmx();
    guest.is_some_and(|guest| guest.controls.primary.contains(window))
        && cpu.registers.flags.has(rflags::IF)
}

/// Both windows are closed in an interrupt shadow.
pub(crate) fn nmi_window(cpu: &mut Cpu) -> Result<(), Stop> {
    if nmi_window_is_open(cpu) {
        return Err(intercept::exit_with(cpu, Exit::new(ExitReason::NmiWindow)));
    }
    Ok(())
}

/// The window, or the virtual interrupt that there is without it.
pub(crate) fn vmx_interrupt_window(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    if interrupt_window_is_open(cpu) {
        return Err(intercept::exit_with(cpu, Exit::new(ExitReason::InterruptWindow)));
    }
    apic::virtual_interrupt(cpu, bus)
}

/// Whether a guest that waits in HLT or MWAIT leaves.
pub(crate) fn wakes(cpu: &Cpu) -> bool {
    timer_has_expired(cpu)
        || nmi_window_is_open(cpu)
        || interrupt_window_is_open(cpu)
        || apic::apicv_has_interrupt(cpu)
}

/// A guest is woken: an exit that follows at once says that it was halted.
pub(crate) fn note_wake(cpu: &mut Cpu) {
    let now = cpu.clock.instructions();
    let was_halted = cpu.pending.activity() == crate::Activity::Halted;
    if let Some(guest) = cpu.guest.running.vmx_mut().filter(|_| was_halted) {
        guest.halted_at = Some(now);
    }
}

/// Whether a maskable interrupt is taken: one that exits does not look at IF.
pub(crate) fn accepts_interrupts(cpu: &Cpu, own: bool) -> bool {
    let exits =
        cpu.guest.running.vmx().is_some_and(|guest| {
            guest.controls.pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING)
        });
    if exits { !cpu.pending.has(Attention::SHADOW) } else { own }
}

/// Whether an interrupt that exits is acknowledged on the way.
pub(crate) fn acknowledges(cpu: &Cpu) -> bool {
    use arch::vmx::ExitControls;
    cpu.guest.running.vmx().is_some_and(|guest| {
        guest.controls.pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING)
            && guest.controls.exit.contains(ExitControls::ACKNOWLEDGE_INTERRUPT)
    })
}

/// IRET ends the blocking of virtual NMIs; with NMI exiting alone it ends none.
pub(crate) fn unblock_nmis(cpu: &mut Cpu) {
    let Some(guest) = cpu.guest.running.vmx_mut() else { return };
    let pin = guest.controls.pin;
    if pin.contains(PinControls::VIRTUAL_NMIS) {
        guest.blocks_virtual_nmis = false;
    } else if !pin.contains(PinControls::NMI_EXITING) {
        cpu.pending.set_blocks_nmis(false);
    }
}
