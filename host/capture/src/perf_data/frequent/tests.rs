use super::*;
use crate::perf_data::Header;
use std::io::Write as _;
use std::path::Path;
use trace::kvm::{AccessKind, KvmEvent};

/// The header of a committed recording, and its records.
fn recording(name: &str) -> (Header, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = zstd::decode_all(&std::fs::read(path).expect("committed")[..]).expect("zstd");
    let mut file = tempfile::tempfile().expect("a place for temporary files");
    file.write_all(&bytes).expect("room for a temporary file");
    let header = Header::read(&file, bytes.len() as u64).expect("a whole recording");
    let records = bytes[header.data.start as usize..header.data.end as usize].to_vec();
    (header, records)
}

#[derive(Default)]
struct Seen {
    events: Vec<(Stamp, KvmEvent)>,
    /// Exits that came by themselves.
    alone: usize,
    /// With the access that followed, and with the entry.
    accesses: usize,
    trips: usize,
}

impl Seen {
    fn departed(&mut self, departure: &Departure) {
        self.accesses += usize::from(departure.access.kind != AccessKind::None);
        self.events.extend(departure.events());
    }
}

impl Sink for Seen {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.alone += usize::from(matches!(event, KvmEvent::Exit(_)));
        self.events.push((*stamp, *event));
    }

    fn departure(&mut self, departure: &Departure) {
        self.departed(departure);
    }

    fn trip(&mut self, departure: &Departure, entry_ns: u64, vcpu: impl FnOnce() -> u32) {
        self.departed(departure);
        self.trips += 1;
        let stamp = Stamp { time_ns: entry_ns, ..departure.stamp };
        self.events.push((stamp, KvmEvent::Entry { vcpu: vcpu() }));
    }

    fn lost(&mut self, _: u32, _: u64, _: u64) {}
}

const RECORDINGS: [&str; 4] = [
    "small-x2apic-big.data.zst",
    "small-xapic-pp.data.zst",
    "vmx-x2apic-mix.data.zst",
    "all-kvm-events-mix.data.zst",
];

fn walked(layouts: &Layouts, records: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let walk = layouts.walk(records, records.len(), &mut seen);
    assert_eq!((walk.at, walk.stopped), (records.len(), None));
    seen
}

#[test]
fn the_short_way_sees_what_the_long_way_sees() {
    for name in RECORDINGS {
        let (mut header, records) = recording(name);
        let short = walked(&header.layouts, &records);
        header.layouts.frame = None;
        let long = walked(&header.layouts, &records);
        assert!(short.events == long.events, "{name}");
        assert_eq!((long.accesses, long.trips), (0, 0), "{name}: the long way has none");
        let exits = long.alone;
        assert!(short.alone * 100 < exits, "{name}: {} of {exits} the long way", short.alone);
        assert!(short.accesses > 0 && short.trips > 0, "{name}");
    }
}

#[test]
fn places_that_the_compiler_knows_are_those_of_the_recording() {
    for name in RECORDINGS {
        let (header, records) = recording(name);
        let frame = header.layouts.frame.expect("exits are taken the short way");
        assert!(frame == USUAL, "{name}: {frame:?}");
        let (mut known, mut read) = (Seen::default(), Seen::default());
        let layouts = &header.layouts;
        let ends = [
            layouts.frequent_at(Usual, &records, 0, records.len(), &mut known),
            layouts.frequent_at(frame, &records, 0, records.len(), &mut read),
        ];
        assert_eq!(ends[0], ends[1], "{name}");
        assert!(known.events == read.events, "{name}");
    }
}

#[test]
fn nothing_that_begins_at_the_limit_is_taken() {
    let (header, records) = recording(RECORDINGS[0]);
    let whole = walked(&header.layouts, &records);
    let mut seen = Seen::default();
    let mut at = 0;
    // Stretches as short as they may be, and others.
    for length in [8, 300, 1000, 4096].into_iter().cycle() {
        let rest = &records[at..];
        if rest.is_empty() {
            break;
        }
        let walk = header.layouts.walk(rest, length.min(rest.len()), &mut seen);
        assert!(walk.at < length + MOST_BYTES, "{} bytes of {length}", walk.at);
        at += walk.at;
    }
    assert!(seen.events == whole.events);
}

#[test]
fn samples_of_another_length_than_described_are_learnt() {
    let (mut header, records) = recording(RECORDINGS[0]);
    for fast in header.layouts.fast_by_id.iter_mut().filter(|fast| **fast != Fast::NONE) {
        (fast.header, fast.size) = (0, 0);
    }
    let unlearnt = walked(&header.layouts, &records);
    assert_eq!(unlearnt.trips, 0);
    header.layouts.learn(&records);
    let learnt = walked(&header.layouts, &records);
    assert!(learnt.trips > 0 && learnt.events == unlearnt.events);
}
