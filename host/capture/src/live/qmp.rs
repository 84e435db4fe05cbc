//! KVM's counters as a virtual machine's own monitor tells them: QEMU 7.1 or newer, through the
//! socket that `-qmp unix:SOCKET,server=on,wait=off` makes. Needs no right but that to the socket.
//! [QMP "query-stats"]

use super::statistics::COUNTERS;
use crate::Error;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest answer that is read.
const LONGEST: usize = 16 << 20;
/// Events that may come before an answer.
const MOST_EVENTS: usize = 1000;
/// The monitor answers at once unless it hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// A monitor that is asked again and again.
pub struct Monitor {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
    patience: Duration,
}

impl Monitor {
    /// Connects to a QEMU monitor's socket and agrees on capabilities. Fails where nothing
    /// listens or no answer comes in time.
    pub fn connect(socket: &Path) -> Result<Self, Error> {
        let at = |source| Error::File { path: socket.to_owned(), source };
        let output = UnixStream::connect(socket).map_err(at)?;
        output.set_read_timeout(Some(PATIENCE))?;
        Self::over(Box::new(output.try_clone()?), Box::new(output))
    }

    /// The same over any line to a monitor.
    pub fn over(input: Box<dyn Read + Send>, output: Box<dyn Write + Send>) -> Result<Self, Error> {
        let mut monitor = Self { input: BufReader::new(input), output, patience: PATIENCE };
        monitor.line()?;
        monitor.ask(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    /// Counters as they stand, summed over the machine and its vCPUs.
    pub fn read(&mut self) -> Result<BTreeMap<&'static str, u64>, Error> {
        let mut sums = BTreeMap::new();
        for target in ["vm", "vcpu"] {
            let question = json!({
                "execute": "query-stats",
                "arguments": { "target": target, "providers": [{ "provider": "kvm" }] },
            });
            add(&self.ask(&question)?, &mut sums);
        }
        Ok(sums)
    }

    fn ask(&mut self, question: &Value) -> Result<Value, Error> {
        let mut text = serde_json::to_vec(question).map_err(std::io::Error::other)?;
        text.push(b'\n');
        self.output.write_all(&text)?;
        for _ in 0..MOST_EVENTS {
            let answer = self.line()?;
            if let Some(error) = answer.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason given").to_owned();
                return Err(Error::Unsupported(format!("the monitor refuses: {why}")));
            }
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
        }
        Err(Error::Unsupported("the monitor sends events and no answer".into()))
    }

    /// The next line. Patience is that for the whole of it: each byte may come in time, and the
    /// line never end.
    fn line(&mut self) -> Result<Value, Error> {
        let (began, mut line) = (Instant::now(), Vec::new());
        while line.last() != Some(&b'\n') {
            let piece = self.input.fill_buf()?;
            if piece.is_empty() && line.is_empty() {
                return Err(Error::Unsupported(
                    "the monitor hung up: it talks to one client at a time".into(),
                ));
            }
            if piece.is_empty() || line.len() > LONGEST {
                break;
            }
            if began.elapsed() > self.patience {
                return Err(Error::Unsupported("the monitor does not come to an end".into()));
            }
            let length = piece.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let length = length.unwrap_or(piece.len());
            line.extend_from_slice(&piece[..length]);
            self.input.consume(length);
        }
        serde_json::from_slice(&line)
            .map_err(|error| Error::malformed("answer of a monitor", 0, error.to_string()))
    }
}

/// Answers are lists of providers, or of vCPUs, each with its statistics.
fn add(answer: &Value, sums: &mut BTreeMap<&'static str, u64>) {
    for source in answer.as_array().into_iter().flatten() {
        for one in source["stats"].as_array().into_iter().flatten() {
            let named = COUNTERS.iter().find(|row| one["name"].as_str() == Some(row.0));
            if let (Some((_, meaning)), Some(value)) = (named, one["value"].as_u64()) {
                let sum: &mut u64 = sums.entry(meaning).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What a monitor says to a client that asks for statistics, with an event in between.
    const ANSWERS: [&str; 4] = [
        r#"{"QMP": {"version": {}, "capabilities": []}}"#,
        r#"{"return": {}}"#,
        r#"{"event": "RESUME", "data": {}}
{"return": [{"provider": "kvm", "stats": [{"name": "max_mmu_page_hash_collisions", "value": 3}]}]}"#,
        r#"{"return": [
            {"provider": "kvm", "qom-path": "/0", "stats": [{"name": "exits", "value": 40},
                {"name": "halt_poll_success_hist", "value": [1, 2]}]},
            {"provider": "kvm", "qom-path": "/1", "stats": [{"name": "exits", "value": 2}]}]}"#,
    ];

    #[test]
    fn counters_are_summed_over_vcpus() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut questions = BufReader::new(stream.try_clone().expect("a stream"));
            let mut asked = String::new();
            for (index, answer) in ANSWERS.into_iter().enumerate() {
                if index > 0 {
                    questions.read_line(&mut asked).expect("a question");
                }
                // An answer is one line; an event before it, one of its own.
                let answer = match answer.split_once("}}\n") {
                    Some((event, rest)) => format!("{event}}}}}\n{}\n", rest.replace('\n', "")),
                    None => format!("{}\n", answer.replace('\n', "")),
                };
                stream.write_all(answer.as_bytes()).expect("a client");
            }
            asked
        });
        let sums = Monitor::connect(&path).and_then(|mut monitor| monitor.read()).expect("answers");
        assert_eq!(sums, BTreeMap::from([("exits", 42)]));
        assert!(peer.join().expect("no panic").contains("query-stats"));
    }

    /// A monitor whose every byte comes, and whose line never ends.
    struct Drips;

    impl Read for Drips {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            std::thread::sleep(Duration::from_millis(1));
            buffer[0] = b' ';
            Ok(1)
        }
    }

    #[test]
    fn answer_without_an_end_is_not_waited_for() {
        let input = BufReader::new(Box::new(Drips) as Box<dyn Read + Send>);
        let patience = Duration::from_millis(20);
        let mut monitor = Monitor { input, output: Box::new(std::io::sink()), patience };
        let error = monitor.line().expect_err("no line");
        assert!(error.to_string().contains("does not come to an end"), "{error}");
    }

    #[test]
    fn what_is_no_answer_counts_nothing() {
        let mut sums = BTreeMap::new();
        for text in ["null", "[{}]", r#"[{"stats": 3}]"#, r#"[{"stats": [{"name": 1}]}]"#] {
            add(&serde_json::from_str(text).expect("JSON"), &mut sums);
        }
        assert!(sums.is_empty());
    }
}
