//! The processor's side of its local APIC: registers, CR8, effects, timers.

use crate::costs::Step;
use crate::{Attention, Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::apic::Register;
use arch::time::Picoseconds;
use bus::Effect;

const EOI_MSR: u32 = 0x80B;

pub(crate) fn apic_write(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
    cpu.apic.write_mmio(offset, size, value, cpu.clock.now(), &mut cpu.effects);
    hand_over(cpu, bus);
}

pub(crate) fn apic_read_msr(cpu: &mut Cpu, msr: u32) -> Result<u64, Stop> {
    let value = cpu.apic.read_msr(msr, cpu.clock.now()).map_err(|_| Stop::GENERAL_PROTECTION)?;
    cpu.clock.take(Step::ApicMsrRead);
    Ok(value)
}

pub(crate) fn apic_write_msr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    msr: u32,
    value: u64,
) -> Result<(), Stop> {
    let result = cpu.apic.write_msr(msr, value, cpu.clock.now(), &mut cpu.effects);
    hand_over(cpu, bus);
    result.map_err(|_| Stop::GENERAL_PROTECTION)?;
    cpu.clock.take(Step::of_apic_msr_write(msr));
    Ok(())
}

/// The processor itself ends the interrupt of the highest priority in service.
pub(crate) fn end_interrupt(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    if cpu.apic.is_x2apic() {
        let _ = apic_write_msr(cpu, bus, EOI_MSR, 0);
    } else {
        apic_write(cpu, bus, Register::EndOfInterrupt.offset(), 4, 0);
    }
}

impl Cpu {
    /// What waits may be taken at the next boundary. In a guest its hypervisor decides what waits.
    pub(crate) fn look_for_interrupt(&mut self) {
        if self.is_guest() || self.apic.has_interrupt() {
            self.pending.raise(Attention::INTERRUPT);
        }
    }

    /// IF is set: the guest's own may be taken as well.
    pub(crate) fn open_to_interrupts(&mut self) {
        self.look_for_interrupt();
        if self.is_guest() {
            self.pending.raise(Attention::VIRTUAL_INTERRUPT);
        }
    }
}

/// Hands what the APIC has caused to the board; the run ends soon so that those whom it reaches get
/// their turn.
fn hand_over(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    cpu.pending.raise(Attention::INTERRUPT | Attention::TIMER);
    if cpu.effects.is_empty() {
        return;
    }
    cpu.pending.raise(Attention::YIELD);
    let visit = cpu.visit();
    for effect in cpu.effects.drain(..) {
        bus.platform.effect(visit, effect);
    }
}

/// The same of effects that have been caused in another way.
pub(crate) fn emit(cpu: &mut Cpu, bus: &mut Bus<'_>, mut effects: Vec<Effect>) {
    cpu.effects.append(&mut effects);
    hand_over(cpu, bus);
}

/// Whether something other than RAM answers at an address of RAM: the local APIC's page.
pub(crate) fn overlays_ram(cpu: &Cpu, address: SystemPhysical) -> bool {
    cpu.apic.is_enabled()
        && !cpu.apic.is_x2apic()
        && cpu.apic.base() & 0x000F_FFFF_FFFF_F000 == address.0 & !0xFFF
}

pub(crate) fn read_cr8(cpu: &Cpu) -> u64 {
    cpu.apic.task_priority() as u64 >> 4
}

/// #GP for reserved bits.
pub(super) fn check_cr8(value: u64) -> Result<(), Stop> {
    if value & !15 != 0 { Err(Stop::GENERAL_PROTECTION) } else { Ok(()) }
}

pub(crate) fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
    check_cr8(value)?;
    if cpu.write_virtual_cr8(bus, value) {
        return Ok(());
    }
    cpu.apic.set_task_priority((value as u8) << 4);
    cpu.pending.raise(Attention::INTERRUPT);
    Ok(())
}

/// IA32_TSC_DEADLINE: the APIC's timer fires when the counter reaches `value`.
pub(crate) fn write_tsc_deadline(cpu: &mut Cpu, value: u64) {
    let at = if value == 0 {
        None
    } else if value <= cpu.clock.tsc() {
        Some(cpu.clock.now())
    } else {
        Some(cpu.clock.time_of_tsc(value))
    };
    cpu.apic.set_tsc_deadline(value, at);
    cpu.pending.raise(Attention::TIMER);
}

impl Cpu {
    /// The moment at which the local APIC's timer fires.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        match (self.apic.next_deadline(), self.guest_deadline()) {
            (Some(own), Some(guest)) => Some(own.min(guest)),
            (own, guest) => own.or(guest),
        }
    }
}

/// Lets the timer fire if its time has come.
pub(crate) fn advance_apic(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    if cpu.apic.next_deadline().is_some_and(|at| at <= cpu.clock.now()) {
        cpu.apic.advance(cpu.clock.now(), &mut cpu.effects);
        hand_over(cpu, bus);
    }
}
