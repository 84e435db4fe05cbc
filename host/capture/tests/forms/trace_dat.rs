//! The samples of a perf.data of `perf kvm stat record` as trace-cmd writes them.

use std::collections::BTreeMap;

const PAGE: usize = 4096;
const PAGES_PER_CHUNK: usize = 10;
/// Largest difference of two stamps that fits an event's own head.
const LARGEST_DELTA: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31 | 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Six,
    Seven,
    SevenPacked,
}

/// One event of a ring buffer.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    pub time_ns: u64,
    pub cpu: u32,
    pub raw: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The samples, each CPU's in order.
pub fn samples(file: &[u8]) -> Vec<Sampled<'_>> {
    const SAMPLE: u32 = 9;
    let (start, size) = (word(file, 40) as usize, word(file, 48) as usize);
    let (mut at, mut samples) = (start, Vec::new());
    while at < start + size {
        let length = usize::from(u16::from_le_bytes([file[at + 6], file[at + 7]]));
        if half(file, at) == SAMPLE {
            // Behind identifier, address, thread, time, CPU and period.
            let raw = half(file, at + 56) as usize;
            samples.push(Sampled {
                time_ns: word(file, at + 32),
                cpu: half(file, at + 40),
                raw: &file[at + 60..at + 60 + raw],
            });
        }
        at += length;
    }
    samples
}

/// What a trace.dat begins with: up to the end of ftrace's own formats, and those of all systems.
fn formats(file: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (start, length) = (word(file, 40) as usize, word(file, 48) as usize);
    let (at, size) = (word(file, start + length) as usize, word(file, start + length + 8) as usize);
    let bytes = &file[at..at + size];
    let string = |at: usize| at + 1 + bytes[at..].iter().position(|b| *b == 0).expect("its end");
    // Magic, version, byte order, size of a long, page size.
    let begin = string(10) + 6;
    let mut at = begin;
    for _ in ["header_page", "header_event"] {
        at = string(at);
        at += 8 + word(bytes, at) as usize;
    }
    let files = |mut at: usize| {
        let count = half(bytes, at);
        at += 4;
        for _ in 0..count {
            at += 8 + word(bytes, at) as usize;
        }
        at
    };
    let systems = files(at);
    let mut at = systems + 4;
    for _ in 0..half(bytes, systems) {
        at = files(string(at));
    }
    (bytes[begin..systems].to_vec(), bytes[systems..at].to_vec())
}

/// Ring-buffer pages. Where `is_lost`, an event is not there and the next page says so.
fn pages<'a>(
    events: impl Iterator<Item = &'a Sampled<'a>>,
    is_lost: &mut impl FnMut(&Sampled<'_>) -> bool,
) -> Vec<u8> {
    let (mut out, mut page, mut latest_ns, mut lost) = (Vec::new(), Vec::new(), 0, 0u32);
    let close = |page: &mut Vec<u8>, out: &mut Vec<u8>| {
        if page.len() > 16 {
            let commit = word(page, 8) | (page.len() - 16) as u64;
            page[8..16].copy_from_slice(&commit.to_le_bytes());
            if commit & MISSED != 0 {
                // Their number, which the header keeps until here, stands behind the data.
                let missed = (commit >> 32) as u32;
                let commit = commit as u32 as u64;
                page[8..16].copy_from_slice(&commit.to_le_bytes());
                page.extend(missed.to_le_bytes());
            }
            page.resize(PAGE, 0);
            out.append(page);
        }
        page.clear();
    };
    for event in events {
        if is_lost(event) {
            // Events are lost when the buffer is full: the page ends there.
            close(&mut page, &mut out);
            lost += 1;
            continue;
        }
        let is_short = event.raw.len() <= 112;
        let size = event.raw.len() + if is_short { 4 } else { 8 } + 8;
        if !page.is_empty() && page.len() + size + 4 > PAGE {
            close(&mut page, &mut out);
        }
        if page.is_empty() {
            page.extend(event.time_ns.to_le_bytes());
            let missed = if lost > 0 { MISSED | u64::from(lost) << 32 } else { 0 };
            page.extend(missed.to_le_bytes());
            (latest_ns, lost) = (event.time_ns, 0);
        }
        let mut delta = event.time_ns - latest_ns;
        latest_ns = event.time_ns;
        if delta > LARGEST_DELTA {
            page.extend((30 | ((delta & LARGEST_DELTA) as u32) << 5).to_le_bytes());
            page.extend(((delta >> 27) as u32).to_le_bytes());
            delta = 0;
        }
        let kind = if is_short { (event.raw.len() / 4) as u32 } else { 0 };
        page.extend((kind | (delta as u32) << 5).to_le_bytes());
        if !is_short {
            page.extend((event.raw.len() as u32 + 4).to_le_bytes());
        }
        page.extend(event.raw);
    }
    close(&mut page, &mut out);
    out
}

