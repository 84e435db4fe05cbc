//! A hypervisor to begin with: it prints a line and passes.

#![no_std]
#![no_main]
use core::arch::{asm, global_asm};

// The header that makes it a Multiboot image, and the way from 32-bit protected mode without
// paging, which Multiboot enters, to 64-bit mode: the first GiB is mapped to itself.
global_asm!(
    ".section .boot, \"ax\"", ".balign 4",
    ".long 0x1badb002, 0, -0x1badb002",
    ".code32", ".global start", "start:",
    "mov esp, offset stack_end",
    "mov dword ptr [level4], offset level3 + 3",
    "mov dword ptr [level3], offset level2 + 3",
    "mov eax, 0x83", "mov ecx, offset level2",
    "2: mov [ecx], eax", "add ecx, 8", "add eax, 0x200000", "cmp eax, 0x40000083", "jne 2b",
    "mov eax, cr4", "or eax, 0x620", "mov cr4, eax",
    "mov eax, offset level4", "mov cr3, eax",
    "mov ecx, 0xc0000080", "rdmsr", "or eax, 0x100", "wrmsr",
    "mov eax, cr0", "and eax, ~4", "or eax, 0x80000002", "mov cr0, eax",
    "lgdt [gdt_pointer]", "push 8", "mov eax, offset start64", "push eax", "retf",
    ".code64", "start64:", "xor eax, eax", "mov ss, eax", "mov ds, eax", "mov es, eax",
    "call {main}", "ud2",
    ".balign 8", "gdt: .quad 0, 0x00209a0000000000", "gdt_pointer: .word 15", ".long gdt",
    ".bss", ".balign 4096", "level4: .skip 4096", "level3: .skip 4096", "level2: .skip 4096",
    ".skip 16384", "stack_end:", ".text",
    main = sym main,
);

fn out(port: u16, byte: u8) {
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte) }
}

extern "C" fn main() -> ! {
    b"hello\n".iter().for_each(|byte| out(0xE9, *byte));
    out(0xF4, 0); // passed
    loop {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    out(0xF4, 1); // failed
    loop {}
}
