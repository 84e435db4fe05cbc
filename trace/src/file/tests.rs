use super::*;
use crate::event::{Event, Record};
use crate::hash::TraceHash;
use crate::virtual_cpu::VirtualCpu;
use arch::address::{Linear, SystemPhysical};
use arch::identity::{CpuIndex, Vector};
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;

/// One event of every kind, built from words that every field accepts.
fn every_kind(word: u64) -> Vec<Event> {
    let kinds = Event::KINDS.iter();
    kinds
        .map(|(kind, ..)| Event::from_words(*kind, |_| Ok::<u64, ()>(word)).unwrap().unwrap())
        .collect()
}

/// Records whose times go back and forth between processors.
fn records() -> Vec<Record> {
    let mut records = Vec::new();
    for round in 0..400u64 {
        for (index, event) in every_kind(round & 1).into_iter().enumerate() {
            let cpu = CpuIndex((round % 7) as u16 * 9000);
            let at = Picoseconds((round * 1_000_003) ^ (index as u64 * 7919));
            records.push(Record { at, cpu, event });
        }
    }
    records.push(Record {
        at: Picoseconds(u64::MAX),
        cpu: CpuIndex(u16::MAX),
        event: Event::SvmExit {
            vcpu: VirtualCpu(SystemPhysical(u64::MAX)),
            code: ExitCode::Invalid,
            info1: u64::MAX,
            info2: 0,
            interrupt_info: u64::MAX - 1,
            rip: Linear(1 << 63),
        },
    });
    records.push(Record { at: Picoseconds(0), cpu: CpuIndex(0), event: Event::Wake {} });
    records
}

fn written(records: &[Record]) -> (Vec<u8>, Summary) {
    let notes = [("cpu".to_owned(), "zen4".to_owned()), ("seed".to_owned(), "1".to_owned())];
    let mut writer = Writer::new(Vec::new(), &notes).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap()
}

/// The records up to the first error, and that error.
fn read(bytes: &[u8]) -> (Vec<Record>, Option<String>) {
    let reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut records = Vec::new();
    for record in reader {
        match record {
            Ok(record) => records.push(record),
            Err(error) => return (records, Some(error.to_string())),
        }
    }
    (records, None)
}

#[test]
fn kinds_are_unique_and_fit_a_block() {
    let mut numbers: Vec<u8> = Event::KINDS.iter().map(|(number, ..)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), Event::KINDS.len());
    assert!(numbers.iter().all(|number| *number < 64));
    assert!(Event::KINDS.iter().all(|(.., fields)| fields.len() <= crate::event::MOST_FIELDS));
}

#[test]
fn what_is_written_is_read_back_with_its_notes_and_hash() {
    let records = records();
    let (bytes, summary) = written(&records);
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.notes()[1], ("seed".to_owned(), "1".to_owned()));
    let back: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(back, records);
    assert_eq!(summary, Summary { records: records.len() as u64, hash: reader.hash().value() });
    assert!(bytes.len() < records.len() * 6, "{} bytes", bytes.len());
}

#[test]
fn the_hash_sees_every_field_the_order_and_nothing_else() {
    let hash = |records: &[Record]| {
        let mut hash = TraceHash::default();
        records.iter().for_each(|record| hash.record(record));
        hash.value()
    };
    let deliver = |at, cpu, vector, rip| Record {
        at: Picoseconds(at),
        cpu: CpuIndex(cpu),
        event: Event::InterruptDelivered { vector: Vector(vector), rip: Linear(rip) },
    };
    let base = deliver(1, 2, 3, 4);
    let other = Record { event: Event::EndOfInterrupt { vector: Vector(3) }, ..base };
    let mut hashes = vec![
        hash(&[]),
        hash(&[base]),
        hash(&[base, base]),
        hash(&[base, other]),
        hash(&[other, base]),
        hash(&[deliver(0, 2, 3, 4)]),
        hash(&[deliver(1, 0, 3, 4)]),
        hash(&[deliver(1, 2, 0, 4)]),
        hash(&[deliver(1, 2, 3, 4 | 1 << 63)]),
    ];
    // The value that every host must get.
    assert_eq!(hashes[1], 12_534_394_545_471_409_807);
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 9);
}

#[test]
fn a_trace_that_was_cut_yields_its_whole_blocks_and_says_where_it_ends() {
    let records = records();
    let (bytes, _) = written(&records);
    let mut most = 0;
    for length in (0..bytes.len()).step_by(97).chain(bytes.len() - 12..bytes.len()) {
        let (back, error) = read(&bytes[..length]);
        assert_eq!(back, records[..back.len()]);
        let error = error.expect("an error for a cut file");
        assert!(error.contains(&format!("{length:#x}")), "{error} at {length:#x}");
        most = most.max(back.len());
    }
    assert_eq!(most, records.len());
}

#[test]
fn a_writer_that_was_killed_leaves_what_it_flushed() {
    let records = &records()[..100];
    let mut output = Vec::new();
    let mut writer = Writer::new(&mut output, &[]).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let (back, error) = read(&output);
    assert_eq!(back, records);
    assert!(error.unwrap().contains("ends at offset"));
}

#[test]
fn damaged_bytes_are_refused_and_never_panic() {
    let (bytes, _) = written(&records()[..200]);
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let (_, error) = read(&damaged);
            // Flips inside the notes give other notes.
            assert!(error.is_some() || at < 30, "byte {at:#x}");
        }
    }
    let rows: [(&[u8], &str); 4] = [
        (b"\x7FELF\x02\x01\x01\0", "not a trace"),
        (b"AVCTRACE\x09\0", "version 9"),
        (b"AVCTRACE\x01\0\xFF\xFF\xFF\xFF\x0F", "must be at most 64"),
        (b"AVCTRACE\x01\0\0B\x80\x80\x80\x01", "must be at most 1048576"),
    ];
    for (bytes, wanted) in rows {
        let error = read(bytes).1.unwrap();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn traces_of_the_first_version_are_read() {
    let (mut bytes, _) = written(&records());
    assert_eq!(bytes[8..10], VERSION.to_le_bytes());
    bytes[8..10].copy_from_slice(&FIRST_VERSION.to_le_bytes());
    assert_eq!(read(&bytes), (records(), None));
}

#[test]
fn remarks_change_no_hash() {
    let with = records();
    let without: Vec<Record> =
        with.iter().filter(|record| !record.event.is_remark()).copied().collect();
    assert!(without.len() < with.len());
    assert_eq!(written(&with).1.hash, written(&without).1.hash);
}

#[test]
fn random_records_inside_a_sound_block_are_refused_or_read() {
    // A small generator keeps the bytes the same on every run.
    let mut state = 1u64;
    for length in 1..600usize {
        let noise: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as u8
            })
            .collect();
        let packed = zstd::bulk::compress(&noise, 1).unwrap();
        let mut bytes = Vec::from(b"AVCTRACE\x01\0\0B");
        block::put_number(&mut bytes, length as u64);
        block::put_number(&mut bytes, packed.len() as u64);
        bytes.extend(checksum(&packed).to_le_bytes());
        bytes.extend(packed);
        assert!(read(&bytes).1.is_some());
    }
}

#[test]
fn the_text_of_a_record_names_time_processor_event_and_fields() {
    let record = Record {
        at: Picoseconds(1_234_567),
        cpu: CpuIndex(3),
        event: Event::PortWrite { port: 0x3F8, size: 1, value: 0x41 },
    };
    let text = record.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["1234.567", "cpu3", "out", "port=0x3f8", "size=0x1", "value=0x41"]);
}
