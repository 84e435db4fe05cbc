//! Interrupts of the I/O APIC, which the host raises as a device's: most pins are level-triggered.
//! A handler tells the device by a port up to which ticket it has served it, and the device lowers
//! the line if there is none after that; else the interrupt comes again behind its EOI.
//!
//! Pins are given to other processors while interrupts flow, as far as it is certain who takes what
//! is under way: where the interrupt is in service, before its end, or where the pin is masked and
//! nobody has it (remote IRR is clear). [IOAPIC "I/O Redirection Table Registers"]

use super::ledger::{FROM_HOST, MOST, PATIENCE, wait_for};
use super::linger;
use super::numbers::Numbers;
use arch::apic::{DeliveryMode, DestinationMode, RedirectionEntry};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use runtime::instruction::out32;
use runtime::interrupt::Frame;
use runtime::io_apic::{self, Window};
use runtime::processor::{self, Processor};
use runtime::{apic, interrupt};

/// So many pins, from [`FIRST_PIN`] on: no PCI function's, and above those of the 8259s.
pub const COUNT: usize = 4;
const FIRST_PIN: u8 = 20;
/// What they send: of the classes of what processors send, and of two others.
const VECTORS: [u8; COUNT] = [0x74, 0xE6, 0x63, 0xB2];
/// The one that is edge-triggered.
const EDGE: usize = 2;

/// The port by which the device of the first line is told; a double word each.
const PORT: u16 = 0x0E00;

/// Who takes a line's interrupts.
struct Line {
    /// The processor in bits 15:0, [`NOBODY`] while it changes; above it, how often it has changed.
    place: AtomicU64,
    /// The last ticket of the host's that was served.
    served: AtomicU64,
}

const NOBODY: u64 = 0xFFFF;
const CHANGE: u64 = 1 << 16;

static LINES: [Line; COUNT] = [const { Line::new() }; COUNT];
static ARE_ON: AtomicBool = AtomicBool::new(false);

impl Line {
    const fn new() -> Self {
        Self { place: AtomicU64::new(NOBODY), served: AtomicU64::new(0) }
    }

    /// From now on it is nobody's: what [`Self::give`] is told, or nothing if it was nobody's.
    fn take(&self) -> Option<Taken> {
        let place = self.place.load(Ordering::SeqCst);
        let taken = ((place & !NOBODY) + CHANGE) | NOBODY;
        let is_given = place & NOBODY != NOBODY;
        let put = |to| self.place.compare_exchange(place, to, Ordering::SeqCst, Ordering::SeqCst);
        (is_given && put(taken).is_ok()).then_some(Taken { place: taken, from: place & NOBODY })
    }

    /// From now on it is a processor's.
    fn give(&self, taken: &Taken, processor: u64) {
        self.place.store(((taken.place & !NOBODY) + CHANGE) | processor, Ordering::SeqCst);
    }
}

/// A line that is nobody's, until it is given again.
struct Taken {
    place: u64,
    /// The processor that had it.
    from: u64,
}

/// Whether there are any.
pub fn are_on() -> bool {
    ARE_ON.load(Ordering::Relaxed)
}

/// Gives each line to a processor; once, before anybody takes part.
pub fn begin() {
    ARE_ON.store(true, Ordering::Relaxed);
    for (index, vector) in VECTORS.into_iter().enumerate() {
        interrupt::set_handler(vector, handle);
        let target = processor::get(index % processor::count());
        io_apic::with(|window| {
            window.set_entry(pin(index), entry(index, target, DestinationMode::Physical, false));
        });
        LINES[index].give(&Taken { place: NOBODY, from: NOBODY }, target.index() as u64);
    }
}

fn pin(index: usize) -> u8 {
    FIRST_PIN + index as u8
}

