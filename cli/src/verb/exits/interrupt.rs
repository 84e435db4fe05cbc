//! Ctrl-C, which ends a reading or a recording early and keeps what there is.

use crate::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the first Ctrl-C (or SIGTERM) raises; the second ends the process.
pub fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(Status::Interrupted.code().into());
        }
    })?;
    Ok(stop)
}
