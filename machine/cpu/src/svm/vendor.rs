//! What SVM answers, and where.

use super::state::{PauseFilter, Svm};
use super::{apic_page, boundary, exit, intercept, msr, nested, pause};
use crate::guest::boundary::order;
use crate::guest::rounds::{Apart, Stamps};
use crate::guest::row::Row;
use crate::guest::vendor::Vendor;
use crate::guest::{Arrival, Sensitive, Written};
use crate::memory::{Access, Located};
use crate::operation::Op;
use crate::system::event;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::control::Efer;

impl Vendor for Svm {
    type Pauses = PauseFilter;

    const ORDER: &'static [Row] = &order::<10>(&[]);

    // [APM2 "Instruction Intercepts"]: all exceptions of an instruction but those of memory.
    const REFUSES_FIRST: bool = true;

    #[inline]
    fn before(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, what: Sensitive) -> Result<(), Stop> {
        intercept::before(cpu, bus, op, what)
    }

    fn before_privilege(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        op: &Op,
        what: Sensitive,
    ) -> Result<(), Stop> {
        match what {
            // The intercept comes before #GP. [APM2 "Instruction Intercepts"]
            Sensitive::Xsetbv => intercept::before(cpu, bus, op, what),
            _ => Ok(()),
        }
    }

    fn arrives(cpu: &mut Cpu, event: Arrival) -> Result<(), Stop> {
        intercept::arrives(cpu, event)
    }

    fn after_write(cpu: &mut Cpu, what: Written) {
        intercept::after_write(cpu, what);
    }

    fn leave(cpu: &mut Cpu, bus: &mut Bus<'_>) {
        exit::leave(cpu, bus);
    }

    fn report_next_ip(cpu: &mut Cpu, next: u64) {
        boundary::report_next_ip(cpu, next);
    }

    fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<bool, Stop> {
        boundary::finish_instruction(cpu, bus)
    }

    fn accepts_interrupts(cpu: &Cpu, own: bool) -> bool {
        boundary::accepts_interrupts(cpu, own)
    }

    fn acknowledged(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
        event::take_interrupt(cpu, bus, vector)
    }

    fn take_virtual(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
        boundary::take_virtual_events(cpu, bus)
    }

    fn has_virtual_event(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool {
        boundary::has_virtual_event(cpu, bus)
    }

    fn unblock_nmis(cpu: &mut Cpu) {
        boundary::unblock_nmis(cpu);
    }

    fn operand_to_system(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
    ) -> Result<Located, Stop> {
        nested::operand_to_system(cpu, bus, address, access)
    }

    /// Reads of the guest's tables count as writes already.
    fn table_to_system(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<SystemPhysical, Stop> {
        nested::table_to_system(cpu, bus, address)
    }

    fn nested_grants(cpu: &Cpu) -> (bool, bool) {
        nested::nested_grants(cpu)
    }

    fn check_apic_page(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop> {
        apic_page::check_apic_page(cpu, bus, offset, size, access)
    }

    fn read_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
        apic_page::read_apic_page(cpu, bus, offset, size)
    }

    fn write_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
        apic_page::write_apic_page(cpu, bus, offset, size, value);
    }

    fn tsc(cpu: &Cpu) -> u64 {
        msr::guest_tsc(cpu)
    }

    fn read_cr8(cpu: &mut Cpu, _: &mut Bus<'_>) -> Option<u64> {
        apic_page::read_cr8(cpu)
    }

    fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> bool {
        apic_page::write_cr8(cpu, bus, value)
    }

    fn pauses(cpu: &Cpu) -> Option<PauseFilter> {
        cpu.guest.running.svm()?.pause
    }

    fn set_pauses(cpu: &mut Cpu, pauses: PauseFilter) {
        if let Some(guest) = cpu.guest.running.svm_mut() {
            guest.pause = Some(pauses);
        }
    }

    fn passes_pause(cpu: &mut Cpu) -> bool {
        pause::passes(cpu)
    }

    fn pass_rounds(cpu: &mut Cpu, apart: Apart, stamps: Stamps<'_>, most: u64) -> Option<u64> {
        pause::pass_rounds(cpu, apart, stamps, most)
    }

    /// GIF. [APM2 "Global Interrupt Flag, STGI and CLGI Instructions"]
    #[inline(always)]
    fn admits_events(cpu: &Cpu) -> bool {
        cpu.guest.svm.global_interrupts
    }

    fn holds_init(cpu: &Cpu) -> bool {
        boundary::holds_init(cpu)
    }

    fn init_becomes(cpu: &Cpu) -> Option<(u8, u32)> {
        boundary::init_becomes(cpu)
    }

    fn permits_efer(cpu: &Cpu, value: Efer) -> bool {
        !value.contains(Efer::SVM) || msr::can_enable_svm(cpu)
    }

    fn read_msr(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>> {
        msr::read(cpu, bus, number)
    }

    fn write_msr(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        msr::write(cpu, bus, number, value)
    }
}
