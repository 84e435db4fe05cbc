//! Peers that talk nonsense at every socket file that a machine listens at: random bytes, requests
//! that are cut or changed, and peers that leave in the middle. The program neither ends by it, nor
//! hangs, nor grows. `AVICENNA_SOCKET_REQUESTS` sets how many come to each, `AVICENNA_SOCKET_SEED`
//! the first seed.

mod multiboot;

use bus::Random;
use service::message::Message;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REQUESTS: u64 = 3_000;
/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A peer whose words nobody takes leaves after so long: who runs the machine looks for an
/// interrupt alone.
const UNHEARD: Duration = Duration::from_millis(100);
/// Requests before a peer leaves.
const MOST_IN_A_ROW: u64 = 400;
/// Bytes of memory that the program may have at the end.
const MEMORY: u64 = 256 << 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Who listens, and what a peer that means it would send.
struct Listener {
    /// Words behind `avicenna machine` but for the kernel, SOCKET standing for the file.
    words: &'static str,
    requests: Vec<Vec<u8>>,
    /// The machine goes on alone when its peer has left.
    has_one_peer: bool,
    /// What is answered to whom, at the end.
    proof: (Vec<u8>, &'static str),
}

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| format!("{text}\n").into_bytes()).collect()
}

fn packet(text: &str) -> Vec<u8> {
    let sum = text.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
    format!("${text}#{sum:02x}").into_bytes()
}

fn message(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Message { header: text.into(), payload: vec![0xA5; 8] };
    message.write(&mut bytes).expect("a message");
    bytes
}

struct Running {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(listener: &Listener) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (image, socket) = (folder.path().join("image"), folder.path().join("socket"));
        // mov al, 1; then out 80h, al; inc al; and back
        let code = [0xB0, 0x01, 0xE6, 0x80, 0xFE, 0xC0, 0xEB, 0xFA];
        fs::write(&image, multiboot::image(&code)).expect("a writable folder");
        let words = listener.words.replace("SOCKET", socket.to_str().expect("text"));
        let child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .arg("machine")
            .args(words.split_whitespace())
            .args(["--memory", "16M", "--kernel"])
            .arg(&image)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Self { child, folder }
    }

    /// A connection; `None` if the program has ended, as a request may have asked.
    fn connect(&mut self) -> Option<UnixStream> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(stream) = UnixStream::connect(self.folder.path().join("socket")) {
                stream.set_write_timeout(Some(UNHEARD)).expect("a timeout");
                return Some(stream);
            }
            if !self.survives() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nobody listens");
    }

    /// Whether the program runs; it has not come to grief.
    fn survives(&mut self) -> bool {
        let Some(status) = self.child.try_wait().expect("a child") else { return true };
        assert_ne!(status.code(), Some(101), "a panic");
        assert_eq!(status.signal(), None);
        false
    }

    /// Bytes of memory in use.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let pages: u64 = text.split(' ').nth(1).map_or(0, |word| word.parse().expect("a number"));
        pages * 4096
    }
}

/// One request, or something like it.
fn nonsense(random: &mut Random, requests: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = requests[random.below(requests.len() as u64) as usize].clone();
    let place = random.below(bytes.len() as u64) as usize;
    match random.below(8) {
        0 => return (0..random.below(64)).map(|_| random.next() as u8).collect(),
        1 | 2 => bytes.truncate(place),
        3 | 4 => bytes[place] = random.next() as u8,
        5 => bytes.extend((0..random.below(16)).map(|_| random.next() as u8)),
        6 if random.one_in(64) => bytes = bytes.repeat(200),
        _ => {}
    }
    bytes
}

/// Takes what has been answered, that nobody has to wait for this peer; whether it may go on.
fn take(stream: &mut UnixStream) -> bool {
    let mut bytes = [0; 64 << 10];
    stream.set_nonblocking(true).expect("a mode");
    let goes_on = loop {
        match stream.read(&mut bytes) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == ErrorKind::WouldBlock,
        }
    };
    stream.set_nonblocking(false).expect("a mode");
    goes_on
}

/// Says no more, and waits until all has been heard, or for as long as nothing is answered.
fn hear_out(mut stream: UnixStream) {
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(UNHEARD)).expect("a timeout");
    let mut bytes = [0; 64 << 10];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

fn answers(stream: &mut UnixStream, (request, answer): &(Vec<u8>, &str)) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    stream.write_all(request).expect("it listens");
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !said.contains(answer) {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => said += &String::from_utf8_lossy(&bytes[..count]),
            Err(_) => {}
        }
    }
    said.contains(answer)
}

