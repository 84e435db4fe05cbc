//! EXITCODE and the layouts of EXITINFO1 and EXITINFO2. [APM2 "SVM Intercept Exit Codes"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

macro_rules! exit_codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal $(as $linux:literal)?,)*) => {
        /// Why #VMEXIT happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ExitCode {
            /// 000h–00Fh
            ControlRead(u8),
            /// 010h–01Fh
            ControlWrite(u8),
            /// 020h–02Fh
            DebugRead(u8),
            /// 030h–03Fh
            DebugWrite(u8),
            /// 040h–05Fh
            Exception(u8),
            /// 090h–09Fh: after a write of CR0–15.
            ControlWriteTrap(u8),
            $(
                #[doc = concat!("VMEXIT code ", stringify!($value), ".")]
                $(#[$doc])*
                $name,
            )*
            /// A code that the manual does not list.
            Unknown(u64),
        }

        impl ExitCode {
            /// Codes that Linux's tracepoint of exits has a name for, but for those that are one of
            /// a range of registers or vectors.
            pub const NAMED: &[(Self, &str)] = &[$($((Self::$name, $linux),)?)*];

            /// Decodes the field EXITCODE, in all its 64 bits.
            pub const fn from_bits(bits: u64) -> Self {
                match bits {
                    0x00..=0x0F => Self::ControlRead(bits as u8),
                    0x10..=0x1F => Self::ControlWrite(bits as u8 & 15),
                    0x20..=0x2F => Self::DebugRead(bits as u8 & 15),
                    0x30..=0x3F => Self::DebugWrite(bits as u8 & 15),
                    0x40..=0x5F => Self::Exception(bits as u8 & 31),
                    0x90..=0x9F => Self::ControlWriteTrap(bits as u8 & 15),
                    $($value => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// What the field EXITCODE holds.
            pub const fn into_bits(self) -> u64 {
                match self {
                    Self::ControlRead(register) => register as u64 & 15,
                    Self::ControlWrite(register) => 0x10 | register as u64 & 15,
                    Self::DebugRead(register) => 0x20 | register as u64 & 15,
                    Self::DebugWrite(register) => 0x30 | register as u64 & 15,
                    Self::Exception(vector) => 0x40 | vector as u64 & 31,
                    Self::ControlWriteTrap(register) => 0x90 | register as u64 & 15,
                    $(Self::$name => $value,)*
                    Self::Unknown(bits) => bits,
                }
            }

            /// What Linux's tracepoint of exits calls it, where it has a name for it.
            pub const fn linux_name(self) -> Option<&'static str> {
                match self {
                    $($(Self::$name => Some($linux),)?)*
                    _ => None,
                }
            }
        }
    };
}

exit_codes! {
    /// A physical interrupt, which stays pending.
    Intr = 0x60 as "interrupt",
    Nmi = 0x61 as "nmi",
    Smi = 0x62 as "smi",
    /// One that VM_CR does not redirect.
    Init = 0x63 as "init",
    /// The guest would take the virtual interrupt that V_IRQ announces.
    VirtualInterrupt = 0x64 as "vintr",
    /// A write that changes more than TS or MP.
    Cr0SelectiveWrite = 0x65 as "cr0_sel_write",
    IdtrRead = 0x66 as "read_idtr",
    GdtrRead = 0x67 as "read_gdtr",
    LdtrRead = 0x68 as "read_ldtr",
    TrRead = 0x69 as "read_rt",
    IdtrWrite = 0x6A as "write_idtr",
    GdtrWrite = 0x6B as "write_gdtr",
    LdtrWrite = 0x6C as "write_ldtr",
    TrWrite = 0x6D as "write_rt",
    Rdtsc = 0x6E as "rdtsc",
    Rdpmc = 0x6F as "rdpmc",
    Pushf = 0x70 as "pushf",
    Popf = 0x71 as "popf",
    Cpuid = 0x72 as "cpuid",
    Rsm = 0x73 as "rsm",
    Iret = 0x74 as "iret",
    /// INTn.
    SoftwareInterrupt = 0x75 as "swint",
    Invd = 0x76 as "invd",
    Pause = 0x77 as "pause",
    Hlt = 0x78 as "hlt",
    Invlpg = 0x79 as "invlpg",
    Invlpga = 0x7A as "invlpga",
    IoPort = 0x7B as "io",
    Msr = 0x7C as "msr",
    TaskSwitch = 0x7D as "task_switch",
    /// FERR# asserts the legacy x87 error while IGNNE is off.
    FerrFreeze = 0x7E as "ferr_freeze",
    /// Of the guest, as by a triple fault.
    Shutdown = 0x7F as "shutdown",
    Vmrun = 0x80 as "vmrun",
    Vmmcall = 0x81 as "hypercall",
    Vmload = 0x82 as "vmload",
    Vmsave = 0x83 as "vmsave",
    Stgi = 0x84 as "stgi",
    Clgi = 0x85 as "clgi",
    Skinit = 0x86 as "skinit",
    Rdtscp = 0x87 as "rdtscp",
    /// ICEBP (INT1).
    Icebp = 0x88 as "icebp",
    /// Also WBINVD's kin, WBNOINVD.
    Wbinvd = 0x89 as "wbinvd",
    Monitor = 0x8A as "monitor",
    Mwait = 0x8B as "mwait",
    /// MWAIT while the monitor is armed.
    MwaitArmed = 0x8C,
    Xsetbv = 0x8D as "xsetbv",
    Rdpru = 0x8E,
    EferWriteTrap = 0x8F as "write_efer_trap",
    Invlpgb = 0xA0,
    /// Of an operand that the processor does not support.
    IllegalInvlpgb = 0xA1,
    Invpcid = 0xA2 as "invpcid",
    Mcommit = 0xA3,
    Tlbsync = 0xA4,
    /// The bus-lock threshold has come to 0.
    BusLock = 0xA5 as "buslock",
    /// HLT with no virtual interrupt or NMI to wake it.
    IdleHlt = 0xA6 as "idle-halt",
    /// See [`NestedPageFaultInfo`].
    NestedPageFault = 0x400 as "npf",
    /// See [`super::avic::IncompleteIpi`].
    AvicIncompleteIpi = 0x401 as "avic_incomplete_ipi",
    /// See [`super::avic::NoAcceleration`].
    AvicNoAcceleration = 0x402 as "avic_unaccelerated_access",
    /// VMGEXIT of an SEV-ES guest.
    Vmgexit = 0x403 as "vmgexit",
    /// SEV-SNP: a page that the guest has not accepted.
    PageNotValidated = 0x404,
    PageModificationLogFull = 0x407,
    /// The guest state is illegal.
    Invalid = 0xFFFF_FFFF_FFFF_FFFF,
    /// The VMSA is in use.
    Busy = 0xFFFF_FFFF_FFFF_FFFE,
    /// The other thread of the core is not idle.
    IdleRequired = 0xFFFF_FFFF_FFFF_FFFD,
    /// The state of the virtualized counters is illegal.
    InvalidPmc = 0xFFFF_FFFF_FFFF_FFFC,
}

/// EXITINFO1 of [`ExitCode::IoPort`]; EXITINFO2 is the rIP of the next instruction.
/// [APM2 "IOIO Intercepts"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPortInfo {
    /// \[0\] TYPE: IN or INS.
    pub is_input: bool,
    __: bool,
    /// \[2\] STR: INS or OUTS.
    pub is_string: bool,
    /// \[3\] REP
    pub is_repeated: bool,
    /// \[4\] SZ8
    pub is_8_bit: bool,
    /// \[5\] SZ16
    pub is_16_bit: bool,
    /// \[6\] SZ32
    pub is_32_bit: bool,
    /// \[7\] A16
    pub is_16_bit_address: bool,
    /// \[8\] A32
    pub is_32_bit_address: bool,
    /// \[9\] A64
    pub is_64_bit_address: bool,
    /// \[12:10\] effective segment of a string instruction, with DecodeAssists: ES, CS, SS, DS, FS,
    /// GS.
    #[bits(3)]
    pub segment: u8,
    #[bits(3)]
    __: u8,
    /// \[31:16\]
    pub port: u16,
    __: u32,
}

