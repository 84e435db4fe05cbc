//! One recording in all the forms that perf gives it, and what a reader makes of any file.

use capture::open::{Input, open};
use capture::perf_data::{Header, Reading, fold, read_stream};
use capture::sink::{Sink, Stretched};
use capture::{Origin, ftrace_text, machine, perf_table, sums, trace_dat};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::kvm::{KvmEvent, Stamp};

pub fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(path).expect("committed");
    if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).expect("zstd") } else { bytes }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The first records of a finished perf.data, with its features behind them.
pub fn shortened(whole: &[u8], wanted: usize) -> Vec<u8> {
    let (start, size) = (word(whole, 40) as usize, word(whole, 48) as usize);
    let mut end = start;
    while end < start + wanted.min(size) {
        end += usize::from(u16::from_le_bytes([whole[end + 6], whole[end + 7]]));
    }
    let cut = start + size - end;
    let mut short = [&whole[..end], &whole[start + size..]].concat();
    put(&mut short, 48, (end - start) as u64);
    let features: u32 = (0..4).map(|index| word(whole, 72 + index * 8).count_ones()).sum();
    for index in 0..features as usize {
        let at = end + index * 16;
        let moved = word(&short, at) - cut as u64;
        put(&mut short, at, moved);
    }
    short
}

/// Attributes with their identifiers, the event descriptions, and the records of a file.
struct Taken {
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    formats: Vec<u8>,
    records: Vec<u8>,
}

fn taken(file: &[u8]) -> Taken {
    let (stride, at, size) =
        (word(file, 16) as usize, word(file, 24) as usize, word(file, 32) as usize);
    let (start, length) = (word(file, 40) as usize, word(file, 48) as usize);
    let attributes = file[at..at + size].chunks(stride).map(|entry| {
        let (at, size) = (word(entry, stride - 16) as usize, word(entry, stride - 8) as usize);
        (entry[..stride - 16].to_vec(), file[at..at + size].to_vec())
    });
    // Event descriptions are feature 1, the first there is.
    let (at, size) = (word(file, start + length) as usize, word(file, start + length + 8) as usize);
    Taken {
        attributes: attributes.collect(),
        formats: file[at..at + size].to_vec(),
        records: file[start..start + length].to_vec(),
    }
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(8);
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend((8 + padded as u16).to_le_bytes());
    bytes.extend(body);
    bytes.resize(8 + padded, 0);
    bytes
}

/// As `perf record -o -` writes it, compressed (`-z`) or not.
pub fn pipe(file: &[u8], is_compressed: bool) -> Vec<u8> {
    const ATTRIBUTE: u32 = 64;
    const FORMATS: u32 = 66;
    let Taken { attributes, formats, records } = taken(file);
    let mut out = b"PERFILE2".to_vec();
    out.extend(16u64.to_le_bytes());
    for (attribute, ids) in attributes {
        out.extend(record(ATTRIBUTE, &[attribute, ids].concat()));
    }
    out.extend(record(FORMATS, &(formats.len() as u32).to_le_bytes()));
    out.extend(&formats);
    out.resize(out.len().next_multiple_of(8), 0);
    if is_compressed {
        out.extend(compressed(&records))
    } else {
        out.extend(records)
    }
    out
}

/// One zstd stream in pieces that end anywhere.
fn compressed(records: &[u8]) -> Vec<u8> {
    const COMPRESSED: u32 = 81;
    use std::io::Write as _;
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
    let mut out = Vec::new();
    for piece in records.chunks(10_001) {
        encoder.write_all(piece).expect("memory");
        encoder.flush().expect("memory");
        // No padding: whatever is in the record belongs to the stream.
        let packed = std::mem::take(encoder.get_mut());
        let mut header = COMPRESSED.to_le_bytes().to_vec();
        header.extend([0, 0]);
        header.extend((8 + packed.len() as u16).to_le_bytes());
        out.extend(header);
        out.extend(packed);
    }
    out
}

