//! Posted interrupts, and the table by which IPI virtualization finds them.
//! [SDM3 "Posted-Interrupt Processing"] [SDM3 "IPI Virtualization"]
//!
//! The order that loses no interrupt: a sender, processor or software, first posts the request and
//! then reads whom to notify; a scheduler first says that its home is to be woken and then looks at
//! the requests once more before it lets the vCPU sleep.

use crate::vapic::page::ApicPage;
use crate::vapic::target::MOST_VCPUS;
use arch::address::SystemPhysical;
use arch::vmx::apicv::{NotificationControl, PidPointer};
use core::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 4;

/// A posted-interrupt descriptor.
#[repr(C, align(64))]
pub struct PostedDescriptor {
    /// PIR
    requests: [AtomicU64; WORDS],
    control: AtomicU64,
    software: [u64; 3],
}

const _: () = assert!(size_of::<PostedDescriptor>() == 64);

impl PostedDescriptor {
    pub const fn new() -> Self {
        Self {
            requests: [const { AtomicU64::new(0) }; WORDS],
            control: AtomicU64::new(0),
            software: [0; 3],
        }
    }

    pub fn address(&self) -> SystemPhysical {
        SystemPhysical(core::ptr::from_ref(self) as u64)
    }

    pub fn clear(&self) {
        self.requests.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.control.store(0, Ordering::Relaxed);
    }

    fn control(&self) -> NotificationControl {
        NotificationControl::from_bits(self.control.load(Ordering::SeqCst))
    }

    /// The vector by which senders notify.
    pub fn vector(&self) -> u8 {
        self.control().vector()
    }

    /// Requests an interrupt. Notifying is left to the caller.
    pub fn post(&self, vector: u8) {
        let word = &self.requests[usize::from(vector / 64)];
        word.fetch_or(1 << (vector % 64), Ordering::SeqCst);
        let outstanding = NotificationControl::new().with_is_outstanding(true);
        self.control.fetch_or(outstanding.into_bits(), Ordering::SeqCst);
    }

    /// Says whom senders are to notify; what is outstanding stays so.
    pub fn notify_by(&self, vector: u8, destination: u32) {
        let mut old = self.control.load(Ordering::Relaxed);
        loop {
            let new = NotificationControl::from_bits(old)
                .with_vector(vector)
                .with_destination(destination)
                .into_bits();
            // Nothing after this may be done before it is visible: the last look, above all.
            match self.control.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(current) => old = current,
            }
        }
    }

    /// Puts what has been posted into the page, as the processor does in the guest.
    pub fn move_into(&self, page: &ApicPage) {
        let outstanding = NotificationControl::new().with_is_outstanding(true);
        self.control.fetch_and(!outstanding.into_bits(), Ordering::SeqCst);
        for (index, word) in self.requests.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                page.request(index as u8 * 64 + bits.trailing_zeros() as u8);
                bits &= bits - 1;
            }
        }
    }
}

/// A descriptor's address for each virtual APIC ID.
#[repr(C, align(4096))]
pub struct PidPointers([AtomicU64; MOST_VCPUS]);

impl PidPointers {
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MOST_VCPUS])
    }

    pub fn clear(&self) {
        self.0.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
    }

    pub fn set(&self, index: usize, descriptor: &PostedDescriptor) {
        let entry = PidPointer::new().with_is_valid(true).with_descriptor(descriptor.address());
        self.0[index].store(entry.into_bits(), Ordering::Relaxed);
    }

    pub fn address(&self) -> SystemPhysical {
        SystemPhysical(core::ptr::from_ref(self) as u64)
    }
}
