//! The names of VM exits: what `kvm_exit` prints for a reason, and back.
//!
//! Follows the symbol tables of the Linux tracepoint, which `perf kvm stat` prints as well. A
//! VMX reason is its basic part (15:0); bit 31 flags a failed entry. [SDM3 "Basic VM-Exit
//! Information"] [APM2 "SVM Intercept Exit Codes"]

use arch::svm::ExitCode;
use arch::vmx::ExitReason;
use serde::{Deserialize, Serialize};

/// Which instruction set of virtualization an exit belongs to; the numbers are KVM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// Intel's, printed as `VMX`.
    Vmx = 1,
    /// AMD's, printed as `SVM`.
    Svm = 2,
}

impl Isa {
    /// Decodes the tracepoint's `isa` field; a paravirtual KVM reports others.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Vmx),
            2 => Some(Self::Svm),
            _ => None,
        }
    }

    /// The ISA of a CPU vendor's identification string, as in `AuthenticAMD,25,17,1`.
    pub fn of_vendor(identification: &str) -> Option<Self> {
        match identification {
            text if text.contains("AMD") || text.contains("Hygon") => Some(Self::Svm),
            text if text.contains("Intel") => Some(Self::Vmx),
            _ => None,
        }
    }

    /// The name of a reason, `None` where Linux has none for it.
    pub fn reason_name(self, reason: u32) -> Option<&'static str> {
        match self {
            Self::Vmx => ExitReason::from_bits(reason as u16).linux_name(),
            Self::Svm => {
                let row = RANGES.binary_search_by_key(&reason, |row| row.0).map(|at| RANGES[at].1);
                row.ok().or_else(|| ExitCode::from_bits(reason.into()).linux_name())
            }
        }
    }

    /// The reason of a name. Kernels before 4.x print VMX names in lower case, and both vendors
    /// have renamed a few.
    pub fn reason_named(self, name: &str) -> Option<u32> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let renamed = RENAMED.iter().filter(|row| row.0 == self).map(|row| (row.2, row.1));
        let mut others = renamed.chain(self.ranges().iter().copied());
        let single = match self {
            Self::Vmx => ExitReason::NAMED.iter().find(|row| is(row.1)).map(|row| reason(row.0)),
            Self::Svm => ExitCode::NAMED.iter().find(|row| is(row.1)).map(|row| code(row.0)),
        };
        single.or_else(|| others.find(|row| is(row.1)).map(|row| row.0))
    }

    const fn ranges(self) -> &'static [(u32, &'static str)] {
        match self {
            Self::Vmx => &[],
            Self::Svm => RANGES,
        }
    }
}

/// As KVM has it, in 32 bits.
const fn code(code: ExitCode) -> u32 {
    code.into_bits() as u32
}

const fn reason(reason: ExitReason) -> u32 {
    reason.into_bits() as u32
}

/// Names that kernels or perf have used before or beside the present ones.
const RENAMED: &[(Isa, &str, u32)] = &[
    (Isa::Vmx, "PENDING_INTERRUPT", 7),
    (Isa::Vmx, "NMI", 0),
    (Isa::Vmx, "EXCEPTION", 0),
    (Isa::Vmx, "EXCP_NMI", 0),
    (Isa::Vmx, "EXTERNAL_INTR", 1),
    (Isa::Vmx, "MSR_WRITE_IMM32", 85),
    (Isa::Vmx, "MCE_DURING_VMENTER", 41),
    (Isa::Svm, "vmmcall", 0x81),
    (Isa::Svm, "avic_noaccel", 0x402),
];

/// The codes the rest of the project reasons about, by the names of the tables below.
pub mod svm {
    use super::{ExitCode, code};

