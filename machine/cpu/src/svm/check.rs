//! Which guest states VMRUN refuses. [APM2 "Canonicalization and Consistency Checks"]

use super::avic::{Avic, AvicCapabilities};
use arch::control::{Cr0, Cr4, Efer};
use arch::exception;
use arch::memory_type::is_legal_pat;
pub use arch::svm::consistency::Illegal;
use arch::svm::event::{EventType, Injection};
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::msr::{IO_PERMISSION_MAP_SIZE, PERMISSION_MAP_SIZE};
use arch::svm::vmcb::{TlbControl, Vmcb, control, save};

const PAGE_SIZE: u64 = 0x1000;

/// What a processor model supports, as far as the checks are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Supported {
    pub cr4: Cr4,
    pub efer: Efer,
    pub physical_bits: u8,
    pub nested_paging: bool,
    pub flush_by_asid: bool,
    /// A reserved encoding of TLB_CONTROL is taken for 0, not refused.
    pub ignores_reserved_tlb_control: bool,
    pub virtual_nmi: bool,
    /// CR0.PG of the host: nested paging needs it.
    pub host_pages: bool,
    pub avic: AvicCapabilities,
}

/// Checks in the order of the manual's list; the exit does not say which failed.
pub fn check<B: AsRef<[u8]>>(vmcb: &Vmcb<B>, supported: &Supported) -> Result<(), Illegal> {
    check_registers(vmcb, supported)?;
    check_controls(vmcb, supported)?;
    check_event(vmcb)?;
    Avic::load(vmcb, &supported.avic).map(|_| ()).map_err(|_| Illegal::Avic)
}

fn require(is_legal: bool, otherwise: Illegal) -> Result<(), Illegal> {
    if is_legal { Ok(()) } else { Err(otherwise) }
}

fn check_registers<B: AsRef<[u8]>>(vmcb: &Vmcb<B>, supported: &Supported) -> Result<(), Illegal> {
    let efer = Efer::from_bits_retain(vmcb.get(save::EFER));
    let cr0 = Cr0::from_bits_retain(vmcb.get(save::CR0));
    let cr4 = Cr4::from_bits_retain(vmcb.get(save::CR4));
    require(efer.contains(Efer::SVM), Illegal::SvmDisabled)?;
    let is_write_back_off = cr0.contains(Cr0::NOT_WRITETHROUGH);
    require(cr0.contains(Cr0::CACHE_DISABLE) || !is_write_back_off, Illegal::CacheModes)?;
    require(cr0.bits() >> 32 == 0, Illegal::ReservedCr0)?;
    let is_long = efer.contains(Efer::LONG_MODE_ENABLE) && cr0.contains(Cr0::PAGING);
    let cr3 = vmcb.get(save::CR3);
    require(cr3 >> supported.physical_bits == 0, Illegal::ReservedCr3)?;
    require(supported.cr4.contains(cr4), Illegal::ReservedCr4)?;
    require(supported.efer.contains(efer), Illegal::ReservedEfer)?;
    let debug = vmcb.get(save::DR6) | vmcb.get(save::DR7);
    require(debug >> 32 == 0, Illegal::ReservedDebug)?;
    if is_long {
        require(cr4.contains(Cr4::PAE), Illegal::LongModeWithoutPae)?;
        require(cr0.contains(Cr0::PROTECTION_ENABLE), Illegal::LongModeWithoutProtection)?;
        let code = vmcb.get(save::CS).attributes;
        require(!(code.is_long() && code.is_default_big()), Illegal::LongAndDefaultBig)?;
    }
    let has_shadow_stacks = cr4.contains(Cr4::CET);
    let is_write_protecting = cr0.contains(Cr0::WRITE_PROTECT);
    require(!has_shadow_stacks || is_write_protecting, Illegal::ShadowStackWithoutWriteProtect)
}

