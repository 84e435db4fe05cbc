//! How long an interrupt may take before it is taken for lost.

use core::sync::atomic::{AtomicU64, Ordering};
use runtime::clock;

/// Longer than anything that a host's scheduler does to us.
pub const DEFAULT: u64 = 1 << 32;

static CYCLES: AtomicU64 = AtomicU64::new(DEFAULT);

pub fn set(cycles: u64) {
    CYCLES.store(cycles, Ordering::Relaxed);
}

/// Waits while `condition` holds; false if it does for too long.
pub fn wait_while(condition: impl Fn() -> bool) -> bool {
    clock::wait_cycles(CYCLES.load(Ordering::Relaxed), condition)
}
