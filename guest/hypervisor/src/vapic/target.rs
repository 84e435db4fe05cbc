//! What senders of interrupts know of a vCPU.

use crate::vapic::page::ApicPage;
use core::sync::atomic::{AtomicU32, Ordering};

/// As many as x2AVIC's table has entries.
pub const MOST_VCPUS: usize = 512;

/// Its APIC page, its number, and what its vendor has senders write besides the page.
pub struct Target<P> {
    pub page: ApicPage,
    pub posted: P,
    index: AtomicU32,
}

impl<P> Target<P> {
    pub const fn new(posted: P) -> Self {
        Self { page: ApicPage::new(), posted, index: AtomicU32::new(0) }
    }

    pub fn set_index(&self, index: usize) {
        self.index.store(index as u32, Ordering::Relaxed);
    }

    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Its APIC ID.
    pub fn id(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }
}
