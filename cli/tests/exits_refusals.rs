//! What `avicenna exits` says to what it cannot do, and that it does the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn avicenna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .arg("exits")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn recording() -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    data.join("small-xapic-pp.data.zst").display().to_string()
}

fn file(name: &str, bytes: &[u8]) -> String {
    let name = format!("refusals-{}-{name}", std::process::id());
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the target directory is writable");
    path.display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_input_that_is_no_recording_is_named_with_the_reason() {
    let binary: Vec<u8> = (0..5000u32).map(|n| (n * 7919 >> 3) as u8).collect();
    let report = avicenna(&["report", "--format", "json", &recording()]).stdout;
    let page = avicenna(&["report", "--format", "html", &recording()]).stdout;
    let rows: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "it is empty"),
        ("words", b"hello\n", "no line of text is an event of KVM"),
        (
            "binary",
            &binary,
            "neither perf.data, trace.dat, xentrace, a trace of the machine nor text",
        ),
        ("report", &report, "it is a report"),
        ("page", &page, "it is a report"),
        ("short", b"PERFILE2\x68\0\0\0\0\0\0\0", "bytes are announced"),
    ];
    for (name, bytes, reason) in rows {
        let path = file(name, bytes);
        let output = avicenna(&["report", &path]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{name}: {said}");
        assert!(said.contains(&path) && said.contains(reason), "{name}: {said}");
    }
    let missing = said(&avicenna(&["report", "/nonexistent"]));
    assert_eq!(missing.matches("No such file").count(), 1, "{missing}");
}

#[test]
fn one_bad_file_does_not_keep_the_others_from_being_reported() {
    let output = avicenna(&["report", "/nonexistent", &recording(), &file("bad", b"no\n")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Total Samples:24853"));
    let said = said(&output);
    assert!(said.contains("/nonexistent") && said.contains("-bad"), "{said}");
}

#[test]
fn a_result_that_cannot_be_written_names_the_place() {
    let said = said(&avicenna(&["report", "-o", "/nonexistent/x", &recording()]));
    assert!(said.contains("cannot write /nonexistent/x"), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let recording = recording();
    let rows: [&[&str]; 3] = [
        &["report", "--format", "json", &recording],
        &["compare", "--format", "html", &recording, &recording],
        &["live", "--rung", "interrupts", "--interval", "0.05", "--duration", "0.3"],
    ];
    for arguments in rows {
        let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .arg("exits")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let said = said(&output);
        // Hosts without such counters refuse the last one.
        assert!(output.status.success() || said.contains("nothing is counted"), "{said}");
        assert!(!said.contains("anicked") && !said.contains("Broken pipe"), "{said}");
    }
}

#[test]
fn rows_are_sorted_as_asked() {
    let recording = recording();
    let first = |sort: &[&str]| {
        let arguments = [&["report", "--format", "csv"], sort, &[recording.as_str()]].concat();
        let text = String::from_utf8(avicenna(&arguments).stdout).expect("text");
        text.lines().nth(1).and_then(|line| line.split(',').nth(1)).unwrap_or_default().to_owned()
    };
    for (sort, name) in [
        (&[][..], "npf"),
        (&["--sort", "mean"], "hlt"),
        (&["-k", "time"], "npf"),
        (&["--key", "sample"], "npf"),
        (&["--sort", "p99"], "npf"),
    ] {
        assert_eq!(first(sort), name, "{sort:?}");
    }
}

#[test]
fn accesses_are_not_grouped_as_exits_are() {
    let said = said(&avicenna(&["report", "--view", "mmio", "--by", "vcpu", &recording()]));
    assert!(said.contains("--by") && said.contains("--view mmio"), "{said}");
}

#[test]
fn a_process_that_is_not_there_cannot_be_watched() {
    let said = said(&avicenna(&["record", "--pid", "4294967294", "--duration", "0"]));
    assert!(said.contains("there is no process 4294967294"), "{said}");
}

#[test]
fn without_a_file_the_names_of_recorders_are_tried() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let report = || {
        Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["exits", "report"])
            .current_dir(&folder)
            .output()
            .expect("the binary runs")
    };
    assert!(said(&report()).contains("perf.data.guest"));
    for name in ["exits.trace.zst", "exits.json", "trace.dat", "perf.data", "perf.data.guest"] {
        std::fs::copy(recording(), folder.join(name)).expect("a copy");
        let output = report();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(&format!("{name} ")), "{name}: {text}");
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
