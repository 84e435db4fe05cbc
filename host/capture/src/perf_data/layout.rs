//! The events of a recording, and how each one's samples are decoded.

use super::attribute::{Attribute, TYPE_TRACEPOINT, sample};
use super::fixed::{Fast, Frame};
use super::sample::{Prepared, SampleLayout};
use crate::Error;
use crate::kvm::Decoder;
use crate::tracing_data::TracingData;

/// All events of a recording, found by the identifier in each sample.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// One per attribute, in the order of the file.
    pub events: Vec<Prepared>,
    /// Offset of the identifier in a sample, the same for all events; zero if there is one event
    /// or identifiers are missing.
    id_offset: usize,
    /// The smallest identifier; tables by identifier begin there.
    pub first_id: u64,
    /// None if no exit is taken the short way.
    pub frame: Option<Frame>,
    /// How samples are taken the short way, by identifier from `first_id` on.
    pub fast_by_id: Vec<Fast>,
    /// Event by identifier from `first_id` on.
    pub by_id: Vec<u16>,
    /// For records that are not samples.
    pub common: SampleLayout,
    /// Whether records that are not samples end with identifying fields.
    pub has_sample_id: bool,
    /// Whether more than one ring buffer was read, so that times may jump back.
    pub has_several_buffers: bool,
}

const NO_EVENT: u16 = u16::MAX;
/// Identifiers are handed out by a counter of the kernel; a wider range than this is damage.
const WIDEST_IDS: u64 = 1 << 20;

impl Layouts {
    /// `formats` may be missing where a recording was cut off before they were written.
    pub fn new(
        attributes: &[Attribute],
        formats: Option<&TracingData>,
    ) -> Result<(Self, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let events: Vec<Prepared> = attributes
            .iter()
            .enumerate()
            .map(|(index, attribute)| {
                let layout = SampleLayout::new(attribute);
                let decoder = decoder_of(attribute, index, formats);
                Prepared { layout, decoder }
            })
            .collect();
        if formats.is_none() {
            warnings.push(
                "the recording carries no event descriptions: the five events of perf kvm stat \
                 and the layout of Linux 5.10 and later are assumed"
                    .into(),
            );
        }
        let Some(first) = events.iter().find(|event| event.decoder.is_some()) else {
            return Err(Error::Unsupported(
                "the recording has no KVM tracepoints; record with perf kvm stat record, or with \
                 perf record -e 'kvm:*' -a"
                    .into(),
            ));
        };
        for event in events.iter().filter(|event| event.decoder.is_some()) {
            let kind = event.layout.sample_type;
            if event.layout.time == 0 || kind & sample::RAW == 0 {
                return Err(Error::Unsupported(
                    "samples carry no time or no raw data; record with perf record -R -T".into(),
                ));
            }
        }
        let common = first.layout;
        let (id_offset, first_id, by_id) = index_ids(attributes, &events)?;
        let frame = Frame::of_exits(&events).filter(|frame| usize::from(frame.id) == id_offset);
        let fast_of = |event: Option<&Prepared>| {
            let event = event?;
            Fast::new(&event.layout, event.decoder.as_ref()?, frame.as_ref()?)
        };
        let fast_of = |event| fast_of(event).unwrap_or(Fast::NONE);
        let layouts = Self {
            fast_by_id: by_id
                .iter()
                .map(|index| fast_of(events.get(usize::from(*index))))
                .collect(),
            has_sample_id: attributes.iter().any(|attribute| attribute.has_sample_id),
            has_several_buffers: attributes.iter().any(|attribute| attribute.ids.len() > 1),
            events,
            id_offset,
            first_id,
            frame,
            by_id,
            common,
        };
        Ok((layouts, warnings))
    }

    /// The event that a sample is of, by the identifier in it; `None` where it has no known one.
    pub fn index_of(&self, record: &[u8]) -> Option<usize> {
        let bytes = record.get(self.id_offset..self.id_offset + 8)?;
        let id = u64::from_le_bytes(bytes.try_into().ok()?);
        let index = *self.by_id.get(usize::try_from(id.wrapping_sub(self.first_id)).ok()?)?;
        (usize::from(index) < self.events.len()).then_some(usize::from(index))
    }

    /// The event a sample belongs to.
    #[inline]
    pub fn event_of(&self, record: &[u8]) -> Option<&Prepared> {
        if self.id_offset == 0 {
            return self.events.first();
        }
        self.events.get(self.index_of(record)?)
    }
}

fn index_ids(
    attributes: &[Attribute],
    events: &[Prepared],
) -> Result<(usize, u64, Vec<u16>), Error> {
    let offset = events[0].layout.id;
    let same = events.iter().all(|event| event.layout.id == offset);
    let ids = || attributes.iter().flat_map(|attribute| &attribute.ids).copied();
    let Some((first, last)) = ids().min().zip(ids().max()) else {
        return single_event(events);
    };
    if offset == 0 || !same {
        return single_event(events);
    }
    if last - first > WIDEST_IDS {
        return Err(Error::Unsupported(format!("event identifiers span {first} to {last}")));
    }
    let mut by_id = vec![NO_EVENT; (last - first) as usize + 1];
    for (index, attribute) in attributes.iter().enumerate() {
        for id in &attribute.ids {
            by_id[(id - first) as usize] = index as u16;
        }
    }
    Ok((offset, first, by_id))
}

fn single_event(events: &[Prepared]) -> Result<(usize, u64, Vec<u16>), Error> {
    if events.len() == 1 {
        return Ok((0, 0, Vec::new()));
    }
    Err(Error::Unsupported(
        "several events without identifiers in their samples cannot be told apart".into(),
    ))
}

/// Order in which `perf kvm stat record` opens its events on x86.
const PERF_KVM_STAT: [&str; 5] = ["kvm_entry", "kvm_exit", "kvm_mmio", "kvm_pio", "kvm_msr"];

fn decoder_of(
    attribute: &Attribute,
    index: usize,
    formats: Option<&TracingData>,
) -> Option<Decoder> {
    if attribute.kind != TYPE_TRACEPOINT {
        return None;
    }
    if let Some(formats) = formats {
        return Decoder::new(formats.event(u32::try_from(attribute.config).ok()?)?);
    }
    let name = attribute.name.as_deref().map(|name| name.trim_start_matches("kvm:"));
    Decoder::assumed(name.or(PERF_KVM_STAT.get(index).copied())?)
}
