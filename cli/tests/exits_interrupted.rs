//! Ctrl-C ends a report with what was read by then, and a full disk leaves a readable recording.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn avicenna() -> Command {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
}

#[test]
fn an_interrupt_ends_a_report_with_what_was_read() {
    // Text through a pipe that never ends.
    let mut child = avicenna()
        .args(["exits", "report", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    let pid = child.id().to_string();
    let writer = std::thread::spawn(move || {
        let (begun, mut now) = (Instant::now(), 0u64);
        // Ends when nobody reads any more.
        while begun.elapsed() < Duration::from_secs(60) {
            now += 10;
            let lines = format!(
                "qemu-9 [000] .... 1.{now:09}: kvm_entry: vcpu 0, rip 0x1\nqemu-9 [000] .... \
                 1.{:09}: kvm_exit: reason hlt rip 0x1 info 0 0\n",
                now + 5
            );
            if input.write_all(lines.as_bytes()).is_err() {
                return;
            }
            if now == 200_000 {
                let kill = Command::new("kill").args(["-INT", &pid]).status();
                assert!(kill.is_ok_and(|status| status.success()));
            }
        }
        panic!("the report went on for a minute");
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it stopped reading");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("hlt"), "{text}");
}

#[test]
fn a_full_disk_is_said_and_nothing_else_happens() {
    if !Path::new("/dev/full").exists() {
        println!("NOTICE: no /dev/full here");
        return;
    }
    let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../host/capture/tests/data/small-xapic-pp.data.zst");
    let output = avicenna()
        .args(["exits", "report", "--format", "csv", "--output", "/dev/full"])
        .arg(recording)
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("No space left"), "{error}");
}