    /// MOV to CR8.
    pub const WRITE_CR8: u32 = code(ExitCode::ControlWrite(8));
    /// A physical interrupt.
    pub const INTERRUPT: u32 = code(ExitCode::Intr);
    /// A window for a virtual interrupt has opened.
    pub const VINTR: u32 = code(ExitCode::VirtualInterrupt);
    /// CPUID.
    pub const CPUID: u32 = code(ExitCode::Cpuid);
    /// PAUSE, as often as the filter lets pass.
    pub const PAUSE: u32 = code(ExitCode::Pause);
    /// HLT.
    pub const HLT: u32 = code(ExitCode::Hlt);
    /// A port of the I/O permission map.
    pub const IO: u32 = code(ExitCode::IoPort);
    /// RDMSR or WRMSR, by the MSR permission map; info1 is 1 for a write.
    pub const MSR: u32 = code(ExitCode::Msr);
    /// MWAIT.
    pub const MWAIT: u32 = code(ExitCode::Mwait);
    /// MONITOR.
    pub const MONITOR: u32 = code(ExitCode::Monitor);
    /// HLT with nothing virtual pending.
    pub const IDLE_HALT: u32 = code(ExitCode::IdleHlt);
    /// A nested page fault; MMIO shows as one.
    pub const NESTED_PAGE_FAULT: u32 = code(ExitCode::NestedPageFault);
    /// An IPI that AVIC could not deliver to all its targets.
    pub const AVIC_INCOMPLETE_IPI: u32 = code(ExitCode::AvicIncompleteIpi);
    /// A register that AVIC leaves to the hypervisor.
    pub const AVIC_UNACCELERATED_ACCESS: u32 = code(ExitCode::AvicNoAcceleration);
}

/// The codes the rest of the project reasons about, by the names of the tables below.
pub mod vmx {
    use super::{ExitReason, reason};

    /// A physical interrupt.
    pub const EXTERNAL_INTERRUPT: u32 = reason(ExitReason::ExternalInterrupt);
    /// The guest can take an interrupt that waits.
    pub const INTERRUPT_WINDOW: u32 = reason(ExitReason::InterruptWindow);
    /// CPUID.
    pub const CPUID: u32 = reason(ExitReason::Cpuid);
    /// HLT.
    pub const HLT: u32 = reason(ExitReason::Hlt);
    /// MOV to or from CR0, CR3, CR4 or CR8, CLTS, LMSW.
    pub const CR_ACCESS: u32 = reason(ExitReason::ControlRegister);
    /// A port of the I/O bitmaps.
    pub const IO_INSTRUCTION: u32 = reason(ExitReason::IoInstruction);
    /// RDMSR, by the MSR bitmap.
    pub const MSR_READ: u32 = reason(ExitReason::Rdmsr);
    /// WRMSR, by the MSR bitmap.
    pub const MSR_WRITE: u32 = reason(ExitReason::Wrmsr);
    /// MWAIT.
    pub const MWAIT: u32 = reason(ExitReason::Mwait);
    /// PAUSE, or a loop of it.
    pub const PAUSE: u32 = reason(ExitReason::Pause);
    /// The guest's task priority fell below what the next interrupt needs.
    pub const TPR_BELOW_THRESHOLD: u32 = reason(ExitReason::TprBelowThreshold);
    /// The APIC-access page, where the access is not virtualized.
    pub const APIC_ACCESS: u32 = reason(ExitReason::ApicAccess);
    /// EOI of a vector that the EOI-exit bitmap names.
    pub const EOI_INDUCED: u32 = reason(ExitReason::VirtualizedEoi);
    /// No EPT mapping, or none that allows the access.
    pub const EPT_VIOLATION: u32 = reason(ExitReason::EptViolation);
    /// A reserved combination in an EPT entry, which KVM uses to mark MMIO.
    pub const EPT_MISCONFIG: u32 = reason(ExitReason::EptMisconfiguration);
    /// The VMX-preemption timer ran out: KVM's stand-in for the guest's deadline timer.
    pub const PREEMPTION_TIMER: u32 = reason(ExitReason::PreemptionTimer);
    /// After a write to the virtual-APIC page that the hypervisor has to act upon.
    pub const APIC_WRITE: u32 = reason(ExitReason::ApicWrite);
    /// RDMSR with an immediate number.
    pub const MSR_READ_IMM: u32 = reason(ExitReason::RdmsrImmediate);
    /// WRMSRNS with an immediate number.
    pub const MSR_WRITE_IMM: u32 = reason(ExitReason::WrmsrImmediate);
}

