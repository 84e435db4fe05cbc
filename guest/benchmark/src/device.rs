//! Interrupts of a function that this machine has been given: how many arrive. Nothing drives the
//! function from here: who runs this program is told when it is ready, lets the function interrupt,
//! and sends [`END_VECTOR`] when there are no more.

use crate::selection::Selection;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::instruction::{halt_until, out8};
use runtime::interrupt::set_handler;
use runtime::vector::COUNTED_VECTOR;
use runtime::{apic, print, processor};

/// Ends a test.
const END_VECTOR: u8 = 0xE3;
/// Writes to these ports say where the part begins and ends that is of interest.
const WINDOW_BEGINS: u16 = 0xEC;
const WINDOW_ENDS: u16 = 0xED;

static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Where the function writes before each interrupt: the interrupt's number, and a time.
#[repr(align(4096))]
struct Page([AtomicU64; 2]);

static WRITTEN: Page = Page([const { AtomicU64::new(0) }; 2]);

/// Spinning, then halted, as far as they are wanted.
pub fn measure(selection: &Selection, apic: &str) {
    set_handler(END_VECTOR, |_| {
        HAS_ENDED.store(true, Ordering::SeqCst);
        apic::end_of_interrupt();
    });
    for target in ["spinning", "halted"].into_iter().filter(|name| selection.wants_targets(name)) {
        receive(apic, target);
    }
}

fn receive(apic: &str, target: &str) {
    let own = processor::current();
    HAS_ENDED.store(false, Ordering::SeqCst);
    let before = own.arrival_count();
    print!(
        "{{\"record\":\"device_ready\",\"apic\":\"{apic}\",\"target\":\"{target}\",\
         \"destination\":{},\"vector\":{COUNTED_VECTOR},\"end\":{END_VECTOR},\"page\":{}}}",
        own.apic_id(),
        &raw const WRITTEN as u64,
    );
    out8(WINDOW_BEGINS, 0);
    let has_ended = || HAS_ENDED.load(Ordering::SeqCst);
    if target == "halted" {
        halt_until(has_ended);
    }
    // Without PAUSE, which a hypervisor may ask to be told of.
    while !has_ended() {}
    out8(WINDOW_ENDS, 0);
    let [number, _] = &WRITTEN.0;
    print!(
        "{{\"record\":\"device\",\"apic\":\"{apic}\",\"target\":\"{target}\",\"arrived\":{},\
         \"written\":{}}}",
        own.arrival_count() - before,
        number.load(Ordering::SeqCst),
    );
}
