//! The intercept vectors at VMCB 000h–017h. [APM2 "Instruction Intercepts"]

use super::exit::ExitCode;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// All intercepts of one VMCB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Intercepts {
    /// \[15:0\] reads of CR0–15, \[31:16\] writes.
    pub control_registers: u32,
    /// \[15:0\] reads of DR0–15, \[31:16\] writes.
    pub debug_registers: u32,
    /// A bit per exception vector.
    pub exceptions: u32,
    /// Events and the first instructions.
    pub vector3: Vector3,
    /// Virtualization's own instructions, and traps after writes of control registers.
    pub vector4: Vector4,
    /// What was added last.
    pub vector5: Vector5,
}

impl Intercepts {
    /// Whether what exits with this code, and has a bit of its own, is intercepted: vectors 3 to 5
    /// hold the bits of 32 codes each, from 60h, 80h and A0h on.
    /// [APM2 "SVM Intercept Exit Codes"]
    pub const fn of(&self, code: ExitCode) -> bool {
        let bits = code.into_bits();
        let vector = match bits {
            0x60..=0x7F => self.vector3.bits(),
            0x80..=0x9F => self.vector4.bits(),
            0xA0..=0xBF => self.vector5.bits(),
            _ => 0,
        };
        vector >> (bits & 31) & 1 != 0
    }

    /// Whether MOV from the register, and for CR0 also SMSW, is intercepted.
    pub const fn reads_control(&self, register: u8) -> bool {
        self.control_registers >> (register & 15) & 1 != 0
    }

    /// Whether writes of the register are intercepted before they happen.
    pub const fn writes_control(&self, register: u8) -> bool {
        self.control_registers >> (16 + (register & 15)) & 1 != 0
    }

    /// Whether the guest leaves after a write of the register.
    pub const fn traps_control(&self, register: u8) -> bool {
        self.vector4.bits() >> (16 + (register & 15)) & 1 != 0
    }

    /// Whether MOV from the register is intercepted.
    pub const fn reads_debug(&self, register: u8) -> bool {
        self.debug_registers >> (register & 15) & 1 != 0
    }

    /// Whether MOV to the register is intercepted.
    pub const fn writes_debug(&self, register: u8) -> bool {
        self.debug_registers >> (16 + (register & 15)) & 1 != 0
    }

    /// Whether the exception `vector` is intercepted; vectors above 31 cannot be.
    pub const fn exception(&self, vector: u8) -> bool {
        vector < 32 && self.exceptions >> vector & 1 != 0
    }
}

bitflags! {
    /// VMCB 00Ch. Bit n is exit code 60h + n.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct Vector3: u32 {
        /// Physical maskable interrupts.
        const INTR = 1 << 0;
        /// Physical NMIs.
        const NMI = 1 << 1;
        /// System management interrupts.
        const SMI = 1 << 2;
        /// INIT, where VM_CR does not redirect it.
        const INIT = 1 << 3;
        /// Virtual interrupts that V_IRQ announces.
        const VINTR = 1 << 4;
        /// Writes of CR0 that change more than TS or MP.
        const CR0_SELECTIVE_WRITE = 1 << 5;
        /// SIDT.
        const IDTR_READ = 1 << 6;
        /// SGDT.
        const GDTR_READ = 1 << 7;
        /// SLDT.
        const LDTR_READ = 1 << 8;
        /// STR.
        const TR_READ = 1 << 9;
        /// LIDT.
        const IDTR_WRITE = 1 << 10;
        /// LGDT.
        const GDTR_WRITE = 1 << 11;
        /// LLDT.
        const LDTR_WRITE = 1 << 12;
        /// LTR.
        const TR_WRITE = 1 << 13;
        /// RDTSC; RDTSCP has a bit of its own.
        const RDTSC = 1 << 14;
        /// RDPMC.
        const RDPMC = 1 << 15;
        /// PUSHF.
        const PUSHF = 1 << 16;
        /// POPF.
        const POPF = 1 << 17;
        /// CPUID.
        const CPUID = 1 << 18;
        /// RSM.
        const RSM = 1 << 19;
        /// IRET, before it unmasks NMIs.
        const IRET = 1 << 20;
        /// INT n, but neither INT3 nor INTO.
        const INT_N = 1 << 21;
        /// INVD.
        const INVD = 1 << 22;
        /// PAUSE, as far as the pause filter lets it.
        const PAUSE = 1 << 23;
        /// HLT.
        const HLT = 1 << 24;
        /// INVLPG.
        const INVLPG = 1 << 25;
        /// INVLPGA.
        const INVLPGA = 1 << 26;
        /// Consult the I/O permission map.
        const IOIO = 1 << 27;
        /// Consult the MSR permission map.
        const MSR = 1 << 28;
        /// By CALL, JMP, IRET, or a gate.
        const TASK_SWITCH = 1 << 29;
        /// The freeze on an x87 error that IGNNE would ignore.
        const FERR_FREEZE = 1 << 30;
        /// Shutdown, as by a triple fault.
        const SHUTDOWN = 1 << 31;
    }
}

bitflags! {
    /// VMCB 010h. Bit n is exit code 80h + n.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct Vector4: u32 {
        /// Must be set, or VMRUN exits with VMEXIT_INVALID.
        const VMRUN = 1 << 0;
        /// VMMCALL; without it the instruction raises #UD.
        const VMMCALL = 1 << 1;
        /// VMLOAD; consulted also where it is virtual.
        const VMLOAD = 1 << 2;
        /// VMSAVE; consulted also where it is virtual.
        const VMSAVE = 1 << 3;
        /// STGI.
        const STGI = 1 << 4;
        /// CLGI.
        const CLGI = 1 << 5;
        /// SKINIT.
        const SKINIT = 1 << 6;
        /// RDTSCP.
        const RDTSCP = 1 << 7;
        /// ICEBP (INT1).
        const ICEBP = 1 << 8;
        /// WBINVD and WBNOINVD.
        const WBINVD = 1 << 9;
        /// MONITOR.
        const MONITOR = 1 << 10;
        /// MWAIT, armed or not.
        const MWAIT = 1 << 11;
        /// MWAIT only while the monitor is armed.
        const MWAIT_ARMED = 1 << 12;
        /// XSETBV.
        const XSETBV = 1 << 13;
        /// RDPRU.
        const RDPRU = 1 << 14;
        /// After a write of EFER.
        const EFER_WRITE_TRAP = 1 << 15;
        /// After a write of CR0; bits 17–31 for CR1–15.
        const CR0_WRITE_TRAP = 1 << 16;

        const _ = !0;
    }
}

bitflags! {
    /// VMCB 014h. Bit n is exit code A0h + n.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct Vector5: u32 {
        /// INVLPGB, all of them.
        const INVLPGB = 1 << 0;
        /// INVLPGB with an operand that the processor does not support.
        const ILLEGAL_INVLPGB = 1 << 1;
        /// INVPCID.
        const INVPCID = 1 << 2;
        /// MCOMMIT.
        const MCOMMIT = 1 << 3;
        /// TLBSYNC.
        const TLBSYNC = 1 << 4;
        /// Bus locks, as VMCB 120h counts them down.
        const BUS_LOCK = 1 << 5;
        /// HLT while no virtual interrupt or NMI would end it.
        const IDLE_HLT = 1 << 6;

        const _ = !0;
    }
}