/// EXITINFO1 of [`ExitCode::NestedPageFault`]; EXITINFO2 is the guest physical address.
/// [APM2 "Nested versus Guest Page Faults, Fault Ordering"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedPageFaultInfo {
    /// \[0\] P: the nested page was present.
    pub is_present: bool,
    /// \[1\] RW
    pub is_write: bool,
    /// \[2\] US: always set, nested walks are user accesses.
    pub is_user: bool,
    /// \[3\] RSV: a reserved bit was set in a nested entry.
    pub is_reserved: bool,
    /// \[4\] ID
    pub is_fetch: bool,
    __: bool,
    /// \[6\] SS
    pub is_shadow_stack: bool,
    #[bits(25)]
    __: u32,
    /// \[32\] while translating the guest's final physical address.
    pub is_final_translation: bool,
    /// \[33\] while translating the address of a guest page table.
    pub is_table_walk: bool,
    #[bits(30)]
    __: u32,
}

/// EXITINFO1 of intercepted MOV to and from control registers, with DecodeAssists.
/// [APM2 "MOV CRx/DRx Intercepts"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveControlInfo {
    /// \[3:0\]
    #[bits(4)]
    pub general_register: u8,
    #[bits(59)]
    __: u64,
    /// \[63\] MOV, as opposed to CLTS, LMSW and SMSW.
    pub is_move: bool,
}

/// EXITINFO2 of [`ExitCode::TaskSwitch`]; EXITINFO1\[15:0\] is the selector of the new TSS.
/// [APM2 "Task Switch Intercept"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSwitchInfo {
    /// \[31:0\]
    pub error_code: u32,
    #[bits(4)]
    __: u8,
    /// \[36\]
    pub is_iret: bool,
    __: bool,
    /// \[38\]
    pub is_far_jump: bool,
    #[bits(5)]
    __: u8,
    /// \[44\]
    pub has_error_code: bool,
    #[bits(3)]
    __: u8,
    /// \[48\] RFLAGS.RF as the outgoing TSS would hold it.
    pub resume_flag: bool,
    #[bits(15)]
    __: u16,
}

/// EXITINFO1 of [`ExitCode::Msr`].
pub const MSR_READ: u64 = 0;
/// WRMSR, as opposed to [`MSR_READ`].
pub const MSR_WRITE: u64 = 1;
