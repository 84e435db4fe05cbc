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
    const COMPRESSED: usize = 27;
    with_feature(file, &compressed(&taken(file).records), COMPRESSED, vec![0; 20])
}

/// A finished file with other records and one feature more.
fn with_feature(file: &[u8], records: &[u8], feature: usize, body: Vec<u8>) -> Vec<u8> {
    let (start, length) = (word(file, 40) as usize, word(file, 48) as usize);
    let features: u32 = (0..4).map(|index| word(file, 72 + index * 8).count_ones()).sum();
    let before =
        (0..feature).filter(|bit| word(file, 72 + bit / 64 * 8) >> (bit % 64) & 1 != 0).count();
    let mut bodies: Vec<Vec<u8>> = (0..features as usize)
        .map(|index| {
            let at = start + length + index * 16;
            let (at, size) = (word(file, at) as usize, word(file, at + 8) as usize);
            file[at..at + size].to_vec()
        })
        .collect();
    bodies.insert(before, body);
    let mut out = file[..start].to_vec();
    out.extend(records);
    put(&mut out, 48, records.len() as u64);
    let bits = word(&out, 72) | 1 << feature;
    put(&mut out, 72, bits);
    let mut at = (out.len() + bodies.len() * 16) as u64;
    for body in &bodies {
        out.extend(at.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        at += body.len() as u64;
    }
    bodies.iter().for_each(|body| out.extend(body));
    out
}

/// As `perf record --threads` leaves it: the file with the header, and one for each thread of the
/// recorder, here with the samples of one thread of the recording each.
pub fn directory(file: &[u8], is_compressed: bool) -> Vec<(String, Vec<u8>)> {
    const SAMPLE: u8 = 9;
    const FINISHED_ROUND: u8 = 68;
    const DIRECTORY: usize = 24;
    let Taken { records, .. } = taken(file);
    let (mut others, mut samples) = (Vec::new(), std::collections::BTreeMap::new());
    let mut at = 0;
    while at < records.len() {
        let size = usize::from(u16::from_le_bytes([records[at + 6], records[at + 7]]));
        let record = &records[at..at + size];
        match record[0] {
            SAMPLE => {
                let thread = (word(record, 24) >> 32) as u32;
                samples.entry(thread).or_insert_with(Vec::new).extend(record);
            }
            FINISHED_ROUND => {}
            _ => others.extend(record),
        }
        at += size;
    }
    let header = with_feature(file, &others, DIRECTORY, 1u64.to_le_bytes().to_vec());
    let parts = samples.into_values().enumerate().map(|(number, records)| {
        let records = if is_compressed { compressed(&records) } else { records };
        (format!("data.{number}"), records)
    });
    std::iter::once(("data".to_owned(), header)).chain(parts).collect()
}

/// A trace.dat of version 7, which was packed with zstd, packed with zlib.
pub fn packed_with_zlib(file: &[u8]) -> Vec<u8> {
    const CPU_DATA: u16 = 3;
    const OF_SECTIONS: [u16; 7] = [3, 16, 17, 18, 19, 20, 21];
    let half = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    };
    let name = file.windows(5).position(|bytes| bytes == b"zstd\0").expect("packed with zstd");
    let version = file[name + 5..].iter().position(|byte| *byte == 0).expect("a version");
    let options_at = name + 5 + version + 1;
    let mut out = file[..options_at + 8].to_vec();
    out[name..name + 4].copy_from_slice(b"zlib");
    let repack = |bytes: &[u8]| {
        let unpacked = zstd::bulk::decompress(&bytes[8..8 + half(bytes, 0)], half(bytes, 4));
        let unpacked = unpacked.expect("as announced");
        (zlib(&unpacked), unpacked)
    };
    let section = |at: usize| {
        let is_packed = file[at + 2] & 1 != 0;
        let size = word(file, at + 8) as usize;
        let body = &file[at + 16..at + 16 + size];
        let (packed, unpacked) =
            if is_packed { repack(body) } else { (body.to_vec(), body.to_vec()) };
        let mut bytes = file[at..at + 8].to_vec();
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend(packed);
        (bytes, unpacked)
    };
    // Several sections of options, of which each ends with the place of the next, become one.
    const END: usize = 14;
    let (mut options, mut next) = (Vec::new(), word(file, options_at));
    while next != 0 {
        let (_, more) = section(next as usize);
        next = word(&more, more.len() - 8);
        options.extend(&more[..more.len() - END]);
    }
    let mut at = 0;
    while at < options.len() {
        let id = u16::from_le_bytes([options[at], options[at + 1]]);
        let size = half(&options, at + 2);
        let body = at + 6;
        if OF_SECTIONS.contains(&id) {
            let from = word(&options, body) as usize;
            let to = out.len() as u64;
            put(&mut options, body, to);
            if id == CPU_DATA {
                // The head of the section; the pages are where the option says.
                out.extend(&file[from..from + 16]);
                let strings = options[body + 8..].split(|byte| *byte == 0).take(2);
                let strings = strings.map(|string| string.len() + 1).sum::<usize>();
                let count_at = body + 8 + strings + 4;
                for cpu in 0..half(&options, count_at) {
                    let entry = count_at + 4 + cpu * 20 + 4;
                    let (from, size) =
                        (word(&options, entry) as usize, word(&options, entry + 8) as usize);
                    let to = out.len() as u64;
                    put(&mut options, entry, to);
                    if size == 0 {
                        continue;
                    }
                    out.extend(&file[from..from + 4]);
                    let mut chunk = from + 4;
                    for _ in 0..half(file, from) {
                        out.extend(repack(&file[chunk..]).0);
                        chunk += 8 + half(file, chunk);
                    }
                    let written = out.len() as u64 - to - 4;
                    put(&mut options, entry + 8, written);
                }
            } else {
                out.extend(section(from).0);
            }
        }
        at = body + size;
    }
    options.extend([0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let to = out.len() as u64;
    put(&mut out, options_at, to);
    let packed = zlib(&options);
    out.extend([0, 0, 1, 0, 0, 0, 0, 0]);
    out.extend((packed.len() as u64).to_le_bytes());
    out.extend(packed);
    out
}

/// Two lengths and the packed bytes.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    let packed = encoder.finish().expect("memory");
    let mut out = (packed.len() as u32).to_le_bytes().to_vec();
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(packed);
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

impl Temporary {
    /// A directory with files in it.
    pub fn directory(name: &str, files: &[(String, Vec<u8>)]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(option_env!("CARGO_TARGET_TMPDIR").unwrap_or(".")).join(name);
        std::fs::create_dir_all(&path).expect("the target directory is writable");
        for (name, bytes) in files {
            std::fs::write(path.join(name), bytes).expect("the directory is writable");
        }
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0).or_else(|_| std::fs::remove_dir_all(&self.0));
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
        Input::PerfDirectory(directory) => {
            directory.read(&stop, &progress, &mut seen).map_err(|error| failed(&error))?
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
