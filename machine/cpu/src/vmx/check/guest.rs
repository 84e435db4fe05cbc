//! The guest-state area. [SDM3 "Checking and Loading Guest State"]

use super::host::is_fixed;
use super::segment::check_segments;
use super::{Broken, Controls, Processor, require};
use crate::vmx::vmcs::{SHADOW, Vmcs};
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::exception;
use arch::memory_type::is_legal_pat;
use arch::vmx::InterruptionType;
use arch::vmx::capability::{CR0_FIXED0, CR0_FIXED1, CR4_FIXED0};
use arch::vmx::control::{EntryControls, PinControls, SecondaryControls};
use arch::vmx::event::{Activity, Interruptibility, PendingDebug};
use arch::vmx::field::{SEGMENTS, guest};
use arch::vmx::qualification::GuestStateFailure;
use arch::vmx::segment::AccessRights;

/// Why an entry fails with exit reason 33, and the qualification it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRefusal {
    pub failure: GuestStateFailure,
    pub rule: Broken,
}

impl From<Broken> for GuestRefusal {
    fn from(rule: Broken) -> Self {
        Self { failure: GuestStateFailure::Other, rule }
    }
}

fn require_or(holds: bool, failure: GuestStateFailure, rule: Broken) -> Result<(), GuestRefusal> {
    if holds { Ok(()) } else { Err(GuestRefusal { failure, rule }) }
}

pub fn check_guest<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), GuestRefusal> {
    check_registers(vmcs, controls, processor)?;
    check_msrs(vmcs, controls, processor)?;
    check_segments(vmcs, controls, processor)?;
    check_flow(vmcs, controls)?;
    check_activity(vmcs, controls, processor)?;
    check_interruptibility(vmcs, controls)?;
    check_pending_debug(vmcs)?;
    check_link_pointer(vmcs, controls, processor)?;
    check_pdptes(vmcs, controls, processor)
}

fn check_registers<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let cr0 = vmcs.get(guest::CR0);
    let cr4 = vmcs.get(guest::CR4);
    let free = (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits();
    let fixed0 = if controls.is_unrestricted() { CR0_FIXED0 & !free } else { CR0_FIXED0 };
    require(is_fixed(cr0, fixed0, CR0_FIXED1), Broken::GuestCr0FixedBits)?;
    let cr4_fixed1 = processor.cr4_permitted | CR4_FIXED0;
    require(is_fixed(cr4, CR4_FIXED0, cr4_fixed1), Broken::GuestCr4FixedBits)?;
    let (cr0, cr4) = (Cr0::from_bits_retain(cr0), Cr4::from_bits_retain(cr4));
    let has_paging = cr0.contains(Cr0::PAGING);
    let is_legal = !has_paging || cr0.contains(Cr0::PROTECTION_ENABLE);
    require(is_legal, Broken::GuestPagingNeedsProtection)?;
    if controls.is_long_mode_guest() {
        require(has_paging && cr4.contains(Cr4::PAE), Broken::Ia32eGuestPagingPae)?;
    } else {
        require(!cr4.contains(Cr4::PCIDE), Broken::PcidsNeedIa32eGuest)?;
    }
    require(processor.is_physical(vmcs.get(guest::CR3)), Broken::GuestCr3Physical)?;
    for (field, rule) in [
        (guest::SYSENTER_ESP, Broken::GuestSysenterEspCanonical),
        (guest::SYSENTER_EIP, Broken::GuestSysenterEipCanonical),
    ] {
        require(processor.is_canonical(vmcs.get(field)), rule)?;
    }
    Ok(())
}

/// Bits of DEBUGCTL that no processor here has.
const DEBUGCTL_RESERVED: u64 = !0xDFC3;

fn check_msrs<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let entry = controls.entry;
    if entry.contains(EntryControls::LOAD_UINV) {
        require(vmcs.get(guest::UINV) <= 0xFF, Broken::GuestUinvEightBits)?;
    }
    if entry.contains(EntryControls::LOAD_DEBUG_CONTROLS) {
        let control = vmcs.get(guest::DEBUGCTL);
        require(control & DEBUGCTL_RESERVED == 0, Broken::GuestDebugctlNoReservedBit)?;
        require(vmcs.get(guest::DR7) >> 32 == 0, Broken::GuestDr7Is32Bits)?;
    }
    if entry.contains(EntryControls::LOAD_PAT) {
        require(is_legal_pat(vmcs.get(guest::PAT)), Broken::GuestPatLegalMemoryTypes)?;
    }
    if entry.contains(EntryControls::LOAD_EFER) {
        let efer = Efer::from_bits_retain(vmcs.get(guest::EFER));
        let is_active = efer.contains(Efer::LONG_MODE_ACTIVE);
        let is_enabled = efer.contains(Efer::LONG_MODE_ENABLE);
        let has_paging = vmcs.get(guest::CR0) & Cr0::PAGING.bits() != 0;
        let is_known = efer.bits() & !processor.efer_permitted == 0;
        require(is_known, Broken::GuestEferNoReservedBit)?;
        let agrees = is_active == controls.is_long_mode_guest();
        require(agrees, Broken::GuestEferLmaIa32eControl)?;
        require(!has_paging || is_active == is_enabled, Broken::GuestEferLmaUnderPaging)?;
    }
    Ok(())
}

