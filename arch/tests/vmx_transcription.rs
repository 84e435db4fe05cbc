//! VMX constants against an independent transcription of the manual, the crate `x86`. Fields that
//! the crate does not have stand in `vmx_later_fields`, as kernels write them.

use arch::vmx::field::{self, Field, control, exit, guest, host};
use arch::vmx::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, msr,
};
use x86::msr::*;
use x86::vmx::vmcs;

#[test]
fn vmx_fields() {
    let rows: &[(Field, u32)] = &[
        (control::VPID, vmcs::control::VPID),
        (control::POSTED_INTERRUPT_VECTOR, vmcs::control::POSTED_INTERRUPT_NOTIFICATION_VECTOR),
        (control::EPTP_INDEX, vmcs::control::EPTP_INDEX),
        (control::IO_BITMAP_A, vmcs::control::IO_BITMAP_A_ADDR_FULL),
        (control::IO_BITMAP_B, vmcs::control::IO_BITMAP_B_ADDR_FULL),
        (control::MSR_BITMAPS, vmcs::control::MSR_BITMAPS_ADDR_FULL),
        (control::EXIT_MSR_STORE_ADDRESS, vmcs::control::VMEXIT_MSR_STORE_ADDR_FULL),
        (control::EXIT_MSR_LOAD_ADDRESS, vmcs::control::VMEXIT_MSR_LOAD_ADDR_FULL),
        (control::ENTRY_MSR_LOAD_ADDRESS, vmcs::control::VMENTRY_MSR_LOAD_ADDR_FULL),
        (control::EXECUTIVE_VMCS_POINTER, vmcs::control::EXECUTIVE_VMCS_PTR_FULL),
        (control::PML_ADDRESS, vmcs::control::PML_ADDR_FULL),
        (control::TSC_OFFSET, vmcs::control::TSC_OFFSET_FULL),
        (control::VIRTUAL_APIC_ADDRESS, vmcs::control::VIRT_APIC_ADDR_FULL),
        (control::APIC_ACCESS_ADDRESS, vmcs::control::APIC_ACCESS_ADDR_FULL),
        (control::POSTED_INTERRUPT_DESCRIPTOR, vmcs::control::POSTED_INTERRUPT_DESC_ADDR_FULL),
        (control::VM_FUNCTIONS, vmcs::control::VM_FUNCTION_CONTROLS_FULL),
        (control::EPT_POINTER, vmcs::control::EPTP_FULL),
        (control::EOI_EXIT_BITMAP_0, vmcs::control::EOI_EXIT0_FULL),
        (control::EOI_EXIT_BITMAP_1, vmcs::control::EOI_EXIT1_FULL),
        (control::EOI_EXIT_BITMAP_2, vmcs::control::EOI_EXIT2_FULL),
        (control::EOI_EXIT_BITMAP_3, vmcs::control::EOI_EXIT3_FULL),
        (control::EPTP_LIST, vmcs::control::EPTP_LIST_ADDR_FULL),
        (control::VMREAD_BITMAP, vmcs::control::VMREAD_BITMAP_ADDR_FULL),
        (control::VMWRITE_BITMAP, vmcs::control::VMWRITE_BITMAP_ADDR_FULL),
        (control::EXCEPTION_AREA, vmcs::control::VIRT_EXCEPTION_INFO_ADDR_FULL),
        (control::XSS_EXITING_BITMAP, vmcs::control::XSS_EXITING_BITMAP_FULL),
        (control::ENCLS_EXITING_BITMAP, vmcs::control::ENCLS_EXITING_BITMAP_FULL),
        (control::SUB_PAGE_TABLE_POINTER, vmcs::control::SUBPAGE_PERM_TABLE_PTR_FULL),
        (control::TSC_MULTIPLIER, vmcs::control::TSC_MULTIPLIER_FULL),
        (control::PIN, vmcs::control::PINBASED_EXEC_CONTROLS),
        (control::PRIMARY, vmcs::control::PRIMARY_PROCBASED_EXEC_CONTROLS),
        (control::EXCEPTION_BITMAP, vmcs::control::EXCEPTION_BITMAP),
        (control::PAGE_FAULT_MASK, vmcs::control::PAGE_FAULT_ERR_CODE_MASK),
        (control::PAGE_FAULT_MATCH, vmcs::control::PAGE_FAULT_ERR_CODE_MATCH),
        (control::CR3_TARGET_COUNT, vmcs::control::CR3_TARGET_COUNT),
        (control::EXIT, vmcs::control::VMEXIT_CONTROLS),
        (control::EXIT_MSR_STORE_COUNT, vmcs::control::VMEXIT_MSR_STORE_COUNT),
        (control::EXIT_MSR_LOAD_COUNT, vmcs::control::VMEXIT_MSR_LOAD_COUNT),
        (control::ENTRY, vmcs::control::VMENTRY_CONTROLS),
        (control::ENTRY_MSR_LOAD_COUNT, vmcs::control::VMENTRY_MSR_LOAD_COUNT),
        (control::ENTRY_INTERRUPTION_INFO, vmcs::control::VMENTRY_INTERRUPTION_INFO_FIELD),
        (control::ENTRY_ERROR_CODE, vmcs::control::VMENTRY_EXCEPTION_ERR_CODE),
        (control::ENTRY_INSTRUCTION_LENGTH, vmcs::control::VMENTRY_INSTRUCTION_LEN),
        (control::TPR_THRESHOLD, vmcs::control::TPR_THRESHOLD),
        (control::SECONDARY, vmcs::control::SECONDARY_PROCBASED_EXEC_CONTROLS),
        (control::PLE_GAP, vmcs::control::PLE_GAP),
        (control::PLE_WINDOW, vmcs::control::PLE_WINDOW),
        (control::CR0_MASK, vmcs::control::CR0_GUEST_HOST_MASK),
        (control::CR4_MASK, vmcs::control::CR4_GUEST_HOST_MASK),
        (control::CR0_SHADOW, vmcs::control::CR0_READ_SHADOW),
        (control::CR4_SHADOW, vmcs::control::CR4_READ_SHADOW),
        (control::CR3_TARGET_0, vmcs::control::CR3_TARGET_VALUE0),
        (control::CR3_TARGET_1, vmcs::control::CR3_TARGET_VALUE1),
        (control::CR3_TARGET_2, vmcs::control::CR3_TARGET_VALUE2),
        (control::CR3_TARGET_3, vmcs::control::CR3_TARGET_VALUE3),
        (guest::ES_SELECTOR, vmcs::guest::ES_SELECTOR),
        (guest::CS_SELECTOR, vmcs::guest::CS_SELECTOR),
        (guest::SS_SELECTOR, vmcs::guest::SS_SELECTOR),
        (guest::DS_SELECTOR, vmcs::guest::DS_SELECTOR),
        (guest::FS_SELECTOR, vmcs::guest::FS_SELECTOR),
        (guest::GS_SELECTOR, vmcs::guest::GS_SELECTOR),
        (guest::LDTR_SELECTOR, vmcs::guest::LDTR_SELECTOR),
        (guest::TR_SELECTOR, vmcs::guest::TR_SELECTOR),
        (guest::INTERRUPT_STATUS, vmcs::guest::INTERRUPT_STATUS),
        (guest::PML_INDEX, vmcs::guest::PML_INDEX),
        (guest::VMCS_LINK_POINTER, vmcs::guest::LINK_PTR_FULL),
        (guest::DEBUGCTL, vmcs::guest::IA32_DEBUGCTL_FULL),
        (guest::PAT, vmcs::guest::IA32_PAT_FULL),
        (guest::EFER, vmcs::guest::IA32_EFER_FULL),
        (guest::PERF_GLOBAL_CTRL, vmcs::guest::IA32_PERF_GLOBAL_CTRL_FULL),
        (guest::PDPTE_0, vmcs::guest::PDPTE0_FULL),
        (guest::PDPTE_1, vmcs::guest::PDPTE1_FULL),
        (guest::PDPTE_2, vmcs::guest::PDPTE2_FULL),
        (guest::PDPTE_3, vmcs::guest::PDPTE3_FULL),
        (guest::BNDCFGS, vmcs::guest::IA32_BNDCFGS_FULL),
        (guest::RTIT_CTL, vmcs::guest::IA32_RTIT_CTL_FULL),
        (guest::ES_LIMIT, vmcs::guest::ES_LIMIT),
        (guest::CS_LIMIT, vmcs::guest::CS_LIMIT),
        (guest::SS_LIMIT, vmcs::guest::SS_LIMIT),
        (guest::DS_LIMIT, vmcs::guest::DS_LIMIT),
        (guest::FS_LIMIT, vmcs::guest::FS_LIMIT),
        (guest::GS_LIMIT, vmcs::guest::GS_LIMIT),
        (guest::LDTR_LIMIT, vmcs::guest::LDTR_LIMIT),
        (guest::TR_LIMIT, vmcs::guest::TR_LIMIT),
        (guest::GDTR_LIMIT, vmcs::guest::GDTR_LIMIT),
        (guest::IDTR_LIMIT, vmcs::guest::IDTR_LIMIT),
        (guest::ES_ACCESS_RIGHTS, vmcs::guest::ES_ACCESS_RIGHTS),
        (guest::CS_ACCESS_RIGHTS, vmcs::guest::CS_ACCESS_RIGHTS),
        (guest::SS_ACCESS_RIGHTS, vmcs::guest::SS_ACCESS_RIGHTS),
        (guest::DS_ACCESS_RIGHTS, vmcs::guest::DS_ACCESS_RIGHTS),
        (guest::FS_ACCESS_RIGHTS, vmcs::guest::FS_ACCESS_RIGHTS),
        (guest::GS_ACCESS_RIGHTS, vmcs::guest::GS_ACCESS_RIGHTS),
        (guest::LDTR_ACCESS_RIGHTS, vmcs::guest::LDTR_ACCESS_RIGHTS),
        (guest::TR_ACCESS_RIGHTS, vmcs::guest::TR_ACCESS_RIGHTS),
        (guest::INTERRUPTIBILITY, vmcs::guest::INTERRUPTIBILITY_STATE),
        (guest::ACTIVITY, vmcs::guest::ACTIVITY_STATE),
        (guest::SMBASE, vmcs::guest::SMBASE),
        (guest::SYSENTER_CS, vmcs::guest::IA32_SYSENTER_CS),
        (guest::PREEMPTION_TIMER, vmcs::guest::VMX_PREEMPTION_TIMER_VALUE),
        (guest::CR0, vmcs::guest::CR0),
        (guest::CR3, vmcs::guest::CR3),
        (guest::CR4, vmcs::guest::CR4),
        (guest::ES_BASE, vmcs::guest::ES_BASE),
        (guest::CS_BASE, vmcs::guest::CS_BASE),
        (guest::SS_BASE, vmcs::guest::SS_BASE),
        (guest::DS_BASE, vmcs::guest::DS_BASE),
        (guest::FS_BASE, vmcs::guest::FS_BASE),
        (guest::GS_BASE, vmcs::guest::GS_BASE),
        (guest::LDTR_BASE, vmcs::guest::LDTR_BASE),
        (guest::TR_BASE, vmcs::guest::TR_BASE),
        (guest::GDTR_BASE, vmcs::guest::GDTR_BASE),
        (guest::IDTR_BASE, vmcs::guest::IDTR_BASE),
        (guest::DR7, vmcs::guest::DR7),
        (guest::RSP, vmcs::guest::RSP),
        (guest::RIP, vmcs::guest::RIP),
        (guest::RFLAGS, vmcs::guest::RFLAGS),
        (guest::PENDING_DEBUG, vmcs::guest::PENDING_DBG_EXCEPTIONS),
        (guest::SYSENTER_ESP, vmcs::guest::IA32_SYSENTER_ESP),
        (guest::SYSENTER_EIP, vmcs::guest::IA32_SYSENTER_EIP),
        (host::ES_SELECTOR, vmcs::host::ES_SELECTOR),
        (host::CS_SELECTOR, vmcs::host::CS_SELECTOR),
        (host::SS_SELECTOR, vmcs::host::SS_SELECTOR),
        (host::DS_SELECTOR, vmcs::host::DS_SELECTOR),
        (host::FS_SELECTOR, vmcs::host::FS_SELECTOR),
        (host::GS_SELECTOR, vmcs::host::GS_SELECTOR),
        (host::TR_SELECTOR, vmcs::host::TR_SELECTOR),
        (host::PAT, vmcs::host::IA32_PAT_FULL),
        (host::EFER, vmcs::host::IA32_EFER_FULL),
        (host::PERF_GLOBAL_CTRL, vmcs::host::IA32_PERF_GLOBAL_CTRL_FULL),
        (host::SYSENTER_CS, vmcs::host::IA32_SYSENTER_CS),
        (host::CR0, vmcs::host::CR0),
        (host::CR3, vmcs::host::CR3),
        (host::CR4, vmcs::host::CR4),
        (host::FS_BASE, vmcs::host::FS_BASE),
        (host::GS_BASE, vmcs::host::GS_BASE),
        (host::TR_BASE, vmcs::host::TR_BASE),
        (host::GDTR_BASE, vmcs::host::GDTR_BASE),
        (host::IDTR_BASE, vmcs::host::IDTR_BASE),
        (host::SYSENTER_ESP, vmcs::host::IA32_SYSENTER_ESP),
        (host::SYSENTER_EIP, vmcs::host::IA32_SYSENTER_EIP),
        (host::RSP, vmcs::host::RSP),
        (host::RIP, vmcs::host::RIP),
        (exit::GUEST_PHYSICAL_ADDRESS, vmcs::ro::GUEST_PHYSICAL_ADDR_FULL),
        (exit::INSTRUCTION_ERROR, vmcs::ro::VM_INSTRUCTION_ERROR),
        (exit::REASON, vmcs::ro::EXIT_REASON),
        (exit::INTERRUPTION_INFO, vmcs::ro::VMEXIT_INTERRUPTION_INFO),
        (exit::INTERRUPTION_ERROR_CODE, vmcs::ro::VMEXIT_INTERRUPTION_ERR_CODE),
        (exit::IDT_VECTORING_INFO, vmcs::ro::IDT_VECTORING_INFO),
        (exit::IDT_VECTORING_ERROR_CODE, vmcs::ro::IDT_VECTORING_ERR_CODE),
        (exit::INSTRUCTION_LENGTH, vmcs::ro::VMEXIT_INSTRUCTION_LEN),
        (exit::INSTRUCTION_INFORMATION, vmcs::ro::VMEXIT_INSTRUCTION_INFO),
        (exit::QUALIFICATION, vmcs::ro::EXIT_QUALIFICATION),
        (exit::IO_RCX, vmcs::ro::IO_RCX),
        (exit::IO_RSI, vmcs::ro::IO_RSI),
        (exit::IO_RDI, vmcs::ro::IO_RDI),
        (exit::IO_RIP, vmcs::ro::IO_RIP),
        (exit::GUEST_LINEAR_ADDRESS, vmcs::ro::GUEST_LINEAR_ADDR),
    ];
    for (ours, other) in rows {
        assert_eq!(u32::from(ours.encoding()), *other, "{ours:?}");
    }
}