/// Codes of SVM that are one of a range, and those that no processor gives: of an SEV-ES guest's
/// protocol with its hypervisor, and KVM's 32 bits of an illegal state.
const RANGES: &[(u32, &str)] = &[
    (0x0, "read_cr0"),
    (0x2, "read_cr2"),
    (0x3, "read_cr3"),
    (0x4, "read_cr4"),
    (0x8, "read_cr8"),
    (0x10, "write_cr0"),
    (0x12, "write_cr2"),
    (0x13, "write_cr3"),
    (0x14, "write_cr4"),
    (0x18, "write_cr8"),
    (0x20, "read_dr0"),
    (0x21, "read_dr1"),
    (0x22, "read_dr2"),
    (0x23, "read_dr3"),
    (0x24, "read_dr4"),
    (0x25, "read_dr5"),
    (0x26, "read_dr6"),
    (0x27, "read_dr7"),
    (0x30, "write_dr0"),
    (0x31, "write_dr1"),
    (0x32, "write_dr2"),
    (0x33, "write_dr3"),
    (0x34, "write_dr4"),
    (0x35, "write_dr5"),
    (0x36, "write_dr6"),
    (0x37, "write_dr7"),
    (0x40, "DE excp"),
    (0x41, "DB excp"),
    (0x43, "BP excp"),
    (0x44, "OF excp"),
    (0x45, "BR excp"),
    (0x46, "UD excp"),
    (0x47, "NM excp"),
    (0x48, "DF excp"),
    (0x4a, "TS excp"),
    (0x4b, "NP excp"),
    (0x4c, "SS excp"),
    (0x4d, "GP excp"),
    (0x4e, "PF excp"),
    (0x50, "MF excp"),
    (0x51, "AC excp"),
    (0x52, "MC excp"),
    (0x53, "XF excp"),
    (0x90, "write_cr0_trap"),
    (0x94, "write_cr4_trap"),
    (0x98, "write_cr8_trap"),
    (0x80000001, "vmgexit_mmio_read"),
    (0x80000002, "vmgexit_mmio_write"),
    (0x80000003, "vmgexit_nmi_complete"),
    (0x80000004, "vmgexit_ap_hlt_loop"),
    (0x80000005, "vmgexit_ap_jump_table"),
    (0x80000010, "vmgexit_page_state_change"),
    (0x80000011, "vmgexit_guest_request"),
    (0x80000012, "vmgexit_ext_guest_request"),
    (0x80000013, "vmgexit_ap_creation"),
    (0x8000fffd, "vmgexit_hypervisor_feature"),
    (0xffffffff, "invalid_guest_state"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_so_that_they_can_be_searched() {
        assert!(RANGES.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn names_and_codes_answer_each_other() {
        let vmx = ExitReason::NAMED.iter().map(|row| (Isa::Vmx, reason(row.0), row.1));
        let svm = ExitCode::NAMED.iter().map(|row| (Isa::Svm, code(row.0), row.1));
        let ranges = RANGES.iter().map(|row| (Isa::Svm, row.0, row.1));
        let all: Vec<_> = vmx.chain(svm).chain(ranges).collect();
        assert!(all.len() > 140, "{}", all.len());
        for (isa, code, name) in all {
            assert_eq!(isa.reason_name(code), Some(name));
            assert_eq!(isa.reason_named(name), Some(code));
        }
    }

    #[test]
    fn old_spellings_are_understood() {
        let rows = [
            (Isa::Vmx, "apic_access", Some(44)),
            (Isa::Vmx, "PENDING_INTERRUPT", Some(7)),
            (Isa::Svm, "npf", Some(0x400)),
            (Isa::Svm, "EPT_VIOLATION", None),
        ];
        for (isa, name, code) in rows {
            assert_eq!(isa.reason_named(name), code, "{name}");
        }
    }

    #[test]
    fn a_failed_entry_keeps_its_basic_reason() {
        assert_eq!(Isa::Vmx.reason_name(0x8000_0021), Some("INVALID_STATE"));
        assert_eq!(Isa::Svm.reason_name(0xffff_ffff), Some("invalid_guest_state"));
        assert_eq!(Isa::Svm.reason_name(0x1234), None);
    }
}