fn hammer(listener: &Listener) {
    let mut random = Random(number("AVICENNA_SOCKET_SEED", 1));
    let (mut left, mut ends) = (number("AVICENNA_SOCKET_REQUESTS", REQUESTS), 0);
    let mut running = Running::start(listener);
    while left > 0 {
        let Some(mut stream) = running.connect() else {
            ends += 1;
            running = Running::start(listener);
            continue;
        };
        for _ in 0..random.below(MOST_IN_A_ROW) {
            left = left.saturating_sub(1);
            let bytes = nonsense(&mut random, &listener.requests);
            // A peer may be left for what it said.
            if stream.write_all(&bytes).is_err() || !take(&mut stream) {
                break;
            }
        }
        if random.one_in(2) {
            hear_out(stream);
        }
        if listener.has_one_peer {
            assert!(running.memory() < MEMORY, "{} bytes of memory", running.memory());
            running.survives();
            running = Running::start(listener);
        }
    }
    assert!(running.memory() < MEMORY, "{} bytes of memory", running.memory());
    if let Some(mut stream) = running.connect() {
        assert!(answers(&mut stream, &listener.proof), "{}: no answer", listener.words);
    }
    eprintln!("{}: ended {ends} times as it was asked to", listener.words);
}

#[test]
fn nonsense_at_qemu_s_machine_protocol_is_answered_or_left() {
    hammer(&Listener {
        words: "run --quiet --qmp SOCKET",
        requests: lines(&[
            r#"{"execute":"qmp_capabilities"}"#,
            r#"{"execute":"query-status","id":1}"#,
            r#"{"execute":"query-version"}"#,
            r#"{"execute":"query-commands"}"#,
            r#"{"execute":"stop"}"#,
            r#"{"execute":"cont"}"#,
            r#"{"execute":"human-monitor-command","arguments":{"command-line":"info lapic"}}"#,
            r#"{"execute":"human-monitor-command","arguments":{"command-line":"info registers"}}"#,
        ]),
        has_one_peer: false,
        proof: (lines(&[r#"{"execute":"qmp_capabilities"}"#]).concat(), "\"return\""),
    });
}

#[test]
fn nonsense_at_the_monitor_is_answered_or_left() {
    hammer(&Listener {
        words: "run --quiet --monitor=SOCKET",
        requests: lines(&[
            "help",
            "info lapic",
            "info tlb",
            "info pir 3",
            "step 10",
            "until 5us",
            "events",
            "stop",
            "cont",
            "x /4 0x100000",
        ]),
        has_one_peer: false,
        proof: (lines(&["stop", "info lapic"]).concat(), "APIC"),
    });
}

#[test]
fn nonsense_at_the_service_is_refused() {
    hammer(&Listener {
        words: "serve --socket SOCKET",
        requests: [
            r#"{"do":"hello","version":1}"#,
            r#"{"do":"run","instructions":100}"#,
            r#"{"do":"info","what":"lapic"}"#,
            r#"{"do":"read","at":1048576,"bytes":64}"#,
            r#"{"do":"write","at":1048576,"bytes":8}"#,
            r#"{"do":"mark"}"#,
            r#"{"do":"restore","mark":0}"#,
            r#"{"do":"hash"}"#,
            r#"[{"do":"hash"},{"do":"hash"}]"#,
        ]
        .map(message)
        .to_vec(),
        has_one_peer: false,
        proof: (message(r#"{"do":"hello","version":1}"#), "zen4"),
    });
}

#[test]
fn nonsense_of_a_debugger_is_answered_or_left() {
    hammer(&Listener {
        words: "run --quiet --gdb SOCKET",
        requests: [
            "qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+",
            "?",
            "g",
            "Hg0",
            "m100020,40",
            "M100200,4:00112233",
            "P0=0011223344556677",
            "vCont?",
            "vCont;s:p1.1",
            "vCont;c",
            "Z0,100022,1",
            "z0,100022,1",
            "Z2,200000,4",
            "qRcmd,68656c70",
            "qRcmd,6576656e7473",
            "qXfer:features:read:target.xml:0,ffb",
            "bs",
            "T1",
            "\u{3}",
        ]
        .map(|text| if text == "\u{3}" { vec![3] } else { packet(text) })
        .to_vec(),
        has_one_peer: true,
        proof: (packet("qSupported:swbreak+"), "PacketSize"),
    });
}