/// Bits of RFLAGS that are zero.
const RFLAGS_RESERVED: u64 = !0x3F_FFFF | 1 << 15 | 1 << 5 | 1 << 3;

/// [SDM3 "Checks on Guest RIP, RFLAGS, and SSP"]
fn check_flow<B: AsRef<[u8]>>(vmcs: &Vmcs<B>, controls: &Controls) -> Result<(), Broken> {
    let rip = vmcs.get(guest::RIP);
    let code = AccessRights::from_bits(vmcs.get(guest::CS_ACCESS_RIGHTS) as u32);
    if controls.is_long_mode_guest() && code.is_long() {
        // Identical, though not necessarily those of bit 47.
        require(matches!(rip >> 48, 0 | 0xFFFF), Broken::UpperBitsGuestRipIdentical)?;
    } else {
        require(rip >> 32 == 0, Broken::GuestRip32BitsOutside64BitMode)?;
    }
    let flags = vmcs.get(guest::RFLAGS);
    require(flags & RFLAGS_RESERVED == 0, Broken::GuestRflagsNoReservedBit)?;
    require(flags & rflags::FIXED != 0, Broken::GuestRflagsFixedBit)?;
    let is_protected = vmcs.get(guest::CR0) & Cr0::PROTECTION_ENABLE.bits() != 0;
    let can_be_8086 = is_protected && !controls.is_long_mode_guest();
    require(can_be_8086 || flags & rflags::VM == 0, Broken::Virtual8086ModeProtectedMode)?;
    let injects =
        controls.injection.is_valid() && controls.injection.kind() == InterruptionType::External;
    require(!injects || flags & rflags::IF != 0, Broken::InjectedInterruptNeedsIf)
}

fn interruptibility<B: AsRef<[u8]>>(vmcs: &Vmcs<B>) -> Interruptibility {
    Interruptibility::from_bits(vmcs.get(guest::INTERRUPTIBILITY) as u32)
}

fn activity<B: AsRef<[u8]>>(vmcs: &Vmcs<B>) -> Activity {
    Activity::from_bits(vmcs.get(guest::ACTIVITY) as u32)
}

/// [SDM3 "Checks on Guest Non-Register State"]
fn check_activity<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let activity = activity(vmcs);
    let misc = processor.capabilities.misc;
    let is_supported = match activity {
        Activity::Active => true,
        Activity::Hlt => misc.has_hlt_activity(),
        Activity::Shutdown => misc.has_shutdown_activity(),
        Activity::WaitForSipi => misc.has_wait_for_sipi_activity(),
        Activity::Unknown(_) => false,
    };
    require(is_supported, Broken::GuestActivityStateSupported)?;
    let stack = AccessRights::from_bits(vmcs.get(SEGMENTS[2].access_rights) as u32);
    let is_privileged = stack.privilege() == 0;
    require(activity != Activity::Hlt || is_privileged, Broken::HaltedGuestPrivilege0)?;
    let is_active = activity == Activity::Active;
    let has_shadow = interruptibility(vmcs).has_shadow();
    require(is_active || !has_shadow, Broken::GuestInterruptShadowActive)?;
    let event = controls.injection;
    let is_injectable = match (activity, event.kind()) {
        _ if !event.is_valid() => true,
        (Activity::Active, _) => true,
        (Activity::Hlt, InterruptionType::External | InterruptionType::Nmi) => true,
        (Activity::Hlt, InterruptionType::HardwareException) => {
            matches!(event.vector(), exception::DEBUG | exception::MACHINE_CHECK)
        }
        (Activity::Hlt, InterruptionType::Other) => event.vector() == 0,
        (Activity::Shutdown, InterruptionType::Nmi) => true,
        (Activity::Shutdown, InterruptionType::HardwareException) => {
            event.vector() == exception::MACHINE_CHECK
        }
        _ => false,
    };
    require(is_injectable, Broken::ActivityStateTakesInjectedEvent)
}