/// A finished file with compressed records.
pub fn compressed_file(file: &[u8]) -> Vec<u8> {
    const FEATURE: usize = 27;
    let Taken { records, .. } = taken(file);
    let (start, length) = (word(file, 40) as usize, word(file, 48) as usize);
    let packed = compressed(&records);
    let features: u32 = (0..4).map(|index| word(file, 72 + index * 8).count_ones()).sum();
    let before =
        (0..FEATURE).filter(|bit| word(file, 72 + bit / 64 * 8) >> (bit % 64) & 1 != 0).count();
    let mut table: Vec<(u64, u64)> = (0..features as usize)
        .map(|index| {
            let at = start + length + index * 16;
            (word(file, at), word(file, at + 8))
        })
        .collect();
    let bodies: Vec<Vec<u8>> =
        table.iter().map(|(at, size)| file[*at as usize..(at + size) as usize].to_vec()).collect();
    let mut bodies = bodies;
    bodies.insert(before, vec![0; 20]);
    table.insert(before, (0, 20));
    let mut out = file[..start].to_vec();
    out.extend(&packed);
    put(&mut out, 48, packed.len() as u64);
    let bits = word(&out, 72) | 1 << FEATURE;
    put(&mut out, 72, bits);
    let mut at = (out.len() + table.len() * 16) as u64;
    for body in &bodies {
        out.extend(at.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        at += body.len() as u64;
    }
    bodies.iter().for_each(|body| out.extend(body));
    out
}

/// What a sink of a reader received.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Seen {
    pub events: Vec<(Stamp, KvmEvent)>,
    pub lost: u64,
}

impl Sink for Seen {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.events.push((*stamp, *event));
    }

    fn lost(&mut self, _: u32, _: u64, events: u64) {
        self.lost = self.lost.saturating_add(events);
    }
}

impl Stretched for Seen {
    type Edges = Vec<(Stamp, KvmEvent)>;

    /// Everything, in the order of the file.
    fn cut(&mut self) -> Self::Edges {
        std::mem::take(&mut self.events)
    }
}

/// Writes bytes to a file that is gone when it is dropped.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(option_env!("CARGO_TARGET_TMPDIR").unwrap_or(".")).join(name);
        std::fs::write(&path, bytes).expect("the target directory is writable");
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Reads a file of any kind; an error is an answer, a panic is not.
pub fn read(path: &Path) -> Result<(Seen, Origin), String> {
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut seen = Seen::default();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let opened = open(path).map_err(|error| failed(&error))?;
    let breakage = opened.breakage();
    let mut origin = match opened.input {
        Input::PerfFile(mut file, length) => {
            let header = Header::read(&file, length).map_err(|error| failed(&error))?;
            if header.is_compressed {
                file.seek(SeekFrom::Start(header.data.start)).map_err(|error| failed(&error))?;
                let mut records = file.take(header.data.end - header.data.start);
                read_stream(&mut records, Some(header), &stop, &progress, &mut seen)
                    .map_err(|error| failed(&error))?
            } else {
                let reading =
                    Reading { chunks: (64 << 10, 64 << 10), ..Reading::new(&stop, &progress) };
                let alone = Reading { threads: std::num::NonZero::<usize>::MIN, ..reading };
                let mut found = None;
                for reading in [&reading, &alone] {
                    let mut events = Vec::new();
                    let folded =
                        fold(&file, &header, reading, &Seen::default, |more| events.extend(more));
                    if let Some((sums, warnings)) = folded.map_err(|error| failed(&error))? {
                        found = Some((events, sums, warnings));
                        break;
                    }
                }
                let (events, sums, warnings) = found.ok_or("read twice and misled twice")?;
                seen.events = events;
                seen.lost = sums.iter().fold(0, |lost, sum| sum.lost.saturating_add(lost));
                let mut origin = header.origin;
                origin.warnings.extend(warnings);
                origin
            }
        }
        Input::PerfPipe(mut input) => read_stream(&mut *input, None, &stop, &progress, &mut seen)
            .map_err(|error| failed(&error))?,
        Input::TraceDat(file, length) => {
            trace_dat::read(&file, length, &stop, &progress, &mut seen)
                .map_err(|error| failed(&error))?
        }
        Input::Text(input) => {
            let found = ftrace_text::read(input, &stop, &progress, &mut seen);
            found.map_err(|error| failed(&error))?.origin
        }
        Input::Machine(input) => {
            machine::read(input, &stop, &progress, &mut seen).map_err(|error| failed(&error))?
        }
        Input::Table(text) => {
            perf_table::read(&text).map_err(|error| failed(&error))?;
            Origin::default()
        }
        Input::Sums(input) => sums::read(input).map_err(|error| failed(&error))?.origin,
    };
    origin.warnings.extend(breakage());
    Ok((seen, origin))
}