#[test]
fn vmx_later_fields() {
    let rows = [
        (control::HLAT_PREFIX_SIZE, 0x0006),
        (control::LAST_PID_POINTER_INDEX, 0x0008),
        (control::TERTIARY, 0x2034),
        (control::SHARED_EPT_POINTER, 0x203C),
        (control::HLAT_POINTER, 0x2040),
        (control::PID_POINTER_TABLE, 0x2042),
        (control::SECONDARY_EXIT, 0x2044),
        (control::INSTRUCTION_TIMEOUT, 0x4024),
        (exit::MSR_DATA, 0x2402),
        (exit::ORIGINAL_EVENT_DATA, 0x2404),
        (guest::UINV, 0x0814),
        (guest::LBR_CTL, 0x2816),
        (guest::PKRS, 0x2818),
        (guest::FRED_CONFIG, 0x281A),
        (guest::FRED_SSP3, 0x2828),
        (guest::S_CET, 0x6828),
        (guest::INTERRUPT_SSP_TABLE, 0x682C),
        (host::PKRS, 0x2C06),
        (host::FRED_CONFIG, 0x2C08),
        (host::FRED_SSP3, 0x2C16),
        (host::S_CET, 0x6C18),
        (host::INTERRUPT_SSP_TABLE, 0x6C1C),
    ];
    for (ours, other) in rows {
        assert_eq!(ours.encoding(), other, "{ours:?}");
    }
}

