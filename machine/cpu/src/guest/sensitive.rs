//! What a hypervisor may intercept of the instructions, with their operands.
//! [APM2 "Instruction Intercepts"] [SDM3 "Instructions That Cause VM Exits"]

/// A descriptor-table register, as the table intercepts name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Idtr,
    Gdtr,
    Ldtr,
    Tr,
}

/// The direction and kind of a port access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    In,
    Out,
    InString,
    OutString,
}

/// The instruction that reads or writes a control register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// MOV
    Move,
    /// SMSW or LMSW
    MachineStatus,
    /// CLTS
    ClearTaskSwitched,
}

/// An instruction that a hypervisor may look at, about to do its work: its privilege is checked,
/// nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sensitive {
    Cpuid,
    Hlt,
    Icebp,
    IntN,
    Invd,
    Invlpg {
        linear: u64,
    },
    Invpcid,
    Iret,
    /// LMSW, before its operand is read.
    LoadMachineStatus,
    Monitor,
    Mwait,
    Pause,
    Popf,
    /// IN, OUT, INS, OUTS; `size` in bytes.
    Port {
        port: u16,
        size: u8,
        io: Io,
    },
    Pushf,
    Rdpid,
    Rdpmc,
    /// `size` of the register in bytes.
    Rdrand {
        size: u8,
    },
    /// `size` of the register in bytes.
    Rdseed {
        size: u8,
    },
    Rdtsc,
    Rdtscp,
    ReadControl {
        number: u8,
        form: Form,
    },
    ReadDebug {
        number: u8,
    },
    ReadMsr {
        number: u32,
    },
    /// SGDT, SIDT, SLDT, STR
    ReadTable(Table),
    Rsm,
    /// XSAVES or XRSTORS of these components that IA32_XSS has on.
    SupervisorState {
        restores: bool,
        components: u64,
    },
    Wbinvd,
    /// `value` is what the whole register would become.
    WriteControl {
        number: u8,
        value: u64,
        form: Form,
    },
    WriteDebug {
        number: u8,
    },
    WriteMsr {
        number: u32,
    },
    /// LGDT, LIDT, LLDT, LTR
    WriteTable(Table),
    Xsetbv,
}
