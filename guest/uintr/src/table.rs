//! The target table, and a descriptor for each processor: the supervisor's.

use crate::user::SUPERVISOR;
use arch::uintr::{UintrTargets, Uitte};
use arch::vmx::apicv::NotificationControl;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::processor::Processor;

const CPUS: usize = crate::RECEIVER + 1;
/// User-interrupt vectors that each processor can be sent.
pub const VECTORS: [u8; 2] = [5, 42];
const TARGETS: usize = CPUS * VECTORS.len();

/// A user posted-interrupt descriptor.
#[repr(C, align(64))]
pub struct Descriptor {
    control: AtomicU64,
    requests: AtomicU64,
}

static DESCRIPTORS: [Descriptor; CPUS] =
    [const { Descriptor { control: AtomicU64::new(0), requests: AtomicU64::new(0) } }; CPUS];

#[repr(C, align(16))]
struct Table([[AtomicU64; 2]; TARGETS]);

static TABLE: Table = Table([const { [AtomicU64::new(0), AtomicU64::new(0)] }; TARGETS]);

/// Of the last entry.
pub const LAST_TARGET: u32 = TARGETS as u32 - 1;

/// The index of `VECTORS[which]` of a processor.
pub fn target(processor: usize, which: usize) -> u64 {
    (processor * VECTORS.len() + which) as u64
}

/// What IA32_UINTR_TT is to hold.
pub fn targets() -> UintrTargets {
    let at = SUPERVISOR + &raw const TABLE as u64;
    UintrTargets::from_bits(at).with_is_enabled(true)
}

/// That of a processor.
pub fn descriptor(processor: usize) -> &'static Descriptor {
    &DESCRIPTORS[processor]
}

/// Writes the descriptor of a processor, to be notified by `vector`, and the entries that lead to
/// it.
pub fn fill(processor: &Processor, vector: u8) {
    let (index, id) = (processor.index(), processor.apic_id());
    let destination = if processor.is_x2apic() { id } else { id << 8 };
    let control = NotificationControl::new().with_vector(vector).with_destination(destination);
    let own = descriptor(index);
    own.requests.store(0, Ordering::SeqCst);
    own.control.store(control.into_bits(), Ordering::SeqCst);
    for (which, vector) in VECTORS.into_iter().enumerate() {
        let entry =
            Uitte::new().with_is_valid(true).with_vector(vector).with_descriptor(own.address());
        let place = &TABLE.0[target(index, which) as usize];
        place[1].store((entry.into_bits() >> 64) as u64, Ordering::SeqCst);
        place[0].store(entry.into_bits() as u64, Ordering::SeqCst);
    }
}

impl Descriptor {
    /// In the supervisor's mapping.
    pub fn address(&self) -> u64 {
        SUPERVISOR + core::ptr::from_ref(self) as u64
    }

    /// What is posted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether a notification is on its way.
    pub fn is_outstanding(&self) -> bool {
        NotificationControl::from_bits(self.control.load(Ordering::SeqCst)).is_outstanding()
    }

    /// Senders post and do not notify.
    pub fn suppress(&self) {
        let bit = NotificationControl::new().with_is_suppressed(true).into_bits();
        self.control.fetch_or(bit, Ordering::SeqCst);
    }
}
