//! What VMX answers, and where.

use super::state::{PauseLoop, Vmx};
use super::{apic, boundary, entry, exit, intercept, msr, nested, pause};
use crate::guest::rounds::{Apart, Stamps};
use crate::guest::row::Row;
use crate::guest::vendor::Vendor;
use crate::guest::{Arrival, Sensitive};
use crate::memory::{Access, Located};
use crate::operation::Op;
use crate::{Attention, Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::control::Cr4;
use arch::time::Picoseconds;
use arch::vmx::apicv::NotificationControl;

impl Vendor for Vmx {
    type Pauses = PauseLoop;

    const ORDER: &'static [Row] = &boundary::ORDER;

    // [SDM3 "Relative Priority of Faults and VM Exits"]: privilege alone comes before.
    const REFUSES_FIRST: bool = false;

    #[inline]
    fn before(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, what: Sensitive) -> Result<(), Stop> {
        intercept::before(cpu, bus, op, what)
    }

    fn arrives(cpu: &mut Cpu, event: Arrival) -> Result<(), Stop> {
        intercept::arrives(cpu, event)
    }

    fn leave(cpu: &mut Cpu, bus: &mut Bus<'_>) {
        exit::leave(cpu, bus);
    }

    fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<bool, Stop> {
        boundary::finish_instruction(cpu, bus).map(|()| false)
    }

    fn accepts_interrupts(cpu: &Cpu, own: bool) -> bool {
        boundary::accepts_interrupts(cpu, own)
    }

    fn acknowledges(cpu: &Cpu) -> bool {
        boundary::acknowledges(cpu)
    }

    /// It announces posted requests, or the guest leaves.
    fn acknowledged(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
        if apic::posted(cpu, bus, vector) {
            return Ok(());
        }
        Err(intercept::exit_of_interrupt(cpu, vector))
    }

    /// What a notification has posted at this boundary; STI and kin raise the flag again.
    fn take_virtual(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
        cpu.pending.clear(Attention::VIRTUAL);
        apic::virtual_interrupt(cpu, bus)
    }

    fn exit_after_delivery(cpu: &mut Cpu) -> Result<(), Stop> {
        boundary::exit_after_delivery(cpu)
    }

    fn note_delivery(cpu: &mut Cpu) {
        boundary::note_delivery(cpu);
    }

    /// What is deliverable is a reason to leave HLT like the windows: see `wakes`.
    fn has_virtual_event(cpu: &mut Cpu, _: &mut Bus<'_>) -> bool {
        cpu.pending.clear(Attention::VIRTUAL);
        false
    }

    fn wakes(cpu: &Cpu) -> bool {
        boundary::wakes(cpu)
    }

    fn note_wake(cpu: &mut Cpu) {
        boundary::note_wake(cpu);
    }

    fn startup(cpu: &mut Cpu, vector: u8) {
        boundary::startup(cpu, vector);
    }

    fn deadline(cpu: &Cpu) -> Option<Picoseconds> {
        boundary::deadline(cpu)
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

    fn table_to_system(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<SystemPhysical, Stop> {
        nested::table_to_system(cpu, bus, address)
    }

    fn check_table_update(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<(), Stop> {
        nested::check_table_update(cpu, bus, address)
    }

    fn nested_grants(cpu: &Cpu) -> (bool, bool) {
        nested::nested_grants(cpu)
    }

    fn check_apic_page(
        cpu: &mut Cpu,
        _: &mut Bus<'_>,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop> {
        apic::check_apic_page(cpu, offset, size, access)
    }

    fn read_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
        apic::read_apic_page(cpu, bus, offset, size)
    }

    fn write_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
        apic::write_apic_page(cpu, bus, offset, size, value);
    }

    fn notify(cpu: &mut Cpu, bus: &mut Bus<'_>, receiver: NotificationControl) -> bool {
        apic::notify(cpu, bus, receiver)
    }

    fn tsc(cpu: &Cpu) -> u64 {
        msr::guest_tsc(cpu)
    }

    fn read_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Option<u64> {
        apic::read_cr8(cpu, bus)
    }

    fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> bool {
        apic::write_cr8(cpu, bus, value)
    }

    fn shown_cr0(cpu: &Cpu, actual: u64) -> u64 {
        cpu.guest.running.vmx().map_or(actual, |guest| guest.cr0.shown(actual))
    }

    fn shown_cr4(cpu: &Cpu, actual: u64) -> u64 {
        cpu.guest.running.vmx().map_or(actual, |guest| guest.cr4.shown(actual))
    }

    fn resulting_cr0(cpu: &Cpu, value: u64) -> u64 {
        let actual = cpu.control.cr0().bits();
        cpu.guest.running.vmx().map_or(value, |guest| guest.cr0.written(actual, value))
    }

    fn resulting_cr4(cpu: &Cpu, value: u64) -> u64 {
        let actual = cpu.control.cr4().bits();
        cpu.guest.running.vmx().map_or(value, |guest| guest.cr4.written(actual, value))
    }

    fn pauses(cpu: &Cpu) -> Option<PauseLoop> {
        Some(cpu.guest.running.vmx()?.pause)
    }

    fn set_pauses(cpu: &mut Cpu, pauses: PauseLoop) {
        if let Some(guest) = cpu.guest.running.vmx_mut() {
            guest.pause = pauses;
        }
    }

    fn passes_pause(cpu: &mut Cpu) -> bool {
        intercept::passes_pause(cpu)
    }

    fn pass_rounds(cpu: &mut Cpu, apart: Apart, stamps: Stamps<'_>, most: u64) -> Option<u64> {
        pause::pass_rounds(cpu, apart, stamps, most)
    }

    /// In VMX operation.
    fn holds_init(cpu: &Cpu) -> bool {
        cpu.guest.vmx.vmxon.is_some()
    }

    /// In its root. [SDM3 "Restrictions on VMX Operation"]
    fn blocks_init(cpu: &Cpu) -> bool {
        cpu.guest.vmx.vmxon.is_some() && !cpu.guest.running.is_guest()
    }

    fn permits_cr0(cpu: &Cpu, value: u64) -> bool {
        entry::permits_cr0(cpu, value)
    }

    fn permits_cr4(cpu: &Cpu, value: Cr4) -> bool {
        cpu.guest.vmx.vmxon.is_none() || value.contains(Cr4::VMXE)
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
