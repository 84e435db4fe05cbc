//! A spinning lock. Do not hold one where an interrupt handler of the same processor takes it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one processor at a time may reach.
pub struct Lock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one processor at a time reach the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { is_held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `body` while no other processor does so with this lock.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        while self.is_held.swap(true, Ordering::Acquire) {
            while self.is_held.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
        // SAFETY: the flag was clear and is now ours.
        let result = body(unsafe { &mut *self.value.get() });
        self.is_held.store(false, Ordering::Release);
        result
    }
}
