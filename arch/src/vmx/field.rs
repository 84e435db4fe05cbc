//! The fields of a VMCS: encoding, width, group, and which control brings each into being.
//! [SDM3 "Field Encoding in VMCS"]

use super::control::{
    EntryControls as En, ExitControls as Ex, PinControls as Pi, PrimaryControls as Pr,
    SecondaryControls as Se, TertiaryControls as Te,
};
use super::requirement::Requirement::{self, *};
use serde::{Deserialize, Serialize};

/// A field, by the encoding that accesses all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Field(u16);

/// Bits 14:13 of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Width {
    /// 00b.
    Bits16 = 0,
    /// 01b: also accessed by halves, see [`Part`].
    Bits64 = 1,
    /// 10b.
    Bits32 = 2,
    /// 64 bits on processors with Intel 64.
    Natural = 3,
}

/// Bits 11:10 of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Group {
    /// 00b: what software sets.
    Control = 0,
    /// Exit information; VMWRITE refuses it unless IA32_VMX_MISC offers otherwise.
    ReadOnly = 1,
    /// 10b: what entries load and exits store.
    Guest = 2,
    /// 11b: what exits load.
    Host = 3,
}

/// Which part of a field an encoding accesses: bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// 0: all of it.
    Full,
    /// Bits 63:32 of a 64-bit field.
    High,
}

/// What the manual says of one field.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which one.
    pub field: Field,
    /// The module and the constant, as in `guest::CR0`.
    pub name: &'static str,
    /// The field exists only on processors that satisfy it.
    pub requirement: Requirement,
}

impl Field {
    /// What VMREAD and VMWRITE take to access all of the field.
    pub const fn encoding(self) -> u16 {
        self.0
    }

    /// How many bits the field has.
    pub const fn width(self) -> Width {
        match self.0 >> 13 & 3 {
            0 => Width::Bits16,
            1 => Width::Bits64,
            2 => Width::Bits32,
            _ => Width::Natural,
        }
    }

    /// What the field belongs to.
    pub const fn group(self) -> Group {
        match self.0 >> 10 & 3 {
            0 => Group::Control,
            1 => Group::ReadOnly,
            2 => Group::Guest,
            _ => Group::Host,
        }
    }

    /// Where the manual lists the encoding. [SDM3 "Field Encoding in VMCS"]
    pub const fn section(self) -> &'static str {
        match (self.width(), self.group()) {
            (Width::Bits16, Group::Control) => "SDM3 \"16-Bit Control Fields\"",
            (Width::Bits16, Group::Guest) => "SDM3 \"16-Bit Guest-State Fields\"",
            (Width::Bits16, _) => "SDM3 \"16-Bit Host-State Fields\"",
            (Width::Bits64, Group::Control) => "SDM3 \"64-Bit Control Fields\"",
            (Width::Bits64, Group::ReadOnly) => "SDM3 \"64-Bit Read-Only Data Field\"",
            (Width::Bits64, Group::Guest) => "SDM3 \"64-Bit Guest-State Fields\"",
            (Width::Bits64, Group::Host) => "SDM3 \"64-Bit Host-State Fields\"",
            (Width::Bits32, Group::Control) => "SDM3 \"32-Bit Control Fields\"",
            (Width::Bits32, Group::ReadOnly) => "SDM3 \"32-Bit Read-Only Data Fields\"",
            (Width::Bits32, Group::Guest) => "SDM3 \"32-Bit Guest-State Fields\"",
            (Width::Bits32, Group::Host) => "SDM3 \"32-Bit Host-State Field\"",
            (Width::Natural, Group::Control) => "SDM3 \"Natural-Width Control Fields\"",
            (Width::Natural, Group::ReadOnly) => "SDM3 \"Natural-Width Read-Only Data Fields\"",
            (Width::Natural, Group::Guest) => "SDM3 \"Natural-Width Guest-State Fields\"",
            (Width::Natural, Group::Host) => "SDM3 \"Natural-Width Host-State Fields\"",
        }
    }

    /// Bits 9:1, what IA32_VMX_VMCS_ENUM counts.
    pub const fn index(self) -> u16 {
        self.0 >> 1 & 0x1FF
    }

    /// What an operand of VMREAD or VMWRITE names, if the manual has such a field; whether the
    /// processor has it is another question.
    pub const fn decode(operand: u64) -> Option<(Self, Part)> {
        if operand >> 16 != 0 {
            return None;
        }
        let field = Self(operand as u16 & !1);
        let part = if operand & 1 == 0 { Part::Full } else { Part::High };
        let is_known = field.number().is_some();
        let has_part = matches!(part, Part::Full) || matches!(field.width(), Width::Bits64);
        if is_known && has_part { Some((field, part)) } else { None }
    }

    /// The field's place in [`TABLE`].
    pub const fn number(self) -> Option<usize> {
        if self.0 & RESERVED_BITS != 0 || self.index() as usize >= INDICES {
            return None;
        }
        match NUMBERS[slot(self)] {
            0 => None,
            number => Some(number as usize - 1),
        }
    }

    /// What the field's width keeps of a value.
    pub const fn mask(self) -> u64 {
        match self.width() {
            Width::Bits16 => 0xFFFF,
            Width::Bits32 => 0xFFFF_FFFF,
            Width::Bits64 | Width::Natural => u64::MAX,
        }
    }
}

