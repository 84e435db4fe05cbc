//! VM-execution, VM-exit and VM-entry control fields. [SDM3 "Checks on VMX Controls"]

use super::event::check_injection;
use super::{Broken, Controls, Processor, require};
use crate::vmx::vmcs::Vmcs;
use arch::vmx::capability::EptVpid;
use arch::vmx::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls as Secondary,
    TertiaryControls, VmFunctions,
};
use arch::vmx::ept::EptPointer;
use arch::vmx::field::{Field, control};
use arch::vmx::msr::AreaEntry;

/// Where VTPR lies in the virtual-APIC page.
const VIRTUAL_TPR: u64 = 0x80;

/// Errors of these are VMfailValid with number 7.
pub fn check_controls<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    check_vectors(vmcs, controls, processor)?;
    check_structures(vmcs, controls, processor)?;
    check_nmis(controls)?;
    check_apic(vmcs, controls, processor)?;
    check_paging(vmcs, controls, processor)?;
    check_functions(vmcs, controls, processor)?;
    check_exit(vmcs, controls, processor)?;
    check_entry(vmcs, controls, processor)
}

/// Every vector lies between its required and its allowed settings.
fn check_vectors<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let can = processor.capabilities;
    require(can.pin.accepts(controls.pin.bits()), Broken::PinBasedControlsSupported)?;
    require(can.primary.accepts(controls.primary.bits()), Broken::PrimaryControlsSupported)?;
    require(can.secondary.contains(controls.secondary), Broken::SecondaryControlsSupported)?;
    require(can.tertiary.contains(controls.tertiary), Broken::TertiaryControlsSupported)?;
    let count = vmcs.get(control::CR3_TARGET_COUNT);
    require(count <= can.misc.cr3_targets().into(), Broken::Cr3TargetCountSupported)
}

fn check_structures<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let is_page = |field: Field| processor.is_page(vmcs.get(field));
    if controls.primary.contains(PrimaryControls::IO_BITMAPS) {
        require(is_page(control::IO_BITMAP_A), Broken::IoBitmapAPage)?;
        require(is_page(control::IO_BITMAP_B), Broken::IoBitmapBPage)?;
    }
    if controls.primary.contains(PrimaryControls::MSR_BITMAPS) {
        require(is_page(control::MSR_BITMAPS), Broken::MsrBitmapsPage)?;
    }
    if controls.secondary.contains(Secondary::VMCS_SHADOWING) {
        require(is_page(control::VMREAD_BITMAP), Broken::VmreadBitmapPage)?;
        require(is_page(control::VMWRITE_BITMAP), Broken::VmwriteBitmapPage)?;
    }
    if controls.secondary.contains(Secondary::EPT_VIOLATION_EXCEPTION) {
        require(is_page(control::EXCEPTION_AREA), Broken::VeInformationAreaPage)?;
    }
    if controls.secondary.contains(Secondary::TSC_SCALING) {
        require(vmcs.get(control::TSC_MULTIPLIER) != 0, Broken::TscMultiplierNotZero)?;
    }
    Ok(())
}

fn check_nmis(controls: &Controls) -> Result<(), Broken> {
    let virtual_nmis = controls.pin.contains(PinControls::VIRTUAL_NMIS);
    let nmi_exiting = controls.pin.contains(PinControls::NMI_EXITING);
    let window = controls.primary.contains(PrimaryControls::NMI_WINDOW_EXITING);
    require(nmi_exiting || !virtual_nmis, Broken::VirtualNmisNeedNmiExiting)?;
    require(virtual_nmis || !window, Broken::NmiWindowExitingNeedsVirtualNmis)
}

