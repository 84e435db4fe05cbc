//! Raw records of one CPU to a sink. What was recorded between an exit and the entry after it goes
//! with them if it is a single access, since nearly all of a long recording is such trips.

use crate::format::EventFormat;
use crate::kvm::Decoder;
use crate::sink::Sink;
use std::collections::BTreeMap;
use trace::kvm::{Access, AccessKind, Departure, KvmEvent, Stamp};

/// Decoders by the number of their tracepoint.
#[derive(Debug, Default)]
pub struct Decoders {
    first: u16,
    by_id: Vec<Option<Decoder>>,
}

impl Decoders {
    pub fn new(formats: &[EventFormat]) -> Self {
        let decoders: BTreeMap<u16, Decoder> = formats
            .iter()
            .filter_map(|format| Some((u16::try_from(format.id).ok()?, Decoder::new(format)?)))
            .collect();
        let first = decoders.keys().next().copied().unwrap_or(0);
        let last = decoders.keys().next_back().copied().unwrap_or(0);
        let by_id = (first..=last).map(|id| decoders.get(&id).copied()).collect();
        Self { first, by_id }
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.iter().all(Option::is_none)
    }

    #[inline(always)]
    fn decode(&self, raw: &[u8]) -> Option<(u32, KvmEvent)> {
        let &[a, b, _, _, p, q, r, s] = raw.first_chunk()?;
        let id = usize::from(u16::from_le_bytes([a, b]).wrapping_sub(self.first));
        let event = self.by_id.get(id)?.as_ref()?.decode(raw)?;
        Some((u32::from_le_bytes([p, q, r, s]), event))
    }
}

/// Delivers the events of one CPU, in their order.
pub struct Delivery<'a, S> {
    pub decoders: &'a Decoders,
    pub cpu: u32,
    pub sink: &'a mut S,
    /// An exit whose entry may follow.
    pub departure: Option<Departure>,
}

impl<S: Sink> Delivery<'_, S> {
    #[inline(always)]
    pub fn take(&mut self, raw: &[u8], time_ns: u64) {
        let Some((thread, event)) = self.decoders.decode(raw) else { return };
        let stamp = Stamp { time_ns, process: 0, thread, cpu: self.cpu };
        match event {
            KvmEvent::Exit(exit) => {
                self.flush();
                let access = Access { time_ns, ..Access::default() };
                self.departure = Some(Departure { stamp, exit, access });
            }
            KvmEvent::Entry { vcpu } => match self.departure.take() {
                Some(departure) if departure.stamp.thread == thread => {
                    self.sink.trip(&departure, time_ns, || vcpu);
                }
                other => {
                    self.departure = other;
                    self.flush();
                    self.sink.entry(&stamp, vcpu);
                }
            },
            _ => {
                if let Some(access) = access_of(&event)
                    && let Some(departure) = &mut self.departure
                    && departure.stamp.thread == thread
                    && departure.access.kind == AccessKind::None
                {
                    departure.access = Access { time_ns, ..access };
                    return;
                }
                self.flush();
                self.sink.event(&stamp, &event);
            }
        }
    }

    /// Delivers an exit that nothing follows.
    #[inline(always)]
    pub fn flush(&mut self) {
        if let Some(departure) = self.departure.take() {
            self.sink.departure(&departure);
        }
    }

    pub fn lost(&mut self, at_ns: u64, events: u64) {
        self.flush();
        self.sink.lost(self.cpu, at_ns, events);
    }
}

#[inline(always)]
fn access_of(event: &KvmEvent) -> Option<Access> {
    let (kind, direction, address, value) = match *event {
        KvmEvent::Msr { is_write, index, value } => {
            (AccessKind::Msr, u32::from(is_write), u64::from(index), value)
        }
        KvmEvent::PortIo { is_write, port } => {
            (AccessKind::PortIo, u32::from(is_write), u64::from(port), 0)
        }
        KvmEvent::Mmio { kind, address, value } => (AccessKind::Mmio, kind as u32, address, value),
        _ => return None,
    };
    Some(Access { kind, time_ns: 0, direction, address, value })
}
