//! From a Multiboot loader's 32-bit protected mode, and from real mode after a startup IPI, to Rust
//! in long mode. [MULTIBOOT "Machine state"] [APM2 "Long Mode Initialization"]
//!
//! The address fields of the Multiboot header are set, so that loaders which take only 32-bit ELF
//! files (QEMU) load this 64-bit one by them.
//!
//! All memory below 4 GiB is mapped to itself, by 2 MiB pages; what lies at and above
//! E000_0000h is not cached, since devices are there.

use crate::processor::{MAX_CPUS, STACK_SIZE};
use core::arch::global_asm;

/// Where the real-mode code is copied; the startup IPI carries bits 19:12.
pub const TRAMPOLINE: u64 = 0x8000;

global_asm!(
    r#"
    .section .multiboot, "a"
    .balign 4
multiboot_header:
    .long 0x1BADB002                    # magic
    .long 0x00010003                    # modules aligned, memory information, addresses
    .long -(0x1BADB002 + 0x00010003)
    .long multiboot_header
    .long image_start
    .long image_load_end
    .long image_end
    .long start32

    .section .text.boot, "ax"
    .code32
    .globl start32
start32:
    cli
    cld
    movl %eax, boot_magic
    movl %ebx, boot_information
    movl $boot_pdpt + 3, boot_pml4
    movl $boot_pd + 3, %eax
    movl $boot_pdpt, %edi
    movl $4, %ecx
1:  movl %eax, (%edi)
    addl $0x1000, %eax
    addl $8, %edi
    decl %ecx
    jnz 1b
    movl $0x83, %eax                    # present, writable, 2 MiB
    movl $boot_pd, %edi
    movl $2048, %ecx
2:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    decl %ecx
    jnz 2b
    movl $boot_pd + 1792 * 8, %edi
    movl $256, %ecx
3:  orl $0x18, (%edi)                   # write-through, not cached
    addl $8, %edi
    decl %ecx
    jnz 3b
    xorl %edi, %edi                     # CPU 0
    lgdtl boot_gdt_pointer

    # EDI: the CPU's index.
enter_long_mode:
    movl %cr4, %eax
    orl $0x620, %eax                    # PAE, OSFXSR, OSXMMEXCPT: core is compiled for SSE2
    movl %eax, %cr4
    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl $0xC0000080, %ecx
    rdmsr
    orl $0x100, %eax                    # LME
    wrmsr
    movl %cr0, %eax
    andl $0x9FFFFFF3, %eax              # not CD, NW, EM, TS
    orl $0x80010023, %eax               # PG, WP, NE, MP, PE
    movl %eax, %cr0
    ljmpl $0x08, $start64

ap_start32:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $1, %edi
    lock xaddl %edi, next_cpu
    cmpl ${max_cpus}, %edi
    jb enter_long_mode
4:  cli
    hlt
    jmp 4b

    .code64
start64:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %eax, %eax
    movw %ax, %fs
    movw %ax, %gs
    leal 1(%rdi), %eax
    imulq ${stack_size}, %rax, %rax
    leaq cpu_stacks(%rax), %rsp
    xorl %ebp, %ebp
    call runtime_entry
    ud2

    .section .rodata.trampoline, "a"
    .code16
    .globl trampoline_start
trampoline_start:
    cli
    movw %cs, %ax
    movw %ax, %ds
    lgdtl trampoline_gdt_pointer - trampoline_start
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $ap_start32
    .balign 4
trampoline_gdt_pointer:
    .word 31
    .long boot_gdt
    .globl trampoline_end
trampoline_end:
    .code64

    .section .data.boot, "aw"
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00AF9B000000FFFF            # 08h: 64-bit code
    .quad 0x00CF93000000FFFF            # 10h: data
    .quad 0x00CF9B000000FFFF            # 18h: 32-bit code
boot_gdt_pointer:
    .word 31
    .long boot_gdt
    .globl boot_magic, boot_information, next_cpu
    .balign 4
boot_magic:
    .long 0
boot_information:
    .long 0
next_cpu:
    .long 1

    .section .bss.boot, "aw", @nobits
    .balign 4096
boot_pml4:
    .skip 4096
boot_pdpt:
    .skip 4096
boot_pd:
    .skip 4 * 4096
    .globl boot_pml4
    .globl cpu_stacks
cpu_stacks:
    .skip {max_cpus} * {stack_size}
    "#,
    max_cpus = const MAX_CPUS,
    stack_size = const STACK_SIZE,
    options(att_syntax)
);

unsafe extern "C" {
    /// EAX as the loader left it, which tells what the loader is.
    pub safe static boot_magic: u32;
    /// EBX as the loader left it: the address of its block.
    pub safe static boot_information: u32;
    /// The index that the next processor to start takes.
    pub safe static next_cpu: core::sync::atomic::AtomicU32;
    /// The first byte behind the program.
    pub safe static image_end: u8;
    /// The root of the page tables that all processors run with.
    pub safe static boot_pml4: [u64; 512];
    static trampoline_start: u8;
    static trampoline_end: u8;
}

/// The first address above the program.
pub fn end_of_image() -> u64 {
    &raw const image_end as u64
}

/// The root of the page tables that all processors start with.
pub fn root_table() -> u64 {
    &raw const boot_pml4 as u64
}

/// Copies the real-mode code to where the startup IPI sends processors.
pub fn place_trampoline() {
    let start = &raw const trampoline_start;
    let length = &raw const trampoline_end as usize - start as usize;
    // SAFETY: both symbols bound one section of this image; what a loader left in low memory has
    // been copied by `BootInformation::read` before, and Multiboot promises RAM below 640 KiB.
    unsafe { core::ptr::copy_nonoverlapping(start, TRAMPOLINE as *mut u8, length) };
}
