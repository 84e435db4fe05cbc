//! Gaps between samples: without them every sample begins at the same point of what came before,
//! and where that point lies in other processors' periods decides what is measured.

use core::sync::atomic::{AtomicU64, Ordering};
use runtime::clock;

/// Cycles.
const SHORTEST: u64 = 20;
const LONGEST: u64 = 2000;
/// Of xorshift64*. Zero: there are no gaps.
static STATE: AtomicU64 = AtomicU64::new(0);

/// From here on samples are apart as this seed says; zero for no gaps.
pub fn begin(seed: u64) {
    // Seeds that differ by one begin far apart.
    STATE.store(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), Ordering::Relaxed);
}

/// Waits for the next gap to pass.
pub fn wait() {
    let state = STATE.load(Ordering::Relaxed);
    if state == 0 {
        return;
    }
    let state = state ^ state >> 12;
    let state = state ^ state << 25;
    let state = state ^ state >> 27;
    STATE.store(state, Ordering::Relaxed);
    let random = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    clock::wait_cycles(SHORTEST + random % (LONGEST - SHORTEST + 1), || true);
}
