//! Packets as they are written: tracks are described and names interned when they are first used.

use super::packet::{
    BEGIN, BY_RANK, CLEARED, END, Field, INSTANT, Interned, NEEDED, Name, Packet, Track, TrackEvent,
};
use crate::event::{Event, Value};
use arch::time::Picoseconds;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The only sequence of packets.
const SEQUENCE: u32 = 1;
/// What precedes each packet of a trace: its field, of a length that follows.
const PACKET: u8 = 1 << 3 | 2;
/// Names that are kept; with more all are forgotten and interned again.
const MOST_NAMES: usize = 1 << 16;

/// A group of tracks. Each has a track of its own, which its tracks lie under.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Processors = 1,
    VirtualProcessors = 2,
    VirtualApics = 3,
}

impl Group {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Processors, "processors"),
        (Self::VirtualProcessors, "vCPUs"),
        (Self::VirtualApics, "AVIC or APICv"),
    ];
    /// More than the highest number of one.
    const COUNT: u64 = 4;
}

/// A track, as numbers of its group go.
pub type Line = (Group, usize);

fn number(line: Line) -> u64 {
    Group::COUNT * (line.1 as u64 + 1) + line.0 as u64
}

pub struct Packets<W> {
    output: W,
    lines: BTreeMap<Line, Picoseconds>,
    events: BTreeMap<String, u64>,
    fields: BTreeMap<&'static str, u64>,
    texts: BTreeMap<String, u64>,
    /// What the next packet introduces.
    interned: Interned,
    is_cleared: bool,
    bytes: Vec<u8>,
}

impl<W: Write> Packets<W> {
    pub fn new(output: W) -> io::Result<Self> {
        let mut packets = Self {
            output,
            lines: BTreeMap::new(),
            events: BTreeMap::new(),
            fields: BTreeMap::new(),
            texts: BTreeMap::new(),
            interned: Interned::default(),
            is_cleared: true,
            bytes: Vec::new(),
        };
        for (group, name) in Group::ALL {
            packets.describe(Track {
                id: Some(group as u64),
                name: Some(name.to_owned()),
                order_of_children: Some(BY_RANK),
                ..Track::default()
            })?;
        }
        Ok(packets)
    }

    /// Names a track before it is used.
    pub fn name(&mut self, line: Line, name: impl FnOnce() -> String) -> io::Result<()> {
        if self.lines.contains_key(&line) {
            return Ok(());
        }
        self.lines.insert(line, Picoseconds::ZERO);
        self.describe(Track {
            id: Some(number(line)),
            name: Some(name()),
            parent: Some(line.0 as u64),
            rank: Some(line.1 as i32),
            ..Track::default()
        })
    }

    /// Begins a slice within those that are open on the track.
    pub fn begin(&mut self, line: Line, at: Picoseconds, name: &str) -> io::Result<()> {
        let event = TrackEvent { kind: Some(BEGIN), ..self.event(line, Some(name)) };
        self.slice(line, at, event)
    }

    /// Ends the innermost open slice of the track.
    pub fn end(&mut self, line: Line, at: Picoseconds) -> io::Result<()> {
        let event = TrackEvent { kind: Some(END), ..self.event(line, None) };
        self.slice(line, at, event)
    }

    /// An event of no length, with its fields and the name of the code behind it.
    pub fn instant(
        &mut self,
        line: Line,
        at: Picoseconds,
        event: &Event,
        place: Option<String>,
        flow: Option<u64>,
    ) -> io::Result<()> {
        let mut own = self.event(line, Some(event.label()));
        own.kind = Some(INSTANT);
        own.flows.extend(flow);
        event.values(|name, value| {
            let mut field = Field { name: Some(self.field(name)), ..Field::default() };
            match value {
                Value::Number(value) => field.number = Some(value),
                Value::Name(text) => field.text = Some(self.text(text)),
            }
            own.fields.push(field);
        });
        if let Some(place) = place {
            let (name, text) = (Some(self.field("at")), Some(self.text(place)));
            own.fields.push(Field { name, number: None, text });
        }
        self.put(at, own)
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn describe(&mut self, track: Track) -> io::Result<()> {
        self.write(&Packet { sequence: Some(SEQUENCE), track: Some(track), ..Packet::default() })
    }

    /// Slices of a track nest in the order of time, which processors keep among themselves only
    /// as far as a message takes.
    fn slice(&mut self, line: Line, at: Picoseconds, event: TrackEvent) -> io::Result<()> {
        let last = self.lines.entry(line).or_default();
        *last = at.max(*last);
        let at = *last;
        self.put(at, event)
    }

    fn event(&mut self, line: Line, name: Option<&str>) -> TrackEvent {
        self.forget();
        let name = name.map(|name| intern(&mut self.events, name, &mut self.interned.events));
        TrackEvent { track: Some(number(line)), name, ..TrackEvent::default() }
    }

    fn field(&mut self, name: &'static str) -> u64 {
        intern(&mut self.fields, name, &mut self.interned.fields)
    }

    fn text(&mut self, text: String) -> u64 {
        intern(&mut self.texts, &text, &mut self.interned.texts)
    }

    /// So that a trace of any length takes little memory here and where it is read.
    fn forget(&mut self) {
        if self.texts.len() + self.events.len() >= MOST_NAMES {
            self.texts.clear();
            self.events.clear();
            self.fields.clear();
            self.is_cleared = true;
        }
    }

    fn put(&mut self, at: Picoseconds, event: TrackEvent) -> io::Result<()> {
        let interned = std::mem::take(&mut self.interned);
        let is_new = interned != Interned::default();
        let cleared = if std::mem::take(&mut self.is_cleared) { CLEARED } else { 0 };
        self.write(&Packet {
            timestamp: Some(at.0 / 1000),
            sequence: Some(SEQUENCE),
            event: Some(event),
            interned: is_new.then_some(interned),
            flags: Some(NEEDED | cleared),
            track: None,
        })
    }

    fn write(&mut self, packet: &Packet) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.push(PACKET);
        // A vector takes everything.
        let _ = packet.encode_length_delimited(&mut self.bytes);
        self.output.write_all(&self.bytes)
    }
}

/// The number of a name, which from its first use on stands for it.
fn intern<'a, K: Ord + From<&'a str> + std::borrow::Borrow<str>>(
    known: &mut BTreeMap<K, u64>,
    name: &'a str,
    new: &mut Vec<Name>,
) -> u64 {
    if let Some(id) = known.get(name) {
        return *id;
    }
    let id = known.len() as u64 + 1;
    known.insert(K::from(name), id);
    new.push(Name { id: Some(id), name: Some(name.to_owned()) });
    id
}
