//! VMFUNC, which a guest calls without leaving. [SDM3 "VM Functions"]

use super::check::{Controls, is_legal_ept_pointer};
use super::state::Exit;
use super::vmcs::Vmcs;
use crate::operation::Op;
use crate::vmx::entry;
use crate::vmx::intercept;
use crate::vmx::vmcs::write_vmcs;
use crate::width::{RAX, RCX};
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::vmx::ExitReason;
use arch::vmx::control::{SecondaryControls, VmFunctions};
use arch::vmx::ept::EptPointer;
use arch::vmx::field::control;

/// The number of EPTP switching, which is its bit as well.
const EPTP_SWITCHING: u32 = 0;
/// Pointers in the list.
const LIST_ENTRIES: u64 = 512;

/// The list of EPT pointers where the guest may switch between them.
pub(super) fn ept_pointers(vmcs: &Vmcs<Vec<u8>>, controls: &Controls) -> Option<SystemPhysical> {
    let has_functions = controls.secondary.contains(SecondaryControls::VM_FUNCTIONS);
    let functions = VmFunctions::from_bits_retain(vmcs.get(control::VM_FUNCTIONS));
    let switches = has_functions && functions.contains(VmFunctions::EPTP_SWITCHING);
    switches.then(|| SystemPhysical(vmcs.get(control::EPTP_LIST)))
}

/// \#UD outside a guest, and in one whose hypervisor does not enable VM functions; whatever the
/// privilege level. A function that is not enabled, and one that fails, is an exit.
/// [SDM3 "VMFUNC—Invoke VM function"]
pub(super) fn vmfunc(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.vmx() else { return Err(Stop::INVALID_OPCODE) };
    if !guest.controls.secondary.contains(SecondaryControls::VM_FUNCTIONS) {
        return Err(Stop::INVALID_OPCODE);
    }
    let list = guest.ept_pointers.filter(|_| cpu.registers.gpr[RAX] as u32 == EPTP_SWITCHING);
    let index = cpu.registers.gpr[RCX] & 0xFFFF_FFFF;
    if let Some(list) = list.filter(|_| index < LIST_ENTRIES) {
        let bits = bus.memory.read_u64(list.offset(8 * index)).unwrap_or(!0);
        if entry::with_vmx_checks(cpu, bus, |checks| is_legal_ept_pointer(bits, checks)) {
            switch_ept_pointer(cpu, bus, bits, index as u16);
            return Err(Stop::END_BLOCK);
        }
    }
    Err(intercept::exit_of_instruction(cpu, op, Exit::new(ExitReason::Vmfunc)))
}

/// [SDM3 "EPTP Switching"]
fn switch_ept_pointer(cpu: &mut Cpu, bus: &mut Bus<'_>, bits: u64, index: u16) {
    let Some(guest) = cpu.guest.running.vmx_mut() else { return };
    let Some(ept) = guest.ept.as_mut() else { return };
    ept.pointer = EptPointer::from_bits(bits);
    let (vmcs, vpid, ept) = (guest.vmcs, guest.vpid, *ept);
    let names_index = guest.exception_area.is_some();
    write_vmcs(bus, vmcs, |vmcs| {
        vmcs.set(control::EPT_POINTER, bits);
        if names_index {
            vmcs.set(control::EPTP_INDEX, index.into());
        }
    });
    entry::tag_translations(cpu, vpid, Some(ept));
}