/// Bits 15 and 12 of an encoding, and bit 0 of a full access.
const RESERVED_BITS: u16 = 0x9001;
/// Indices are below this.
const INDICES: usize = 64;

const fn slot(field: Field) -> usize {
    (field.0 >> 13 & 3) as usize * 4 * INDICES
        + (field.0 >> 10 & 3) as usize * INDICES
        + field.index() as usize
}

/// Places in [`TABLE`], plus one.
static NUMBERS: [u8; 16 * INDICES] = {
    let mut numbers = [0; 16 * INDICES];
    let mut at = 0;
    while at < TABLE.len() {
        numbers[slot(TABLE[at].field)] = at as u8 + 1;
        at += 1;
    }
    numbers
};

const _: () = assert!(TABLE.len() < 255);

macro_rules! fields {
    ($(
        $(#[$doc:meta])*
        $module:ident { $($name:ident = $encoding:literal, $requirement:expr;)* }
    )*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                use super::Field;
                $(
                    #[doc = concat!(
                        "Encoding ", stringify!($encoding), "; requirement `",
                        stringify!($requirement), "`."
                    )]
                    pub const $name: Field = Field($encoding);
                )*
            }
        )*

        /// Every field that the manual has.
        pub const TABLE: &[Row] = &[$($(Row {
            field: $module::$name,
            name: concat!(stringify!($module), "::", stringify!($name)),
            requirement: $requirement,
        },)*)*];
    };
}

