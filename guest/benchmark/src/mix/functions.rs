//! What a function sends that was given to the guest, with the number of each interrupt, which it
//! writes into the guest's memory before: one whose number is there and that is not taken is lost.

use super::ledger::{FROM_HOST, MOST, PATIENCE, wait_for};
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::processor::Processor;

/// What is numbered, and what is not, since the host sends it elsewhere while it comes. The vector
/// that the runtime counts is not either.
pub const VECTORS: [u8; 2] = [0xEC, 0x76];
const NUMBERED: u8 = VECTORS[0];

/// Of one processor, by APIC ID.
#[repr(C)]
pub struct Pulses {
    /// How often the host has had the function begin. It counts from 1 each time.
    turn: AtomicU64,
    _unused: AtomicU64,
    /// The number of the last interrupt, and when it was sent: the function writes both.
    number: AtomicU64,
    _sent: AtomicU64,
}

/// By processor: the last turn and number that was served.
static SERVED: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

impl Pulses {
    pub const fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            _unused: AtomicU64::new(0),
            number: AtomicU64::new(0),
            _sent: AtomicU64::new(0),
        }
    }

    /// The last that is on its way, if any is in this turn. The host takes the number back to zero
    /// before a turn begins, and the turn is read first: so what is read is never beyond what was
    /// sent.
    fn last(&self) -> Option<u64> {
        let turn = self.turn.load(Ordering::SeqCst);
        let number = self.number.load(Ordering::SeqCst);
        (number != 0).then_some(turn << 32 | number)
    }
}

/// This processor's last number, and what it has served.
fn of(own: &Processor) -> Option<(u64, &'static AtomicU64)> {
    let last = FROM_HOST.functions.get(own.apic_id() as usize)?.last()?;
    Some((last, SERVED.get(own.index())?))
}

/// At the beginning of a handler.
pub fn serve(own: &Processor, vector: u8) {
    if let Some((last, served)) = of(own).filter(|_| vector == NUMBERED) {
        served.fetch_max(last, Ordering::SeqCst);
    }
}

/// What was sent to this processor by now is asked for no more.
pub fn forgive(own: &Processor) {
    serve(own, NUMBERED);
}

/// Ends the guest if an interrupt of a function does not come.
pub fn audit(own: &Processor) {
    if let Some((last, served)) = of(own) {
        wait_for(NUMBERED, PATIENCE, || served.load(Ordering::SeqCst) >= last);
    }
}
