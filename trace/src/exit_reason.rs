//! The names of VM exits: what `kvm_exit` prints for a reason, and back.
//!
//! Follows the symbol tables of the Linux tracepoint, which `perf kvm stat` prints as well. A
//! VMX reason is its basic part (15:0); bit 31 flags a failed entry. [SDM3 "Basic VM-Exit
//! Information"] [APM2 "SVM Intercept Exit Codes"]

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

    const fn table(self) -> &'static [(u32, &'static str)] {
        match self {
            Self::Vmx => VMX,
            Self::Svm => SVM,
        }
    }

    /// The name of a reason, `None` where the table has no such code.
    pub fn reason_name(self, reason: u32) -> Option<&'static str> {
        let code = if self == Self::Vmx { reason & 0xffff } else { reason };
        let table = self.table();
        table.binary_search_by_key(&code, |row| row.0).ok().map(|row| table[row].1)
    }

    /// The reason of a name. Kernels before 4.x print VMX names in lower case, and both vendors
    /// have renamed a few.
    pub fn reason_named(self, name: &str) -> Option<u32> {
        let exact = |row: &&(u32, &str)| row.1.eq_ignore_ascii_case(name);
        let renamed = || {
            let row = RENAMED.iter().find(|row| row.0 == self && row.1.eq_ignore_ascii_case(name));
            row.map(|row| row.2)
        };
        self.table().iter().find(exact).map(|row| row.0).or_else(renamed)
    }
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
    /// MOV to CR8.
    pub const WRITE_CR8: u32 = 0x18;
    /// A physical interrupt.
    pub const INTERRUPT: u32 = 0x60;
    /// A window for a virtual interrupt has opened.
    pub const VINTR: u32 = 0x64;
    /// PAUSE, as often as the filter lets pass.
    pub const PAUSE: u32 = 0x77;
    /// HLT.
    pub const HLT: u32 = 0x78;
    /// A port of the I/O permission map.
    pub const IO: u32 = 0x7b;
    /// RDMSR or WRMSR, by the MSR permission map; info1 is 1 for a write.
    pub const MSR: u32 = 0x7c;
    /// MWAIT.
    pub const MWAIT: u32 = 0x8b;
    /// MONITOR.
    pub const MONITOR: u32 = 0x8a;
    /// HLT with nothing virtual pending.
    pub const IDLE_HALT: u32 = 0xa6;
    /// A nested page fault; MMIO shows as one.
    pub const NESTED_PAGE_FAULT: u32 = 0x400;
    /// An IPI that AVIC could not deliver to all its targets.
    pub const AVIC_INCOMPLETE_IPI: u32 = 0x401;
    /// A register that AVIC leaves to the hypervisor.
    pub const AVIC_UNACCELERATED_ACCESS: u32 = 0x402;
}

/// The codes the rest of the project reasons about, by the names of the tables below.
pub mod vmx {
    /// A physical interrupt.
    pub const EXTERNAL_INTERRUPT: u32 = 1;
    /// The guest can take an interrupt that waits.
    pub const INTERRUPT_WINDOW: u32 = 7;
    /// HLT.
    pub const HLT: u32 = 12;
    /// MOV to or from CR0, CR3, CR4 or CR8, CLTS, LMSW.
    pub const CR_ACCESS: u32 = 28;
    /// A port of the I/O bitmaps.
    pub const IO_INSTRUCTION: u32 = 30;
    /// RDMSR, by the MSR bitmap.
    pub const MSR_READ: u32 = 31;
    /// WRMSR, by the MSR bitmap.
    pub const MSR_WRITE: u32 = 32;
    /// MWAIT.
    pub const MWAIT: u32 = 36;
    /// PAUSE, or a loop of it.
    pub const PAUSE: u32 = 40;
    /// The guest's task priority fell below what the next interrupt needs.
    pub const TPR_BELOW_THRESHOLD: u32 = 43;
    /// The APIC-access page, where the access is not virtualized.
    pub const APIC_ACCESS: u32 = 44;
    /// EOI of a vector that the EOI-exit bitmap names.
    pub const EOI_INDUCED: u32 = 45;
    /// No EPT mapping, or none that allows the access.
    pub const EPT_VIOLATION: u32 = 48;
    /// A reserved combination in an EPT entry, which KVM uses to mark MMIO.
    pub const EPT_MISCONFIG: u32 = 49;
    /// The VMX-preemption timer ran out: KVM's stand-in for the guest's deadline timer.
    pub const PREEMPTION_TIMER: u32 = 52;
    /// After a write to the virtual-APIC page that the hypervisor has to act upon.
    pub const APIC_WRITE: u32 = 56;
    /// RDMSR with an immediate number.
    pub const MSR_READ_IMM: u32 = 84;
    /// WRMSRNS with an immediate number.
    pub const MSR_WRITE_IMM: u32 = 85;
}

