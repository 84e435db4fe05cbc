//! A debugger at a machine: events to stop at, what is told of stops, and who wrote something; and
//! what the lab refuses before it boots anything.

mod multiboot;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Multiboot image: al counts, goes to port 80h and to 200000h; at 5 the run ends by port F4h.
fn program() -> Vec<u8> {
    multiboot::image(&[
        0x31, 0xC0, // 20 xor eax, eax
        0xFE, 0xC0, // 22 inc al
        0xE6, 0x80, // 24 out 80h, al
        0xA2, 0x00, 0x00, 0x20, 0x00, // 26 mov [200000h], al
        0x3C, 0x05, // 2b cmp al, 5
        0x75, 0xF3, // 2d jne 22
        0xE6, 0xF4, // 2f out f4h, al
    ])
}

/// A debugger reduced to its packets.
struct Client {
    stream: UnixStream,
    /// What it was told to print.
    said: String,
}

impl Client {
    fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        write!(self.stream, "${packet}#{sum:02x}").expect("the machine listens");
    }

    fn packet(&mut self) -> String {
        let (mut byte, mut text) = ([0], String::new());
        while byte[0] != b'#' {
            self.stream.read_exact(&mut byte).expect("an answer");
            match byte[0] {
                b'$' => text.clear(),
                b'+' | b'#' => {}
                other => text.push(other.into()),
            }
        }
        self.stream.read_exact(&mut [0; 2]).expect("a sum");
        // Behind the last answer nobody listens.
        let _ = self.stream.write_all(b"+");
        expanded(&text)
    }

    /// The answer to a packet; what it has printed comes into `said`.
    fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.said.clear();
        loop {
            let text = self.packet();
            let Some(digits) = text.strip_prefix('O').filter(|rest| *rest != "K") else {
                return text;
            };
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
            self.said.extend((0..digits.len() / 2).map(|at| char::from(byte(2 * at))));
        }
    }

    fn command(&mut self, text: &str) -> String {
        let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.ask(&format!("qRcmd,{digits}")), "OK", "{text}");
        self.said.clone()
    }
}

/// Without runs of a character, which are written as a star and how many there are, plus 29.
fn expanded(text: &str) -> String {
    let (mut whole, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match (letter, whole.chars().last()) {
            ('*', Some(last)) => {
                let more = letters.next().map_or(0, |count| (count as usize).saturating_sub(29));
                whole.extend(std::iter::repeat_n(last, more));
            }
            _ => whole.push(letter),
        }
    }
    whole
}

fn avicenna() -> Command {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
}

/// A machine that waits at a socket file, and its debugger.
fn debugged(folder: &std::path::Path) -> (Child, Client) {
    let (image, socket) = (folder.join("image"), folder.join("gdb"));
    fs::write(&image, program()).expect("a writable folder");
    let mut child = avicenna()
        .args(["machine", "run", "--quiet", "--kernel"])
        .arg(&image)
        .arg("--gdb")
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    while !line.contains("waiting for a debugger") {
        line.clear();
        assert!(said.read_line(&mut line).expect("text") > 0, "the program ended");
    }
    let stream = UnixStream::connect(&socket).expect("the machine waits");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut client = Client { stream, said: String::new() };
    client.ask("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+");
    (child, client)
}

#[test]
fn a_debugger_stops_at_events_both_ways_and_is_told_who_wrote_something() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let (mut child, mut client) = debugged(folder.path());
    let said = client.command("break out eighty");
    assert!(said.starts_with("error: port=eighty: must be a number"), "{said}");
    assert_eq!(client.command("break out 0x80 cpu=0"), "event 0\n");
    for value in 1..=4 {
        assert!(client.ask("vCont;c").starts_with("T05thread:p01.01;"));
        let wanted = format!("value={value:#x}");
        assert!(client.said.starts_with("event: ") && client.said.contains(&wanted), "{client:?}");
    }
    let why = client.command("why 0x200000 1");
    assert!(
        why.contains("the instruction at 0x100026 of processor 0") && why.contains("0x2 -> 0x3"),
        "{why}"
    );
    let why = client.command("why physical:0x200000 1");
    assert!(why.contains("the instruction at 0x100026 of processor 0"), "{why}");
    assert!(client.ask("bc").starts_with("T05thread:p01.01;"));
    assert!(client.said.contains("value=0x4"), "{client:?}");
    assert!(client.ask("bc").starts_with("T05thread:p01.01;"));
    assert!(client.said.contains("value=0x3"), "{client:?}");
    assert!(client.command("info lapic").contains("TPR"));
    assert_eq!(client.command("delete"), "");
    assert_eq!(client.ask("vCont;c"), "W0b");
    assert_eq!(child.wait().expect("it ends").code(), Some(11));
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.said)
    }
}

#[test]
fn the_lab_refuses_what_it_cannot_debug_before_it_boots() {
    let folder = tempfile::tempdir().expect("a writable folder");
    for (words, why) in [
        (
            &["exec", "--gdb", "./gdb", "--break", "nothing", "--", "dmesg"][..],
            "no event \"nothing\"",
        ),
        (
            &["exec", "--gdb", "./gdb", "--break", "vmexit nothing", "--", "dmesg"],
            "no exit \"nothing\"",
        ),
        (&["exec", "--break", "post", "--", "dmesg"], "--gdb <ADDR>"),
        (&["exec", "-i", "--gdb", "./gdb", "--", "dmesg"], "cannot be used with"),
        (&["run", "--gdb", "./gdb"], "--gdb: one machine can be debugged, and these are 2 arms"),
    ] {
        let run = avicenna()
            .arg("lab")
            .args(words)
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&run.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(why), "{words:?}: {said}");
        assert_eq!(run.status.code(), Some(2), "{words:?}");
    }
    assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none(), "nothing is kept");
}