#[test]
fn vmx_segment_fields() {
    let segments = field::SEGMENTS;
    let rows = [
        (0, guest::ES_SELECTOR, guest::ES_BASE, guest::ES_LIMIT, guest::ES_ACCESS_RIGHTS),
        (1, guest::CS_SELECTOR, guest::CS_BASE, guest::CS_LIMIT, guest::CS_ACCESS_RIGHTS),
        (
            field::LDTR,
            guest::LDTR_SELECTOR,
            guest::LDTR_BASE,
            guest::LDTR_LIMIT,
            guest::LDTR_ACCESS_RIGHTS,
        ),
        (field::TR, guest::TR_SELECTOR, guest::TR_BASE, guest::TR_LIMIT, guest::TR_ACCESS_RIGHTS),
    ];
    for (at, selector, base, limit, rights) in rows {
        let segment = segments[at];
        assert_eq!(
            (segment.selector, segment.base, segment.limit, segment.access_rights),
            (selector, base, limit, rights)
        );
    }
}

macro_rules! same_bits {
    ($($ours:ident, $other:ident { $($mine:ident = $theirs:ident,)* })*) => {$(
        for (ours, other) in [$(($ours::$mine.bits(), vmcs::control::$other::$theirs.bits()),)*] {
            assert_eq!(ours, other, stringify!($ours));
        }
    )*};
}

