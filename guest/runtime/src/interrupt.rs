//! Where interrupts and exceptions arrive: a common path to handlers in Rust, and a short one in
//! assembly that only counts and takes the time, for measurements.

use crate::processor::{
    ARRIVAL_COUNT_OFFSET, ARRIVAL_SERVED_OFFSET, ARRIVAL_TIME_OFFSET, IS_X2APIC_OFFSET,
    REQUESTS_OFFSET,
};
use crate::vector::{COUNTED_VECTOR, SPURIOUS_VECTOR, WAKE_VECTOR};
use crate::{apic, descriptor, instruction, power, processor};
use core::arch::{global_asm, naked_asm};
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE_FAULT: usize = 14;

/// Registers at an interrupt, as the entry code pushed them.
#[repr(C)]
#[derive(Default)]
pub struct Frame {
    /// R15 to RAX: the order of their numbers, backwards, without RSP.
    pub general: [u64; 15],
    /// Number of the vector, pushed by the entry code.
    pub vector: u64,
    /// The processor's, or zero for vectors without one.
    pub error_code: u64,
    /// Where the interrupted code goes on.
    pub rip: u64,
    /// Its code segment.
    pub cs: u64,
    /// Its flags.
    pub rflags: u64,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its stack segment.
    pub ss: u64,
}

/// What runs when a vector arrives, with interrupts disabled. It may change the registers.
pub type Handler = fn(&mut Frame);

static HANDLERS: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

global_asm!(
    r#"
    .section .text
    .balign 16
interrupt_entries:
    .set vector, 0
    .rept 256
    .balign 16
    # Exceptions 8, 10 to 14, 17, 21, 29 and 30 push an error code; the others get a zero.
    .if ((vector < 32) & ((0x60227D00 >> (vector & 31)) & 1)) == 0
    pushq $0
    .endif
    pushq $vector
    jmp common_entry
    .set vector, vector + 1
    .endr

common_entry:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rbx
    pushq %rbp
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %rdi
    subq $512, %rsp
    fxsave64 (%rsp)
    cld
    call runtime_interrupt
    fxrstor64 (%rsp)
    addq $512, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rbp
    popq %rbx
    popq %rdx
    popq %rcx
    popq %rax
    addq $16, %rsp
    iretq
    "#,
    options(att_syntax)
);

unsafe extern "C" {
    static interrupt_entries: u8;
}

/// Bytes from one entry point to the next.
const ENTRY_SIZE: u64 = 16;

fn entry_point(vector: u8) -> u64 {
    &raw const interrupt_entries as u64 + u64::from(vector) * ENTRY_SIZE
}

/// Takes the time, counts, publishes which requests were seen, ends the interrupt. No more, so that
/// what is measured is the interrupt and not its handler.
#[unsafe(naked)]
unsafe extern "C" fn count_interrupt() {
    naked_asm!(
        "push rax",
        "push rdx",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov gs:[{time}], rax",
        "inc qword ptr gs:[{count}]",
        "mov rax, gs:[{requests}]",
        "mov gs:[{served}], rax",
        "cmp dword ptr gs:[{is_x2apic}], 0",
        "jne 2f",
        "mov eax, {eoi}",
        "mov dword ptr [rax], 0",
        "pop rdx",
        "pop rax",
        "iretq",
        "2:",
        "push rcx",
        "mov ecx, {eoi_msr}",
        "xor eax, eax",
        "xor edx, edx",
        "wrmsr",
        "pop rcx",
        "pop rdx",
        "pop rax",
        "iretq",
        time = const ARRIVAL_TIME_OFFSET,
        count = const ARRIVAL_COUNT_OFFSET,
        requests = const REQUESTS_OFFSET,
        served = const ARRIVAL_SERVED_OFFSET,
        is_x2apic = const IS_X2APIC_OFFSET,
        eoi = const apic::PAGE + 0xB0,
        eoi_msr = const 0x80B,
    )
}

/// The data ports of the two 8259s; a one masks a pin.
const LEGACY_MASKS: [u16; 2] = [0x21, 0xA1];

/// Prepares the table of gates; once, before any processor loads it. Firmware may have left the
/// 8259s open, and their vectors are those of exceptions.
pub(crate) fn initialize() {
    LEGACY_MASKS.into_iter().for_each(|port| instruction::out8(port, 0xFF));
    (0..=255).for_each(|vector| descriptor::set_gate(vector, entry_point(vector)));
    descriptor::set_gate(COUNTED_VECTOR, count_interrupt as *const () as u64);
    set_handler(WAKE_VECTOR, |_| apic::end_of_interrupt());
    set_handler(SPURIOUS_VECTOR, |_| {});
}

/// Calls `handler` for `vector`, on all processors, with interrupts disabled.
pub fn set_handler(vector: u8, handler: Handler) {
    HANDLERS[usize::from(vector)].store(handler as usize, Ordering::SeqCst);
}

/// Does what an interrupt of this vector does, for one that has been acknowledged already:
/// interrupts are disabled, and the registers in the frame are not those of anything.
pub fn handle(vector: u8) {
    runtime_interrupt(&mut Frame { vector: u64::from(vector), ..Frame::default() });
}

#[unsafe(no_mangle)]
extern "C" fn runtime_interrupt(frame: &mut Frame) {
    match HANDLERS[frame.vector as usize & 255].load(Ordering::Relaxed) {
        0 => unexpected(frame),
        address => {
            // SAFETY: `set_handler` alone stores here, and stores a `Handler`.
            let handler: Handler = unsafe { core::mem::transmute(address) };
            handler(frame);
        }
    }
}

/// An interrupt nobody asked for, or a fault of this program: says what is known, and ends.
fn unexpected(frame: &Frame) -> ! {
    let address =
        if frame.vector as usize == PAGE_FAULT { instruction::fault_address() } else { 0 };
    crate::print!(
        "{{\"record\":\"fault\",\"cpu\":{},\"vector\":{},\"error_code\":{},\"rip\":\"{:#x}\",\
         \"rsp\":\"{:#x}\",\"address\":\"{:#x}\"}}",
        processor::current().index(),
        frame.vector,
        frame.error_code,
        frame.rip,
        frame.rsp,
        address,
    );
    power::off(power::Status::Failed)
}