/// [SDM3 "VM-Execution Control Fields"]: APIC virtualization.
fn check_apic<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let secondary = controls.secondary;
    let delivers = secondary.contains(Secondary::VIRTUAL_INTERRUPT_DELIVERY);
    let covers_page = secondary.contains(Secondary::VIRTUALIZE_APIC_ACCESSES);
    let ipis = controls.tertiary.contains(TertiaryControls::IPI_VIRTUALIZATION);
    if controls.primary.contains(PrimaryControls::TPR_SHADOW) {
        let page = vmcs.get(control::VIRTUAL_APIC_ADDRESS);
        require(processor.is_page(page), Broken::VirtualApicAddressPage)?;
        let threshold = vmcs.get(control::TPR_THRESHOLD);
        require(delivers || threshold >> 4 == 0, Broken::TprThresholdFourBits)?;
        if !delivers && !covers_page {
            let priority = u64::from((processor.read_u32)(page + VIRTUAL_TPR) >> 4 & 15);
            require(threshold & 15 <= priority, Broken::TprThresholdNotAboveVtpr)?;
        }
    } else {
        let needs = Secondary::VIRTUALIZE_X2APIC_MODE
            | Secondary::APIC_REGISTER_VIRTUALIZATION
            | Secondary::VIRTUAL_INTERRUPT_DELIVERY;
        require(!secondary.intersects(needs), Broken::ApicVirtualizationNeedsTprShadow)?;
        require(!ipis, Broken::IpiVirtualizationNeedsTprShadow)?;
    }
    if covers_page {
        let page = vmcs.get(control::APIC_ACCESS_ADDRESS);
        require(processor.is_page(page), Broken::ApicAccessAddressPage)?;
        let is_x2apic = secondary.contains(Secondary::VIRTUALIZE_X2APIC_MODE);
        require(!is_x2apic, Broken::X2apicModeWithoutApicAccesses)?;
    }
    let exits = controls.pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING);
    require(exits || !delivers, Broken::VirtualInterruptDeliveryNeedsExternalInterruptExiting)?;
    if controls.pin.contains(PinControls::POSTED_INTERRUPTS) {
        let acknowledges = controls.exit.contains(ExitControls::ACKNOWLEDGE_INTERRUPT);
        let vector = vmcs.get(control::POSTED_INTERRUPT_VECTOR);
        let descriptor = vmcs.get(control::POSTED_INTERRUPT_DESCRIPTOR);
        require(delivers, Broken::PostedInterruptsNeedVirtualInterruptDelivery)?;
        require(acknowledges, Broken::PostedInterruptsNeedAcknowledgementExit)?;
        require(vector >> 8 == 0, Broken::NotificationVectorEightBits)?;
        let is_legal = processor.is_aligned_physical(descriptor, 64);
        require(is_legal, Broken::PostedInterruptDescriptorAligned64Bytes)?;
    }
    if ipis {
        let table = vmcs.get(control::PID_POINTER_TABLE);
        let last = table.wrapping_add(8 * vmcs.get(control::LAST_PID_POINTER_INDEX));
        let is_legal = processor.is_aligned_physical(table, 8) && processor.is_physical(last);
        require(is_legal, Broken::PidPointerTablePhysicalMemoryAligned8Bytes)?;
    }
    Ok(())
}

/// Whether VM entry and INVEPT take the pointer. [SDM3 "Extended-Page-Table Pointer (EPTP)"]
pub fn is_legal_ept_pointer(bits: u64, processor: &Processor<'_>) -> bool {
    let pointer = EptPointer::from_bits(bits);
    let can = |bits| processor.capabilities.ept_vpid.contains(bits);
    let has_type = match pointer.memory_type() {
        EptPointer::UNCACHEABLE => can(EptVpid::UNCACHEABLE_TABLES),
        EptPointer::WRITE_BACK => can(EptVpid::WRITE_BACK_TABLES),
        _ => false,
    };
    let has_levels = match pointer.levels_less_one() {
        3 => can(EptVpid::FOUR_LEVELS),
        4 => can(EptVpid::FIVE_LEVELS),
        _ => false,
    };
    has_type
        && has_levels
        && (can(EptVpid::ACCESSED_AND_DIRTY) || !pointer.keeps_accessed_and_dirty())
        && (can(EptVpid::SHADOW_STACK) || !pointer.checks_shadow_stack())
        && pointer.reserved() == 0
        && processor.is_physical(bits)
}

