//! VMX operation, and the world switch. [SDM3 "VM Entries"] [SDM3 "VM Exits"]
//!
//! The VMCS exchanges control and segment registers, RSP, RIP and RFLAGS; MSR areas those of system
//! calls; general and vector registers go by plain loads and stores. Interrupts are disabled from
//! before the last look at what to inject until after the exit: one that arrives in between exits
//! at once, and is acknowledged by the exit.

#![expect(unsafe_code, reason = "the world switch changes every register there is")]

use crate::registers::{GENERAL, Registers};
use crate::vmx::feature::FEATURE_CONTROL;
use crate::vmx::vmcs::{self, Region};
use arch::vmx::capability::{CR0_FIXED0, CR4_FIXED0};
use arch::vmx::field;
use arch::vmx::msr::FeatureControl;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use runtime::descriptor::{self, CODE_SELECTOR, DATA_SELECTOR, TASK_SELECTOR};
use runtime::instruction::{read_msr, write_msr};
use runtime::processor::{self, MAX_CPUS};

struct VmxonRegion(UnsafeCell<Region>);
// SAFETY: each element is used by the processor of its index only.
unsafe impl Sync for VmxonRegion {}

static REGIONS: [VmxonRegion; MAX_CPUS] =
    [const { VmxonRegion(UnsafeCell::new(Region::new())) }; MAX_CPUS];

fn control_registers() -> (u64, u64, u64) {
    let (cr0, cr3, cr4);
    // SAFETY: reads registers.
    unsafe {
        asm!("mov {}, cr0", "mov {}, cr3", "mov {}, cr4", out(reg) cr0, out(reg) cr3, out(reg) cr4,
             options(nostack, preserves_flags));
    }
    (cr0, cr3, cr4)
}

/// Enters VMX operation on this processor. [SDM3 "Enabling and Entering VMX Operation"]
pub fn enable(revision: u32) {
    let region = REGIONS[processor::current().index()].0.get();
    let control = FeatureControl::from_bits(read_msr(FEATURE_CONTROL));
    let (cr0, _, cr4) = control_registers();
    // SAFETY: the register is not locked where it is written; the fixed bits add checks of x87
    // errors and instructions that nothing else here uses; the region is this processor's.
    unsafe {
        if !control.is_locked() {
            let value = control.with_vmx_outside_smx(true).with_is_locked(true);
            write_msr(FEATURE_CONTROL, value.into_bits());
        }
        asm!("mov cr0, {}", "mov cr4, {}", in(reg) cr0 | CR0_FIXED0, in(reg) cr4 | CR4_FIXED0,
             options(nostack));
        (*region).set_revision(revision);
        let address = region as u64;
        asm!("vmxon [{}]", in(reg) &raw const address, options(nostack));
    }
    vmcs::invalidate_ept();
}

/// Leaves VMX operation. No VMCS is active any more.
pub fn disable() {
    let (_, _, cr4) = control_registers();
    // SAFETY: no instruction of VMX is executed until it is enabled again.
    unsafe {
        asm!("vmxoff", "mov cr4, {}", in(reg) cr4 & !CR4_FIXED0, options(nostack));
    }
}

/// Fills the current VMCS's area for this processor's own state.
/// [SDM3 "Host-State Area"]
pub fn set_host_state() {
    use field::host;
    let (cr0, cr3, cr4) = control_registers();
    let tables = descriptor::loaded(processor::current().index());
    let data = [host::ES_SELECTOR, host::SS_SELECTOR, host::DS_SELECTOR];
    data.iter().for_each(|&selector| vmcs::write(selector, u64::from(DATA_SELECTOR)));
    let fields = [
        (host::CS_SELECTOR, u64::from(CODE_SELECTOR)),
        (host::FS_SELECTOR, 0),
        (host::GS_SELECTOR, 0),
        (host::TR_SELECTOR, u64::from(TASK_SELECTOR)),
        (host::CR0, cr0),
        (host::CR3, cr3),
        (host::CR4, cr4),
        (host::FS_BASE, read_msr(arch::msr::FS_BASE)),
        (host::GS_BASE, read_msr(arch::msr::GS_BASE)),
        (host::TR_BASE, tables.task.0),
        (host::GDTR_BASE, tables.segments.0),
        (host::IDTR_BASE, tables.gates.0),
        (host::SYSENTER_CS, 0),
        (host::SYSENTER_ESP, 0),
        (host::SYSENTER_EIP, 0),
        (host::PAT, read_msr(arch::msr::PAT)),
        (host::EFER, read_msr(arch::msr::EFER)),
    ];
    fields.into_iter().for_each(|(field, value)| vmcs::write(field, value));
}

/// Runs the guest of the current VMCS until its next exit; false if it could not be entered.
/// Interrupts are disabled before and after.
pub fn run(is_launched: bool, registers: &mut Registers) -> bool {
    // SAFETY: EPT confines the guest to its own memory (`ept`), its permission maps to harmless
    // ports and registers; everything else of ours is saved and restored.
    unsafe { switch(is_launched, registers) == 0 }
}

/// Zero after a VM exit; other than that, the entry failed.
///
/// # Safety
/// The current VMCS has this processor's state and tables that confine the guest.
#[unsafe(naked)]
unsafe extern "C" fn switch(is_launched: bool, registers: *mut Registers) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi",
        "mov eax, {host_rsp}",
        "vmwrite rax, rsp",
        "lea rcx, [rip + 2f]",
        "mov eax, {host_rip}",
        "vmwrite rax, rcx",
        "fxrstor64 [rsi]",
        "test dil, dil",
        "mov rax, [rsi + {general} + 8 * 0]",
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
        "jnz 3f",
        "vmlaunch",
        "jmp 4f",
        "3:",
        "vmresume",
        // Nothing was entered.
        "4:",
        "mov eax, 1",
        "jmp 5f",
        // An exit. The guest's RSP is in the VMCS.
        "2:",
        "push rax",
        "mov rax, [rsp + 8]",
        "pop qword ptr [rax + {general} + 8 * 0]",
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
        "xor eax, eax",
        "5:",
        // The calling convention has SSE's control word survive a call.
        "mov dword ptr [rsp], 0x1F80",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        general = const GENERAL,
        host_rsp = const field::host::RSP.encoding(),
        host_rip = const field::host::RIP.encoding(),
    )
}
