//! The instructions and registers of user interrupts. [SDM3 "User-Interrupt Instructions"]
#![expect(unsafe_code, reason = "instructions that Rust has no words for")]

use arch::control::Cr4;
use arch::uintr::{UintrMisc, UintrTargets};
use core::arch::asm;
use runtime::instruction::{cpuid_if_present, read_msr, write_msr};

const EDX_7_UINTR: u32 = 1 << 5;

/// Whether the processor has them.
pub fn are_enumerated() -> bool {
    cpuid_if_present(7, 0).edx & EDX_7_UINTR != 0
}

/// Sends to the target at `index`.
#[inline(always)]
pub fn send(index: u64) {
    // SAFETY: what it posts is delivered to a handler that keeps all registers.
    unsafe { asm!(".byte 0xF3, 0x0F, 0xC7, 0xF0", in("rax") index, options(nostack)) }
}

/// CLUI, or STUI.
#[inline(always)]
pub fn set_flag(is_set: bool) {
    // SAFETY: as above.
    match is_set {
        true => unsafe { asm!(".byte 0xF3, 0x0F, 0x01, 0xEF", options(nostack)) },
        false => unsafe { asm!(".byte 0xF3, 0x0F, 0x01, 0xEE", options(nostack)) },
    }
}

/// TESTUI.
pub fn flag() -> bool {
    let is_set: u8;
    // SAFETY: it changes flags only.
    unsafe { asm!(".byte 0xF3, 0x0F, 0x01, 0xED", "setc {}", out(reg_byte) is_set) };
    is_set != 0
}

/// What the MSRs are to say.
pub struct Registers {
    pub handler: u64,
    pub stack_adjustment: u64,
    pub misc: UintrMisc,
    pub descriptor: u64,
    pub targets: UintrTargets,
}

/// Loads the MSRs, without a request, and enables user interrupts on this processor.
pub fn enable(registers: &Registers) {
    // SAFETY: the handler keeps all registers, below the red zone that the adjustment skips; the
    // tables are the caller's, in memory that stays.
    unsafe {
        write_msr(arch::msr::UINTR_REQUESTS, 0);
        write_msr(arch::msr::UINTR_HANDLER, registers.handler);
        write_msr(arch::msr::UINTR_STACK_ADJUSTMENT, registers.stack_adjustment);
        write_msr(arch::msr::UINTR_MISC, registers.misc.into_bits());
        write_msr(arch::msr::UINTR_DESCRIPTOR, registers.descriptor);
        write_msr(arch::msr::UINTR_TARGETS, registers.targets.into_bits());
        asm!(
            "mov {0}, cr4", "or {0}, {1}", "mov cr4, {0}",
            out(reg) _, const Cr4::UINTR.bits(), options(nostack)
        );
    }
}

/// UIRR, at privilege 0.
pub fn requests() -> u64 {
    read_msr(arch::msr::UINTR_REQUESTS)
}

/// UINV as IA32_UINTR_MISC shows it, at privilege 0.
pub fn notification_vector() -> u8 {
    UintrMisc::from_bits(read_msr(arch::msr::UINTR_MISC)).notification_vector()
}
