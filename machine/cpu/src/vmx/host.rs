//! The host after a VM exit, and the lists of MSRs. [SDM3 "Loading Host State"]

use super::check::Controls;
use super::entry::CR0_KEPT;
use super::vmcs::Vmcs;
use crate::execute::stack;
use crate::state::{Attention, TableRegister};
use crate::system::branch_record;
use crate::system::descriptor;
use crate::system::msr;
use crate::vmx::entry;
use crate::vmx::exit;
use crate::width::RSP;
use crate::{Activity, Bus, Cpu};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::segment::{Attributes, Segment, SegmentRegister};
use arch::vmx::AbortCode;
use arch::vmx::control::ExitControls;
use arch::vmx::field::{Field, control, host};
use arch::vmx::msr::AreaEntry;
use arch::vmx::segment::{HOST_TABLE_LIMIT, HOST_TR_LIMIT};

type Image = Vmcs<Vec<u8>>;

/// Present, accessed, read/write data of 4 GiB in pages.
const FLAT_DATA: u16 = 0xC93;
/// Code of a 64-bit and of a 32-bit host.
const LONG_CODE: u16 = 0xA9B;
const FLAT_CODE: u16 = 0xC9B;
/// A busy TSS of 32 or 64 bits.
const BUSY_TASK: u16 = 0x8B;

/// MSRs that a VM entry does not load: 100h–101h of the second range, and x2APIC's.
/// [SDM3 "Loading MSRs"]
const fn is_unloadable(index: u32) -> bool {
    matches!(index, arch::msr::FS_BASE | arch::msr::GS_BASE | 0x800..=0x8FF)
}

pub(super) fn load_host_state(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    vmcs: &Image,
    controls: &Controls,
    is_nmi: bool,
) {
    load_host_registers(cpu, vmcs, controls);
    load_host_segments(cpu, vmcs, controls);
    cpu.pending.clear(
        Attention::SHADOW
            | Attention::STACK_SHADOW
            | Attention::GUEST_BOUNDARY
            | Attention::DEBUG_TRAP
            | Attention::WINDOW
            | Attention::VIRTUAL_INTERRUPT
            | Attention::ONE_INSTRUCTION,
    );
    cpu.pending.raise(Attention::INTERRUPT | Attention::TIMER);
    cpu.debug.set_pending(0);
    cpu.pending.disarm();
    cpu.pending.set_blocks_nmis(cpu.pending.blocks_nmis() || is_nmi);
    cpu.pending.set_activity(Activity::Running);
    entry::refresh(cpu);
    let at = cpu.guest.vmx.vmcs.unwrap_or(SystemPhysical(0));
    if cpu.control.has_pae_paging() && cpu.load_pdptes(bus, cpu.control.cr3).is_err() {
        return exit::abort(cpu, bus, at, AbortCode::HostPdptes, 0);
    }
    let (address, count) = (control::EXIT_MSR_LOAD_ADDRESS, control::EXIT_MSR_LOAD_COUNT);
    if let Err(entry) = load_msrs(cpu, bus, vmcs, address, count) {
        exit::abort(cpu, bus, at, AbortCode::LoadingMsrs, entry);
    }
}

fn load_host_registers(cpu: &mut Cpu, vmcs: &Image, controls: &Controls) {
    let get = |field| vmcs.get(field);
    let exits = controls.exit;
    let is_64_bit = exits.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
    let kept = cpu.control.cr0().bits() & CR0_KEPT;
    cpu.control.set_cr0(Cr0::from_bits_retain(get(host::CR0) & !CR0_KEPT | kept));
    cpu.control.set_cr4(Cr4::from_bits_retain(get(host::CR4)));
    cpu.control.cr3 = get(host::CR3);
    if exits.contains(ExitControls::LOAD_EFER) {
        cpu.control.set_efer(Efer::from_bits_retain(get(host::EFER)));
    }
    cpu.control.switch_efer(Efer::LONG_MODE_ENABLE, is_64_bit);
    if exits.contains(ExitControls::LOAD_PAT) {
        cpu.control.msr.pat = get(host::PAT);
    }
    if exits.contains(ExitControls::CLEAR_UINV) {
        cpu.control.uintr.set_notification_vector(0);
    }
    cpu.debug.reset_dr7();
    branch_record::write_debug_control(cpu, 0);
    let calls = &mut cpu.control.syscall;
    calls.sysenter_cs = get(host::SYSENTER_CS);
    calls.sysenter_esp = get(host::SYSENTER_ESP);
    calls.sysenter_eip = get(host::SYSENTER_EIP);
    stack::write_flags(cpu, rflags::FIXED, u64::MAX);
    cpu.registers.gpr[RSP] = get(host::RSP);
    cpu.registers.ip = get(host::RIP);
}

