//! A finished perf.data in the other forms that perf gives it.

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The first records of a finished perf.data, with its features behind them.
pub fn shortened(whole: &[u8], wanted: usize) -> Vec<u8> {
    let (start, size) = (word(whole, 40) as usize, word(whole, 48) as usize);
    let mut end = start;
    while end < start + wanted.min(size) {
        end += usize::from(u16::from_le_bytes([whole[end + 6], whole[end + 7]]));
    }
    with_records(whole, &whole[start..end])
}

/// A finished perf.data with other records.
pub fn with_records(whole: &[u8], records: &[u8]) -> Vec<u8> {
    let (start, size) = (word(whole, 40) as usize, word(whole, 48) as usize);
    let mut out = [&whole[..start], records, &whole[start + size..]].concat();
    put(&mut out, 48, records.len() as u64);
    let features: u32 = (0..4).map(|index| word(whole, 72 + index * 8).count_ones()).sum();
    for index in 0..features as usize {
        let at = start + records.len() + index * 16;
        let moved = word(&out, at) + records.len() as u64 - size as u64;
        put(&mut out, at, moved);
    }
    out
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
    divided(file, is_compressed, |record| (word(record, 24) >> 32) as u32)
}

/// The same with the samples of one CPU each, as it is usually recorded.
pub fn directory_of_cpus(file: &[u8], is_compressed: bool) -> Vec<(String, Vec<u8>)> {
    divided(file, is_compressed, |record| word(record, 40) as u32)
}

fn divided(
    file: &[u8],
    is_compressed: bool,
    part_of: impl Fn(&[u8]) -> u32,
) -> Vec<(String, Vec<u8>)> {
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
            SAMPLE => samples.entry(part_of(record)).or_insert_with(Vec::new).extend(record),
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