fields! {
    /// [`Group::Control`]: what software sets for entries, for the guest's run and for exits.
    control {
        VPID = 0x0000, Secondary(Se::VPID);
        POSTED_INTERRUPT_VECTOR = 0x0002, Pin(Pi::POSTED_INTERRUPTS);
        EPTP_INDEX = 0x0004, Secondary(Se::EPT_VIOLATION_EXCEPTION);
        HLAT_PREFIX_SIZE = 0x0006, Tertiary(Te::HYPERVISOR_LINEAR_TRANSLATION);
        LAST_PID_POINTER_INDEX = 0x0008, Tertiary(Te::IPI_VIRTUALIZATION);

        IO_BITMAP_A = 0x2000, Always;
        IO_BITMAP_B = 0x2002, Always;
        MSR_BITMAPS = 0x2004, Primary(Pr::MSR_BITMAPS);
        EXIT_MSR_STORE_ADDRESS = 0x2006, Always;
        EXIT_MSR_LOAD_ADDRESS = 0x2008, Always;
        ENTRY_MSR_LOAD_ADDRESS = 0x200A, Always;
        EXECUTIVE_VMCS_POINTER = 0x200C, Always;
        PML_ADDRESS = 0x200E, Secondary(Se::PAGE_MODIFICATION_LOGGING);
        TSC_OFFSET = 0x2010, Always;
        VIRTUAL_APIC_ADDRESS = 0x2012, Primary(Pr::TPR_SHADOW);
        APIC_ACCESS_ADDRESS = 0x2014, Secondary(Se::VIRTUALIZE_APIC_ACCESSES);
        POSTED_INTERRUPT_DESCRIPTOR = 0x2016, Pin(Pi::POSTED_INTERRUPTS);
        VM_FUNCTIONS = 0x2018, Secondary(Se::VM_FUNCTIONS);
        EPT_POINTER = 0x201A, Secondary(Se::EPT);
        EOI_EXIT_BITMAP_0 = 0x201C, Secondary(Se::VIRTUAL_INTERRUPT_DELIVERY);
        EOI_EXIT_BITMAP_1 = 0x201E, Secondary(Se::VIRTUAL_INTERRUPT_DELIVERY);
        EOI_EXIT_BITMAP_2 = 0x2020, Secondary(Se::VIRTUAL_INTERRUPT_DELIVERY);
        EOI_EXIT_BITMAP_3 = 0x2022, Secondary(Se::VIRTUAL_INTERRUPT_DELIVERY);
        EPTP_LIST = 0x2024, EptpSwitching;
        VMREAD_BITMAP = 0x2026, Secondary(Se::VMCS_SHADOWING);
        VMWRITE_BITMAP = 0x2028, Secondary(Se::VMCS_SHADOWING);
        EXCEPTION_AREA = 0x202A, Secondary(Se::EPT_VIOLATION_EXCEPTION);
        XSS_EXITING_BITMAP = 0x202C, Secondary(Se::XSAVES_XRSTORS);
        ENCLS_EXITING_BITMAP = 0x202E, Secondary(Se::ENCLS_EXITING);
        SUB_PAGE_TABLE_POINTER = 0x2030, Secondary(Se::SUB_PAGE_WRITE_PERMISSIONS);
        TSC_MULTIPLIER = 0x2032, Secondary(Se::TSC_SCALING);
        TERTIARY = 0x2034, Primary(Pr::TERTIARY_CONTROLS);
        ENCLV_EXITING_BITMAP = 0x2036, Secondary(Se::ENCLV_EXITING);
        LOW_PASID_DIRECTORY = 0x2038, Secondary(Se::PASID_TRANSLATION);
        HIGH_PASID_DIRECTORY = 0x203A, Secondary(Se::PASID_TRANSLATION);
        SHARED_EPT_POINTER = 0x203C, Tertiary(Te::GUEST_PHYSICAL_WIDTH);
        PCONFIG_EXITING_BITMAP = 0x203E, Secondary(Se::PCONFIG);
        HLAT_POINTER = 0x2040, Tertiary(Te::HYPERVISOR_LINEAR_TRANSLATION);
        PID_POINTER_TABLE = 0x2042, Tertiary(Te::IPI_VIRTUALIZATION);
        SECONDARY_EXIT = 0x2044, Exit(Ex::SECONDARY_CONTROLS);
        SPEC_CTRL_MASK = 0x204A, Tertiary(Te::VIRTUALIZE_SPEC_CTRL);
        SPEC_CTRL_SHADOW = 0x204C, Tertiary(Te::VIRTUALIZE_SPEC_CTRL);
        INJECTED_EVENT_DATA = 0x2052, Entry(En::LOAD_FRED);

        PIN = 0x4000, Always;
        PRIMARY = 0x4002, Always;
        EXCEPTION_BITMAP = 0x4004, Always;
        PAGE_FAULT_MASK = 0x4006, Always;
        PAGE_FAULT_MATCH = 0x4008, Always;
        CR3_TARGET_COUNT = 0x400A, Always;
        EXIT = 0x400C, Always;
        EXIT_MSR_STORE_COUNT = 0x400E, Always;
        EXIT_MSR_LOAD_COUNT = 0x4010, Always;
        ENTRY = 0x4012, Always;
        ENTRY_MSR_LOAD_COUNT = 0x4014, Always;
        ENTRY_INTERRUPTION_INFO = 0x4016, Always;
        ENTRY_ERROR_CODE = 0x4018, Always;
        ENTRY_INSTRUCTION_LENGTH = 0x401A, Always;
        TPR_THRESHOLD = 0x401C, Primary(Pr::TPR_SHADOW);
        SECONDARY = 0x401E, Primary(Pr::SECONDARY_CONTROLS);
        PLE_GAP = 0x4020, Secondary(Se::PAUSE_LOOP_EXITING);
        PLE_WINDOW = 0x4022, Secondary(Se::PAUSE_LOOP_EXITING);
        INSTRUCTION_TIMEOUT = 0x4024, Secondary(Se::INSTRUCTION_TIMEOUT);

        CR0_MASK = 0x6000, Always;
        CR4_MASK = 0x6002, Always;
        CR0_SHADOW = 0x6004, Always;
        CR4_SHADOW = 0x6006, Always;
        CR3_TARGET_0 = 0x6008, Cr3Targets(1);
        CR3_TARGET_1 = 0x600A, Cr3Targets(2);
        CR3_TARGET_2 = 0x600C, Cr3Targets(3);
        CR3_TARGET_3 = 0x600E, Cr3Targets(4);
    }

    /// [`Group::ReadOnly`]: what exits, and VMX instructions that fail, report.
    exit {
        GUEST_PHYSICAL_ADDRESS = 0x2400, Secondary(Se::EPT);
        MSR_DATA = 0x2402, Tertiary(Te::MSR_LIST);
        ORIGINAL_EVENT_DATA = 0x2404, Entry(En::LOAD_FRED);

        INSTRUCTION_ERROR = 0x4400, Always;
        REASON = 0x4402, Always;
        INTERRUPTION_INFO = 0x4404, Always;
        INTERRUPTION_ERROR_CODE = 0x4406, Always;
        IDT_VECTORING_INFO = 0x4408, Always;
        IDT_VECTORING_ERROR_CODE = 0x440A, Always;
        INSTRUCTION_LENGTH = 0x440C, Always;
        INSTRUCTION_INFORMATION = 0x440E, Always;

        QUALIFICATION = 0x6400, Always;
        IO_RCX = 0x6402, Always;
        IO_RSI = 0x6404, Always;
        IO_RDI = 0x6406, Always;
        IO_RIP = 0x6408, Always;
        GUEST_LINEAR_ADDRESS = 0x640A, Always;
    }

    /// [`Group::Guest`]: what entries load and exits store.
    guest {
        ES_SELECTOR = 0x0800, Always;
        CS_SELECTOR = 0x0802, Always;
        SS_SELECTOR = 0x0804, Always;
        DS_SELECTOR = 0x0806, Always;
        FS_SELECTOR = 0x0808, Always;
        GS_SELECTOR = 0x080A, Always;
        LDTR_SELECTOR = 0x080C, Always;
        TR_SELECTOR = 0x080E, Always;
        INTERRUPT_STATUS = 0x0810, Secondary(Se::VIRTUAL_INTERRUPT_DELIVERY);
        PML_INDEX = 0x0812, Secondary(Se::PAGE_MODIFICATION_LOGGING);
        UINV = 0x0814, EntryOrExit(En::LOAD_UINV, Ex::CLEAR_UINV);

        VMCS_LINK_POINTER = 0x2800, Always;
        DEBUGCTL = 0x2802, Always;
        PAT = 0x2804, EntryOrExit(En::LOAD_PAT, Ex::SAVE_PAT);
        EFER = 0x2806, EntryOrExit(En::LOAD_EFER, Ex::SAVE_EFER);
        PERF_GLOBAL_CTRL = 0x2808, Entry(En::LOAD_PERF_GLOBAL_CTRL);
        PDPTE_0 = 0x280A, Secondary(Se::EPT);
        PDPTE_1 = 0x280C, Secondary(Se::EPT);
        PDPTE_2 = 0x280E, Secondary(Se::EPT);
        PDPTE_3 = 0x2810, Secondary(Se::EPT);
        BNDCFGS = 0x2812, EntryOrExit(En::LOAD_BNDCFGS, Ex::CLEAR_BNDCFGS);
        RTIT_CTL = 0x2814, EntryOrExit(En::LOAD_RTIT_CTL, Ex::CLEAR_RTIT_CTL);
        LBR_CTL = 0x2816, EntryOrExit(En::LOAD_LBR_CTL, Ex::CLEAR_LBR_CTL);
        PKRS = 0x2818, Entry(En::LOAD_PKRS);
        FRED_CONFIG = 0x281A, Entry(En::LOAD_FRED);
        FRED_RSP1 = 0x281C, Entry(En::LOAD_FRED);
        FRED_RSP2 = 0x281E, Entry(En::LOAD_FRED);
        FRED_RSP3 = 0x2820, Entry(En::LOAD_FRED);
        FRED_STKLVLS = 0x2822, Entry(En::LOAD_FRED);
        FRED_SSP1 = 0x2824, Entry(En::LOAD_FRED);
        FRED_SSP2 = 0x2826, Entry(En::LOAD_FRED);
        FRED_SSP3 = 0x2828, Entry(En::LOAD_FRED);

        ES_LIMIT = 0x4800, Always;
        CS_LIMIT = 0x4802, Always;
        SS_LIMIT = 0x4804, Always;
        DS_LIMIT = 0x4806, Always;
        FS_LIMIT = 0x4808, Always;
        GS_LIMIT = 0x480A, Always;
        LDTR_LIMIT = 0x480C, Always;
        TR_LIMIT = 0x480E, Always;
        GDTR_LIMIT = 0x4810, Always;
        IDTR_LIMIT = 0x4812, Always;
        ES_ACCESS_RIGHTS = 0x4814, Always;
        CS_ACCESS_RIGHTS = 0x4816, Always;
        SS_ACCESS_RIGHTS = 0x4818, Always;
        DS_ACCESS_RIGHTS = 0x481A, Always;
        FS_ACCESS_RIGHTS = 0x481C, Always;
        GS_ACCESS_RIGHTS = 0x481E, Always;
        LDTR_ACCESS_RIGHTS = 0x4820, Always;
        TR_ACCESS_RIGHTS = 0x4822, Always;
        INTERRUPTIBILITY = 0x4824, Always;
        ACTIVITY = 0x4826, Always;
        SMBASE = 0x4828, Always;
        SYSENTER_CS = 0x482A, Always;
        PREEMPTION_TIMER = 0x482E, Pin(Pi::PREEMPTION_TIMER);

        CR0 = 0x6800, Always;
        CR3 = 0x6802, Always;
        CR4 = 0x6804, Always;
        ES_BASE = 0x6806, Always;
        CS_BASE = 0x6808, Always;
        SS_BASE = 0x680A, Always;
        DS_BASE = 0x680C, Always;
        FS_BASE = 0x680E, Always;
        GS_BASE = 0x6810, Always;
        LDTR_BASE = 0x6812, Always;
        TR_BASE = 0x6814, Always;
        GDTR_BASE = 0x6816, Always;
        IDTR_BASE = 0x6818, Always;
        DR7 = 0x681A, Always;
        RSP = 0x681C, Always;
        RIP = 0x681E, Always;
        RFLAGS = 0x6820, Always;
        PENDING_DEBUG = 0x6822, Always;
        SYSENTER_ESP = 0x6824, Always;
        SYSENTER_EIP = 0x6826, Always;
        S_CET = 0x6828, Entry(En::LOAD_CET);
        SSP = 0x682A, Entry(En::LOAD_CET);
        INTERRUPT_SSP_TABLE = 0x682C, Entry(En::LOAD_CET);
    }

    /// [`Group::Host`]: what exits load.
    host {
        ES_SELECTOR = 0x0C00, Always;
        CS_SELECTOR = 0x0C02, Always;
        SS_SELECTOR = 0x0C04, Always;
        DS_SELECTOR = 0x0C06, Always;
        FS_SELECTOR = 0x0C08, Always;
        GS_SELECTOR = 0x0C0A, Always;
        TR_SELECTOR = 0x0C0C, Always;

        PAT = 0x2C00, Exit(Ex::LOAD_PAT);
        EFER = 0x2C02, Exit(Ex::LOAD_EFER);
        PERF_GLOBAL_CTRL = 0x2C04, Exit(Ex::LOAD_PERF_GLOBAL_CTRL);
        PKRS = 0x2C06, Exit(Ex::LOAD_PKRS);
        FRED_CONFIG = 0x2C08, SecondaryExit(LOAD_FRED);
        FRED_RSP1 = 0x2C0A, SecondaryExit(LOAD_FRED);
        FRED_RSP2 = 0x2C0C, SecondaryExit(LOAD_FRED);
        FRED_RSP3 = 0x2C0E, SecondaryExit(LOAD_FRED);
        FRED_STKLVLS = 0x2C10, SecondaryExit(LOAD_FRED);
        FRED_SSP1 = 0x2C12, SecondaryExit(LOAD_FRED);
        FRED_SSP2 = 0x2C14, SecondaryExit(LOAD_FRED);
        FRED_SSP3 = 0x2C16, SecondaryExit(LOAD_FRED);

        SYSENTER_CS = 0x4C00, Always;

        CR0 = 0x6C00, Always;
        CR3 = 0x6C02, Always;
        CR4 = 0x6C04, Always;
        FS_BASE = 0x6C06, Always;
        GS_BASE = 0x6C08, Always;
        TR_BASE = 0x6C0A, Always;
        GDTR_BASE = 0x6C0C, Always;
        IDTR_BASE = 0x6C0E, Always;
        SYSENTER_ESP = 0x6C10, Always;
        SYSENTER_EIP = 0x6C12, Always;
        RSP = 0x6C14, Always;
        RIP = 0x6C16, Always;
        S_CET = 0x6C18, Exit(Ex::LOAD_CET);
        SSP = 0x6C1A, Exit(Ex::LOAD_CET);
        INTERRUPT_SSP_TABLE = 0x6C1C, Exit(Ex::LOAD_CET);
    }
}