/// [SDM3 "Loading Host Segment and Descriptor-Table Registers"]
fn load_host_segments(cpu: &mut Cpu, vmcs: &Image, controls: &Controls) {
    let get = |field| vmcs.get(field);
    let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
    let data = |selector: Field, base: u64| {
        let selector = vmcs.get(selector) as u16;
        let attributes = Attributes(if selector == 0 { 0 } else { FLAT_DATA });
        Segment { selector, attributes, limit: 0xFFFF_FFFF, base }
    };
    for (register, selector, base) in [
        (SegmentRegister::Es, host::ES_SELECTOR, 0),
        (SegmentRegister::Ss, host::SS_SELECTOR, 0),
        (SegmentRegister::Ds, host::DS_SELECTOR, 0),
        (SegmentRegister::Fs, host::FS_SELECTOR, get(host::FS_BASE)),
        (SegmentRegister::Gs, host::GS_SELECTOR, get(host::GS_BASE)),
    ] {
        cpu.registers.set_segment(register, data(selector, base));
    }
    let code = Segment {
        selector: get(host::CS_SELECTOR) as u16,
        attributes: Attributes(if is_64_bit { LONG_CODE } else { FLAT_CODE }),
        limit: 0xFFFF_FFFF,
        base: 0,
    };
    cpu.registers.set_segment(SegmentRegister::Cs, code);
    descriptor::set_cpl(cpu, 0);
    cpu.control.tr = Segment {
        selector: get(host::TR_SELECTOR) as u16,
        attributes: Attributes(BUSY_TASK),
        limit: HOST_TR_LIMIT,
        base: get(host::TR_BASE),
    };
    cpu.control.ldtr = Segment::default();
    let limit = HOST_TABLE_LIMIT as u16;
    cpu.control.gdtr = TableRegister { base: get(host::GDTR_BASE), limit };
    cpu.control.idtr = TableRegister { base: get(host::IDTR_BASE), limit };
}

/// `Err` is the number of the entry that failed, counted from 1.
pub(super) fn load_entry_msrs(cpu: &mut Cpu, bus: &mut Bus<'_>, vmcs: &Image) -> Result<(), u64> {
    let (address, count) = (control::ENTRY_MSR_LOAD_ADDRESS, control::ENTRY_MSR_LOAD_COUNT);
    load_msrs(cpu, bus, vmcs, address, count)
}

fn load_msrs(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    vmcs: &Image,
    address: Field,
    count: Field,
) -> Result<(), u64> {
    for at in 0..vmcs.get(count) {
        let entry = area_entry(bus, vmcs.get(address), at);
        let is_legal = at < most_msrs(cpu) && entry.reserved == 0 && !is_unloadable(entry.index);
        // As WRMSR of the host would be: no guest looks at the lists.
        let running = std::mem::take(&mut cpu.guest.running);
        let is_written = is_legal && msr::write_msr(cpu, bus, entry.index, entry.value).is_ok();
        cpu.guest.running = running;
        if !is_written {
            return Err(at + 1);
        }
    }
    Ok(())
}

/// An error is the number of the entry that cannot be stored, counted from 1.
pub(super) fn store_exit_msrs(cpu: &mut Cpu, bus: &mut Bus<'_>, vmcs: &Image) -> Result<(), u64> {
    let address = vmcs.get(control::EXIT_MSR_STORE_ADDRESS);
    for at in 0..vmcs.get(control::EXIT_MSR_STORE_COUNT) {
        let entry = area_entry(bus, address, at);
        if at >= most_msrs(cpu) || entry.reserved != 0 {
            return Err(at + 1);
        }
        let value = msr::read_msr(cpu, bus, entry.index).map_err(|_| at + 1)?;
        let place = SystemPhysical(address + at * AreaEntry::SIZE + 8);
        cpu.write_entry(bus, place, value, 8);
    }
    Ok(())
}

/// The recommended size of a list, in entries. Beyond it the behaviour is undefined: here the
/// first entry there is refused as an illegal one is, so that software learns of it.
/// [SDM3 "Miscellaneous Data"]
fn most_msrs(cpu: &Cpu) -> u64 {
    let size = cpu.guest.vmx.capabilities.map_or(0, |can| can.misc.msr_list_size());
    (u64::from(size) + 1) * 512
}

fn area_entry(bus: &Bus<'_>, address: u64, number: u64) -> AreaEntry {
    let place = SystemPhysical(address + number * AreaEntry::SIZE);
    let read = |at: SystemPhysical| bus.memory.read_u64(at).unwrap_or(0);
    AreaEntry::from_qwords(read(place), read(place.offset(8)))
}
