//! A processor that takes user interrupts: its registers, and the handler, which takes the time and
//! counts, so that what is measured is the interrupt and not its handler.
#![expect(unsafe_code, reason = "the handler is entered by the processor")]

use crate::instruction::{self, Registers};
use crate::table;
use arch::uintr::UintrMisc;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::interrupt::set_handler;
use runtime::processor::{self, ARRIVAL_COUNT_OFFSET, ARRIVAL_TIME_OFFSET};

/// The ordinary vector of notifications.
const NOTIFICATION: u8 = 0xEC;
/// What compiled code keeps below the stack pointer.
const RED_ZONE: u64 = 128;

/// The vector that came last, on any processor.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Notifications that came as ordinary interrupts.
static ORDINARY: AtomicU64 = AtomicU64::new(0);

/// Takes user interrupts from here on, on this processor, as soon as its flag is set.
pub fn prepare() {
    let own = processor::current();
    set_handler(NOTIFICATION, |_| {
        ORDINARY.fetch_add(1, Ordering::Relaxed);
        runtime::apic::end_of_interrupt();
    });
    table::fill(own, NOTIFICATION);
    let misc = UintrMisc::new()
        .with_last_target(table::LAST_TARGET)
        .with_notification_vector(NOTIFICATION);
    instruction::enable(&Registers {
        handler: handler as *const () as u64,
        stack_adjustment: RED_ZONE,
        misc,
        descriptor: table::descriptor(own.index()).address(),
        targets: table::targets(),
    });
    instruction::set_flag(true);
}

/// The vector that came last.
pub fn last() -> u64 {
    LAST.load(Ordering::SeqCst)
}

/// How many notifications came as ordinary interrupts: none should.
pub fn ordinary() -> u64 {
    ORDINARY.load(Ordering::SeqCst)
}

#[unsafe(naked)]
unsafe extern "C" fn handler() {
    naked_asm!(
        "push rax",
        "push rdx",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov gs:[{time}], rax",
        "mov rax, [rsp + 16]",
        "mov [rip + {last}], rax",
        "inc qword ptr gs:[{count}]",
        "pop rdx",
        "pop rax",
        "add rsp, 8",
        ".byte 0xF3, 0x0F, 0x01, 0xEC",
        time = const ARRIVAL_TIME_OFFSET,
        count = const ARRIVAL_COUNT_OFFSET,
        last = sym LAST,
    )
}
