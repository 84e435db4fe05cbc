//! How far a long file has been read: on terminals only, on standard error.

use analysis::Follow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Files below this are read before a bar could be seen.
const WORTH_SHOWING: u64 = 256 << 20;
/// The same of packed ones.
const WORTH_SHOWING_PACKED: u64 = 32 << 20;
const TICK: Duration = Duration::from_millis(100);

/// A bar for each stage of a reading.
#[derive(Default)]
pub struct Bars(Option<Progress>);

impl Follow for Bars {
    fn begins(&mut self, name: &str, bytes: u64, is_packed: bool) -> Arc<AtomicU64> {
        self.ends();
        let least = if is_packed { WORTH_SHOWING_PACKED } else { WORTH_SHOWING };
        Arc::clone(&self.0.insert(Progress::if_worth(name, bytes, least)).bytes)
    }

    fn ends(&mut self) {
        self.0 = None;
    }
}

/// A bar that follows a counter until it is dropped.
struct Progress {
    bytes: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    follower: Option<JoinHandle<()>>,
}

impl Progress {
    fn if_worth(name: &str, total: u64, least: u64) -> Self {
        let bytes = Arc::default();
        let mut progress = Self { bytes, done: Arc::default(), follower: None };
        if total < least || !std::io::stderr().is_terminal() {
            return progress;
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let style = "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_prefix(crate::terminal::clean(name));
        let (bytes, done) = (Arc::clone(&progress.bytes), Arc::clone(&progress.done));
        // Without a thread there is no bar.
        let follower = Builder::new().spawn(move || {
            while !done.load(Ordering::Relaxed) {
                bar.set_position(bytes.load(Ordering::Relaxed));
                std::thread::park_timeout(TICK);
            }
            bar.finish_and_clear();
        });
        progress.follower = follower.ok();
        progress
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(follower) = self.follower.take() {
            follower.thread().unpark();
            // A bar that failed has nothing to say about the result.
            let _ = follower.join();
        }
    }
}