/// Secondary VM-exit controls: the processor loads FRED's state of the host.
const LOAD_FRED: u64 = 1 << 1;

/// Fields of one segment register, from ES to TR in the order of [`SEGMENTS`].
#[derive(Clone, Copy, Debug)]
pub struct SegmentFields {
    /// Two bytes.
    pub selector: Field,
    /// A linear address, of natural width.
    pub base: Field,
    /// In bytes, with granularity applied.
    pub limit: Field,
    /// See [`super::segment::AccessRights`].
    pub access_rights: Field,
}

/// ES, CS, SS, DS, FS, GS, LDTR, TR of the guest.
pub const SEGMENTS: [SegmentFields; 8] = {
    let mut segments = [segment(0); 8];
    let mut at = 0;
    while at < segments.len() {
        segments[at] = segment(at as u16);
        at += 1;
    }
    segments
};

const fn segment(at: u16) -> SegmentFields {
    SegmentFields {
        selector: Field(guest::ES_SELECTOR.0 + 2 * at),
        base: Field(guest::ES_BASE.0 + 2 * at),
        limit: Field(guest::ES_LIMIT.0 + 2 * at),
        access_rights: Field(guest::ES_ACCESS_RIGHTS.0 + 2 * at),
    }
}

/// The index of LDTR and TR in [`SEGMENTS`].
pub const LDTR: usize = 6;
/// See [`LDTR`].
pub const TR: usize = 7;
