//! Whatever the threads, the stretches and the moves of a recording, several threads find the same
//! as one that merges all events by time.

use super::*;
use capture::tracing_data::TracingData;
use profile::Profile;
use std::collections::BTreeMap;
use std::io::Write as _;

#[path = "../../../capture/tests/forms/trace_dat.rs"]
mod form;
#[path = "../../../capture/tests/forms/perf_data.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod perf_data;

use form::{Form, samples};

/// Xorshift, so that a seed is the whole story.
struct Chance(u64);

impl Chance {
    fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

fn recording() -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../capture/tests/data/small-xapic-pp.data.zst");
    zstd::decode_all(&std::fs::read(path).expect("committed")[..]).expect("zstd")
}

fn entry_number(file: &[u8]) -> u16 {
    let at = file.windows(10).position(|bytes| bytes == b"\x17\x08\x44tracing").expect("formats");
    let formats = TracingData::parse(&file[at..]).expect("whole");
    let entry = formats.events.iter().find(|event| event.name == "kvm_entry");
    entry.expect("kvm stat records it").id as u16
}

/// A sample's or another record's bytes.
type Bytes = Vec<u8>;

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Samples in the order of time and all other records, with threads that move between four CPUs
/// while they are not in the guest.
fn moved_samples(file: &[u8], chance: &mut Chance, one_in: u64) -> (Vec<Bytes>, Vec<Bytes>) {
    const SAMPLE: u8 = 9;
    let entry = entry_number(file);
    let (start, size) = (perf_data::word(file, 40) as usize, perf_data::word(file, 48) as usize);
    let (mut at, mut samples, mut others) = (start, Vec::new(), Vec::new());
    while at < start + size {
        let length = usize::from(u16::from_le_bytes([file[at + 6], file[at + 7]]));
        let record = file[at..at + length].to_vec();
        if file[at] == SAMPLE { &mut samples } else { &mut others }.push(record);
        at += length;
    }
    samples.sort_by_key(|record| perf_data::word(record, 32));
    let mut places: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
    for record in &mut samples {
        let place = places.entry(half(record, 28)).or_insert((half(record, 40), false));
        if !place.1 && chance.is_one_in(one_in) {
            place.0 = chance.below(4) as u32;
        }
        record[40..44].copy_from_slice(&place.0.to_le_bytes());
        place.1 = u16::from_le_bytes([record[60], record[61]]) == entry;
    }
    (samples, others)
}

/// The recording in the order of time.
fn moved(file: &[u8], chance: &mut Chance, one_in: u64) -> Bytes {
    let (samples, others) = moved_samples(file, chance, one_in);
    let records: Bytes = samples.into_iter().chain(others).flatten().collect();
    perf_data::with_records(file, &records)
}

/// The recording several times over, as a recorder writes it that goes round four buffers each time
/// so many samples have come, without its marks of when it has been round.
fn unmarked(samples: &[Bytes], repeats: u64, a_round: usize) -> Bytes {
    let time = |record: &Bytes| perf_data::word(record, 32);
    let span = time(&samples[samples.len() - 1]) - time(&samples[0]) + 1_000_000;
    let mut latest = 0;
    let mut all = Vec::new();
    for repeat in 0..repeats {
        for record in samples {
            let mut record = record.clone();
            // Which of two CPUs was first at one time is nobody's to say.
            latest = (time(&record) + repeat * span).max(latest + 1);
            record[32..40].copy_from_slice(&latest.to_le_bytes());
            all.push(record);
        }
    }
    let mut records = Bytes::new();
    for round in all.chunks(a_round) {
        for cpu in 0..4 {
            records.extend(round.iter().filter(|record| half(record, 40) == cpu).flatten());
        }
    }
    records
}

/// The samples of a file that has nothing else, in the order of time.
fn in_order_of_time(file: &[u8]) -> Bytes {
    let (start, size) = (perf_data::word(file, 40) as usize, perf_data::word(file, 48) as usize);
    let (mut at, mut samples) = (start, Vec::new());
    while at < start + size {
        let length = usize::from(u16::from_le_bytes([file[at + 6], file[at + 7]]));
        samples.push(&file[at..at + length]);
        at += length;
    }
    samples.sort_by_key(|record| perf_data::word(record, 32));
    samples.concat()
}