const VMX: &[(u32, &str)] = &[
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"),
    (7, "INTERRUPT_WINDOW"),
    (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"),
    (10, "CPUID"),
    (12, "HLT"),
    (13, "INVD"),
    (14, "INVLPG"),
    (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"),
    (19, "VMCLEAR"),
    (20, "VMLAUNCH"),
    (21, "VMPTRLD"),
    (22, "VMPTRST"),
    (23, "VMREAD"),
    (24, "VMRESUME"),
    (25, "VMWRITE"),
    (26, "VMOFF"),
    (27, "VMON"),
    (28, "CR_ACCESS"),
    (29, "DR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (33, "INVALID_STATE"),
    (34, "MSR_LOAD_FAIL"),
    (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"),
    (39, "MONITOR_INSTRUCTION"),
    (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (46, "GDTR_IDTR"),
    (47, "LDTR_TR"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (50, "INVEPT"),
    (51, "RDTSCP"),
    (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"),
    (54, "WBINVD"),
    (55, "XSETBV"),
    (56, "APIC_WRITE"),
    (57, "RDRAND"),
    (58, "INVPCID"),
    (59, "VMFUNC"),
    (60, "ENCLS"),
    (61, "RDSEED"),
    (62, "PML_FULL"),
    (63, "XSAVES"),
    (64, "XRSTORS"),
    (67, "UMWAIT"),
    (68, "TPAUSE"),
    (74, "BUS_LOCK"),
    (75, "NOTIFY"),
    (77, "TDCALL"),
    (84, "MSR_READ_IMM"),
    (85, "MSR_WRITE_IMM"),
];
const SVM: &[(u32, &str)] = &[
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
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x62, "smi"),
    (0x63, "init"),
    (0x64, "vintr"),
    (0x65, "cr0_sel_write"),
    (0x66, "read_idtr"),
    (0x67, "read_gdtr"),
    (0x68, "read_ldtr"),
    (0x69, "read_rt"),
    (0x6a, "write_idtr"),
    (0x6b, "write_gdtr"),
    (0x6c, "write_ldtr"),
    (0x6d, "write_rt"),
    (0x6e, "rdtsc"),
    (0x6f, "rdpmc"),
    (0x70, "pushf"),
    (0x71, "popf"),
    (0x72, "cpuid"),
    (0x73, "rsm"),
    (0x74, "iret"),
    (0x75, "swint"),
    (0x76, "invd"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x79, "invlpg"),
    (0x7a, "invlpga"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7d, "task_switch"),
    (0x7e, "ferr_freeze"),
    (0x7f, "shutdown"),
    (0x80, "vmrun"),
    (0x81, "hypercall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x85, "clgi"),
    (0x86, "skinit"),
    (0x87, "rdtscp"),
    (0x88, "icebp"),
    (0x89, "wbinvd"),
    (0x8a, "monitor"),
    (0x8b, "mwait"),
    (0x8d, "xsetbv"),
    (0x8f, "write_efer_trap"),
    (0x90, "write_cr0_trap"),
    (0x94, "write_cr4_trap"),
    (0x98, "write_cr8_trap"),
    (0xa2, "invpcid"),
    (0xa5, "buslock"),
    (0xa6, "idle-halt"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
    (0x403, "vmgexit"),
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
    fn tables_are_sorted_so_that_they_can_be_searched() {
        for isa in [Isa::Vmx, Isa::Svm] {
            assert!(isa.table().windows(2).all(|pair| pair[0].0 < pair[1].0), "{isa:?}");
        }
    }

    #[test]
    fn names_and_codes_answer_each_other() {
        for isa in [Isa::Vmx, Isa::Svm] {
            for (code, name) in isa.table() {
                assert_eq!(isa.reason_name(*code), Some(*name));
                assert_eq!(isa.reason_named(name), Some(*code));
            }
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
