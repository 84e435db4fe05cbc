//! The same recording as a file, in a pipe and compressed gives the same events; so do the two
//! versions of trace.dat.

mod forms;
#[path = "forms/trace_dat.rs"]
mod trace_dat;

use capture::open::{Input, open};
use forms::{
    Seen, Temporary, compressed_file, data, directory, directory_of_cpus, packed_with_zlib, pipe,
    read, shortened,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::kvm::KvmEvent;

fn seen(name: &str, bytes: &[u8]) -> (Seen, Vec<String>) {
    let file = Temporary::new(name, bytes);
    let (seen, origin) = read(&file.0).expect("a whole recording");
    (seen, origin.warnings)
}

#[test]
fn a_pipe_and_compressed_records_hold_what_the_file_holds() {
    let file = shortened(&data("small-xapic-pp.data.zst"), 400 << 10);
    let (whole, warnings) = seen("whole", &file);
    assert!(whole.events.len() > 3000 && warnings.is_empty(), "{warnings:?}");
    for (name, bytes) in [
        ("pipe", pipe(&file, false)),
        ("packed-pipe", pipe(&file, true)),
        ("packed-file", compressed_file(&file)),
    ] {
        let (other, warnings) = seen(name, &bytes);
        assert!(other == whole, "{name}: {} events", other.events.len());
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
}

#[test]
fn a_directory_of_a_recorder_with_threads_holds_what_the_file_holds() {
    let file = shortened(&data("small-xapic-pp.data.zst"), 400 << 10);
    let (mut whole, _) = seen("undivided", &file);
    // Which of two threads is first at one time is nobody's to say.
    whole.events.sort_by_key(|(stamp, _)| (stamp.time_ns, stamp.thread));
    for (is_by_cpu, is_compressed) in [(false, false), (false, true), (true, false), (true, true)] {
        let divided = if is_by_cpu { directory_of_cpus } else { directory };
        let files = divided(&file, is_compressed);
        assert!(files.len() > if is_by_cpu { 1 } else { 2 }, "several files");
        let name = format!("directory-{is_by_cpu}-{is_compressed}");
        let path = Temporary::directory(&name, &files);
        let (mut divided, origin) = read(&path.0).expect("a whole recording");
        assert!(divided.events.is_sorted_by_key(|(stamp, _)| stamp.time_ns), "{name}");
        divided.events.sort_by_key(|(stamp, _)| (stamp.time_ns, stamp.thread));
        assert!(divided.events == whole.events, "{name}: {} events", divided.events.len());
        assert!(origin.warnings.is_empty(), "{name}: {:?}", origin.warnings);
    }
    // Cut files give what they hold, and the header's file alone says what is missing.
    let mut files = directory(&file, false);
    let length = files[1].1.len();
    files[1].1.truncate(length - 20);
    let path = Temporary::directory("directory-cut", &files);
    let (cut, origin) = read(&path.0).expect("the rest is whole");
    assert_eq!(cut.events.len() + 1, whole.events.len());
    assert!(origin.warnings.iter().any(|warning| warning.starts_with("data.0: ")));
    let error = read(&path.0.join("data")).expect_err("a header only");
    assert!(error.contains("directory"), "{error}");
    std::fs::remove_file(path.0.join("data")).expect("it was there");
    assert!(read(&path.0).is_err());
}

#[test]
fn files_packed_again_are_read() {
    let file = shortened(&data("small-x2apic-big.data.zst"), 100 << 10);
    let (whole, _) = seen("plain", &file);
    let zstd = zstd::encode_all(&file[..], 1).expect("memory");
    let gzip = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&file).expect("memory");
        encoder.finish().expect("memory")
    };
    for (name, bytes) in [("zstd", zstd), ("gzip", gzip)] {
        assert!(seen(name, &bytes).0 == whole, "{name}");
    }
}

#[test]
fn both_versions_of_trace_dat_hold_the_same() {
    let (six, warnings) = seen("six", &data("xapic-pp.v6.dat.zst"));
    assert!(warnings.is_empty(), "{warnings:?}");
    let exits = six.events.iter().filter(|event| matches!(event.1, KvmEvent::Exit(_))).count();
    assert_eq!(exits, 390, "what trace-cmd report prints of it");
    let seven = data("xapic-pp.v7.dat");
    for (name, bytes) in [("zlib", packed_with_zlib(&seven)), ("zstd", seven)] {
        let (seven, warnings) = seen(name, &bytes);
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        assert!(seven.events == six.events, "{name}");
    }
}

