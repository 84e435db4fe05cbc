//! Which instructions wait until others see all that the processor has stored, where stores are
//! kept (`memory=tso`). [SDM3 "Store Buffer"] [SDM3 "Serializing Instructions"] [APM2 "Serializing
//! Instructions"]
//!
//! Events, VM exits and accesses of devices do so where they are made.

use crate::Cpu;
use crate::operation::{Kind, Op};
use arch::msr;
use iced_x86::{Code, Mnemonic};

const RCX: usize = 1;
/// The x2APIC's registers that the exception names. [SDM3 "MSR Access in x2APIC Mode"]
const X2APIC: std::ops::RangeInclusive<u32> = 0x802..=0x83F;

/// Whether it does. LFENCE does not, and neither does SYSRET; HLT and MWAIT do, though no manual
/// asks for it: what a processor has stored is seen before it sleeps.
pub(crate) fn drains(cpu: &Cpu, op: &Op, kind: Kind) -> bool {
    if op.has(Op::LOCK) {
        return true;
    }
    match kind.mnemonic() {
        Mnemonic::Xchg => op.has(Op::MEMORY),
        Mnemonic::Mov => is_control_write(kind) && (is_debug(kind) || op.a != 8),
        Mnemonic::Wrmsr => is_serializing(cpu, cpu.registers.gpr[RCX] as u32),
        mnemonic => always(mnemonic),
    }
}

fn always(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Mfence
            | Sfence
            | Serialize
            | Cpuid
            | Iret
            | Iretd
            | Iretq
            | Rsm
            | Invd
            | Wbinvd
            | Wbnoinvd
            | Invlpg
            | Invlpga
            | Invpcid
            | Invept
            | Invvpid
            | Lgdt
            | Lidt
            | Lldt
            | Ltr
            | Lmsw
            | Clts
            | In
            | Out
            | Insb
            | Insw
            | Insd
            | Outsb
            | Outsw
            | Outsd
            | Hlt
            | Mwait
            | Senduipi
            | Vmrun
            | Vmload
            | Vmsave
            | Vmmcall
            | Vmcall
            | Vmlaunch
            | Vmresume
            | Vmptrld
            | Vmptrst
            | Vmclear
            | Vmxon
            | Vmxoff
    )
}

fn is_debug(kind: Kind) -> bool {
    matches!(kind.code(), Code::Mov_dr_r32 | Code::Mov_dr_r64)
}

/// MOV to a control or debug register.
fn is_control_write(kind: Kind) -> bool {
    is_debug(kind) || matches!(kind.code(), Code::Mov_cr_r32 | Code::Mov_cr_r64)
}

/// Whether WRMSR of this register serializes.
///
/// DEVIATION(SDM3 "Serializing Instructions"): SPEC_CTRL, PRED_CMD and others that Intel's manual
/// excepts as well serialize here.
fn is_serializing(cpu: &Cpu, register: u32) -> bool {
    let is_apic = X2APIC.contains(&register) || register == msr::TSC_DEADLINE;
    !is_apic || cpu.model.differences().serializes_apic_writes
}