fn in_chunks(pages: &[u8]) -> Vec<u8> {
    let chunks: Vec<&[u8]> = pages.chunks(PAGES_PER_CHUNK * PAGE).collect();
    let mut out = (chunks.len() as u32).to_le_bytes().to_vec();
    for chunk in chunks {
        let packed = zstd::bulk::compress(chunk, 1).expect("memory");
        out.extend((packed.len() as u32).to_le_bytes());
        out.extend((chunk.len() as u32).to_le_bytes());
        out.extend(packed);
    }
    out
}

/// A trace.dat of samples; the formats are those of the perf.data they are from.
pub fn trace_dat(
    file: &[u8],
    samples: &[Sampled<'_>],
    form: Form,
    mut is_lost: impl FnMut(&Sampled<'_>) -> bool,
) -> Vec<u8> {
    let mut by_cpu: BTreeMap<u32, Vec<&Sampled<'_>>> = BTreeMap::new();
    for sample in samples {
        by_cpu.entry(sample.cpu).or_default().push(sample);
    }
    let (front, systems) = formats(file);
    let mut out = b"\x17\x08\x44tracing".to_vec();
    out.extend(if form == Form::Six { b"6\0" } else { b"7\0" });
    out.extend([0, 8]);
    out.extend((PAGE as u32).to_le_bytes());
    let places_at = match form {
        Form::Six => {
            out.extend(&front);
            out.extend(&systems);
            // No symbols, no formats of printk, no names.
            out.extend([0; 16]);
            out.extend((by_cpu.len() as u32).to_le_bytes());
            out.extend(b"flyrecord\0");
            let places_at = out.len();
            out.resize(places_at + by_cpu.len() * 16, 0);
            places_at
        }
        Form::Seven | Form::SevenPacked => front_of_seven(&mut out, &systems, &by_cpu, form),
    };
    out.resize(out.len().next_multiple_of(PAGE), 0);
    for (index, events) in by_cpu.into_values().enumerate() {
        let pages = pages(events.into_iter(), &mut is_lost);
        let (at, bytes) = match form {
            Form::SevenPacked => (out.len(), in_chunks(&pages)),
            _ => (out.len(), pages),
        };
        // The size leaves out the count of chunks.
        let size = bytes.len() - if form == Form::SevenPacked { 4 } else { 0 };
        let place = match form {
            Form::Six => places_at + index * 16,
            _ => places_at + index * 20 + 4,
        };
        out[place..place + 8].copy_from_slice(&(at as u64).to_le_bytes());
        out[place + 8..place + 16].copy_from_slice(&(size as u64).to_le_bytes());
        out.extend(bytes);
    }
    out
}

/// Writes sections and options; returns where the places of pages are to be written.
fn front_of_seven<T>(
    out: &mut Vec<u8>,
    systems: &[u8],
    by_cpu: &BTreeMap<u32, T>,
    form: Form,
) -> usize {
    const BUFFER: u16 = 3;
    const EVENT_FORMATS: u16 = 18;
    out.extend(b"zstd\x001\0");
    let options_at = out.len();
    out.extend([0; 8]);
    let section = |out: &mut Vec<u8>, id: u16, flags: u16, size: usize| {
        let at = out.len() as u64;
        out.extend(id.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend([0; 4]);
        out.extend((size as u64).to_le_bytes());
        at
    };
    let formats_at = section(out, EVENT_FORMATS, 0, systems.len());
    out.extend(systems);
    let buffer_at = section(out, BUFFER, u16::from(form == Form::SevenPacked), 0);
    let mut option = buffer_at.to_le_bytes().to_vec();
    option.extend(b"\0local\0");
    option.extend((PAGE as u32).to_le_bytes());
    option.extend((by_cpu.len() as u32).to_le_bytes());
    let places = option.len();
    for cpu in by_cpu.keys() {
        option.extend(cpu.to_le_bytes());
        option.extend([0; 16]);
    }
    let mut options = Vec::new();
    for (id, body) in [(EVENT_FORMATS, &formats_at.to_le_bytes()[..]), (BUFFER, &option)] {
        options.extend(id.to_le_bytes());
        options.extend((body.len() as u32).to_le_bytes());
        options.extend(body);
    }
    let places_at = options.len() - option.len() + places;
    options.extend([0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let at = section(out, 0, 0, options.len());
    out[options_at..options_at + 8].copy_from_slice(&at.to_le_bytes());
    let places_at = out.len() + places_at;
    out.extend(options);
    places_at
}