/// A line to one processor. The destinations of the I/O APIC's have eight bits.
fn entry(index: usize, to: &Processor, mode: DestinationMode, lowest: bool) -> RedirectionEntry {
    let logical = apic::logical_identifier(to).filter(|_| mode == DestinationMode::Logical);
    let (mode, destination) = match logical.and_then(|mask| u8::try_from(mask).ok()) {
        Some(mask) => (DestinationMode::Logical, mask),
        None => (DestinationMode::Physical, to.apic_id() as u8),
    };
    // Of one target it is the lowest, whatever its priority.
    let delivery = if lowest { DeliveryMode::LowestPriority } else { DeliveryMode::Fixed };
    RedirectionEntry::new()
        .with_vector(VECTORS[index])
        .with_delivery_mode(delivery)
        .with_destination_mode(mode)
        .with_is_level(index != EDGE)
        .with_address(u16::from(destination) << 8)
}

/// Another processor, and another way to name it.
fn choose(index: usize, numbers: &mut Numbers) -> (u64, RedirectionEntry) {
    let count = processor::count().min(MOST) as u64;
    let target = processor::get(numbers.below(count) as usize);
    let mode = numbers.pick([DestinationMode::Physical, DestinationMode::Logical]);
    let lowest = numbers.below(4) == 0;
    (target.index() as u64, entry(index, target, mode, lowest))
}

/// From outside of any handler: writes an entry again, or gives the line to another if nobody
/// has its interrupt.
pub fn change(numbers: &mut Numbers) {
    let index = numbers.below(COUNT as u64) as usize;
    let (target, new) = choose(index, numbers);
    io_apic::with(|window| match index {
        // An edge that came while it was masked would be lost.
        EDGE => rewrite(window, index),
        _ => give(window, index, target, new),
    });
}

fn rewrite(window: &mut Window, index: usize) {
    let entry = window.entry(pin(index));
    window.set_lower_half(pin(index), entry);
}

fn give(window: &mut Window, index: usize, target: u64, new: RedirectionEntry) {
    let (line, old) = (&LINES[index], window.entry(pin(index)));
    let Some(taken) = line.take() else { return };
    window.set_lower_half(pin(index), old.with_is_masked(true));
    if window.entry(pin(index)).remote_irr() {
        window.set_lower_half(pin(index), old);
        return line.give(&taken, taken.from);
    }
    window.set_entry(pin(index), new.with_is_masked(true));
    window.set_lower_half(pin(index), new);
    line.give(&taken, target);
}

/// What handles all of them.
fn handle(frame: &mut Frame) {
    let own = processor::current();
    let Some(index) = VECTORS.iter().position(|one| u64::from(*one) == frame.vector) else {
        return;
    };
    let line = &LINES[index];
    let ticket = FROM_HOST.lines[index].taken();
    line.served.fetch_max(ticket, Ordering::SeqCst);
    own.arrivals.count.fetch_add(1, Ordering::Release);
    let mut moved = None;
    super::with_numbers(own, |numbers| {
        linger(numbers);
        if index != EDGE && numbers.below(4) == 0 {
            // Its interrupt is here, so nothing is sent before its end.
            let (target, new) = choose(index, numbers);
            moved = line.take().map(|taken| (taken, target));
            if moved.is_some() {
                io_apic::with(|window| window.set_entry(pin(index), new));
            }
        }
    });
    if index != EDGE {
        out32(PORT + 4 * index as u16, ticket as u32);
    }
    apic::end_of_interrupt();
    if let Some((taken, target)) = moved {
        line.give(&taken, target);
    }
}

/// Ends the guest if an interrupt of a line that is this processor's does not come.
pub fn audit(own: &Processor) {
    for (index, line) in LINES.iter().enumerate().filter(|_| are_on()) {
        let place = line.place.load(Ordering::SeqCst);
        if place & NOBODY != own.index() as u64 {
            continue;
        }
        let sent = FROM_HOST.lines[index].handed_in();
        // Given to another it is theirs.
        let is_other = || line.place.load(Ordering::SeqCst) != place;
        let is_served = || line.served.load(Ordering::SeqCst) >= sent;
        wait_for(VECTORS[index], PATIENCE, || is_served() || is_other());
    }
}
