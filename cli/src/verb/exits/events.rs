//! A recording of every event: the text of ftrace.

use super::beside::End;
use super::watch::origin;
use anyhow::Context as _;
use capture::live::{Rung, text};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use tracefs::Instance;

/// How much may be lost by whatever kills the recorder.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How long the kernel is given to hand over what its buffers still hold.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Instance with the events switched on, or why there is none.
pub fn instance() -> anyhow::Result<Instance> {
    text::start().context("events cannot be read")
}

/// Writes the text, whole lines of it, so that it stays readable whatever ends the recording.
/// Returns the number of events.
pub fn record(
    instance: &Instance,
    out: &mut impl Write,
    process: Option<u32>,
    end: &mut End<'_>,
) -> anyhow::Result<u64> {
    remark!("avicenna: {}, {}", Rung::Text.name(), Rung::Text.cost());
    let about = origin(Rung::Text);
    writeln!(out, "# avicenna kernel={}", about.kernel_release.unwrap_or_default())?;
    let received = read_beside(instance.pipe()?)?;
    let only = process.map(|process| format!("({process:>7})"));
    let mut carried: Vec<u8> = Vec::new();
    let (mut lines, mut flushed) = (0u64, Instant::now());
    while !end.has_come() {
        if let Ok(bytes) = received.recv_timeout(Duration::from_millis(50)) {
            lines += write_lines(&mut carried, &bytes, only.as_deref(), out)?;
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            out.flush()?;
            flushed = Instant::now();
        }
    }
    instance.stop();
    while let Ok(bytes) = received.recv_timeout(LAST_WORDS) {
        lines += write_lines(&mut carried, &bytes, only.as_deref(), out)?;
    }
    out.write_all(&carried)?;
    out.flush()?;
    Ok(lines)
}

/// The pipe blocks while nothing happens, so it is read beside the clock; the thread ends with the
/// process or with the instance.
fn read_beside(pipe: File) -> anyhow::Result<Receiver<Vec<u8>>> {
    let (send, receive) = sync_channel::<Vec<u8>>(1024);
    let reader = std::thread::Builder::new().spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 20, pipe);
        loop {
            let length = match reader.fill_buf() {
                Ok(bytes) if !bytes.is_empty() => {
                    let length = bytes.len();
                    if send.send(bytes.to_vec()).is_err() {
                        return;
                    }
                    length
                }
                _ => return,
            };
            reader.consume(length);
        }
    });
    reader.context("no thread that reads the events")?;
    Ok(receive)
}

/// Writes the whole lines there are, keeping what is not whole; returns how many.
fn write_lines(
    carried: &mut Vec<u8>,
    bytes: &[u8],
    only: Option<&str>,
    out: &mut impl Write,
) -> std::io::Result<u64> {
    carried.extend_from_slice(bytes);
    let whole = carried.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut count = 0;
    for line in carried[..whole].split_inclusive(|byte| *byte == b'\n') {
        let is_wanted = only
            .is_none_or(|only| line.windows(only.len()).any(|window| window == only.as_bytes()));
        if is_wanted {
            out.write_all(line)?;
            count += 1;
        }
    }
    carried.drain(..whole);
    Ok(count)
}
