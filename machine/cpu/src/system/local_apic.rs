//! The processor's side of its local APIC: registers, CR8, effects, timers.

use crate::{Attention, Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::time::Picoseconds;
use bus::Effect;

impl Cpu {
    pub(crate) fn apic_write(&mut self, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
        let mut effects = Vec::new();
        self.apic.write_mmio(offset, size, value, self.clock, &mut effects);
        self.emit(bus, effects);
    }

    pub(crate) fn apic_read_msr(&mut self, msr: u32) -> Result<u64, Stop> {
        let value = self.apic.read_msr(msr, self.clock).map_err(|_| Stop::GENERAL_PROTECTION)?;
        self.spend(self.costs.apic.msr_read);
        Ok(value)
    }

    pub(crate) fn apic_write_msr(
        &mut self,
        bus: &mut Bus<'_>,
        msr: u32,
        value: u64,
    ) -> Result<(), Stop> {
        let mut effects = Vec::new();
        let result = self.apic.write_msr(msr, value, self.clock, &mut effects);
        self.emit(bus, effects);
        result.map_err(|_| Stop::GENERAL_PROTECTION)?;
        self.spend(self.costs.apic.of_msr_write(msr));
        Ok(())
    }

    /// Hands effects to the board; the run ends soon so that their receivers get their turn.
    pub(crate) fn emit(&mut self, bus: &mut Bus<'_>, effects: Vec<Effect>) {
        self.pending.attention |= Attention::INTERRUPT | Attention::TIMER;
        for effect in effects {
            self.pending.attention |= Attention::YIELD;
            bus.platform.effect(self.visit(), effect);
        }
    }

    /// Whether something other than RAM answers at an address of RAM: the local APIC's page.
    pub(crate) fn overlays_ram(&self, address: SystemPhysical) -> bool {
        self.apic.is_enabled()
            && !self.apic.is_x2apic()
            && self.apic.base() & 0x000F_FFFF_FFFF_F000 == address.0 & !0xFFF
    }

    pub(crate) fn read_cr8(&self) -> u64 {
        self.apic.task_priority() as u64 >> 4
    }

    pub(crate) fn write_cr8(&mut self, bus: &mut Bus<'_>, value: u64) -> Result<(), Stop> {
        if value & !15 != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        if self.write_virtual_cr8(bus, value) {
            return Ok(());
        }
        self.apic.set_task_priority((value as u8) << 4);
        self.pending.attention |= Attention::INTERRUPT;
        Ok(())
    }

    /// IA32_TSC_DEADLINE: the APIC's timer fires when the counter reaches `value`.
    pub(crate) fn write_tsc_deadline(&mut self, value: u64) {
        let ticks = value.wrapping_sub(self.tsc_offset);
        let at = if value == 0 {
            None
        } else if value <= self.tsc() {
            Some(self.clock)
        } else {
            Some(Picoseconds::at_tick(ticks, self.model.tsc_hertz()))
        };
        self.apic.set_tsc_deadline(value, at);
        self.pending.attention |= Attention::TIMER;
    }

    /// The moment at which the local APIC's timer fires.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        [self.apic.next_deadline(), self.guest_deadline()].into_iter().flatten().min()
    }

    /// Lets the timer fire if its time has come.
    pub(crate) fn advance_apic(&mut self, bus: &mut Bus<'_>) {
        if self.apic.next_deadline().is_some_and(|at| at <= self.clock) {
            let mut effects = Vec::new();
            self.apic.advance(self.clock, &mut effects);
            self.emit(bus, effects);
        }
    }
}