fn check_paging<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let secondary = controls.secondary;
    if secondary.contains(Secondary::VPID) {
        require(vmcs.get(control::VPID) != 0, Broken::VpidNotZero)?;
    }
    if secondary.contains(Secondary::EPT) {
        let is_legal = is_legal_ept_pointer(vmcs.get(control::EPT_POINTER), processor);
        require(is_legal, Broken::EptPointerLegal)?;
    } else {
        let needs = Secondary::UNRESTRICTED_GUEST
            | Secondary::MODE_BASED_EXECUTE
            | Secondary::PAGE_MODIFICATION_LOGGING
            | Secondary::SUB_PAGE_WRITE_PERMISSIONS
            | Secondary::PT_GUEST_PHYSICAL;
        require(!secondary.intersects(needs), Broken::EptControlsNeedEpt)?;
    }
    if secondary.contains(Secondary::PAGE_MODIFICATION_LOGGING) {
        let is_page = processor.is_page(vmcs.get(control::PML_ADDRESS));
        require(is_page, Broken::PageModificationLogPage)?;
    }
    Ok(())
}

fn check_functions<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    if !controls.secondary.contains(Secondary::VM_FUNCTIONS) {
        return Ok(());
    }
    let functions = VmFunctions::from_bits_retain(vmcs.get(control::VM_FUNCTIONS));
    let can = processor.capabilities.functions;
    require(can.contains(functions), Broken::VmFunctionsSupported)?;
    if functions.contains(VmFunctions::EPTP_SWITCHING) {
        require(controls.secondary.contains(Secondary::EPT), Broken::EptpSwitchingNeedsEpt)?;
        let is_page = processor.is_page(vmcs.get(control::EPTP_LIST));
        require(is_page, Broken::EptpListPage)?;
    }
    Ok(())
}

/// An area of MSRs: aligned to 16 bytes, all of it physical memory; nothing if it is empty.
fn is_legal_area(address: u64, count: u64, processor: &Processor<'_>) -> bool {
    let last = address.wrapping_add(count * AreaEntry::SIZE).wrapping_sub(1);
    count == 0
        || processor.is_aligned_physical(address, AreaEntry::SIZE) && processor.is_physical(last)
}

fn check_exit<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let exit = controls.exit;
    require(processor.capabilities.exit.accepts(exit.bits()), Broken::ExitControlsSupported)?;
    let has_timer = controls.pin.contains(PinControls::PREEMPTION_TIMER);
    let saves = exit.contains(ExitControls::SAVE_PREEMPTION_TIMER);
    require(has_timer || !saves, Broken::SavingPreemptionTimerNeedsTimer)?;
    for (address, count, rule) in [
        (
            control::EXIT_MSR_STORE_ADDRESS,
            control::EXIT_MSR_STORE_COUNT,
            Broken::VmExitMsrStoreAreaLegal,
        ),
        (
            control::EXIT_MSR_LOAD_ADDRESS,
            control::EXIT_MSR_LOAD_COUNT,
            Broken::VmExitMsrLoadAreaLegal,
        ),
    ] {
        require(is_legal_area(vmcs.get(address), vmcs.get(count), processor), rule)?;
    }
    Ok(())
}

fn check_entry<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let entry = controls.entry;
    require(processor.capabilities.entry.accepts(entry.bits()), Broken::EntryControlsSupported)?;
    let is_smm = EntryControls::ENTRY_TO_SMM | EntryControls::DEACTIVATE_DUAL_MONITOR;
    require(!entry.intersects(is_smm), Broken::EntryToSmmFromSmm)?;
    check_injection(vmcs, controls, processor)?;
    let address = vmcs.get(control::ENTRY_MSR_LOAD_ADDRESS);
    let count = vmcs.get(control::ENTRY_MSR_LOAD_COUNT);
    require(is_legal_area(address, count, processor), Broken::VmEntryMsrLoadAreaLegal)
}
