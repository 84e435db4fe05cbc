//! A machine for other programs: over standard input and output, and at a socket file.

mod multiboot;

use serde_json::{Value, json};
use service::client::{Client, ClientError};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Multiboot image: mov al, 1; then out 80h, al; inc al; and back.
fn program(folder: &Path) -> String {
    let path = folder.join("counts.multiboot");
    let code = [0xB0, 0x01, 0xE6, 0x80, 0xFE, 0xC0, 0xEB, 0xFA];
    fs::write(&path, multiboot::image(&code)).expect("the folder for tests can be written");
    path.to_str().expect("a path of ours is text").to_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn started(words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["machine", "serve", "--memory", "16M"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// The status that it ends with in time.
fn end(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("it does not end");
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

fn client(path: &Path) -> Client<UnixStream, UnixStream> {
    let stream = connected(path);
    Client::new(stream.try_clone().expect("a copy"), stream).expect("a service")
}

#[test]
fn a_program_has_a_machine_at_its_standard_streams() {
    let folder = folder();
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).expect("a folder");
    let kept = kept.to_str().expect("text");
    let mut child = started(&["--stdio", "--kernel", &program(folder.path()), "--snapshots", kept]);
    let input = child.stdin.take().expect("a pipe");
    let output = child.stdout.take().expect("a pipe");
    let mut client = Client::new(output, input).expect("a service");
    assert_eq!(
        (&client.hello["model"], &client.hello["memory"]),
        (&json!("zen4"), &json!(16 << 20))
    );
    let mut ask = |request: Value| client.ask(request, &[]).expect("an answer").0;
    assert_eq!(ask(json!({ "do": "run", "instructions": 500 }))["stopped"], "instructions");
    let path = ask(json!({ "do": "snapshot", "file": "here" }))["path"].clone();
    let info = ask(json!({ "do": "info", "what": "lapic" }));
    assert_eq!(info["info"]["sheets"][0]["cpu"], 0);
    ask(json!({ "do": "run", "instructions": 500 }));
    let hash = ask(json!({ "do": "hash" }));
    ask(json!({ "do": "quit" }));
    assert_eq!(end(&mut child), Some(0));

    let mut child = started(&["--stdio", "--restore", path.as_str().expect("a path")]);
    let input = child.stdin.take().expect("a pipe");
    let output = child.stdout.take().expect("a pipe");
    let mut client = Client::new(output, input).expect("a service");
    client.ask(json!({ "do": "run", "instructions": 500 }), &[]).expect("an answer");
    assert_eq!(client.ask(json!({ "do": "hash" }), &[]).expect("an answer").0, hash);
    drop(client);
    assert_eq!(end(&mut child), Some(0), "a client that leaves ends it");
}

#[test]
fn a_socket_file_is_this_users_and_its_machine_stays_from_client_to_client() {
    let folder = folder();
    let path = folder.path().join("socket");
    let mut child = started(&[
        "--socket",
        path.to_str().expect("text"),
        "--kernel",
        &program(folder.path()),
        "--cpus",
        "2",
    ]);
    let mut first = client(&path);
    let mode = fs::metadata(&path).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let asked = first.ask(json!({ "do": "run", "instructions": 70 }), &[]);
    let there = asked.expect("an answer").0["instructions"].clone();
    drop(first);

    // Half a length, half a header, noise; and one that leaves while its run goes on.
    for bytes in
        [&[1, 0][..], &[50, 0, 0, 0, 0, 0, 0, 0, b'{'], &[0xFF; 64], b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut stream = connected(&path);
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let run = json!({ "do": "run", "picoseconds": u64::MAX }).to_string();
    let mut stream = connected(&path);
    stream.write_all(&(run.len() as u32).to_le_bytes()).expect("it listens");
    stream.write_all(&[0; 4]).expect("it listens");
    stream.write_all(run.as_bytes()).expect("it listens");
    drop(stream);

    let mut last = client(&path);
    let status = last.ask(json!({ "do": "status" }), &[]).expect("an answer").0;
    assert!(status["instructions"].as_u64() >= there.as_u64(), "{status}");
    let refused = last.ask(json!({ "do": "snapshot", "file": "x" }), &[]);
    assert!(
        matches!(&refused, Err(ClientError::Refused { code, .. }) if code == "snapshot"),
        "{refused:?}"
    );
    last.ask(json!({ "do": "quit" }), &[]).expect("an answer");
    assert_eq!(end(&mut child), Some(0));
    assert!(!path.exists(), "the file goes with it");
}

#[test]
fn what_cannot_be_served_is_said_before_anybody_comes() {
    let folder = folder();
    let kernel = program(folder.path());
    let nowhere: PathBuf = folder.path().join("no/socket");
    for (words, said) in [
        (vec!["--kernel", &kernel], "--socket"),
        (vec!["--stdio"], "--kernel"),
        (vec!["--stdio", "--kernel", "nosuch"], "nosuch"),
        (vec!["--stdio", "--kernel", &kernel, "--snapshots", "nosuch"], "nosuch: no such folder"),
        (vec!["--stdio", "--kernel", &kernel, "--console", "out"], "--console"),
        (vec!["--socket", nowhere.to_str().expect("text"), "--kernel", &kernel], "cannot listen"),
    ] {
        let output = started(&words).wait_with_output().expect("an end");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
