//! What of a part's VMX the processor here implements.

use crate::CpuModel;
use crate::model::schema::CapabilityFile;
use arch::cpuid::Feature;
use arch::vmx::capability::{Allowed, Basic, CapabilityMsrs, EptVpid, Misc, VmxCapabilities};
use arch::vmx::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
    VmFunctions,
};

impl From<CapabilityFile> for VmxCapabilities {
    fn from(file: CapabilityFile) -> Self {
        Self::from_msrs(CapabilityMsrs {
            basic: file.basic.0,
            pin: file.pin.0,
            primary: file.primary.0,
            exit: file.exit.0,
            entry: file.entry.0,
            misc: file.misc.0,
            secondary: file.secondary.0,
            ept_vpid: file.ept_vpid.0,
            tertiary: file.tertiary.0,
        })
    }
}

/// The capabilities of the model: those of the real part as far as they are implemented.
pub fn of(model: &CpuModel) -> Option<VmxCapabilities> {
    if !model.has(Feature::Vmx) {
        return None;
    }
    let mut common = model.virtualization()?.common(&IMPLEMENTED);
    if !model.has(Feature::Uintr) {
        common.exit.allowed &= !ExitControls::CLEAR_UINV.bits();
        common.entry.allowed &= !EntryControls::LOAD_UINV.bits();
    }
    // The format of a region is each processor's own, and so is the size that it takes.
    let basic = common.basic.with_region_size(super::vmcs::SIZE as u16);
    // Dumps have bits set that no manual at hand explains: nothing stands behind them here.
    let basic = Basic::from_bits(basic.into_bits() & EXPLAINED);
    Some(VmxCapabilities { basic, ..common })
}

/// Bits of IA32_VMX_BASIC that the manual explains. [SDM3 "Basic VMX Information"]
const EXPLAINED: u64 = (1 << 57) - 1;

const PIN: PinControls = PinControls::EXTERNAL_INTERRUPT_EXITING
    .union(PinControls::NMI_EXITING)
    .union(PinControls::VIRTUAL_NMIS)
    .union(PinControls::PREEMPTION_TIMER)
    .union(PinControls::POSTED_INTERRUPTS);

const PRIMARY: PrimaryControls = PrimaryControls::INTERRUPT_WINDOW_EXITING
    .union(PrimaryControls::TSC_OFFSETTING)
    .union(PrimaryControls::HLT_EXITING)
    .union(PrimaryControls::INVLPG_EXITING)
    .union(PrimaryControls::MWAIT_EXITING)
    .union(PrimaryControls::RDPMC_EXITING)
    .union(PrimaryControls::RDTSC_EXITING)
    .union(PrimaryControls::CR3_LOAD_EXITING)
    .union(PrimaryControls::CR3_STORE_EXITING)
    .union(PrimaryControls::CR8_LOAD_EXITING)
    .union(PrimaryControls::CR8_STORE_EXITING)
    .union(PrimaryControls::TERTIARY_CONTROLS)
    .union(PrimaryControls::TPR_SHADOW)
    .union(PrimaryControls::NMI_WINDOW_EXITING)
    .union(PrimaryControls::MOV_DR_EXITING)
    .union(PrimaryControls::UNCONDITIONAL_IO_EXITING)
    .union(PrimaryControls::IO_BITMAPS)
    .union(PrimaryControls::MONITOR_TRAP_FLAG)
    .union(PrimaryControls::MSR_BITMAPS)
    .union(PrimaryControls::MONITOR_EXITING)
    .union(PrimaryControls::PAUSE_EXITING)
    .union(PrimaryControls::SECONDARY_CONTROLS);

