//! Where the most frequent events have their fields: at places that are the same in all their
//! samples.

use super::kind;
use super::sample::{Prepared, SampleLayout};
use crate::kvm::{Decoder, Frequent, FrequentKind};
use trace::kvm::AccessKind;

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Decoded the long way, or read past.
    Other,
    Entry,
    Exit,
    Access,
}

/// What a record's header says of where the CPU was: in the kernel, as for every tracepoint there.
/// [PERF "PERF_RECORD_MISC_KERNEL"]
const IN_KERNEL: u16 = 1;

/// Longer samples than this are decoded the long way.
pub const MOST_BYTES: usize = u8::MAX as usize;

/// Bytes from a record's start within which a [`Fast`] event's fields lie.
pub const WINDOW: usize = MOST_BYTES + 8;

/// Where all frequent events have what all samples have, and exits what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: u8,
    pub thread: u8,
    pub time: u8,
    pub cpu: u8,
    /// ISA, reason, information and interruption.
    pub exit: [u8; 5],
}

impl Frame {
    /// `None` if something is missing.
    fn of(layout: &SampleLayout, exit: [u8; 5]) -> Option<Self> {
        let place = |at: usize| u8::try_from(at).ok().filter(|at| *at != 0);
        let SampleLayout { id, thread, time, cpu, .. } = *layout;
        let (id, thread) = (place(id)?, place(thread)?);
        Some(Self { id, thread, time: place(time)?, cpu: place(cpu)?, exit })
    }

    /// Of the first event that is an exit.
    pub fn of_exits(events: &[Prepared]) -> Option<Self> {
        events.iter().find_map(|event| {
            let frequent = event.decoder.as_ref()?.frequent()?;
            let fields = Fast::fields(&event.layout, &frequent)?;
            let is_exit = frequent.what == FrequentKind::Exit && event.layout.is_raw_fixed;
            Self::of(&event.layout, fields).filter(|_| is_exit)
        })
    }
}

/// A frequent event whose fields all lie at fixed places near the record's start: offsets are
/// bytes, so that none can point outside a window and none has to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fast {
    /// The first eight bytes of its records; those of others are decoded the long way.
    pub header: u64,
    /// Which bits of the word at the second field are its own, if it is an access.
    pub address_mask: u64,
    pub class: Class,
    /// Of an access, which.
    pub access: AccessKind,
    pub size: u8,
    /// In the order of [`Frequent`].
    pub fields: [u8; 5],
}

impl Fast {
    /// An event whose samples are decoded the long way, or read past: no sample has its header.
    pub const NONE: Self = Self {
        header: u64::MAX,
        address_mask: 0,
        class: Class::Other,
        access: AccessKind::None,
        size: 0,
        fields: [0; 5],
    };

    /// Where a record has its fields, if a byte can say so.
    fn fields(layout: &SampleLayout, frequent: &Frequent) -> Option<[u8; 5]> {
        let mut fields = [0; 5];
        for (field, offset) in fields.iter_mut().zip(frequent.fields) {
            *field = u8::try_from(raw_of(layout) + usize::from(offset)).ok()?;
        }
        Some(fields)
    }

    pub fn new(layout: &SampleLayout, decoder: &Decoder, frame: &Frame) -> Option<Self> {
        let frequent = decoder.frequent()?;
        let fields = Self::fields(layout, &frequent)?;
        let is_exit = frequent.what == FrequentKind::Exit;
        let exit = if is_exit { fields } else { frame.exit };
        if !layout.is_raw_fixed || Frame::of(layout, exit)? != *frame {
            return None;
        }
        let size = u8::try_from((raw_of(layout) + frequent.bytes).next_multiple_of(8)).ok()?;
        let (class, access) = match frequent.what {
            FrequentKind::Entry => (Class::Entry, AccessKind::None),
            FrequentKind::Exit => (Class::Exit, AccessKind::None),
            FrequentKind::Access(access) => (Class::Access, access),
        };
        let header = u64::from(size) << 48 | u64::from(IN_KERNEL) << 32 | u64::from(kind::SAMPLE);
        let address_mask = frequent.address_mask;
        Some(Self { header, address_mask, class, access, size, fields })
    }
}

impl Fast {
    /// Takes over the header of a sample, if it can hold all fields.
    pub fn learn(&mut self, sample: &[u8]) {
        let Some((header, size)) = sample.first_chunk().zip(u8::try_from(sample.len()).ok()) else {
            return;
        };
        let holds = |field: &u8| usize::from(*field) + 4 <= sample.len();
        if *self != Self::NONE && self.fields.iter().all(holds) {
            (self.header, self.size) = (u64::from_le_bytes(*header), size);
        }
    }
}

/// Where the raw record lies if nothing of variable size is before it: behind its length.
const fn raw_of(layout: &SampleLayout) -> usize {
    layout.fixed_end + 4
}
