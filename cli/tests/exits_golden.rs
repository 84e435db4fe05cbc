//! `exits report` prints what `perf kvm stat report` prints, to its last digit.
//!
//! The one column that differs is the smallest time per vCPU, which the peer prints as zero.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peer's report of one recording with one set of options.
struct Golden {
    recording: String,
    option: String,
    rows: Vec<String>,
    total: String,
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data")
}

/// Recordings beside the committed ones: optional, and said to be missing where they are.
fn optional() -> Option<PathBuf> {
    let data = std::env::var_os("AVICENNA_DATA").map(PathBuf::from);
    let data = data
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"))
        .join("perf");
    data.is_dir().then_some(data)
}

fn goldens() -> Vec<Golden> {
    let text = fs::read_to_string(committed().join("perf-6.1-reports.txt")).expect("committed");
    let mut goldens: Vec<Golden> = Vec::new();
    let mut recording = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            recording = name.to_owned();
        } else if line.starts_with("--") {
            goldens.push(Golden {
                recording: recording.clone(),
                option: line.to_owned(),
                rows: Vec::new(),
                total: String::new(),
            });
        } else if let Some(golden) = goldens.last_mut() {
            if line.starts_with("Total") {
                golden.total = line.to_owned();
            } else if line.contains("us") && line.contains('%') {
                golden.rows.push(line.to_owned());
            }
        }
    }
    goldens
}

/// Unpacks a recording to a file of its own under the target directory.
fn unpacked(recording: &str) -> Option<PathBuf> {
    let name = format!("{recording}.zst");
    let packed = [Some(committed()), optional()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file())?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    fs::create_dir_all(&folder).expect("the target directory is writable");
    let path = folder.join(recording);
    if !path.is_file() {
        let file = fs::File::open(packed).expect("it was found");
        let temporary = folder.join(format!("{recording}.{}", std::process::id()));
        let mut out = fs::File::create(&temporary).expect("the target directory is writable");
        zstd::stream::copy_decode(file, &mut out).expect("it is a zstd file");
        fs::rename(&temporary, &path).expect("the same folder");
    }
    Some(path)
}

fn report(recording: &Path, options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "report"])
        .args(options)
        .arg(recording)
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The words of the peer's columns; the smallest time left out where the peer has none.
fn columns(line: &str, has_minimum: bool) -> Vec<&str> {
    let end = line.find(')').map_or(line.len(), |at| at + 1);
    let words = line[..end].split_whitespace();
    let keeps = |index: &usize| has_minimum || *index != 4;
    words.enumerate().filter(|(index, _)| keeps(index)).map(|(_, word)| word).collect()
}

#[test]
fn tables_equal_those_of_perf_to_the_last_printed_digit() {
    let mut compared = 0;
    let mut missing = Vec::new();
    for golden in goldens() {
        let Some(recording) = unpacked(&golden.recording) else {
            missing.push(golden.recording);
            continue;
        };
        let ours = report(&recording, &[&golden.option]);
        let has_minimum = !golden.option.starts_with("--vcpu");
        let expected: Vec<_> = golden.rows.iter().map(|row| columns(row, has_minimum)).collect();
        let found: Vec<_> = ours
            .lines()
            .filter(|line| line.contains("( +-"))
            .map(|line| columns(line, has_minimum))
            .collect();
        assert_eq!(found, expected, "{} {}", golden.recording, golden.option);
        let total = ours.lines().find(|line| line.starts_with("Total Samples"));
        assert_eq!(total, Some(golden.total.as_str()), "{} {}", golden.recording, golden.option);
        compared += 1;
    }
    missing.dedup();
    if !missing.is_empty() {
        println!("NOTICE: not compared, set AVICENNA_DATA: {}", missing.join(", "));
    }
    assert!(compared >= 15, "only {compared} tables were compared");
}
