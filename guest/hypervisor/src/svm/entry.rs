//! Switching SVM on, and the world switch. [APM2 "VMRUN Instruction"] [APM2 "VMSAVE and VMLOAD
//! Instructions"]
//!
//! VMRUN exchanges what every guest has; FS, GS, TR, LDTR and the MSRs of system calls go by VMLOAD
//! and VMSAVE; general and vector registers by plain loads and stores. The global interrupt flag is
//! clear from before the last look at what to inject until after the exit: a physical interrupt
//! that arrives in between is taken at VMRUN and ends it at once. [APM2 "Global Interrupt Flag"]

#![expect(unsafe_code, reason = "the world switch changes every register there is")]

use crate::registers::{GENERAL, Registers};
use arch::control::Efer;
use arch::svm::msr::VM_HSAVE_PA;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use runtime::instruction::{read_msr, write_msr};
use runtime::processor::{self, MAX_CPUS};

/// A VMCB, or another page that VMRUN and its kin take by its physical address.
#[repr(C, align(4096))]
pub struct Page(pub [u8; 4096]);

struct HostPages {
    /// For VM_HSAVE_PA: its format is the processor's own.
    save: UnsafeCell<Page>,
    /// Takes our side of VMSAVE and VMLOAD.
    state: UnsafeCell<Page>,
}
// SAFETY: each element is used by the processor of its index only, through instructions.
unsafe impl Sync for HostPages {}

static HOST_PAGES: [HostPages; MAX_CPUS] = [const {
    HostPages { save: UnsafeCell::new(Page([0; 4096])), state: UnsafeCell::new(Page([0; 4096])) }
}; MAX_CPUS];

/// Enables SVM on this processor and gives it its host save area.
pub fn enable() {
    let save = HOST_PAGES[processor::current().index()].save.get() as u64;
    let efer = Efer::from_bits_retain(read_msr(arch::msr::EFER)) | Efer::SVM;
    // SAFETY: SVME adds instructions; the save area is a page that nothing else uses.
    unsafe {
        write_msr(arch::msr::EFER, efer.bits());
        write_msr(VM_HSAVE_PA, save);
    }
}

/// Disables SVM on this processor, as it was found.
pub fn disable() {
    let efer = Efer::from_bits_retain(read_msr(arch::msr::EFER)) - Efer::SVM;
    // SAFETY: no instruction of SVM is executed until it is enabled again.
    unsafe { write_msr(arch::msr::EFER, efer.bits()) }
}

/// Clears the global interrupt flag: from here to [`hold_off_no_more`], nothing interrupts.
pub fn hold_off_interrupts() {
    // SAFETY: SVM is enabled on processors that get here.
    unsafe { asm!("clgi", options(nostack)) }
}

/// Sets the global interrupt flag: what has arrived meanwhile is taken now.
pub fn hold_off_no_more() {
    // SAFETY: as above.
    unsafe { asm!("stgi", options(nostack)) }
}

/// Runs the guest of a VMCB until its next exit. The global interrupt flag is clear before and
/// after.
pub fn run(vmcb: &mut Page, registers: &mut Registers) {
    let host = HOST_PAGES[processor::current().index()].state.get() as u64;
    // SAFETY: the VMCB's nested tables confine the guest to its own memory (`nested`), its
    // permission maps to harmless ports and registers; everything else of ours is saved and
    // restored.
    unsafe { switch(core::ptr::from_mut(vmcb) as u64, registers, host) }
}

/// # Safety
/// `vmcb` and `host` are physical addresses of pages that are the caller's; SVM is enabled; the
/// global interrupt flag is clear and RFLAGS.IF is set.
#[unsafe(naked)]
unsafe extern "C" fn switch(vmcb: u64, registers: *mut Registers, host: u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi",
        "push rdx",
        "push rdi",
        "mov rax, rdx",
        "vmsave rax",
        "fxrstor64 [rsi]",
        "mov rax, rdi",
        "vmload rax",
        "mov rcx, [rsi + {general} + 8 * 1]",
        "mov rdx, [rsi + {general} + 8 * 2]",
        "mov rbx, [rsi + {general} + 8 * 3]",
        "mov rbp, [rsi + {general} + 8 * 5]",
        "mov rdi, [rsi + {general} + 8 * 7]",
        "mov r8, [rsi + {general} + 8 * 8]",
        "mov r9, [rsi + {general} + 8 * 9]",
        "mov r10, [rsi + {general} + 8 * 10]",
        "mov r11, [rsi + {general} + 8 * 11]",
        "mov r12, [rsi + {general} + 8 * 12]",
        "mov r13, [rsi + {general} + 8 * 13]",
        "mov r14, [rsi + {general} + 8 * 14]",
        "mov r15, [rsi + {general} + 8 * 15]",
        "mov rsi, [rsi + {general} + 8 * 6]",
        "vmrun rax",
        // RAX and RSP are ours again; the guest's are in the VMCB.
        "vmsave rax",
        "mov rax, [rsp + 16]",
        "mov [rax + {general} + 8 * 1], rcx",
        "mov [rax + {general} + 8 * 2], rdx",
        "mov [rax + {general} + 8 * 3], rbx",
        "mov [rax + {general} + 8 * 5], rbp",
        "mov [rax + {general} + 8 * 6], rsi",
        "mov [rax + {general} + 8 * 7], rdi",
        "mov [rax + {general} + 8 * 8], r8",
        "mov [rax + {general} + 8 * 9], r9",
        "mov [rax + {general} + 8 * 10], r10",
        "mov [rax + {general} + 8 * 11], r11",
        "mov [rax + {general} + 8 * 12], r12",
        "mov [rax + {general} + 8 * 13], r13",
        "mov [rax + {general} + 8 * 14], r14",
        "mov [rax + {general} + 8 * 15], r15",
        "fxsave64 [rax]",
        "mov rax, [rsp + 8]",
        "vmload rax",
        // The calling convention has SSE's control word survive a call.
        "mov dword ptr [rsp], 0x1F80",
        "ldmxcsr [rsp]",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        general = const GENERAL,
    )
}
