//! What the search has spent of this machine's processors: unlike time, that does not depend on
//! what else runs there.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What the calling thread has spent so far.
pub(super) fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_thread_computes_is_not_counted() {
        let compute = || (0..20_000_000u64).fold(1u64, |sum, one| std::hint::black_box(sum ^ one));
        let before = spent();
        let other = std::thread::spawn(move || {
            compute();
            spent()
        });
        let other = other.join().expect("a thread that ends");
        let own = spent() - before;
        assert!(own < other, "{own:?} here, {other:?} there");
    }
}