/// A file whose first event was recorded into two buffers: beside its own, it has the identifier of
/// the event behind, which overrides that.
fn with_two_identifiers(file: &[u8]) -> Bytes {
    let (stride, at) = (perf_data::word(file, 16) as usize, perf_data::word(file, 24) as usize);
    let mut file = file.to_vec();
    let size = at + stride - 8;
    file[size..size + 8].copy_from_slice(&16u64.to_le_bytes());
    file
}

fn opened(bytes: &[u8]) -> trace_dat::Recording {
    let mut file = tempfile();
    file.write_all(bytes).expect("room on the disk");
    trace_dat::Recording::open(file, bytes.len() as u64).expect("whole")
}

/// A file that is gone when it is closed.
fn tempfile() -> File {
    let name = format!("avicenna-gather-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path);
    std::fs::remove_file(&path).expect("just made");
    file.expect("a temporary folder")
}

/// All of a profile, so that nothing that differs is overlooked.
fn said(profile: &Profile) -> String {
    format!("{profile:?}")
}

/// Says where two profiles begin to differ, instead of all of them.
fn assert_same(found: &Profile, expected: &Profile, what: &str) {
    let (found, expected) = (said(found), said(expected));
    let at = found.bytes().zip(expected.bytes()).position(|(one, other)| one != other);
    if let Some(at) = at {
        let around = |text: &str| text[at.saturating_sub(300)..text.len().min(at + 60)].to_owned();
        panic!("{what}: {}\n is not {}", around(&found), around(&expected));
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[test]
fn several_threads_read_from_trace_dat_what_one_does() {
    let file = recording();
    let options = Options::default();
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    for (seed, one_in, lost_one_in, form) in [
        (1, u64::MAX, u64::MAX, Form::Six),
        (2, 200, u64::MAX, Form::Seven),
        (3, 200, u64::MAX, Form::SevenPacked),
        (4, 3, u64::MAX, Form::Six),
        (5, 1, u64::MAX, Form::SevenPacked),
        (6, 50, 300, Form::Seven),
        (7, 2, 40, Form::SevenPacked),
        (8, u64::MAX, 1000, Form::Six),
    ] {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ seed << 20);
        let file = moved(&file, &mut chance, one_in);
        let is_lost = |_: &form::Sampled<'_>| chance.is_one_in(lost_one_in);
        let bytes = form::trace_dat(&file, &samples(&file), form, is_lost);
        let recording = opened(&bytes);
        let reading = Reading::new(&stop, &progress);
        let merged = recording.merged(&reading, Gathering::new(Part::new(&options)));
        let (merged, warnings) = merged.expect("whole");
        assert!(warnings.is_empty(), "{warnings:?}");
        let merged = merged.part.finish();
        let exits: u64 =
            merged.vcpus.iter().flat_map(|vcpu| &vcpu.cells).map(|row| row.1.count).sum();
        assert!(exits > 1000, "{exits}");
        assert_eq!(merged.lost_events > 0, lost_one_in != u64::MAX);
        for threads in [1, 2, 3] {
            for size in [4 << 10, 20 << 10, 1 << 20] {
                let threads = NonZero::new(threads).expect("at least one");
                let reading = Reading { threads, chunks: (size, size), ..reading };
                let gathered = read_trace_dat(&recording, &reading, &options).expect("whole");
                let profile = gathered.gathering.part.finish();
                assert!(
                    said(&profile) == said(&merged),
                    "{threads} threads, stretches of {size}, {form:?}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn several_threads_read_from_a_directory_what_one_does() {
    let file = recording();
    let options = Options::default();
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    for (seed, one_in, is_compressed, is_by_cpu) in [
        (1, u64::MAX, false, true),
        (2, 200, false, true),
        (3, 200, true, true),
        (4, 3, false, true),
        (5, 1, true, true),
        // Files of threads have several CPUs in them.
        (6, 50, false, false),
        (7, 2, true, false),
    ] {
        let mut chance = Chance(0x517c_c1b7_2722_0a95 ^ seed << 20);
        let file = moved(&file, &mut chance, one_in);
        let divide = if is_by_cpu { perf_data::directory_of_cpus } else { perf_data::directory };
        let folder = std::env::temp_dir().join(format!("avicenna-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        for (name, bytes) in divide(&file, is_compressed) {
            std::fs::write(folder.join(name), bytes).expect("room on the disk");
        }
        let recording = capture::perf_data::Directory::open(&folder).expect("a header");
        let recording = recording.into_recording().expect("whole");
        std::fs::remove_dir_all(&folder).expect("just made");
        let reading = Reading::new(&stop, &progress);
        let merged = recording.merged(&reading, Gathering::new(Part::new(&options)));
        let (merged, warnings) = merged.expect("whole");
        assert!(warnings.is_empty(), "{warnings:?}");
        let (names, merged) = (merged.names, merged.part.finish());
        assert!(merged.events > 3000 && !names.is_empty(), "{}", merged.events);
        for threads in [1, 2, 3] {
            let threads = NonZero::new(threads).expect("at least one");
            let reading = Reading { threads, chunks: (1, 1), ..reading };
            let gathered = read_divided(&recording, &reading, &options).expect("whole");
            assert!(gathered.origin.warnings.is_empty());
            assert!(gathered.gathering.names == names);
            let profile = gathered.gathering.part.finish();
            assert!(said(&profile) == said(&merged), "{threads} threads, seed {seed}");
        }
    }
}

#[test]
fn a_recording_without_marks_of_rounds_gives_the_figures_of_the_order_of_time() {
    let one_buffer = recording();
    let several_buffers = with_two_identifiers(&one_buffer);
    let options = Options::default();
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    // Short rounds; long ones; each buffer emptied once, at the end; and a file that says it had
    // one.
    for (file, one_in, repeats, a_round) in [
        (&several_buffers, 2, 16, 3000),
        (&several_buffers, 100, 2, 40_000),
        (&several_buffers, 3, 16, usize::MAX),
        (&one_buffer, 20, 2, 3000),
    ] {
        let mut chance = Chance(0x2545_f491_4f6c_dd1d);
        let (samples, _) = moved_samples(file, &mut chance, one_in);
        let bytes = perf_data::with_records(file, &unmarked(&samples, repeats, a_round));
        let in_order = perf_data::with_records(file, &in_order_of_time(&bytes));
        let mut expected = Orderer::new(Gathering::new(Part::new(&options)));
        let pipe = perf_data::pipe(&in_order, false);
        read_stream(&mut &pipe[..], None, &stop, &progress, &mut expected).expect("whole");
        let expected = expected.finish().expect("in order").part.finish();
        let mut records = tempfile();
        records.write_all(&bytes).expect("room on the disk");
        let gathered = read_perf_file(records, bytes.len() as u64, &stop, &progress, &options);
        let profile = gathered.expect("whole").gathering.part.finish();
        assert!(profile.events as usize > samples.len() * repeats as usize / 2);
        assert_same(&profile, &expected, &format!("rounds of {a_round}"));
        // The same from a pipe, which cannot be read twice.
        let mut piped = Orderer::new(Gathering::new(Part::new(&options)));
        let pipe = perf_data::pipe(&bytes, true);
        read_stream(&mut &pipe[..], None, &stop, &progress, &mut piped).expect("whole");
        let piped = piped.finish().expect("as many events are kept").part.finish();
        assert_same(&piped, &expected, &format!("a pipe with rounds of {a_round}"));
    }
}

#[test]
fn a_raised_flag_ends_a_reading_with_what_was_read() {
    let file = recording();
    let bytes = form::trace_dat(&file, &samples(&file), Form::Seven, |_| false);
    let recording = opened(&bytes);
    let (stop, progress) = (AtomicBool::new(true), AtomicU64::new(0));
    let gathered = read_trace_dat(&recording, &Reading::new(&stop, &progress), &Options::default());
    let gathered = gathered.expect("nothing is an answer");
    assert_eq!(gathered.gathering.part.finish().events, 0);
    assert!(gathered.origin.warnings.iter().any(|warning| warning.contains("stopped")));
}
