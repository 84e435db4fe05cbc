//! Commands in guests: by ssh, by libvirt's guest agent, by a shell on a serial line; and here.

use super::options::Options;
use super::said::Said;
use super::undo::run as run_program;
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Output of one command at most.
const MOST_BYTES: usize = 64 << 20;
/// Commands that were given to serial lines by this process.
static TRIES: AtomicU32 = AtomicU32::new(0);

/// Runs a shell's command in a guest to its end; what it wrote to standard output.
pub fn run(options: &Options, machine: &str, command: &str, limit: Duration) -> Said<String> {
    if let Some(target) = &options.ssh {
        let target = target.replace("%VM", machine);
        let mut ssh = Command::new("ssh");
        ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", &target, command]);
        return to_end(ssh, limit);
    }
    if let Some(socket) = &options.serial {
        return by_serial(&socket.replace("%VM", machine), command, limit);
    }
    by_agent(machine, command, limit)
}

/// Runs a shell's command on this host, with names and values in its environment.
pub fn locally(command: &str, words: &[(String, String)], limit: Duration) -> Said<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).envs(words.iter().cloned());
    to_end(shell, limit)
}

fn to_end(mut command: Command, limit: Duration) -> Said<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                let _ = stream.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let output = reader(child.stdout.take().map(|one| Box::new(one) as Box<dyn Read + Send>));
    let errors = reader(child.stderr.take().map(|one| Box::new(one) as Box<dyn Read + Send>));
    let (output, errors) = match (output, errors) {
        (Ok(output), Ok(errors)) => (output, errors),
        (Err(error), _) | (_, Err(error)) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{name}: no thread that reads what it writes: {error}"));
        }
    };
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < limit => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name}: not at its end after {} s", limit.as_secs()));
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    };
    let output = output.join().unwrap_or_default();
    let errors = errors.join().unwrap_or_default();
    if status.success() { Ok(output) } else { Err(format!("{name}: {status}, {}", errors.trim())) }
}

/// A shell waits on the line; its prompt and echo are not part of what is taken.
fn by_serial(socket: &str, command: &str, limit: Duration) -> Said<String> {
    let failed = |error: std::io::Error| format!("{socket}: {error}");
    let mut line = UnixStream::connect(socket).map_err(failed)?;
    line.set_read_timeout(Some(LOOK)).map_err(failed)?;
    // What an earlier try wrote may be answered late: each has marks of its own.
    let mark = TRIES.fetch_add(1, Ordering::Relaxed).to_string();
    let mark = format!("{}-{mark}", std::process::id());
    // Ctrl-C first: of what was written before the shell read, it may have got a part, with a
    // quotation mark that nothing ends. The marks are put together by the shell, so that its echo
    // does not have them.
    let text =
        format!("\x03\necho avicenna-\\begins-{mark}; {command}; echo avicenna-\\ends-{mark} $?\n");
    line.write_all(text.as_bytes()).map_err(failed)?;
    let (mut bytes, mut chunk, began) = (Vec::new(), [0; 4096], Instant::now());
    while began.elapsed() < limit && bytes.len() < MOST_BYTES {
        match line.read(&mut chunk) {
            Ok(0) => return Err(format!("{socket}: the line was closed")),
            Ok(length) => bytes.extend(&chunk[..length]),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(output) = between(&String::from_utf8_lossy(&bytes), &mark) {
            return output;
        }
    }
    Err(format!("{socket}: not at its end after {} s", limit.as_secs()))
}

/// What stands between the marks, once both are there.
fn between(text: &str, mark: &str) -> Option<Said<String>> {
    let (_, rest) = text
        .split_once(&format!("avicenna-begins-{mark}\r"))
        .or_else(|| text.split_once(&format!("avicenna-begins-{mark}\n")))?;
    let (output, end) = rest.split_once(&format!("avicenna-ends-{mark} "))?;
    let (status, _) = end.split_once('\n')?;
    let output = output.trim_start_matches(['\r', '\n']).replace("\r\n", "\n");
    Some(match status.trim() {
        "0" => Ok(output),
        status => Err(format!("the command ended with status {status}: {}", output.trim())),
    })
}

fn by_agent(machine: &str, command: &str, limit: Duration) -> Said<String> {
    let ask = |request: Json| -> Said<Json> {
        let words = ["virsh", "qemu-agent-command", machine, &request.to_string()];
        let answer = run_program(&words.map(str::to_owned))?;
        let answer: Json = serde_json::from_str(&answer)
            .map_err(|error| format!("the guest agent of {machine}: {error}"))?;
        Ok(answer["return"].clone())
    };
    let arguments = json!({"path": "/bin/sh", "arg": ["-c", command], "capture-output": true});
    let begun = ask(json!({"execute": "guest-exec", "arguments": arguments}))?;
    let began = Instant::now();
    loop {
        let state =
            ask(json!({"execute": "guest-exec-status", "arguments": {"pid": begun["pid"]}}))?;
        if state["exited"] == true {
            let output = decoded(state["out-data"].as_str().unwrap_or_default());
            return match state["exitcode"].as_i64() {
                Some(0) => Ok(output),
                code => Err(format!("the command in {machine} ended with status {code:?}")),
            };
        }
        if began.elapsed() > limit {
            return Err(format!("{machine}: not at its end after {} s", limit.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Base64, as the guest agent sends output.
fn decoded(text: &str) -> String {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for six in text.bytes().filter_map(value) {
        (bits, count) = (bits << 6 | u32::from(six), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_output_is_decoded() {
        for (text, expected) in [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJjCg==", "abc\n")] {
            assert_eq!(decoded(text), expected);
        }
    }

    #[test]
    fn what_stands_between_the_marks_is_the_output() {
        let echo = "# echo avicenna-\\begins-1-2; true; echo avicenna-\\ends-1-2 $?\r\n";
        let late = "avicenna-begins-1-1\nlate\navicenna-ends-1-1 0\n";
        for (text, expected) in [
            ("avicenna-begins-1-2\r\n7\r\navicenna-ends-1-2 0\r\n# ", Some(Ok("7\n".to_owned()))),
            ("avicenna-begins-1-2\n7\n", None),
            ("avicenna-begins-1-2\nno\navicenna-ends-1-2 1\n", Some(Err(()))),
        ] {
            let found = between(&format!("{late}{echo}{text}"), "1-2");
            match (found, expected) {
                (Some(Ok(found)), Some(Ok(expected))) => assert_eq!(found, expected),
                (Some(Err(_)), Some(Err(()))) | (None, None) => {}
                (found, _) => panic!("{found:?}"),
            }
        }
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let word = [("A".to_owned(), "a".to_owned())];
        assert_eq!(locally("echo $A; exit 0", &word, Duration::from_secs(5)), Ok("a\n".into()));
        assert!(locally("exit 3", &[], Duration::from_secs(5)).is_err_and(|why| why.contains('3')));
        let error = locally("sleep 60", &[], Duration::from_millis(100)).expect_err("too long");
        assert!(error.contains("not at its end"), "{error}");
    }
}