fn check_controls<B: AsRef<[u8]>>(vmcb: &Vmcb<B>, supported: &Supported) -> Result<(), Illegal> {
    let intercepts = vmcb.get(control::INTERCEPTS);
    require(intercepts.vector4.contains(Vector4::VMRUN), Illegal::VmrunNotIntercepted)?;
    // A map must end below the highest address; of the last page of that of ports one byte is used.
    let is_within = |base: u64, last_byte: u64| {
        let last = (base & !0xFFF).checked_add(last_byte);
        last.is_some_and(|last| last < (1 << supported.physical_bits) - 1)
    };
    let last_of_ports = IO_PERMISSION_MAP_SIZE - PAGE_SIZE;
    let port_map = is_within(vmcb.get(control::IOPM_BASE_PA), last_of_ports);
    let msr_map = is_within(vmcb.get(control::MSRPM_BASE_PA), PERMISSION_MAP_SIZE - 1);
    require(port_map && msr_map, Illegal::PermissionMap)?;
    check_tlb_control(vmcb, supported)?;
    require(vmcb.get(control::GUEST_ASID) != 0, Illegal::Asid)?;
    let interrupts = vmcb.get(control::INTERRUPT_CONTROL);
    let virtual_nmi = supported.virtual_nmi && interrupts.virtual_nmi_enabled();
    let exits_on_nmi = intercepts.vector3.contains(Vector3::NMI);
    require(!virtual_nmi || exits_on_nmi, Illegal::VirtualNmiWithoutIntercept)?;
    check_nested_paging(vmcb, supported)
}

/// [APM2 "TLB Flush"; what VMRUN does with the others is not said]
fn check_tlb_control<B: AsRef<[u8]>>(vmcb: &Vmcb<B>, supported: &Supported) -> Result<(), Illegal> {
    let is_defined = match TlbControl::from_bits(vmcb.get(control::TLB_CONTROL)) {
        TlbControl::Nothing | TlbControl::FlushAll => true,
        TlbControl::FlushAsid | TlbControl::FlushAsidNonGlobal => supported.flush_by_asid,
        TlbControl::Reserved(_) => false,
    };
    require(is_defined || supported.ignores_reserved_tlb_control, Illegal::TlbControl)
}

/// [APM2 "Enabling Nested Paging", "Nested Paging and VMRUN/#VMEXIT"]
fn check_nested_paging<B: AsRef<[u8]>>(
    vmcb: &Vmcb<B>,
    supported: &Supported,
) -> Result<(), Illegal> {
    if !supported.nested_paging || !vmcb.get(control::NESTED_CONTROL).nested_paging() {
        return Ok(());
    }
    require(supported.host_pages, Illegal::NestedPagingInUnpagedHost)?;
    let is_addressable = vmcb.get(control::N_CR3) >> supported.physical_bits == 0;
    require(is_addressable, Illegal::ReservedNestedCr3)?;
    require(is_legal_pat(vmcb.get(save::G_PAT)), Illegal::GuestPat)
}

/// [APM2 "Event Injection"]
fn check_event<B: AsRef<[u8]>>(vmcb: &Vmcb<B>) -> Result<(), Illegal> {
    let event: Injection = vmcb.get(control::EVENTINJ);
    if !event.is_valid() {
        return Ok(());
    }
    let vector = event.vector();
    let is_legal = match event.event_type() {
        EventType::Interrupt | EventType::Nmi | EventType::SoftwareInterrupt => true,
        EventType::Exception => {
            let is_long = vmcb.get(save::EFER) & Efer::LONG_MODE_ACTIVE.bits() != 0
                && vmcb.get(save::CS).attributes.is_long();
            // BOUND and INTO do not exist in 64-bit mode.
            let exists = !matches!(vector, exception::OVERFLOW | exception::BOUND_RANGE if is_long);
            vector < 32 && vector != exception::NMI && exists
        }
        EventType::Reserved(_) => false,
    };
    require(is_legal, Illegal::Event)
}

#[cfg(test)]
mod tests;
