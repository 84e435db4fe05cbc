//! Makes a long recording of a short one: repeats its events with later times and, for a larger
//! host, side by side on further CPUs as further virtual machines.
//!
//! `repeat_recording IN OUT BYTES [COPIES]`: IN is a finished perf.data of `perf kvm stat record`;
//! OUT has at least BYTES of records and COPIES times the CPUs. Everything but time, CPU, process,
//! thread and event identifier of a sample is as it was recorded, so that any tool reads OUT.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

const SAMPLE: u32 = 9;
const COMM: u32 = 3;
const FINISHED_ROUND: u32 = 68;
/// Tracing data, host name, release, version, architecture, CPUs, descriptions, memory, command.
const KEPT_FEATURES: [u32; 10] = [1, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/// What `perf kvm stat record` samples: IP, TID, TIME, CPU, PERIOD, RAW, IDENTIFIER.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 << 10 | 1 << 8 | 1 << 7 | 1 << 2 | 1 << 1 | 1;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

struct Recording {
    bytes: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u64>)>,
    /// Records of each round, by offset and length.
    rounds: Vec<Vec<(usize, usize)>>,
    names: Vec<(usize, usize)>,
    features: Vec<(u32, usize, usize)>,
    cpus: u32,
    first_ns: u64,
    last_ns: u64,
}

impl Recording {
    fn read(path: &str) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        assert_eq!(&bytes[..8], b"PERFILE2", "a perf.data file is wanted");
        let stride = word(&bytes, 16) as usize;
        let (attributes_at, attributes_size) =
            (word(&bytes, 24) as usize, word(&bytes, 32) as usize);
        let (data_at, data_size) = (word(&bytes, 40) as usize, word(&bytes, 48) as usize);
        assert!(data_size > 0, "a finished recording is wanted");
        let attributes = bytes[attributes_at..attributes_at + attributes_size]
            .chunks_exact(stride)
            .map(|entry| {
                let (at, size) =
                    (word(entry, stride - 16) as usize, word(entry, stride - 8) as usize);
                let ids = bytes[at..at + size].chunks_exact(8).map(|id| word(id, 0)).collect();
                (entry[..stride - 16].to_vec(), ids)
            })
            .collect();
        let present = (0..256u32)
            .filter(|bit| word(&bytes, 72 + (bit / 64 * 8) as usize) >> (bit % 64) & 1 != 0);
        let table = data_at + data_size;
        let features = present
            .enumerate()
            .map(|(n, bit)| {
                (
                    bit,
                    word(&bytes, table + n * 16) as usize,
                    word(&bytes, table + n * 16 + 8) as usize,
                )
            })
            .filter(|feature| KEPT_FEATURES.contains(&feature.0))
            .collect();
        let mut recording = Self {
            attributes,
            rounds: vec![Vec::new()],
            names: Vec::new(),
            features,
            cpus: 1,
            first_ns: u64::MAX,
            last_ns: 0,
            bytes,
        };
        recording.index(data_at, data_at + data_size);
        Ok(recording)
    }

    fn index(&mut self, mut at: usize, end: usize) {
        while at < end {
            let (kind, size) = (
                half(&self.bytes, at),
                usize::from(self.bytes[at + 6]) | usize::from(self.bytes[at + 7]) << 8,
            );
            match kind {
                SAMPLE => {
                    self.cpus = self.cpus.max(half(&self.bytes, at + 40) + 1);
                    self.first_ns = self.first_ns.min(word(&self.bytes, at + 32));
                    self.last_ns = self.last_ns.max(word(&self.bytes, at + 32));
                    self.rounds.last_mut().expect("never empty").push((at, size));
                }
                COMM => self.names.push((at, size)),
                FINISHED_ROUND => self.rounds.push(Vec::new()),
                _ => {}
            }
            at += size;
        }
        self.rounds.retain(|round| !round.is_empty());
    }

    fn event_of(&self, id: u64) -> Option<usize> {
        self.attributes.iter().position(|attribute| attribute.1.contains(&id))
    }

    /// Identifier of an event on a CPU of the recording that is made.
    fn new_id(&self, event: usize, cpu: u32, copies: u32) -> u64 {
        100 + event as u64 * u64::from(self.cpus * copies) + u64::from(cpu)
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output, bytes, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: repeat_recording IN OUT BYTES [COPIES]");
        std::process::exit(2);
    };
    let wanted: u64 = bytes.parse().expect("BYTES is a number");
    let copies: u32 = rest.first().map_or(1, |copies| copies.parse().expect("COPIES is a number"));
    let recording = Recording::read(input)?;
    for (attribute, _) in &recording.attributes {
        if half(attribute, 0) == 2 {
            assert_eq!(word(attribute, 24), SAMPLE_TYPE, "samples as of perf kvm stat are wanted");
        }
    }
    let mut out = BufWriter::with_capacity(1 << 20, File::create(output)?);
    let data_at = write_front(&recording, copies, &mut out)?;
    let written = write_records(&recording, copies, wanted, &mut out)?;
    write_features(&recording, data_at + written, &mut out)?;
    out.seek(SeekFrom::Start(48))?;
    out.write_all(&written.to_le_bytes())?;
    out.flush()
}