fn check_interruptibility<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
) -> Result<(), GuestRefusal> {
    let state = interruptibility(vmcs);
    require(state.reserved() == 0, Broken::InterruptibilityStateNoReservedBit)?;
    let is_both = state.blocked_by_sti() && state.blocked_by_mov_ss();
    require(!is_both, Broken::StiAndMovSsNotTogether)?;
    let has_interrupts = vmcs.get(guest::RFLAGS) & rflags::IF != 0;
    require(has_interrupts || !state.blocked_by_sti(), Broken::BlockingStiNeedsIf)?;
    require(!state.blocked_by_smi(), Broken::SmisBlockedInSmm)?;
    require(!state.is_enclave_interruption(), Broken::EnclaveInterruptionNeedsSgx)?;
    let event = controls.injection;
    match event.kind() {
        _ if !event.is_valid() => Ok(()),
        InterruptionType::External => {
            Ok(require(!state.has_shadow(), Broken::NoInterruptInjectedIntoShadow)?)
        }
        InterruptionType::Nmi => {
            require(!state.blocked_by_mov_ss(), Broken::NoNmiInjectedWhileMovSsBlocks)?;
            require_or(
                !state.blocked_by_sti(),
                GuestStateFailure::NmiUnderSti,
                Broken::NoNmiInjectedWhileStiBlocks,
            )?;
            let is_virtual = controls.pin.contains(PinControls::VIRTUAL_NMIS);
            let is_free = !is_virtual || !state.blocked_by_nmi();
            Ok(require(is_free, Broken::NoNmiInjectedWhileVirtualNmisBlocked)?)
        }
        _ => Ok(()),
    }
}

/// DEBUGCTL.BTF
const SINGLE_STEPS_BRANCHES: u64 = 1 << 1;

fn check_pending_debug<B: AsRef<[u8]>>(vmcs: &Vmcs<B>) -> Result<(), Broken> {
    let bits = vmcs.get(guest::PENDING_DEBUG);
    let pending = PendingDebug::from_bits(bits);
    require(bits & PendingDebug::RESERVED == 0, Broken::PendingDebugExceptionsNoReservedBit)?;
    require(!pending.in_transaction(), Broken::PendingDebugExceptionsOutsideTransactions)?;
    let waits = interruptibility(vmcs).has_shadow() || activity(vmcs) == Activity::Hlt;
    let steps = vmcs.get(guest::RFLAGS) & rflags::TF != 0
        && vmcs.get(guest::DEBUGCTL) & SINGLE_STEPS_BRANCHES == 0;
    require(!waits || pending.single_step() == steps, Broken::PendingSingleStepAgreesTf)
}

fn check_link_pointer<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), GuestRefusal> {
    let link = vmcs.get(guest::VMCS_LINK_POINTER);
    if link == u64::MAX {
        return Ok(());
    }
    let failure = GuestStateFailure::LinkPointer;
    require_or(processor.is_page(link), failure, Broken::VmcsLinkPointerPage)?;
    let header = (processor.read_u32)(link);
    let revision = processor.capabilities.basic.revision();
    require_or(header & !SHADOW == revision, failure, Broken::LinkedVmcsRevision)?;
    let shadows = controls.secondary.contains(SecondaryControls::VMCS_SHADOWING);
    let is_shadow = header & SHADOW != 0;
    require_or(is_shadow == shadows, failure, Broken::LinkedVmcsShadowUnderShadowing)?;
    require_or(link != processor.vmcs, failure, Broken::VmcsDoesNotLinkItself)
}

/// [SDM3 "Checks on Guest Page-Directory-Pointer-Table Entries"]
fn check_pdptes<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), GuestRefusal> {
    let has_paging = vmcs.get(guest::CR0) & Cr0::PAGING.bits() != 0;
    let has_pae = vmcs.get(guest::CR4) & Cr4::PAE.bits() != 0;
    if !has_paging || !has_pae || controls.is_long_mode_guest() {
        return Ok(());
    }
    let has_ept = controls.secondary.contains(SecondaryControls::EPT);
    let table = vmcs.get(guest::CR3) & 0xFFFF_FFE0;
    let fields = [guest::PDPTE_0, guest::PDPTE_1, guest::PDPTE_2, guest::PDPTE_3];
    for (at, field) in (0..).zip(fields) {
        let entry = if has_ept { vmcs.get(field) } else { (processor.read_u64)(table + 8 * at) };
        // Bits 2:1 and 8:5, and those above the width.
        let is_legal = entry & 1 == 0 || entry & 0x1E6 == 0 && processor.is_physical(entry);
        require_or(is_legal, GuestStateFailure::Pdptes, Broken::GuestPdptesNoReservedBit)?;
    }
    Ok(())
}
