//! Interrupts of a function that this machine has been given: how many arrive, and how long they
//! take from the function's write to memory to the handler. Nothing drives the function from here:
//! who runs this program is told when it is ready, lets the function interrupt, and sends
//! [`END_VECTOR`] when there are no more.
//!
//! The function writes its own time, and handlers take this processor's. What lies between the two
//! clocks is found by watching memory while the first few writes come: as soon as one is seen, the
//! two are the same moment. That holds for as long as the counter's rate is known exactly: where it
//! is not given (`tsc_khz=`), no time is told.

use crate::selection::Selection;
use crate::statistics::FIRST;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::instruction::{disable_interrupts, enable_interrupts, halt_until, out8, time_stamp};
use runtime::interrupt::set_handler;
use runtime::processor::Processor;
use runtime::vector::COUNTED_VECTOR;
use runtime::{apic, clock, print, processor};

/// Ends a test.
const END_VECTOR: u8 = 0xE3;
/// Writes to these ports say where the part begins and ends that is of interest.
const WINDOW_BEGINS: u16 = 0xEC;
const WINDOW_ENDS: u16 = 0xED;
/// Writes that are watched for, with interrupts disabled, to compare the clocks.
const COMPARED: usize = 8;

static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Where the function writes before each interrupt: the interrupt's number, and a time.
#[repr(align(4096))]
struct Page([AtomicU64; 2]);

static WRITTEN: Page = Page([const { AtomicU64::new(0) }; 2]);

impl Page {
    /// The interrupt's number, from 1 on each time that the function is started.
    fn number(&self) -> u64 {
        self.0[0].load(Ordering::SeqCst)
    }

    /// Nanoseconds of the function's own clock.
    fn time_ns(&self) -> u64 {
        self.0[1].load(Ordering::SeqCst)
    }
}

/// Spinning, then halted, as far as they are wanted.
pub fn measure(selection: &Selection, apic: &str) {
    set_handler(END_VECTOR, |_| {
        HAS_ENDED.store(true, Ordering::SeqCst);
        apic::end_of_interrupt();
    });
    for target in ["spinning", "halted"].into_iter().filter(|name| selection.wants_targets(name)) {
        receive(apic, target, selection.knows_rate);
    }
}

fn receive(apic: &str, target: &str, knows_rate: bool) {
    let own = processor::current();
    HAS_ENDED.store(false, Ordering::SeqCst);
    FIRST.clear();
    let before = own.arrival_count();
    disable_interrupts();
    print!(
        "{{\"record\":\"device_ready\",\"apic\":\"{apic}\",\"target\":\"{target}\",\
         \"destination\":{},\"vector\":{COUNTED_VECTOR},\"end\":{END_VECTOR},\"page\":{}}}",
        own.apic_id(),
        &raw const WRITTEN as u64,
    );
    out8(WINDOW_BEGINS, 0);
    let clocks = compare_clocks(own);
    let seen = Cell::new(own.arrival_count());
    let has_ended = || {
        if own.arrival_count() != seen.get() {
            seen.set(own.arrival_count());
            FIRST.add(clocks.since_write(own.arrival_time()));
        }
        HAS_ENDED.load(Ordering::SeqCst)
    };
    if target == "halted" {
        halt_until(has_ended);
    }
    // Without PAUSE, which a hypervisor may ask to be told of.
    while !has_ended() {}
    out8(WINDOW_ENDS, 0);
    print!(
        "{{\"record\":\"device\",\"apic\":\"{apic}\",\"target\":\"{target}\",\"arrived\":{},\
         \"written\":{}}}",
        own.arrival_count() - before,
        WRITTEN.number(),
    );
    if knows_rate {
        let what = format_args!("\"apic\":\"{apic}\",\"target\":\"{target}\"");
        FIRST.report_as("device_latency", "ns", what);
    }
}

/// How this processor's clock and the function's go together.
#[derive(Clone, Copy)]
struct Clocks {
    kilohertz: u64,
    /// This processor's nanoseconds where the function's are 0.
    offset_ns: u64,
}

impl Clocks {
    fn nanoseconds(self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000 / u128::from(self.kilohertz)) as u64
    }

    /// From the last write to a moment of this processor's clock.
    fn since_write(self, cycles: u64) -> u64 {
        let since = self.nanoseconds(cycles).wrapping_sub(self.offset_ns);
        since.saturating_sub(WRITTEN.time_ns())
    }
}

/// Watches the first writes, and takes the interrupt behind each; interrupts are disabled before,
/// and enabled afterwards. The least difference is the one in which nothing came between.
fn compare_clocks(own: &Processor) -> Clocks {
    let mut clocks =
        Clocks { kilohertz: clock::kilohertz().unwrap_or(1_000_000).max(1), offset_ns: u64::MAX };
    let goes_on = || !HAS_ENDED.load(Ordering::SeqCst);
    for _ in 0..COMPARED {
        disable_interrupts();
        let (number, arrivals) = (WRITTEN.number(), own.arrival_count());
        while WRITTEN.number() == number {}
        let now = clocks.nanoseconds(time_stamp());
        clocks.offset_ns = clocks.offset_ns.min(now.wrapping_sub(WRITTEN.time_ns()));
        enable_interrupts();
        while own.arrival_count() == arrivals && goes_on() {}
    }
    clocks
}
