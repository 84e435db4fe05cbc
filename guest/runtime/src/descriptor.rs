//! GDT, TSS and IDT. [APM2 "Segmented Virtual Memory"] [APM2 "Interrupt-Stack Table"]
//!
//! Every gate names a stack of the interrupt-stack table: compiled code keeps data below the stack
//! pointer (the red zone), which an interrupt on the same stack would overwrite. Interrupts have
//! one stack and exceptions another; a handler runs with interrupts disabled, so neither is used
//! twice.

use crate::processor::{INTERRUPT_STACK_SIZE, MAX_CPUS};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

/// Selects the 64-bit code segment.
pub const CODE_SELECTOR: u16 = 0x08;
/// Selects the data segment.
pub const DATA_SELECTOR: u16 = 0x10;
/// Selects the processor's task state.
pub const TASK_SELECTOR: u16 = 0x20;

const INTERRUPT_STACK: u64 = 1;
const EXCEPTION_STACK: u64 = 2;
const EXCEPTIONS: usize = 32;
/// Present, DPL 0, 64-bit interrupt gate.
const INTERRUPT_GATE: u64 = 0x8E;
/// Present, DPL 0, available 64-bit TSS.
const TASK_SEGMENT: u64 = 0x89;

/// A 64-bit TSS: 104 bytes. The dwords before and after the stacks are reserved, or not used.
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    ring_stacks: [u64; 3],
    reserved_2: u64,
    interrupt_stacks: [u64; 7],
    reserved_3: u64,
    reserved_4: u16,
    /// At or beyond the segment's limit: no I/O permission map.
    port_map: u16,
}

const _: () = assert!(size_of::<TaskState>() == 104);

#[repr(C, align(4096))]
struct Owned {
    interrupt_stack: [u8; INTERRUPT_STACK_SIZE],
    exception_stack: [u8; INTERRUPT_STACK_SIZE],
}

#[repr(C, align(16))]
struct Tables {
    task: TaskState,
    segments: [u64; 6],
}

/// Memory that one processor writes once, at its start, and the hardware reads from then on.
#[repr(transparent)]
struct PerProcessor<T>(UnsafeCell<T>);
// SAFETY: each element is written by the processor of its index only.
unsafe impl<T> Sync for PerProcessor<T> {}

static STACKS: [PerProcessor<Owned>; MAX_CPUS] = [const {
    PerProcessor(UnsafeCell::new(Owned {
        interrupt_stack: [0; INTERRUPT_STACK_SIZE],
        exception_stack: [0; INTERRUPT_STACK_SIZE],
    }))
}; MAX_CPUS];

static TABLES: [PerProcessor<Tables>; MAX_CPUS] = [const {
    PerProcessor(UnsafeCell::new(Tables {
        task: TaskState {
            reserved: 0,
            ring_stacks: [0; 3],
            reserved_2: 0,
            interrupt_stacks: [0; 7],
            reserved_3: 0,
            reserved_4: 0,
            port_map: 0,
        },
        segments: [0; 6],
    }))
}; MAX_CPUS];

/// One table for all processors, two words per gate.
static GATES: [[AtomicU64; 2]; 256] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; 256];

#[repr(C, packed)]
struct TablePointer {
    limit: u16,
    base: u64,
}

/// Sends `vector` to the code at `address`, which ends in IRETQ.
pub(crate) fn set_gate(vector: u8, address: u64) {
    let exception = usize::from(vector) < EXCEPTIONS;
    let stack = if exception { EXCEPTION_STACK } else { INTERRUPT_STACK };
    let low = (address & 0xFFFF)
        | u64::from(CODE_SELECTOR) << 16
        | stack << 32
        | INTERRUPT_GATE << 40
        | (address >> 16 & 0xFFFF) << 48;
    let [first, second] = &GATES[usize::from(vector)];
    second.store(address >> 32, Ordering::Relaxed);
    first.store(low, Ordering::SeqCst);
}

/// Loads GDT, TSS and IDT of the processor `index`, which runs this.
pub(crate) fn load(index: usize) {
    let stacks = STACKS[index].0.get();
    let tables = TABLES[index].0.get();
    // SAFETY: this processor alone touches its elements, and does so here only; the descriptors
    // are those of the boot GDT, so no segment changes by loading the table.
    unsafe {
        let task = &raw mut (*tables).task;
        let mut interrupt_stacks = [0; 7];
        let end = |stack: u64| stack + INTERRUPT_STACK_SIZE as u64;
        interrupt_stacks[INTERRUPT_STACK as usize - 1] =
            end(&raw const (*stacks).interrupt_stack as u64);
        interrupt_stacks[EXCEPTION_STACK as usize - 1] =
            end(&raw const (*stacks).exception_stack as u64);
        (&raw mut (*task).interrupt_stacks).write_unaligned(interrupt_stacks);
        (&raw mut (*task).port_map).write_unaligned(size_of::<TaskState>() as u16);

        let base = task as u64;
        let descriptor = (size_of::<TaskState>() as u64 - 1)
            | (base & 0xFF_FFFF) << 16
            | TASK_SEGMENT << 40
            | (base >> 24 & 0xFF) << 56;
        (*tables).segments =
            [0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF, 0, descriptor, base >> 32];
        let segments = TablePointer {
            limit: size_of::<[u64; 6]>() as u16 - 1,
            base: &raw const (*tables).segments as u64,
        };
        let gates = TablePointer {
            limit: size_of::<[[u64; 2]; 256]>() as u16 - 1,
            base: &raw const GATES as u64,
        };
        asm!(
            "lgdt [{}]", "lidt [{}]", "ltr {:x}",
            in(reg) &raw const segments, in(reg) &raw const gates, in(reg) TASK_SELECTOR,
            options(nostack, preserves_flags)
        );
    }
}

/// The bases and limits of GDT and IDT, and the base of the TSS, of the processor `index`.
pub struct Loaded {
    /// Of the GDT.
    pub segments: (u64, u32),
    /// Of the IDT.
    pub gates: (u64, u32),
    /// Of the TSS.
    pub task: (u64, u32),
}

/// What the processor `index` has loaded, or will when it starts.
pub fn loaded(index: usize) -> Loaded {
    let tables = TABLES[index].0.get();
    // SAFETY: only addresses are taken.
    let (task, segments) =
        unsafe { (&raw const (*tables).task as u64, &raw const (*tables).segments as u64) };
    Loaded {
        segments: (segments, size_of::<[u64; 6]>() as u32 - 1),
        gates: (&raw const GATES as u64, size_of::<[[u64; 2]; 256]>() as u32 - 1),
        task: (task, size_of::<TaskState>() as u32 - 1),
    }
}
