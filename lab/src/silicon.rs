//! Control blocks in the machine's memory, as the silicon of either vendor keeps them.

pub(crate) mod remapping;

use arch::address::SystemPhysical;
use arch::identity::ApicId;
use arch::svm::vmcb::{SIZE, Vmcb, control};
use arch::vmx::apicv::{NotificationControl, POSTED_CONTROL_OFFSET};
use arch::vmx::control::{PrimaryControls, TertiaryControls};
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

/// To which APIC what is posted into a vCPU's descriptor is announced, if that is by the vector at
/// which a processor looks into the descriptor of the vCPU that it runs, and not by one of the
/// hypervisor's. [SDM3 "Posted-Interrupt Processing"]
pub(crate) fn announced_as_running(machine: &Machine, block: SystemPhysical) -> Option<ApicId> {
    let vmcs = vmcs(machine, block)?;
    let descriptor = descriptor(machine, block)?;
    let control = machine.memory.read_u64(descriptor.offset(POSTED_CONTROL_OFFSET)).unwrap_or(0);
    let control = NotificationControl::from_bits(control);
    let own = vmcs.get(field::control::POSTED_INTERRUPT_VECTOR);
    let is_x2apic = machine.state.cpus.first()?.apic.is_x2apic();
    let is_announced = !control.is_suppressed() && u64::from(control.vector()) == own;
    is_announced.then(|| ApicId(control.apic_id(is_x2apic)))
}

/// Whether a guest's processors post to each other by themselves. [SDM3 "IPI Virtualization"]
pub(crate) fn virtualizes_ipis(machine: &Machine, block: SystemPhysical) -> bool {
    let Some(vmcs) = vmcs(machine, block) else { return false };
    let controls = TertiaryControls::from_bits_retain(vmcs.get(field::control::TERTIARY));
    let primary = PrimaryControls::from_bits_retain(vmcs.get(field::control::PRIMARY) as u32);
    primary.contains(PrimaryControls::TERTIARY_CONTROLS)
        && controls.contains(TertiaryControls::IPI_VIRTUALIZATION)
}

/// The address of a page, if it can be one.
pub(crate) fn page_at(address: u64) -> Option<SystemPhysical> {
    let page = address & arch::svm::avic::PAGE_BITS;
    (page != 0).then_some(SystemPhysical(page))
}
