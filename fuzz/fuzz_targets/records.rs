//! What was written down for later and may be another by then: the journal of an experiment, whose
//! sums are made right, and the record of a change. The first byte chooses.
#![no_main]

use change::Host;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Where a host has its records.
const RECORDS: &str = "var/lib/avicenna/changes";

fn journal(folder: &Path, lines: &[u8]) {
    let (mut text, mut sum) = (Vec::new(), 0u32);
    for line in lines.split(|byte| *byte == b'\n') {
        let begin = line.strip_suffix(b"}").unwrap_or(line);
        let mut own = crc32fast::Hasher::new();
        own.update(&sum.to_le_bytes());
        own.update(begin);
        sum = own.finalize();
        text.extend(begin);
        text.extend(format!(",\"sum\":\"{sum:08x}\"}}\n").bytes());
    }
    fs::write(folder.join(experiment::journal::FILE), text).expect("a writable folder");
    let _ = experiment::journal::read(folder);
}

fn record(folder: &Path, text: &[u8]) {
    let records = folder.join(RECORDS);
    fs::create_dir_all(&records).expect("a writable folder");
    let private = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a folder of ours");
    };
    private(&records, 0o700);
    let file = records.join("000001.json");
    fs::write(&file, text).expect("a writable folder");
    private(&file, 0o600);
    let host = Host::at(folder).expect("a folder");
    let _ = host.records();
    // What it asks to run is not run.
    let _ = host.rollback(None, true, &mut |_| Err("not here".into()));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let folder = std::env::temp_dir().join(format!("avicenna-fuzz-records-{}", std::process::id()));
    // What was put there last time may be anything.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a writable folder");
    if first & 1 == 0 {
        journal(&folder, rest)
    } else {
        record(&folder, rest)
    }
    let _ = fs::remove_dir_all(&folder);
});
