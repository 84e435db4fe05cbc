//! `machine run`: what cannot be done is said once, with its name and the right exit status, and an
//! interrupt is obeyed.

mod multiboot;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A Multiboot image of nothing but code at 10_0020h, in a file of its own.
fn program(name: &str, code: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.multiboot"));
    fs::write(&path, multiboot::image(code)).expect("the folder for tests can be written");
    path
}

/// Writes 0 to the debug-exit port: status 1.
const EXIT: [u8; 6] = [0x31, 0xC0, 0xE7, 0xF4, 0xEB, 0xFE];

fn machine(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["machine", "run"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

#[test]
fn what_cannot_be_is_said_once_with_its_name_and_status() {
    let kernel = program("exit", &EXIT);
    let kernel = kernel.to_str().expect("a path of ours is text");
    // More than any host that builds this has.
    let rows: [(&[&str], i32, &str); 14] = [
        (&["--kernel", kernel], 1, "debug exit 0x0"),
        (&["--kernel", kernel, "--memory", "40000G"], 3, "cannot give the machine"),
        (&["--kernel", "/nonexistent"], 3, "cannot open /nonexistent: No such file"),
        (
            &["--kernel", kernel, "--memory", "64M", "--initrd", "/dev/zero"],
            3,
            "/dev/zero is larger than 64 MiB, what the machine has of memory",
        ),
        (
            &["--kernel", kernel, "--disk", "/nonexistent"],
            3,
            "/nonexistent: cannot open the disk image: No such file",
        ),
        (&["--kernel", kernel, "--trace", "/dev/full"], 3, "cannot write /dev/full: No space"),
        (
            &["--kernel", kernel, "--snapshot-on", "instructions:0", "/dev/full"],
            3,
            "/dev/full: cannot write the snapshot: No space",
        ),
        (&["--kernel", kernel, "--cpu", "zen9"], 2, "no CPU model is named \"zen9\""),
        (&["--kernel", kernel, "--cpu", "generic,+avic"], 2, "avic needs svm"),
        (&["--kernel", kernel, "--cpus", "0"], 2, "processors"),
        (&["--kernel", kernel, "--snapshot-on", "soon", "x"], 2, "must be console:TEXT"),
        (&["--kernel", kernel, "--memory", "12Q"], 2, "is not a size"),
        // What goes with firmware alone.
        (&["--kernel", kernel, "--no-reboot"], 2, "cannot be used with"),
        (&["--kernel", kernel, "--firmware-variables", "v"], 2, "cannot be used with"),
    ];
    for (arguments, status, text) in rows {
        let output = machine(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        let reason = text.rsplit(": ").next().unwrap_or(text);
        assert_eq!(said.matches(reason).count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn qemu_s_options_end_as_they_do_there_and_what_has_no_effect_is_said_once() {
    let exits = program("qemu-exits", &EXIT);
    // Writes 3 to the debug-exit port.
    let fails = program("qemu-fails", &[0xB0, 3, 0xE6, 0xF4, 0xEB, 0xFE]);
    // Loads an interrupt table of nothing, and takes an exception.
    let resets = program("qemu-resets", &[0x0F, 0x0B]);
    let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("avicenna-qemu");
    let _ = fs::remove_file(&own);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_avicenna"), &own).expect("a link");
    let usual = "--no-reboot -nodefaults -global kvm-pit.lost_tick_policy=discard -device pc-testdev \
                 -device isa-debug-exit,iobase=0xf4,iosize=0x4 -display none -serial stdio \
                 -device pci-testdev -machine accel=tcg -smp 2 -kernel";
    let ignored =
        "avicenna-qemu: warning: without effect here: -global kvm-pit.lost_tick_policy=discard\n";
    for (kernel, status, said) in [
        (exits.as_path(), 1, ignored.to_owned()),
        (&fails, 7, ignored.to_owned()),
        (&resets, 0, ignored.to_owned()),
        (
            "_NO_FILE_".as_ref(),
            1,
            format!(
                "{ignored}avicenna-qemu: could not load kernel '_NO_FILE_': No such file or directory (os error 2)\n"
            ),
        ),
    ] {
        let output = Command::new(&own).args(usual.split_whitespace()).arg(kernel).output();
        let output = output.expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr).replace("\n  ", " ");
        assert_eq!(output.status.code(), Some(status), "{kernel:?}: {errors}");
        assert!(errors.starts_with(&said), "{kernel:?}: {errors}");
    }
    let refused = Command::new(&own).args(["-device", "edu"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(1));
    let list = Command::new(&own).args(["-device", "?"]).output().expect("the program starts");
    assert!(String::from_utf8_lossy(&list.stdout).contains("\"pc-testdev\""));
}

#[test]
fn a_lab_that_cannot_be_is_usage_and_says_what_would_do() {
    let rows: [(&[&str], &str); 4] = [
        (&["--cpus", "261", "--iommu", "off"], "and this host has none"),
        (&["--workload", "device", "--iommu", "off"], "leave the option out"),
        (&["--cpu", "generic"], "choose one of haswell-ep, "),
        (&["--memory", "64M"], "at least 256M"),
    ];
    for (arguments, text) in rows {
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["lab", "run"])
            .args(arguments)
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).replace("\n  ", " ");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

#[test]
fn a_suite_passes_if_each_of_its_images_does() {
    let passes = program("suite-passes", &EXIT);
    // Writes 3 to the debug-exit port.
    let fails = program("suite-fails", &[0xB0, 3, 0xE6, 0xF4, 0xEB, 0xFE]);
    let spins = program("suite-spins", &[0xEB, 0xFE]);
    let test = |images: &[&PathBuf], arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["machine", "test", "--with", "--until-virtual 1ms --cpus 2"])
            .args(arguments)
            .args(images)
            .output()
            .expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, report) = test(&[&passes], &[]);
    assert_eq!(status, Some(0), "{report}");
    assert!(report.starts_with("TAP version 14\n1..1\nok 1 - suite-passes.multiboot"), "{report}");
    let (status, report) = test(&[&fails, &passes, &spins], &[]);
    assert_eq!(status, Some(1), "{report}");
    assert!(report.contains("not ok 1 - suite-fails.multiboot"), "{report}");
    assert!(report.contains("message: \"wrote 3 to port F4h\""), "{report}");
    assert!(report.contains("\nok 2 - ") && report.contains("not ok 3 - "), "{report}");
    let (status, report) = test(&[&fails, &passes], &["--format", "junit"]);
    assert_eq!(status, Some(1), "{report}");
    assert!(report.contains("tests=\"2\" failures=\"1\""), "{report}");
    let usage = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["machine", "test", "--with", "--cpus 0"])
        .arg(&passes)
        .status();
    assert_eq!(usage.expect("the program starts").code(), Some(2));
}

#[test]
fn snapshots_that_are_not_written_are_named_with_their_event() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let waits = [0xFA, 0xF4, 0xEB, 0xFD];
    for (name, code) in [("exits", &EXIT[..]), ("waits", &waits)] {
        let kernel = program(name, code);
        let file = folder.join(format!("{name}.never"));
        let (kernel, path) = (kernel.to_str().expect("text"), file.to_str().expect("text"));
        for event in ["time:1ms", "instructions:1000000", "console:x", "port:0x80"] {
            let output = machine(&["--kernel", kernel, "--snapshot-on", event, path]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                said.contains(&format!("never is not written: {event} did not happen")),
                "{said}"
            );
            assert!(!file.exists(), "{event}");
        }
    }
}

#[test]
fn limits_count_from_power_on_and_cannot_lie_behind_a_snapshot() {
    // Counts down from a million, then exits.
    let kernel =
        program("counts", &[0xB9, 0x40, 0x42, 0x0F, 0, 0x49, 0x75, 0xFD, 0x31, 0xC0, 0xE7, 0xF4]);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("counts.snapshot");
    let path = file.to_str().expect("text");
    let saved = machine(&[
        "--kernel",
        kernel.to_str().expect("text"),
        "--snapshot-on",
        "instructions:1000",
        path,
    ]);
    assert_eq!(saved.status.code(), Some(1));
    for (arguments, status, text) in [
        (["--max-instructions", "5000"], 68, "5000 instructions"),
        (["--max-instructions", "500"], 2, "the snapshot is at 1"),
        (["--until-virtual", "1ns"], 2, "the snapshot is at 0.0000"),
    ] {
        let output = machine(&["--restore", path, arguments[0], arguments[1]]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
        // The stretch of code with the thousandth instruction ends a few later.
        if let Some((_, count)) = said.split_once("the snapshot is at 1") {
            let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
            let count: u64 = format!("1{digits}").parse().expect("a number");
            assert!((1000..1100).contains(&count), "{said}");
        }
    }
}

#[test]
fn an_interrupt_ends_a_run_with_its_own_status() {
    // Says that it runs, then spins.
    let code = [0xBA, 0xF8, 0x03, 0, 0, 0xB0, b'k', 0xEE, 0xEB, 0xFE];
    let kernel = program("spin", &code);
    let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["machine", "run", "--cpus", "4", "--kernel"])
        .arg(kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = [0];
    let output = child.stdout.as_mut().expect("its output is a pipe");
    output.read_exact(&mut first).expect("the guest says that it runs");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill starts").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for verb in ["list-cpus", "list-variants"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["machine", verb])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_trace_is_shown_from_a_time_to_a_time() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (kernel, trace) = (folder.join("traced.multiboot"), folder.join("traced.trace"));
    fs::write(&kernel, image::BENCHMARK).expect("the folder for tests can be written");
    let [kernel, trace] = [&kernel, &trace].map(|path| path.to_str().expect("a path of ours"));
    machine(&["--kernel", kernel, "--cpus", "2", "--trace", trace, "--until-virtual", "20ms"]);
    let times = |arguments: &[&str]| -> Vec<f64> {
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["machine", "trace", trace])
            .args(arguments)
            .output()
            .expect("the program starts");
        let text = String::from_utf8(output.stdout).expect("a trace is text");
        text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
    };
    let all = times(&[]);
    let (from, to) = (all[all.len() / 3].floor(), all[all.len() * 2 / 3].floor());
    let stretch = times(&["--from", &format!("{from}ns"), "--to", &format!("{to}ns")]);
    let expected: Vec<f64> = all.into_iter().filter(|time| *time >= from && *time < to).collect();
    assert!(!expected.is_empty());
    assert_eq!(stretch, expected);
}

/// No instruction, and nowhere to tell of it: a triple fault.
const FAULT: [u8; 2] = [0x0F, 0x0B];

/// A machine that waits for a debugger at a socket file. Meanwhile its file of symbols becomes a
/// link to another file; the debugger leaves, and the machine ends and reads its symbols.
fn swapped(name: &str, options: &[&str]) -> (String, String, Option<i32>) {
    let kernel = program(name, &FAULT);
    let folder = tempfile::tempdir().expect("a writable folder");
    let [socket, symbols, secret] = ["gdb", "symbols", "secret"].map(|one| folder.path().join(one));
    fs::write(&symbols, "0000000000100020 T fault\n").expect("a writable folder");
    fs::write(&secret, "0000000000100020 T secret\n").expect("a writable folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["machine", "run", "--kernel"])
        .arg(&kernel)
        .arg("--symbols")
        .arg(&symbols)
        .arg("--gdb")
        .arg(&socket)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("waiting for a debugger") {
        line.clear();
        assert!(said.read_line(&mut line).expect("text") > 0, "the program ended");
    }
    let mode = fs::metadata(&socket).expect("the socket file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a process");
    fs::remove_file(&symbols).expect("a writable folder");
    std::os::unix::fs::symlink(&secret, &symbols).expect("a writable folder");
    let mut debugger = UnixStream::connect(&socket).expect("the machine waits");
    debugger.write_all(b"+$D#44").expect("the machine listens");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    let code = child.wait().expect("it ends").code();
    assert!(!socket.exists(), "the socket file is left");
    (status, rest, code)
}

#[test]
fn a_machine_opens_what_its_command_line_names_and_nothing_else() {
    let (status, said, code) = swapped("walled", &[]);
    assert!(status.contains("Seccomp:\t2"), "{status}");
    if said.contains("no Landlock") {
        println!("skipped: this kernel has no Landlock");
    } else {
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("symbols: Permission denied"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    let (status, said, code) = swapped("open", &["--no-sandbox"]);
    assert!(status.contains("Seccomp:\t0"), "{status}");
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("<secret"), "{said}");
}

/// Whether the process gets seccomp's wall before it ends.
fn is_shut_in(words: &[&str], folder: &Path) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(words)
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let path = format!("/proc/{}/status", child.id());
    let mut is_shut_in = false;
    while !is_shut_in && child.try_wait().expect("a child").is_none() {
        let status = fs::read_to_string(&path).unwrap_or_default();
        is_shut_in = status.contains("Seccomp:\t2");
        std::thread::sleep(Duration::from_millis(2));
    }
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().expect("a child");
    is_shut_in
}

#[test]
fn every_verb_that_runs_a_guest_is_shut_in_unless_it_is_told_not_to() {
    let folder = tempfile::tempdir().expect("a writable folder");
    // It jumps to itself.
    let kernel = program("endless", &[0xEB, 0xFE]);
    let kernel = kernel.to_str().expect("UTF-8");
    let limit = ["--max-instructions", "100000"];
    for (words, expected) in [
        (vec!["machine", "run", "--kernel", kernel], true),
        (vec!["qemu", "-kernel", kernel], true),
        (vec!["lab", "run", "--kernel", "builtin"], true),
        ([&["machine", "run", "--no-sandbox", "--kernel", kernel][..], &limit].concat(), false),
    ] {
        assert_eq!(is_shut_in(&words, folder.path()), expected, "{words:?}");
    }
}