#[test]
fn a_damaged_chunk_of_packed_pages_is_left_out_and_counts_as_a_loss() {
    let file = shortened(&data("small-xapic-pp.data.zst"), 400 << 10);
    let samples = trace_dat::samples(&file);
    let write = |form| trace_dat::trace_dat(&file, &samples, form, |_| false);
    let mut bytes = write(trace_dat::Form::SevenPacked);
    let (whole, warnings) = seen("chunks", &bytes);
    assert!(whole.lost == 0 && warnings.is_empty(), "{warnings:?}");
    for form in [trace_dat::Form::Six, trace_dat::Form::Seven] {
        assert!(seen("pages", &write(form)).0 == whole, "{form:?}");
    }
    // Each chunk is a frame of its own.
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let chunks: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == magic).collect();
    assert!(chunks.len() > 3, "{} chunks", chunks.len());
    bytes[chunks[1]] ^= 1;
    let (damaged, warnings) = seen("damaged-chunk", &bytes);
    assert_eq!(damaged.lost, 1, "how many there were is not known");
    assert!(warnings.len() == 1 && warnings[0].contains("compressed pages"), "{warnings:?}");
    let (first, last) = (whole.events[0], whole.events[whole.events.len() - 1]);
    assert!(damaged.events.contains(&first) && damaged.events.contains(&last));
    assert!(damaged.events.len() < whole.events.len());
}

#[test]
fn a_recording_cut_anywhere_gives_its_beginning_and_says_so() {
    let file = shortened(&data("small-xapic-pp.data.zst"), 300 << 10);
    let (whole, _) = seen("uncut", &file);
    let piped = pipe(&file, false);
    let packed = pipe(&file, true);
    for (form, bytes) in [("file", &file), ("pipe", &piped), ("packed", &packed)] {
        for part in [3, 5, 7] {
            let cut = &bytes[..bytes.len() * part / 8];
            let name = format!("cut-{form}-{part}");
            let temporary = Temporary::new(&name, cut);
            // Without its event descriptions a pipe says nothing, which is an error.
            let Ok((seen, origin)) = read(&temporary.0) else { continue };
            assert!(whole.events.starts_with(&seen.events), "{name}");
            let is_short = seen.events.len() < whole.events.len();
            assert_eq!(is_short, !origin.warnings.is_empty(), "{name}: {:?}", origin.warnings);
        }
    }
}

#[test]
fn a_packed_recording_without_its_end_gives_all_that_was_packed() {
    use std::io::Write as _;
    let lines: Vec<u8> = (0..20_000u64)
        .flat_map(|n| {
            format!("qemu-9 [000] .... 1.{:09}: kvm_entry: vcpu 0, rip {:#x}\n", n * 7, n * n * n)
                .into_bytes()
        })
        .collect();
    // As a recorder writes it that flushes now and then, and is killed.
    let mut zstd = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for piece in lines.chunks(lines.len() / 16 + 1) {
        zstd.write_all(piece).and_then(|()| zstd.flush()).expect("memory");
        gzip.write_all(piece).and_then(|()| gzip.flush()).expect("memory");
    }
    let zstd = zstd.finish().expect("memory");
    let gzip = gzip.finish().expect("memory");
    for (name, whole) in [("zstd", zstd), ("gzip", gzip)] {
        let (all, warnings) = seen(&format!("killed-{name}-whole"), &whole);
        assert!(all.events.len() == 20_000 && warnings.is_empty(), "{name}: {warnings:?}");
        let (some, warnings) = seen(&format!("killed-{name}"), &whole[..whole.len() * 3 / 4]);
        assert!(all.events.starts_with(&some.events), "{name}");
        assert!(some.events.len() > 12_000, "{name}: {} events", some.events.len());
        assert!(warnings.iter().any(|warning| warning.contains("breaks off")), "{name}");
    }
    // perf.data that was packed and cut is unpacked as far as it goes.
    let file = shortened(&data("small-xapic-pp.data.zst"), 300 << 10);
    let (whole, _) = seen("before-packing", &file);
    let packed = zstd::encode_all(&file[..], 1).expect("memory");
    let cut = Temporary::new("cut-packed-file", &packed[..packed.len() - 9]);
    let (some, origin) = read(&cut.0).expect("its front is whole");
    assert!(whole.events.starts_with(&some.events));
    assert!(origin.warnings.iter().any(|warning| warning.contains("breaks off")));
}

#[test]
fn a_packed_file_is_counted_and_its_unpacking_can_be_stopped() {
    let packed = zstd::encode_all(&data("small-xapic-pp.data.zst")[..], 1).expect("memory");
    let file = Temporary::new("packed", &packed);
    let (taken, mut told) = (Arc::new(AtomicU64::new(0)), None);
    let opened = open(&file.0, &AtomicBool::new(false), &mut |length| {
        told = Some(length);
        Arc::clone(&taken)
    });
    assert!(matches!(opened.expect("whole").input, Input::PerfFile(..)));
    let length = packed.len() as u64;
    assert_eq!((told, taken.load(Ordering::Relaxed)), (Some(length), length));
    let stopped = open(&file.0, &AtomicBool::new(true), &mut |_| Arc::default());
    assert!(matches!(stopped.err(), Some(capture::Error::Stopped)));
    let whole = Temporary::new("unpacked", &data("small-xapic-pp.data.zst"));
    let mut asked = false;
    let opened = open(&whole.0, &AtomicBool::new(false), &mut |_| {
        asked = true;
        Arc::default()
    });
    assert!(opened.is_ok() && !asked, "nothing is packed");
}