#[test]
fn vmx_controls() {
    same_bits! {
        PinControls, PinbasedControls {
            EXTERNAL_INTERRUPT_EXITING = EXTERNAL_INTERRUPT_EXITING,
            NMI_EXITING = NMI_EXITING,
            VIRTUAL_NMIS = VIRTUAL_NMIS,
            PREEMPTION_TIMER = VMX_PREEMPTION_TIMER,
            POSTED_INTERRUPTS = POSTED_INTERRUPTS,
        }
        PrimaryControls, PrimaryControls {
            INTERRUPT_WINDOW_EXITING = INTERRUPT_WINDOW_EXITING,
            TSC_OFFSETTING = USE_TSC_OFFSETTING,
            HLT_EXITING = HLT_EXITING,
            INVLPG_EXITING = INVLPG_EXITING,
            MWAIT_EXITING = MWAIT_EXITING,
            RDPMC_EXITING = RDPMC_EXITING,
            RDTSC_EXITING = RDTSC_EXITING,
            CR3_LOAD_EXITING = CR3_LOAD_EXITING,
            CR3_STORE_EXITING = CR3_STORE_EXITING,
            CR8_LOAD_EXITING = CR8_LOAD_EXITING,
            CR8_STORE_EXITING = CR8_STORE_EXITING,
            TPR_SHADOW = USE_TPR_SHADOW,
            NMI_WINDOW_EXITING = NMI_WINDOW_EXITING,
            MOV_DR_EXITING = MOV_DR_EXITING,
            UNCONDITIONAL_IO_EXITING = UNCOND_IO_EXITING,
            IO_BITMAPS = USE_IO_BITMAPS,
            MONITOR_TRAP_FLAG = MONITOR_TRAP_FLAG,
            MSR_BITMAPS = USE_MSR_BITMAPS,
            MONITOR_EXITING = MONITOR_EXITING,
            PAUSE_EXITING = PAUSE_EXITING,
            SECONDARY_CONTROLS = SECONDARY_CONTROLS,
        }
        SecondaryControls, SecondaryControls {
            VIRTUALIZE_APIC_ACCESSES = VIRTUALIZE_APIC,
            EPT = ENABLE_EPT,
            DESCRIPTOR_TABLE_EXITING = DTABLE_EXITING,
            RDTSCP = ENABLE_RDTSCP,
            VIRTUALIZE_X2APIC_MODE = VIRTUALIZE_X2APIC,
            VPID = ENABLE_VPID,
            WBINVD_EXITING = WBINVD_EXITING,
            UNRESTRICTED_GUEST = UNRESTRICTED_GUEST,
            APIC_REGISTER_VIRTUALIZATION = VIRTUALIZE_APIC_REGISTER,
            VIRTUAL_INTERRUPT_DELIVERY = VIRTUAL_INTERRUPT_DELIVERY,
            PAUSE_LOOP_EXITING = PAUSE_LOOP_EXITING,
            RDRAND_EXITING = RDRAND_EXITING,
            INVPCID = ENABLE_INVPCID,
            VM_FUNCTIONS = ENABLE_VM_FUNCTIONS,
            VMCS_SHADOWING = VMCS_SHADOWING,
            ENCLS_EXITING = ENCLS_EXITING,
            RDSEED_EXITING = RDSEED_EXITING,
            PAGE_MODIFICATION_LOGGING = ENABLE_PML,
            EPT_VIOLATION_EXCEPTION = EPT_VIOLATION_VE,
            CONCEAL_VMX_FROM_PT = CONCEAL_VMX_FROM_PT,
            XSAVES_XRSTORS = ENABLE_XSAVES_XRSTORS,
            MODE_BASED_EXECUTE = MODE_BASED_EPT,
            SUB_PAGE_WRITE_PERMISSIONS = SUB_PAGE_EPT,
            PT_GUEST_PHYSICAL = INTEL_PT_GUEST_PHYSICAL,
            TSC_SCALING = USE_TSC_SCALING,
            USER_WAIT_AND_PAUSE = ENABLE_USER_WAIT_PAUSE,
            ENCLV_EXITING = ENCLV_EXITING,
        }
        ExitControls, ExitControls {
            SAVE_DEBUG_CONTROLS = SAVE_DEBUG_CONTROLS,
            HOST_ADDRESS_SPACE_SIZE = HOST_ADDRESS_SPACE_SIZE,
            LOAD_PERF_GLOBAL_CTRL = LOAD_IA32_PERF_GLOBAL_CTRL,
            ACKNOWLEDGE_INTERRUPT = ACK_INTERRUPT_ON_EXIT,
            SAVE_PAT = SAVE_IA32_PAT,
            LOAD_PAT = LOAD_IA32_PAT,
            SAVE_EFER = SAVE_IA32_EFER,
            LOAD_EFER = LOAD_IA32_EFER,
            SAVE_PREEMPTION_TIMER = SAVE_VMX_PREEMPTION_TIMER,
            CLEAR_BNDCFGS = CLEAR_IA32_BNDCFGS,
            CONCEAL_VMX_FROM_PT = CONCEAL_VMX_FROM_PT,
            CLEAR_RTIT_CTL = CLEAR_IA32_RTIT_CTL,
        }
        EntryControls, EntryControls {
            LOAD_DEBUG_CONTROLS = LOAD_DEBUG_CONTROLS,
            IA32E_MODE_GUEST = IA32E_MODE_GUEST,
            ENTRY_TO_SMM = ENTRY_TO_SMM,
            DEACTIVATE_DUAL_MONITOR = DEACTIVATE_DUAL_MONITOR,
            LOAD_PERF_GLOBAL_CTRL = LOAD_IA32_PERF_GLOBAL_CTRL,
            LOAD_PAT = LOAD_IA32_PAT,
            LOAD_EFER = LOAD_IA32_EFER,
            LOAD_BNDCFGS = LOAD_IA32_BNDCFGS,
            CONCEAL_VMX_FROM_PT = CONCEAL_VMX_FROM_PT,
            LOAD_RTIT_CTL = LOAD_IA32_RTIT_CTL,
        }
    }
}

