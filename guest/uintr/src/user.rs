//! Privilege 3: two segments, pages that users may reach, a way there and back. [APM2 "SYSCALL and
//! SYSRET"]
//!
//! All memory is the users'. What only the supervisor may reach is reached by a second mapping of
//! the same memory, from [`SUPERVISOR`] on: the tables of user interrupts lie there.
#![expect(unsafe_code, reason = "page tables, segments and the change of privilege")]

use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use runtime::instruction::{read_msr, write_msr};
use runtime::{boot, descriptor, processor};

/// Where the supervisor's mapping begins: the second entry of the topmost table.
pub const SUPERVISOR: u64 = 1 << 39;
/// Of a table entry: users may reach what it maps.
const IS_USERS: u64 = 1 << 2;
/// Bits of an entry that are the address of the next table.
const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;
const DIRECTORIES: u64 = 4;

const USER_CODE: u64 = 0x00AF_FB00_0000_FFFF;
const USER_DATA: u64 = 0x00CF_F300_0000_FFFF;
const OWN_SEGMENTS: usize = 6;
const CPUS: usize = crate::RECEIVER + 1;
const STACK_SIZE: usize = 8192;

/// Memory that one processor alone uses.
#[repr(C, align(4096))]
struct Own {
    stack: [u8; STACK_SIZE],
    segments: [u64; OWN_SEGMENTS + 2],
}

#[repr(transparent)]
struct PerProcessor(UnsafeCell<Own>);
// SAFETY: each element is used by the processor of its index only.
unsafe impl Sync for PerProcessor {}

static OWN: [PerProcessor; CPUS] = [const {
    PerProcessor(UnsafeCell::new(Own { stack: [0; STACK_SIZE], segments: [0; OWN_SEGMENTS + 2] }))
}; CPUS];

/// Gives users all memory, and the supervisor a mapping of its own; once.
pub fn map() {
    let root = boot::root_table() as *mut u64;
    // SAFETY: the tables are the runtime's, at addresses that are mapped to themselves; entries
    // only gain rights, and one that was empty leads to what is mapped already.
    unsafe {
        let pointers = (root.read() & ADDRESS) as *mut u64;
        root.add(1).write_volatile(root.read());
        root.write_volatile(root.read() | IS_USERS);
        for number in 0..DIRECTORIES as usize {
            let entry = pointers.add(number);
            let directory = (entry.read() & ADDRESS) as *mut u64;
            entry.write_volatile(entry.read() | IS_USERS);
            (0..512).for_each(|at| {
                let page = directory.add(at);
                page.write_volatile(page.read() | IS_USERS);
            });
        }
    }
}

/// The users' segments, and SYSCALL as the way back, on this processor.
pub fn prepare() {
    let index = processor::current().index();
    let own = OWN[index].0.get();
    let (base, limit) = descriptor::loaded(index).segments;
    // SAFETY: the first six descriptors stay what they are, so that no segment changes; MSRs of
    // SYSCALL are used here only; CR3 is written with what it has, for the changed tables.
    unsafe {
        let segments = &raw mut (*own).segments;
        let is_own = base == segments as u64;
        if !is_own {
            core::ptr::copy_nonoverlapping(
                base as *const u64,
                segments.cast(),
                (limit as usize + 1) / 8,
            );
        }
        (*segments)[OWN_SEGMENTS] = USER_CODE;
        (*segments)[OWN_SEGMENTS + 1] = USER_DATA;
        let mut table = [0u8; 10];
        table[..2].copy_from_slice(&(size_of_val(&*segments) as u16 - 1).to_le_bytes());
        table[2..].copy_from_slice(&(segments as u64).to_le_bytes());
        asm!("lgdt [{}]", in(reg) &table, options(nostack, preserves_flags));
        asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags));
        write_msr(arch::msr::EFER, read_msr(arch::msr::EFER) | 1);
        write_msr(arch::msr::STAR, u64::from(descriptor::CODE_SELECTOR) << 32);
        write_msr(arch::msr::LSTAR, leave as *const () as u64);
        write_msr(arch::msr::SFMASK, 0);
    }
}

/// Runs `action` at privilege 3, on a stack of its own, with interrupts enabled.
pub fn run(action: extern "C" fn(usize), argument: usize) {
    let own = OWN[processor::current().index()].0.get();
    let end = own as u64 + STACK_SIZE as u64;
    // SAFETY: the stack is this processor's, and nothing runs on it before or after.
    unsafe { enter(action, argument, end) }
}

/// The processor's own stack pointer waits at the end of the users' stack.
#[unsafe(naked)]
unsafe extern "C" fn enter(action: extern "C" fn(usize), argument: usize, stack_end: u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdx - 8], rsp",
        "push 0x3B",
        "lea rcx, [rdx - 16]",
        "push rcx",
        "push 0x202",
        "push 0x33",
        "lea rcx, [rip + 2f]",
        "push rcx",
        "iretq",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "syscall",
        "ud2",
    )
}

/// Where SYSCALL comes, on the users' stack as it was at first.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "mov rsp, [rsp + 8]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}
