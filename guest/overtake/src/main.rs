//! Whether an interrupt comes before the data that it announces: the first processor stores the
//! number of a round and sends an interrupt, and the second's handler looks for that number.
//!
//! On Intel's parts a write of the x2APIC's command register does not serialize, so that the store
//! may still be in the sender's store buffer; software has to put MFENCE and LFENCE in between.
//! [SDM3 "MSR Access in x2APIC Mode"] Results are JSON, a line each, on the serial port. Command
//! line: `apic=xapic|x2apic|both fence=on|off|both samples=N`.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

use arch::apic::{DestinationMode, Mode};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::apic::{self, Fence};
use runtime::interrupt::set_handler;
use runtime::processor::Processor;
use runtime::{BootInformation, Status, clock, job, print, processor};

runtime::entry!(overtake);

const RECEIVER: usize = 1;
const VECTOR: u8 = 0xE4;
/// Cycles after which an interrupt is lost.
const PATIENCE: u64 = 1 << 32;

/// In a line of its own, which nothing else brings out of a buffer.
#[repr(align(64))]
struct Line(AtomicU64);

/// The round, as the sender has stored it.
static DATA: Line = Line(AtomicU64::new(0));
/// The round that the interrupt is of, as the receiver counts.
static ROUND: Line = Line(AtomicU64::new(0));
/// Rounds in which the data was not there.
static EARLY: Line = Line(AtomicU64::new(0));

fn overtake(boot: &BootInformation) -> Status {
    print!(
        "{{\"record\":\"start\",\"program\":\"overtake\",\"version\":1,\"cpus\":{}}}",
        processor::count()
    );
    if processor::count() <= RECEIVER {
        print!(
            "{{\"record\":\"unavailable\",\"what\":\"overtake\",\
             \"reason\":\"there is one processor\"}}"
        );
        return Status::Failed;
    }
    set_handler(VECTOR, |_| receive());
    let samples = boot.number("samples", 1000);
    let (wanted, fences) =
        (boot.option("apic").unwrap_or("both"), boot.option("fence").unwrap_or("both"));
    let mut passed = true;
    for (mode, name) in [(Mode::XApic, "xapic"), (Mode::X2Apic, "x2apic")] {
        if wanted != "both" && wanted != name || mode == Mode::X2Apic && !apic::has_x2apic() {
            continue;
        }
        job::run_on(0..RECEIVER + 1, enter, mode as usize);
        for (fence, word) in [(Fence::None, "off"), (Fence::Full, "on")] {
            if fences == "both" || fences == word {
                passed &= measure(name, fence, samples);
            }
        }
    }
    print!("{{\"record\":\"end\",\"passed\":{passed}}}");
    if passed { Status::Passed } else { Status::Failed }
}

fn enter(mode: usize) {
    apic::enter(if mode == Mode::X2Apic as usize { Mode::X2Apic } else { Mode::XApic });
}

/// The interrupt has come: is its data there?
fn receive() {
    let round = ROUND.0.load(Ordering::Relaxed) + 1;
    if DATA.0.load(Ordering::Relaxed) != round {
        EARLY.0.store(EARLY.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    ROUND.0.store(round, Ordering::Relaxed);
    apic::end_of_interrupt();
}

/// Announces round after round; whether every interrupt arrived.
fn measure(apic: &str, fence: Fence, samples: u64) -> bool {
    let receiver = processor::get(RECEIVER);
    let (before, first) = (EARLY.0.load(Ordering::Relaxed), ROUND.0.load(Ordering::Relaxed));
    let arrived = (first + 1..=first + samples).all(|round| announce(receiver, round, fence));
    let early = EARLY.0.load(Ordering::Relaxed) - before;
    print!(
        "{{\"record\":\"overtake\",\"apic\":\"{apic}\",\"fence\":{},\"interrupts\":{},\
         \"before_data\":{early},\"arrived\":{arrived}}}",
        fence == Fence::Full,
        ROUND.0.load(Ordering::Relaxed) - first,
    );
    arrived
}

fn announce(receiver: &Processor, round: u64, fence: Fence) -> bool {
    let command = apic::fixed(receiver.apic_id(), DestinationMode::Physical, VECTOR);
    DATA.0.store(round, Ordering::Relaxed);
    apic::command(command, fence);
    clock::wait_cycles(PATIENCE, || ROUND.0.load(Ordering::Relaxed) != round)
}
