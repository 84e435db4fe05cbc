//! Several hosts at once, folders of snapshots, and what is pasted.

use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const NAMES: [&str; 3] = ["genoa", "rapids", "uek"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources")
}

/// Runs in the folder of recorded hosts.
fn avicenna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(arguments)
        .current_dir(sources())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn statuses(verb: &str) -> Vec<i32> {
    NAMES.map(|name| avicenna(&[verb, "--root", name]).status.code().unwrap()).into()
}

/// The worst of statuses, as the verbs have them: a no, then what could not be told.
fn worst(statuses: &[i32]) -> i32 {
    *[1, 3, 0].iter().find(|status| statuses.contains(status)).unwrap()
}

/// Snapshots of the recorded hosts, each with a virtual machine.
fn snapshots() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let file = fs::File::create(folder.path().join(format!("{name}.tar"))).unwrap();
        let mut archive = tar::Builder::new(file);
        archive.append_dir_all(".", sources().join(name)).unwrap();
        let words = b"qemu-system-x86_64\0-name\0web\0-enable-kvm\0";
        let mut header = tar::Header::new_gnu();
        header.set_size(words.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, "proc/7/cmdline", &words[..]).unwrap();
        archive.finish().unwrap();
    }
    folder
}

#[test]
fn several_hosts_are_a_line_each_and_the_worst_decides() {
    let output = avicenna(&["check", "genoa", "rapids", "uek"]);
    let text = stdout(&output);
    for (line, name) in text.lines().zip(NAMES) {
        assert!(line.starts_with(&format!("{name}: ")), "{text}");
    }
    assert_eq!(text.lines().count(), 3);
    assert_eq!(output.status.code(), Some(worst(&statuses("check"))));
    let missing = avicenna(&["check", "genoa", "nothere"]);
    let expected = worst(&[3, statuses("check")[0]]);
    assert_eq!(missing.status.code(), Some(expected));
    assert_eq!(stdout(&missing).lines().count(), 1, "the others are answered");
}

#[test]
fn json_lines_are_a_report_a_line_that_follows_its_schema() {
    let folder = snapshots();
    let folder = folder.path().to_str().unwrap();
    for (verb, schema) in [("check", "check-1.json"), ("why", "why-1.json")] {
        let schema = schema::published(schema);
        let text = stdout(&avicenna(&[verb, folder, "--format", "json-lines"]));
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            schema::assert_follows(&value, &schema, verb);
        }
    }
    let schema = schema::published("lint-1.json");
    let text = stdout(&avicenna(&["lint", folder, "--format", "json-lines"]));
    assert!(text.lines().count() > 3, "{text}");
    for name in NAMES {
        assert!(text.contains(&format!("/{name}.tar:/proc/7/cmdline")), "{text}");
    }
    for line in text.lines() {
        schema::assert_follows(&serde_json::from_str(line).unwrap(), &schema, "lint");
    }
}

#[test]
fn metrics_of_several_hosts_have_their_names_and_stand_by_families() {
    let folder = snapshots();
    let path = folder.path().to_str().unwrap();
    let text = stdout(&avicenna(&["check", path, "--format", "prometheus"]));
    for name in NAMES {
        let sample = format!("avicenna_check_status{{host=\"{name}\",item=\"answer-active\"");
        assert!(text.contains(&sample), "{sample} in {text}");
    }
    let mut families: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect();
    families.dedup();
    let count = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), count, "a family stands in one place:\n{text}");
    let text = stdout(&avicenna(&["why", path, "--format", "prometheus"]));
    assert!(text.contains("avicenna_apicv_active{host=\"uek\",vm=\"web\",pid=\"7\"}"), "{text}");
    fs::create_dir(folder.path().join("again")).unwrap();
    fs::copy(folder.path().join("uek.tar"), folder.path().join("again/uek.tar")).unwrap();
    let (one, other) = (format!("{path}/uek.tar"), format!("{path}/again/uek.tar"));
    let twice = avicenna(&["check", &one, &other, "--format", "prometheus"]);
    assert_eq!(twice.status.code(), Some(2), "series of two hosts would be one");
}

#[test]
fn a_folder_of_snapshots_is_its_snapshots() {
    let folder = snapshots();
    let path = folder.path().to_str().unwrap();
    let files = NAMES.map(|name| format!("{path}/{name}.tar"));
    for verb in ["check", "why"] {
        let [a, b, c] = &files;
        for format in ["text", "json-lines", "nagios"] {
            let together = avicenna(&[verb, path, "--format", format]);
            let alone = avicenna(&[verb, a, b, c, "--format", format]);
            assert_eq!(stdout(&together), stdout(&alone), "{verb}");
            assert_eq!(together.status.code(), alone.status.code(), "{verb}");
        }
        let line = stdout(&avicenna(&[verb, path, "--format", "nagios"]));
        assert!(line.starts_with("AVICENNA ") && line.lines().count() == 1, "{line}");
        let written = folder.path().join("answer.out");
        let output = avicenna(&[verb, a, b, "-o", written.to_str().unwrap()]);
        assert!(output.stdout.is_empty());
        assert_eq!(fs::read_to_string(&written).unwrap().lines().count(), 2);
        fs::remove_file(&written).unwrap();
    }
}

#[test]
fn what_is_pasted_is_answered_as_its_file() {
    for file in
        ["lscpu.txt", "cpuid-lines.txt", "features", "genoa/proc/cpuinfo", "lscpu-words.txt"]
    {
        let bytes = fs::read(sources().join(file)).unwrap();
        for arguments in [&["check", "-"][..], &["check", "--root", "-", "-q"]] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
            let pasted = child.wait_with_output().unwrap();
            let quiet: &[&str] = if arguments.contains(&"-q") { &["-q"] } else { &[] };
            let given = avicenna(&[&["check", file], quiet].concat());
            let expected = stdout(&given).replace(file, "standard input");
            assert_eq!(stdout(&pasted), expected, "{file}: {pasted:?}");
            assert_eq!(pasted.status.code(), given.status.code(), "{file}");
        }
    }
}

#[test]
fn schemas_are_written_as_they_are_published() {
    let folder = tempfile::tempdir().unwrap();
    let output = avicenna(&["generate", "schemas", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    let mut count = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let text = fs::read(entry.path()).unwrap();
        assert_eq!(text, fs::read(published.join(entry.file_name())).unwrap());
        count += 1;
    }
    assert!(count >= 11, "{count} schemas");
}
