//! A recording is readable whatever ended it: Ctrl-C, SIGKILL, a full disk, a cut.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn avicenna() -> Command {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// Whether this host lets the best two rungs that every kernel has be used; says so if not.
fn may_record() -> bool {
    let path = file("may-record");
    let tried = avicenna()
        .args(["exits", "record", "--rung", "bpf", "--duration", "0.01", "--output"])
        .arg(&path)
        .output()
        .expect("the binary runs");
    let _ = fs::remove_file(&path);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        println!("NOTICE: nothing can be recorded here, so that is not tested: {why}");
    }
    tried.status.success()
}

/// A recording in short intervals that has written a few of them.
fn begun(path: &Path) -> Child {
    let child = avicenna()
        .args(["exits", "record", "--rung", "bpf", "--interval", "0.02", "--output"])
        .arg(path)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let deadline = Instant::now() + Duration::from_secs(30);
    while lines(path) < 5 {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.is_ok_and(|status| status.success()));
}

fn report(path: &Path) -> Output {
    avicenna().args(["exits", "report"]).arg(path).output().expect("the binary runs")
}

fn is_readable(path: &Path) {
    let report = report(path);
    let (out, error) =
        (String::from_utf8_lossy(&report.stdout), String::from_utf8_lossy(&report.stderr));
    assert!(report.status.success(), "{error}");
    assert!(out.contains("Linux") && out.contains("exits"), "{out}");
}

#[test]
fn an_interrupt_ends_a_recording_with_everything_up_to_then() {
    if !may_record() {
        return;
    }
    let path = file("interrupted");
    let child = begun(&path);
    let before = lines(&path);
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains("exits recorded") && error.contains("exits report"), "{error}");
    assert!(lines(&path) >= before && fs::read(&path).expect("written").ends_with(b"\n"));
    is_readable(&path);
}

#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    if !may_record() {
        return;
    }
    let path = file("killed");
    let mut child = begun(&path);
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    is_readable(&path);
}

#[test]
fn a_killed_recorder_of_every_event_leaves_a_readable_file() {
    if !may_record() {
        return;
    }
    let path = file("killed-events");
    let mut child = avicenna()
        .args(["exits", "record", "--events", "--output"])
        .arg(&path)
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    // It is written once a second.
    let deadline = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&path).map_or(0, |metadata| metadata.len()) < 20 {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    is_readable(&path);
    // The instance of a killed recorder stays until it is removed.
    let instances = Path::new("/sys/kernel/tracing/instances");
    let _ = fs::remove_dir(instances.join(format!("avicenna-{}", child.id())));
}

#[test]
fn a_full_disk_ends_a_recording_that_stays_readable() {
    if !may_record() {
        return;
    }
    let path = file("full");
    // Files of this process may have a kilobyte: a write beyond that fails as on a full disk.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "record", "--rung", "bpf", "--interval", "0.01", "--duration", "30"])
        .arg("--output")
        .arg(&path)
        .output()
        .expect("a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("too large") && error.contains("holds what was recorded"), "{error}");
    assert_eq!(fs::metadata(&path).expect("written").len(), 1024);
    is_readable(&path);
}

#[test]
fn a_cut_recording_is_reported_up_to_the_cut_which_is_said() {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../host/capture/tests/data/small-x2apic-big.data.zst");
    let packed = fs::read(packed).expect("committed");
    let whole = zstd::decode_all(packed.as_slice()).expect("zstd");
    let path = file("cut");
    fs::write(&path, &whole[..whole.len() / 2]).expect("the folder is writable");
    let report = report(&path);
    let (out, error) =
        (String::from_utf8_lossy(&report.stdout), String::from_utf8_lossy(&report.stderr));
    assert!(report.status.success(), "{error}");
    assert!(error.contains("bytes"), "what is missing is said: {error}");
    let samples = |text: &str| -> u64 {
        let total = text.split("Total Samples:").nth(1).expect("a table");
        total.split(',').next().expect("a number").parse().expect("a number")
    };
    let half = samples(&out);
    fs::write(&path, &whole).expect("the folder is writable");
    let all = samples(&String::from_utf8_lossy(&self::report(&path).stdout));
    assert!(half > all * 4 / 10 && half < all * 6 / 10, "{half} of {all}");
}

#[test]
fn a_command_decides_when_a_recording_ends_and_how() {
    if !may_record() {
        return;
    }
    let output = avicenna()
        .args(["exits", "record", "--rung", "bpf", "--output", "-", "--"])
        .args(["sh", "-c", "echo from the command; exit 7"])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(7));
    assert!(output.stdout.starts_with(b"{\"avicenna_exits\":"), "only the recording");
    assert!(String::from_utf8_lossy(&output.stderr).contains("from the command"));
}