fn write_front(recording: &Recording, copies: u32, out: &mut impl Write) -> io::Result<u64> {
    let cpus = recording.cpus * copies;
    let events = recording.attributes.len() as u64;
    let stride = recording.attributes.first().map_or(0, |entry| entry.0.len() as u64 + 16);
    let ids_at = 104 + events * stride;
    let data_at = ids_at + events * u64::from(cpus) * 8;
    let mut flags = [0u64; 4];
    for (bit, ..) in &recording.features {
        flags[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    out.write_all(b"PERFILE2")?;
    let sections = [104, stride, 104, events * stride, data_at, 0, 0, 0];
    for value in sections.into_iter().chain(flags) {
        out.write_all(&value.to_le_bytes())?;
    }
    for (index, (attribute, _)) in recording.attributes.iter().enumerate() {
        out.write_all(attribute)?;
        let size = u64::from(cpus) * 8;
        out.write_all(&(ids_at + index as u64 * size).to_le_bytes())?;
        out.write_all(&size.to_le_bytes())?;
    }
    for event in 0..recording.attributes.len() {
        for cpu in 0..cpus {
            out.write_all(&recording.new_id(event, cpu, copies).to_le_bytes())?;
        }
    }
    Ok(data_at)
}

fn write_records(
    recording: &Recording,
    copies: u32,
    wanted: u64,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut written = 0;
    for &(at, size) in &recording.names {
        let mut name = recording.bytes[at..at + size].to_vec();
        // The identifier closes the record; names that perf itself made up have none.
        if let Some(event) = recording.event_of(word(&name, size - 8)) {
            let id = recording.new_id(event, half(&name, size - 16), copies);
            name[size - 8..].copy_from_slice(&id.to_le_bytes());
        }
        out.write_all(&name)?;
        written += size as u64;
    }
    let span = recording.last_ns - recording.first_ns + 1_000_000;
    let mut record = Vec::new();
    let mut repetition = 0;
    while written < wanted {
        for round in &recording.rounds {
            for copy in 0..copies {
                for &(at, size) in round {
                    record.clear();
                    record.extend_from_slice(&recording.bytes[at..at + size]);
                    shift(&mut record, recording, copy, copies, repetition * span);
                    out.write_all(&record)?;
                    written += size as u64;
                }
            }
            out.write_all(&[FINISHED_ROUND as u8, 0, 0, 0, 0, 0, 8, 0])?;
            written += 8;
        }
        repetition += 1;
    }
    Ok(written)
}

/// Threads and processes of a copy have numbers of their own.
const THREADS_APART: u32 = 100_000;

fn shift(record: &mut [u8], recording: &Recording, copy: u32, copies: u32, later_ns: u64) {
    let id = word(record, 8);
    let cpu = half(record, 40) + copy * recording.cpus;
    let event = recording.event_of(id).expect("a sample of a known event");
    let new_id = recording.new_id(event, cpu, copies);
    let apart = copy * THREADS_APART;
    let (process, thread) = (half(record, 24) + apart, half(record, 28) + apart);
    let time = word(record, 32) + later_ns;
    let common = half(record, 64) + apart;
    record[8..16].copy_from_slice(&new_id.to_le_bytes());
    record[24..28].copy_from_slice(&process.to_le_bytes());
    record[28..32].copy_from_slice(&thread.to_le_bytes());
    record[32..40].copy_from_slice(&time.to_le_bytes());
    record[40..44].copy_from_slice(&cpu.to_le_bytes());
    record[64..68].copy_from_slice(&common.to_le_bytes());
}

fn write_features(recording: &Recording, table: u64, out: &mut impl Write) -> io::Result<()> {
    let mut at = table + recording.features.len() as u64 * 16;
    for &(_, _, size) in &recording.features {
        out.write_all(&at.to_le_bytes())?;
        out.write_all(&(size as u64).to_le_bytes())?;
        at += size as u64;
    }
    for &(_, start, size) in &recording.features {
        out.write_all(&recording.bytes[start..start + size])?;
    }
    Ok(())
}