#[test]
fn vmx_capability_msrs() {
    let rows = [
        (msr::BASIC, IA32_VMX_BASIC),
        (msr::PIN_CONTROLS, IA32_VMX_PINBASED_CTLS),
        (msr::PRIMARY_CONTROLS, IA32_VMX_PROCBASED_CTLS),
        (msr::EXIT_CONTROLS, IA32_VMX_EXIT_CTLS),
        (msr::ENTRY_CONTROLS, IA32_VMX_ENTRY_CTLS),
        (msr::MISC, IA32_VMX_MISC),
        (msr::CR0_FIXED0, IA32_VMX_CR0_FIXED0),
        (msr::CR0_FIXED1, IA32_VMX_CR0_FIXED1),
        (msr::CR4_FIXED0, IA32_VMX_CR4_FIXED0),
        (msr::CR4_FIXED1, IA32_VMX_CR4_FIXED1),
        (msr::VMCS_ENUM, IA32_VMX_VMCS_ENUM),
        (msr::SECONDARY_CONTROLS, IA32_VMX_PROCBASED_CTLS2),
        (msr::EPT_VPID, IA32_VMX_EPT_VPID_CAP),
        (msr::TRUE_PIN_CONTROLS, IA32_VMX_TRUE_PINBASED_CTLS),
        (msr::TRUE_PRIMARY_CONTROLS, IA32_VMX_TRUE_PROCBASED_CTLS),
        (msr::TRUE_EXIT_CONTROLS, IA32_VMX_TRUE_EXIT_CTLS),
        (msr::TRUE_ENTRY_CONTROLS, IA32_VMX_TRUE_ENTRY_CTLS),
        (msr::VM_FUNCTIONS, IA32_VMX_VMFUNC),
    ];
    for (ours, other) in rows {
        assert_eq!(ours, other);
    }
}
