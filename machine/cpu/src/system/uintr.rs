//! User interrupts: notifications, delivery, and SENDUIPI's notification.
//! [SDM3 "User Interrupts"]

use crate::costs::Step;
use crate::execute::stack;
use crate::memory::{Access, sets};
use crate::width::RSP;
use crate::{Attention, Bus, Cpu, Stop};
use arch::address::Linear;
use arch::apic::{Icr, Register};
use arch::control::{Cr4, rflags};
use arch::uintr::{NotificationControl, UPID_REQUESTS_OFFSET};
use bus::Happening;

const ICR_MSR: u32 = 0x830;

/// Whether a maskable interrupt is a notification of user interrupts, which is processed in place
/// of its delivery. [SDM3 "User-Interrupt Notification Identification"]
pub(crate) fn is_notification(cpu: &Cpu, vector: u8) -> bool {
    cpu.control.cr4().contains(Cr4::UINTR)
        && cpu.control.is_long_mode()
        && vector == cpu.control.uintr.notification_vector()
}

/// Moves the requests of the processor's descriptor to UIRR.
/// [SDM3 "User-Interrupt Notification Processing"]
pub(crate) fn process_notification(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    let descriptor = cpu.control.uintr.descriptor;
    let control_at = cpu.locate_system(bus, descriptor, 8, Access::Write)?;
    let requests_at = descriptor.wrapping_add(UPID_REQUESTS_OFFSET);
    let requests_at = cpu.locate_system(bus, requests_at, 8, Access::Write)?;
    let control = NotificationControl::from_bits(cpu.read_place(bus, control_at));
    cpu.write_place(bus, control_at, control.with_is_outstanding(false).into_bits());
    let posted = cpu.read_place(bus, requests_at);
    cpu.write_place(bus, requests_at, 0);
    cpu.control.uintr.requests |= posted;
    cpu.look_for_user_interrupt();
    cpu.clock.take(Step::UserNotification);
    let requests = cpu.control.uintr.requests;
    let descriptor = Linear(descriptor);
    bus.platform.record(cpu.visit(), Happening::UserNotification { descriptor, requests });
    Ok(())
}

impl Cpu {
    /// What decides whether a user interrupt is delivered has changed.
    #[inline]
    pub(crate) fn look_for_user_interrupt(&mut self) {
        if self.control.uintr.requests != 0 {
            self.pending.raise(Attention::USER_INTERRUPT);
        }
    }
}

/// Whether a user interrupt is delivered at this boundary. RFLAGS.IF does not matter.
/// [SDM3 "User-Interrupt Delivery"]
pub(crate) fn is_deliverable(cpu: &Cpu) -> bool {
    let state = &cpu.control.uintr;
    state.requests != 0
        && state.flag
        && cpu.control.cr4().contains(Cr4::UINTR)
        && cpu.registers.cpl() == 3
        && cpu.is_64_bit()
}

/// Enters the handler at the present privilege. On `Err` registers are as they were.
/// [SDM3 "User-Interrupt Delivery"]
pub(crate) fn deliver(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    let state = cpu.control.uintr;
    let Some(vector) = state.first() else { return Ok(()) };
    if (state.handler as i64) << 16 >> 16 != state.handler as i64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let (old, ip) = (cpu.registers.gpr[RSP], cpu.registers.ip);
    let top = match state.stack_adjustment & 1 {
        0 => old.wrapping_sub(state.stack_adjustment),
        _ => state.stack_adjustment,
    };
    let mut pointer = top & !15;
    for value in [old, cpu.registers.flags.bits(), ip, vector.into()] {
        pointer = pointer.wrapping_sub(8);
        let place = cpu.locate_for(bus, pointer, 8, Access::Write, sets::USER)?;
        cpu.write_place(bus, place, value);
    }
    cpu.registers.gpr[RSP] = pointer;
    cpu.registers.ip = state.handler;
    cpu.control.uintr.requests &= !(1 << vector);
    cpu.control.uintr.flag = false;
    stack::write_flags(cpu, 0, rflags::TF | rflags::RF);
    cpu.clock.take(Step::UserDelivery);
    bus.platform.record(cpu.visit(), Happening::UserInterrupt { vector, ip });
    Ok(())
}

/// Sends the notification that a descriptor asks for, as a write of the local APIC's ICR would.
/// [SDM2 "SENDUIPI"]
pub(crate) fn notify(cpu: &mut Cpu, bus: &mut Bus<'_>, receiver: NotificationControl) {
    let is_x2apic = cpu.apic.is_x2apic();
    let target = receiver.apic_id(is_x2apic);
    let destination = if is_x2apic { target } else { target << 24 };
    let command = Icr::new().with_vector(receiver.vector()).with_destination(destination);
    let (now, mut effects) = (cpu.clock.now(), Vec::new());
    if is_x2apic {
        // A vector below 16 is an error of the APIC, not of the instruction.
        let _ = cpu.apic.write_msr(ICR_MSR, command.into_bits(), now, &mut effects);
    } else {
        let (high, low) = (Register::CommandHigh.offset(), Register::Command.offset());
        cpu.apic.write_mmio(high, 4, command.high().into(), now, &mut effects);
        cpu.apic.write_mmio(low, 4, command.low().into(), now, &mut effects);
    }
    super::local_apic::emit(cpu, bus, effects);
}
