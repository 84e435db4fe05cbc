//! Control blocks in the machine's memory, as the silicon of either vendor keeps them.

use arch::address::SystemPhysical;
use arch::svm::vmcb::{SIZE, Vmcb, control};
use arch::vmx::field;
use board::Machine;
use cpu::vmx::{VMCS_SIZE, Vmcs};

/// Whether vCPUs are those of VMX.
fn is_vmx(machine: &Machine) -> bool {
    machine.state.cpus.first().is_some_and(|cpu| cpu.guest.vmx.capabilities.is_some())
}

/// The VMCB at an address, on a machine of SVM.
pub(crate) fn vmcb(machine: &Machine, block: SystemPhysical) -> Option<Vmcb<&[u8]>> {
    (!is_vmx(machine)).then_some(())?;
    Vmcb::new(machine.memory.slice(block, SIZE).ok()?)
}

/// The VMCS at an address, on a machine of VMX.
pub(crate) fn vmcs(machine: &Machine, block: SystemPhysical) -> Option<Vmcs<&[u8]>> {
    is_vmx(machine).then_some(())?;
    Vmcs::new(machine.memory.slice(block, VMCS_SIZE).ok()?)
}

/// The page of registers of a vCPU's virtual APIC, if it has one.
pub(crate) fn apic_page(machine: &Machine, block: SystemPhysical) -> Option<SystemPhysical> {
    let address = match vmcb(machine, block) {
        Some(vmcb) => vmcb.get(control::AVIC_BACKING_PAGE),
        None => vmcs(machine, block)?.get(field::control::VIRTUAL_APIC_ADDRESS),
    };
    page_at(address)
}

/// A vCPU's posted-interrupt descriptor, if it has one.
pub(crate) fn descriptor(machine: &Machine, block: SystemPhysical) -> Option<SystemPhysical> {
    let address = vmcs(machine, block)?.get(field::control::POSTED_INTERRUPT_DESCRIPTOR);
    (address != 0).then_some(SystemPhysical(address))
}

/// The address of a page, if it can be one.
pub(crate) fn page_at(address: u64) -> Option<SystemPhysical> {
    let page = address & arch::svm::avic::PAGE_BITS;
    (page != 0).then_some(SystemPhysical(page))
}
