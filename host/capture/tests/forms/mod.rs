//! One recording in all the forms that perf gives it, and what a reader makes of any file.

mod perf_data;

pub use perf_data::{compressed_file, directory, directory_of_cpus, pipe, shortened};

use capture::open::{Input, open};
use capture::perf_data::{Header, fold, read_stream};
use capture::sink::{Sink, Stretched};
use capture::{Origin, Reading, ftrace_text, machine, perf_table, sums, trace_dat};
use perf_data::{put, word};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::kvm::{KvmEvent, Stamp};

pub fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(path).expect("committed");
    if name.ends_with(".zst") { zstd::decode_all(&bytes[..]).expect("zstd") } else { bytes }
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

/// Two threads and stretches of a few pages.
fn small<'a>(stop: &'a AtomicBool, progress: &'a AtomicU64) -> Reading<'a> {
    let threads = std::num::NonZero::new(2).expect("two");
    Reading { threads, chunks: (8 << 10, 8 << 10), ..Reading::new(stop, progress) }
}

/// Several threads find the events that one finds, however damaged the recording is.
fn assert_same(
    merged: &Seen,
    expected: &[String],
    mut parallel: Vec<(Stamp, KvmEvent)>,
    (sums, warnings): (Vec<Seen>, Vec<String>),
) {
    let lost = sums.iter().fold(0u64, |lost, sum| lost.saturating_add(sum.lost));
    assert_eq!(lost, merged.lost);
    assert_eq!(warnings, expected);
    let mut events = merged.events.clone();
    assert_eq!(events.len(), parallel.len());
    // A damaged recording may have several events of one thread at one time, and a thread of
    // several processes, of which those that are taken together have the first.
    for event in events.iter_mut().chain(&mut parallel) {
        event.0.process = 0;
    }
    events.sort_by_cached_key(|event| format!("{event:?}"));
    parallel.sort_by_cached_key(|event| format!("{event:?}"));
    assert!(events == parallel, "the same events");
}

/// Reads a file of any kind; an error is an answer, a panic is not.
pub fn read(path: &Path) -> Result<(Seen, Origin), String> {
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut seen = Seen::default();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let opened = open(path, &AtomicBool::new(false), &mut |_| Arc::default());
    let opened = opened.map_err(|error| failed(&error))?;
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
            let recording = directory.into_recording().map_err(|error| failed(&error))?;
            let warnings = recording.read(&stop, &progress, &mut seen);
            let warnings = warnings.map_err(|error| failed(&error))?;
            // What it makes of damaged samples is not the same to the last.
            recording
                .fold(&small(&stop, &progress), &Seen::default, |_, _| {})
                .map_err(|error| failed(&error))?;
            let mut origin = recording.origin().clone();
            origin.warnings.extend(warnings);
            origin
        }
        Input::PerfPipe(mut input) => read_stream(&mut *input, None, &stop, &progress, &mut seen)
            .map_err(|error| failed(&error))?,
        Input::TraceDat(file, length) => {
            let recording =
                trace_dat::Recording::open(file, length).map_err(|error| failed(&error))?;
            let warnings = recording.read(&stop, &progress, &mut seen);
            let warnings = warnings.map_err(|error| failed(&error))?;
            let mut parallel = Vec::new();
            let folded = recording
                .fold(&small(&stop, &progress), &Seen::default, |more, _| parallel.extend(more))
                .map_err(|error| failed(&error))?;
            assert_same(&seen, &warnings, parallel, folded);
            let mut origin = recording.origin().clone();
            origin.warnings.extend(warnings);
            origin
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
        Input::Xen(_) => unreachable!("no form of these is one of xentrace's"),
        Input::Sums(input) => sums::read(input).map_err(|error| failed(&error))?.origin,
    };
    origin.warnings.extend(breakage());
    Ok((seen, origin))
}
