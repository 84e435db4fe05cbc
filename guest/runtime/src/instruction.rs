//! Instructions that Rust has no words for.

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _rdtsc};

pub use core::arch::x86_64::CpuidResult;

/// The time stamp, read after every earlier instruction has completed.
#[inline(always)]
pub fn time_stamp() -> u64 {
    // SAFETY: both instructions exist in long mode and touch no memory.
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
        _rdtsc()
    }
}

/// CPUID of a leaf and subleaf; zero where the processor has none of that number.
#[inline(always)]
pub fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    __cpuid_count(leaf, subleaf)
}

/// The CPUID leaf, or zeroes where the processor has none of that number.
pub fn cpuid_if_present(leaf: u32, subleaf: u32) -> CpuidResult {
    let last = cpuid(leaf & 0xFFFF_0000, 0).eax;
    if leaf <= last { cpuid(leaf, subleaf) } else { CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 } }
}

/// Reads an MSR; one that does not exist ends the program through the #GP handler.
#[inline(always)]
pub fn read_msr(msr: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reading has no effect on memory; a #GP is caught and reported.
    unsafe {
        asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high,
             options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes an MSR.
///
/// # Safety
/// The value must keep this program's view of memory and its control flow as they are.
#[inline(always)]
pub unsafe fn write_msr(msr: u32, value: u64) {
    // SAFETY: the caller's promise. Memory is a barrier, since the write may send an interrupt
    // whose receiver reads what was stored before.
    unsafe {
        asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
             options(nostack, preserves_flags));
    }
}

/// MSRs that this program puts to no use, so that any value may be written.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum UnusedMsr {
    /// Swapped with the base of GS by an instruction that this program does not use.
    KernelGsBase = arch::msr::KERNEL_GS_BASE,
    /// Added to the time-stamp counter; written with the value that it has.
    TscAdjust = arch::msr::TSC_ADJUST,
}

/// WRMSR of an MSR that nothing depends on.
#[inline(always)]
pub fn write_unused_msr(msr: UnusedMsr, value: u64) {
    // SAFETY: neither is part of this program's view of memory: it runs no SWAPGS.
    unsafe { write_msr(msr as u32, value) }
}

/// Has the processor with an APIC ID look at its AVIC guest's page. [APM2 "Doorbell Register"]
#[inline(always)]
pub fn ring_avic_doorbell(host_apic_id: u32) {
    // SAFETY: the receiver looks at its guest's interrupts, no more.
    unsafe { write_msr(arch::svm::msr::AVIC_DOORBELL, u64::from(host_apic_id)) }
}

/// MFENCE; LFENCE: what orders a store before a write of an MSR that is not serializing.
/// [SDM3 "MSR Access in x2APIC Mode"]
#[inline(always)]
pub fn fence_before_msr() {
    // SAFETY: fences only.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) }
}

/// STI: interrupts come from behind the next instruction on.
#[inline(always)]
pub fn enable_interrupts() {
    // SAFETY: every vector has a gate whose handler keeps all registers.
    unsafe { asm!("sti", options(nostack)) }
}

/// CLI.
#[inline(always)]
pub fn disable_interrupts() {
    // SAFETY: masks interrupts only.
    unsafe { asm!("cli", options(nostack)) }
}

fn interrupts_are_enabled() -> bool {
    const INTERRUPT_FLAG: u64 = 1 << 9;
    let flags: u64;
    // SAFETY: reads the flags by way of the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & INTERRUPT_FLAG != 0
}

/// MOV to CR8 of a task priority, whose upper four bits are the class. [APM2 "CR8 (Task Priority
/// Register, TPR)"]
#[inline(always)]
pub fn set_task_priority(priority: u32) {
    // SAFETY: it holds interrupts back or lets them come, and each vector has a gate.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(priority >> 4), options(nostack)) }
}

/// Does something that no interrupt may come into.
pub fn without_interrupts(action: impl FnOnce()) {
    let was_enabled = interrupts_are_enabled();
    disable_interrupts();
    action();
    if was_enabled {
        enable_interrupts();
    }
}

/// Sleeps until an interrupt. STI's shadow makes the pair atomic: no interrupt is missed between.
#[inline(always)]
pub fn enable_interrupts_and_halt() {
    // SAFETY: as `enable_interrupts`.
    unsafe { asm!("sti", "hlt", options(nostack)) }
}

/// Stops this processor.
pub fn halt_forever() -> ! {
    loop {
        // SAFETY: nothing runs after it.
        unsafe { asm!("cli", "hlt", options(nostack)) }
    }
}

/// Sleeps with interrupts enabled until `condition` holds; interrupts are enabled afterwards.
pub fn halt_until(condition: impl Fn() -> bool) {
    loop {
        disable_interrupts();
        if condition() {
            enable_interrupts();
            return;
        }
        enable_interrupts_and_halt();
    }
}

macro_rules! port_access {
    ($($input:ident, $output:ident, $size:ty, $register:tt;)*) => {$(
        /// Reads the port.
        #[inline(always)]
        pub fn $input(port: u16) -> $size {
            let value: $size;
            // SAFETY: ports are not memory.
            unsafe {
                asm!(concat!("in ", $register, ", dx"), in("dx") port, out($register) value,
                     options(nostack, preserves_flags));
            }
            value
        }

        /// Writes the port.
        #[inline(always)]
        pub fn $output(port: u16, value: $size) {
            // SAFETY: ports are not memory; this program starts no DMA by them.
            unsafe {
                asm!(concat!("out dx, ", $register), in("dx") port, in($register) value,
                     options(nostack, preserves_flags));
            }
        }
    )*};
}

port_access! {
    in8, out8, u8, "al";
    in16, out16, u16, "ax";
    in32, out32, u32, "eax";
}

/// The task priority as CR8 holds it, bits 7:4 of the APIC's register.
#[inline(always)]
pub fn set_task_priority_class(class: u8) {
    // SAFETY: decides which interrupts are held back, no more.
    unsafe { asm!("mov cr8, {}", in(reg) u64::from(class & 15), options(nostack)) }
}

/// The address that caused the last page fault.
pub fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nostack, preserves_flags)) }
    address
}
