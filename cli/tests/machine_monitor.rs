//! Who looks at a machine that runs: the monitor at standard input and at a socket file, QEMU's
//! machine protocol, and saved machines.

mod multiboot;

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A Multiboot image: mov al, 1; then out 80h, al; inc al; and back.
fn program(name: &str) -> String {
    let path = scratch(&format!("{name}.multiboot"));
    fs::write(&path, multiboot::image(&[0xB0, 0x01, 0xE6, 0x80, 0xFE, 0xC0, 0xEB, 0xFA]))
        .expect("the folder for tests can be written");
    path.to_str().expect("a path of ours is text").to_owned()
}

fn started(words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// What a run says to these lines of its standard input.
fn told(words: &[&str], lines: &str) -> Output {
    let mut child = started(words);
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("lines are taken");
    child.wait_with_output().expect("an end")
}

/// A run with something at a socket file; it is killed if a test fails.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the run does not end");
    }
}

fn connected(path: &Path) -> UnixStream {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(stream) = UnixStream::connect(path) {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            return stream;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody listens at {}", path.display());
}

/// What the monitor says up to its next prompt.
fn answer(stream: &mut UnixStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).expect("a line is taken");
    let mut said = Vec::new();
    while !said.ends_with(b"(avicenna) ") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        said.push(byte[0]);
    }
    String::from_utf8(said).expect("text")
}

#[test]
fn lines_of_standard_input_are_obeyed_one_after_the_other() {
    let kernel = program("lines");
    let words = ["machine", "run", "--cpu", "zen4", "--quiet", "--kernel", &kernel, "--monitor"];
    let lines = "step 3\nfoo\nuntil out value=0x64\ninfo -j registers\ninfo vmcs\nevents 1\nquit\n";
    let output = told(&words, lines);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "processor 0: Running at rip 0x100024",
        "error: no command \"foo\", must be one of info",
        "value=0x64",
        "{\"schema\":1,\"sheets\":[",
        "error: the processors have no VMCS: a VMCB is AMD's, `vmcb`",
    ] {
        assert!(text.contains(part), "{part}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_monitor_at_a_socket_file_is_its_users_and_survives_what_is_not_for_it() {
    let (kernel, path) = (program("socket"), scratch("monitor.socket"));
    let at = format!("--monitor={}", path.display());
    let words = ["machine", "run", "--cpu", "zen4", "--quiet", "--kernel", &kernel, &at];
    let mut run = Run(started(&words));
    let mut stream = connected(&path);
    let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(answer(&mut stream, "").contains("help says"));
    assert!(answer(&mut stream, "info lapic\n").contains("[APM2 \"APIC Registers\"]"));
    assert!(answer(&mut stream, "until out value=0x64\n").contains("value=0x64"));
    drop(stream);
    for round in 0..20u32 {
        let mut stream = connected(&path);
        let bytes: Vec<u8> = (0..2_000u32)
            .map(|at| (at.wrapping_mul(2_654_435_761).rotate_left(round) >> 8) as u8)
            .collect();
        let _ = stream.write_all(&bytes);
    }
    let mut stream = connected(&path);
    assert!(answer(&mut stream, "").contains("help says"));
    assert!(answer(&mut stream, "step\n").contains("processor 0"));
    stream.write_all(b"quit\n").expect("a line is taken");
    assert_eq!(run.end().code(), Some(0));
    assert!(!path.exists(), "the socket file goes with the run");
}

/// A client of the protocol.
struct Client(BufReader<UnixStream>);

impl Client {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The answer to a command, with the events before it.
    fn ask(&mut self, name: &str, arguments: &Value) -> (Value, Vec<String>) {
        let mut request = json!({ "execute": name });
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        self.0.get_mut().write_all(request.to_string().as_bytes()).expect("a request is taken");
        let mut events = Vec::new();
        loop {
            let line = self.line();
            match line["event"].as_str() {
                Some(event) => events.push(event.to_owned()),
                None => return (line, events),
            }
        }
    }
}

#[test]
fn qemus_protocol_stops_resets_and_ends_a_machine() {
    let (kernel, path) = (program("protocol"), scratch("qmp.socket"));
    let at = format!("unix:{},server=on,wait=off", path.display());
    let words = ["qemu", "-kernel", &kernel, "-m", "64", "-display", "none", "-qmp", &at, "-S"];
    let mut run = Run(started(&words));
    let mut client = Client(BufReader::new(connected(&path)));
    let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(client.line()["QMP"]["version"]["qemu"]["major"], 9);
    let none = Value::Null;
    assert_eq!(client.ask("stop", &none).0["error"]["class"], "CommandNotFound");
    assert_eq!(client.ask("qmp_capabilities", &none).0, json!({ "return": {} }));
    assert_eq!(client.ask("query-status", &none).0["return"]["status"], "paused");
    assert_eq!(client.ask("cont", &none).1, ["RESUME"]);
    assert_eq!(client.ask("query-status", &none).0["return"]["running"], true);
    let line = json!({ "command-line": "info registers" });
    let (said, _) = client.ask("human-monitor-command", &line);
    assert!(said["return"].as_str().is_some_and(|text| text.contains("RIP")), "{said}");
    assert_eq!(client.ask("stop", &none).1, ["STOP"]);
    assert_eq!(client.ask("system_reset", &none).1, ["RESET"]);
    let (said, _) = client.ask("human-monitor-command", &line);
    assert!(
        said["return"].as_str().is_some_and(|text| text.contains("0000000000100020")),
        "{said}"
    );
    drop(client);
    let mut client = Client(BufReader::new(connected(&path)));
    client.line();
    client.ask("qmp_capabilities", &none);
    assert_eq!(client.ask("quit", &none).1, ["SHUTDOWN"]);
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn a_saved_machine_is_shown_without_the_options_that_it_was_built_with() {
    let (kernel, file) = (program("saved"), scratch("monitor.snapshot"));
    let file = file.to_str().expect("a path of ours is text");
    let output = told(
        &[
            "machine",
            "run",
            "--cpu",
            "sapphire-rapids",
            "--cpus",
            "2",
            "--kernel",
            &kernel,
            "--snapshot-on",
            "instructions:1000",
            file,
            "--max-instructions",
            "2000",
        ],
        "",
    );
    assert!(Path::new(file).exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let inspect = |words: &[&str]| told(&[&["machine", "inspect", file], words].concat(), "");
    let output = inspect(&["lapic", "--cpu", "1", "--format", "json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["sheets"][0]["cpu"], 1);
    assert_eq!(value["sheets"][0]["section"], "SDM3 \"Local APIC Register Address Map\"");
    for (words, why) in [
        (&["lapic", "--cpu", "2"][..], "numbered from 0 to 1"),
        (&["vmcb"], "a VMCS is Intel's"),
        (&["nothing"], "possible values: registers, lapic"),
        (&["pid", "--at", "5"], "must be hexadecimal"),
    ] {
        let output = inspect(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(why), "{words:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    }
}
