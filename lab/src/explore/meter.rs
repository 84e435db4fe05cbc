//! What the search has spent of this machine's processors: unlike time, that does not depend on
//! what else runs there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Of the calling thread, nanoseconds first. [LINUX "Documentation/scheduler/sched-stats.rst"]
const PLACE: &str = "/proc/thread-self/schedstat";

/// Counts from when it was opened.
pub struct Meter {
    /// None where the kernel does not tell.
    file: Option<File>,
    began: Instant,
}

impl Meter {
    /// For this thread; before the process is shut in.
    pub fn open() -> Self {
        Self { file: File::open(PLACE).ok(), began: Instant::now() }
    }

    /// What the thread has spent, or, where that is not told, the time since.
    pub fn spent(&self) -> Duration {
        self.told().map_or_else(|| self.began.elapsed(), Duration::from_nanos)
    }

    fn told(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.split_whitespace().next()?.parse().ok()
    }
}
