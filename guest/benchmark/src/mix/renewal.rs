//! Processors that another starts again, by INIT and a startup IPI, as a kernel does with one that
//! was taken off line: one at a time, where it says that it may be, holding nothing.

use super::ledger::{self, PATIENCE, wait_for};
use super::numbers::Numbers;
use super::{functions, timer};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use runtime::instruction::{disable_interrupts, halt_forever};
use runtime::processor::{self, Processor};
use runtime::start;

/// One in so many rounds a processor offers itself.
const OFFERS: u64 = 64;
/// What it does until then, one time in two: it halts, or it spins.
const HALTS: u64 = 2;
/// No vector of an interrupt.
const STARTUP: u8 = 0;
/// Its hypervisor makes a processor of it and runs it through real mode.
const PATIENCE_OF_START: u32 = 8 * PATIENCE;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whose turn it is, and whether it has been sent what starts it.
static TURN: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = u32::MAX;
const IS_SENT: u32 = 1 << 31;

/// From now on processors are started again.
pub fn begin() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Now and then this processor offers itself and does not come back from here; or it starts the
/// one that has.
pub fn take_part(own: &Processor, numbers: &mut Numbers) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    let turn = TURN.load(Ordering::SeqCst);
    if turn == NOBODY {
        if own.index() != 0 && numbers.below(OFFERS) == 0 {
            offer(own, numbers);
        }
    } else if turn & IS_SENT == 0 && swap(turn, turn | IS_SENT) {
        start::again(processor::get(turn as usize));
        wait_for(STARTUP, PATIENCE_OF_START, || TURN.load(Ordering::SeqCst) != turn | IS_SENT);
    }
}

fn swap(old: u32, new: u32) -> bool {
    TURN.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

fn offer(own: &Processor, numbers: &mut Numbers) {
    timer::stop(own);
    let halts = numbers.below(HALTS) == 0;
    disable_interrupts();
    if !swap(NOBODY, own.index() as u32) {
        // Another was first; interrupts are enabled by what its caller does next.
        return runtime::instruction::enable_interrupts();
    }
    if halts {
        halt_forever();
    }
    loop {
        core::hint::spin_loop();
    }
}

/// Where a processor begins, with interrupts disabled: if it was started again, what was sent to it
/// while it was away may have gone with its registers, or wait for it still.
pub fn arrive(own: &Processor) {
    if TURN.load(Ordering::SeqCst) == own.index() as u32 | IS_SENT {
        ledger::forgive(own);
        functions::forgive(own);
        TURN.store(NOBODY, Ordering::SeqCst);
    }
}