const SECONDARY: SecondaryControls = SecondaryControls::EPT
    .union(SecondaryControls::VIRTUALIZE_APIC_ACCESSES)
    .union(SecondaryControls::VIRTUALIZE_X2APIC_MODE)
    .union(SecondaryControls::APIC_REGISTER_VIRTUALIZATION)
    .union(SecondaryControls::VIRTUAL_INTERRUPT_DELIVERY)
    .union(SecondaryControls::DESCRIPTOR_TABLE_EXITING)
    .union(SecondaryControls::RDTSCP)
    .union(SecondaryControls::VPID)
    .union(SecondaryControls::WBINVD_EXITING)
    .union(SecondaryControls::UNRESTRICTED_GUEST)
    .union(SecondaryControls::PAUSE_LOOP_EXITING)
    .union(SecondaryControls::RDRAND_EXITING)
    .union(SecondaryControls::INVPCID)
    .union(SecondaryControls::VM_FUNCTIONS)
    .union(SecondaryControls::VMCS_SHADOWING)
    .union(SecondaryControls::RDSEED_EXITING)
    .union(SecondaryControls::PAGE_MODIFICATION_LOGGING)
    .union(SecondaryControls::EPT_VIOLATION_EXCEPTION)
    .union(SecondaryControls::XSAVES_XRSTORS)
    .union(SecondaryControls::MODE_BASED_EXECUTE)
    .union(SecondaryControls::TSC_SCALING);

const EXIT: ExitControls = ExitControls::SAVE_DEBUG_CONTROLS
    .union(ExitControls::HOST_ADDRESS_SPACE_SIZE)
    .union(ExitControls::ACKNOWLEDGE_INTERRUPT)
    .union(ExitControls::SAVE_PAT)
    .union(ExitControls::LOAD_PAT)
    .union(ExitControls::SAVE_EFER)
    .union(ExitControls::LOAD_EFER)
    .union(ExitControls::SAVE_PREEMPTION_TIMER)
    .union(ExitControls::CLEAR_UINV);

const ENTRY: EntryControls = EntryControls::LOAD_DEBUG_CONTROLS
    .union(EntryControls::IA32E_MODE_GUEST)
    .union(EntryControls::LOAD_PAT)
    .union(EntryControls::LOAD_EFER)
    .union(EntryControls::LOAD_UINV);

const EPT_VPID: EptVpid = EptVpid::EXECUTE_ONLY
    .union(EptVpid::FOUR_LEVELS)
    .union(EptVpid::UNCACHEABLE_TABLES)
    .union(EptVpid::WRITE_BACK_TABLES)
    .union(EptVpid::PAGES_2M)
    .union(EptVpid::PAGES_1G)
    .union(EptVpid::INVEPT)
    .union(EptVpid::ACCESSED_AND_DIRTY)
    .union(EptVpid::ADVANCED_VIOLATION)
    .union(EptVpid::INVEPT_SINGLE)
    .union(EptVpid::INVEPT_ALL)
    .union(EptVpid::INVVPID)
    .union(EptVpid::INVVPID_ADDRESS)
    .union(EptVpid::INVVPID_SINGLE)
    .union(EptVpid::INVVPID_ALL)
    .union(EptVpid::INVVPID_SINGLE_EXCEPT_GLOBALS);

const fn allowed(bits: u32) -> Allowed {
    Allowed { required: 0, allowed: bits }
}

/// DEVIATION(SDM3 "VMX Capability Reporting Facility"): exits of ENCLS are not implemented and not
/// offered, nor is the activity state shutdown.
const IMPLEMENTED: VmxCapabilities = VmxCapabilities {
    basic: Basic::new(),
    pin: allowed(PIN.bits()),
    primary: allowed(PRIMARY.bits()),
    secondary: SECONDARY,
    tertiary: TertiaryControls::IPI_VIRTUALIZATION,
    exit: allowed(EXIT.bits()),
    secondary_exit: 0,
    entry: allowed(ENTRY.bits()),
    misc: Misc::new()
        .with_has_hlt_activity(true)
        .with_has_wait_for_sipi_activity(true)
        .with_cr3_targets(4)
        .with_writes_read_only_fields(true)
        .with_injects_zero_length(true),
    ept_vpid: EPT_VPID,
    functions: VmFunctions::EPTP_SWITCHING,
};

/// A processor without VMX, for checks that nothing asks for there.
pub const NONE: VmxCapabilities = IMPLEMENTED;
