//! The intercept vectors at VMCB 000h–017h. [APM2 "Instruction Intercepts"]

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
    pub vector3: Vector3,
    pub vector4: Vector4,
    pub vector5: Vector5,
}

impl Intercepts {
    pub const fn reads_control(&self, register: u8) -> bool {
        self.control_registers >> (register & 15) & 1 != 0
    }

    pub const fn writes_control(&self, register: u8) -> bool {
        self.control_registers >> (16 + (register & 15)) & 1 != 0
    }

    /// Whether the guest leaves after a write of the register.
    pub const fn traps_control(&self, register: u8) -> bool {
        self.vector4.bits() >> (16 + (register & 15)) & 1 != 0
    }

    pub const fn reads_debug(&self, register: u8) -> bool {
        self.debug_registers >> (register & 15) & 1 != 0
    }

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
        const INTR = 1 << 0;
        const NMI = 1 << 1;
        const SMI = 1 << 2;
        const INIT = 1 << 3;
        const VINTR = 1 << 4;
        /// Writes of CR0 that change more than TS or MP.
        const CR0_SELECTIVE_WRITE = 1 << 5;
        const IDTR_READ = 1 << 6;
        const GDTR_READ = 1 << 7;
        const LDTR_READ = 1 << 8;
        const TR_READ = 1 << 9;
        const IDTR_WRITE = 1 << 10;
        const GDTR_WRITE = 1 << 11;
        const LDTR_WRITE = 1 << 12;
        const TR_WRITE = 1 << 13;
        const RDTSC = 1 << 14;
        const RDPMC = 1 << 15;
        const PUSHF = 1 << 16;
        const POPF = 1 << 17;
        const CPUID = 1 << 18;
        const RSM = 1 << 19;
        const IRET = 1 << 20;
        const INT_N = 1 << 21;
        const INVD = 1 << 22;
        const PAUSE = 1 << 23;
        const HLT = 1 << 24;
        const INVLPG = 1 << 25;
        const INVLPGA = 1 << 26;
        /// Consult the I/O permission map.
        const IOIO = 1 << 27;
        /// Consult the MSR permission map.
        const MSR = 1 << 28;
        const TASK_SWITCH = 1 << 29;
        const FERR_FREEZE = 1 << 30;
        const SHUTDOWN = 1 << 31;
    }
}

bitflags! {
    /// VMCB 010h. Bit n is exit code 80h + n.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct Vector4: u32 {
        const VMRUN = 1 << 0;
        const VMMCALL = 1 << 1;
        const VMLOAD = 1 << 2;
        const VMSAVE = 1 << 3;
        const STGI = 1 << 4;
        const CLGI = 1 << 5;
        const SKINIT = 1 << 6;
        const RDTSCP = 1 << 7;
        const ICEBP = 1 << 8;
        /// WBINVD and WBNOINVD.
        const WBINVD = 1 << 9;
        const MONITOR = 1 << 10;
        const MWAIT = 1 << 11;
        /// MWAIT only while the monitor is armed.
        const MWAIT_ARMED = 1 << 12;
        const XSETBV = 1 << 13;
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
        const INVLPGB = 1 << 0;
        const ILLEGAL_INVLPGB = 1 << 1;
        const INVPCID = 1 << 2;
        const MCOMMIT = 1 << 3;
        const TLBSYNC = 1 << 4;
        const BUS_LOCK = 1 << 5;
        const IDLE_HLT = 1 << 6;

        const _ = !0;
    }
}
