//! Bare loops of instructions whose cycles are published, outside of any guest: what tells at which
//! clock the cores run.
//!
//! Left out: simple instructions. How many of them a cycle has in such a loop says nothing of how
//! many it has in a kernel's code, which is what their costs are about. Fences neither: compilers
//! make a locked operation of them.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Operations between two looks at the clock.
const OPERATIONS: u32 = 4096;
/// Operations in a line, so that the loop's own instructions do not matter.
const UNROLLED: u32 = 16;
/// Looks at the clock; the least time is the one in which nothing came between.
const LOOKS: usize = 9;

macro_rules! unrolled {
    ($operation:expr) => {{
        for _ in 0..OPERATIONS / UNROLLED {
            unrolled!(4 of unrolled!(4 of $operation));
        }
    }};
    (4 of $operation:expr) => {{
        $operation;
        $operation;
        $operation;
        $operation;
    }};
}

/// Names of the loops with nanoseconds of each operation: PAUSE, and a locked addition that nobody
/// contends for.
pub fn measure() -> [(&'static str, f64); 2] {
    let place = AtomicU64::new(0);
    [("pause", least(|| unrolled!(spin_loop()))), ("locked", least(|| unrolled!(locked(&place))))]
}

/// Its result is used, so that it is an addition that returns what was there.
fn locked(place: &AtomicU64) {
    std::hint::black_box(place.fetch_add(1, Ordering::SeqCst));
}

/// A first time does not count: it brings code into caches, and the clock up to its rate.
fn least(work: impl Fn()) -> f64 {
    work();
    let times = (0..LOOKS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
    });
    times.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_takes_time_that_is_some_cycles() {
        for (name, nanoseconds) in measure() {
            assert!(nanoseconds > 0.05 && nanoseconds < 10_000.0, "{name}: {nanoseconds}");
        }
    }
}
