//! The same recording as a file, in a pipe and compressed gives the same events; so do the two
//! versions of trace.dat.

mod forms;

use forms::{Seen, Temporary, compressed_file, data, pipe, read, shortened};
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
    let (seven, warnings) = seen("seven", &data("xapic-pp.v7.dat"));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(seven.events == six.events);
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
