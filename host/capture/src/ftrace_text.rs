//! Text of ftrace: the `trace` file of tracefs, `trace-cmd report`, `perf script`, and lines that
//! people paste, of kernels from 2.6.3x on.
//!
//! A line is a task, a CPU in brackets, flags, a time, an event and its text. Threads are known,
//! processes only where the `record-tgid` option was on. Reasons are words here, so the vendor
//! follows from their spelling; an early VMX kernel's lower-case `hlt` reads as AMD's.

mod event;
mod line;

use crate::Error;
use crate::sink::{Origin, Sink};
use event::Words;
use line::Line;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::kvm::Stamp;

/// A line longer than this is not a line of ftrace.
const LONGEST_LINE: u64 = 64 << 10;

/// What a text says beside its events.
#[derive(Debug, Default)]
pub struct Told {
    /// Where it was made, as far as text tells.
    pub origin: Origin,
    /// Names of exit reasons that no table has, by the number they were given.
    pub extra_names: BTreeMap<u32, String>,
    /// Names of inhibit bits that the kernel printed.
    pub inhibit_names: BTreeMap<u32, String>,
}

/// Reads all lines into a sink.
pub fn read<S: Sink>(
    mut input: impl BufRead,
    stop: &AtomicBool,
    progress: &AtomicU64,
    sink: &mut S,
) -> Result<Told, Error> {
    let mut told = Told::default();
    told.origin.format = "ftrace text".into();
    let mut words = Words::default();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut named: BTreeSet<u32> = BTreeSet::new();
    let (mut bytes, mut total, mut not_understood) = (Vec::new(), 0u64, 0u64);
    let mut latest_ns = 0;
    let mut is_anonymous = false;
    while !stop.load(Ordering::Relaxed) {
        bytes.clear();
        let read = (&mut input).take_line(LONGEST_LINE, &mut bytes)?;
        if read == 0 {
            break;
        }
        total += read;
        progress.fetch_add(read, Ordering::Relaxed);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if let Some(lost) = line::lost_events(text) {
            sink.lost(lost.0, latest_ns, lost.1);
            continue;
        }
        if let Some(release) = text.strip_prefix("# avicenna kernel=") {
            told.origin.kernel_release = Some(release.to_owned());
        }
        let Some(line) = Line::parse(text) else { continue };
        let time_ns = line.time_ns.unwrap_or(latest_ns);
        latest_ns = time_ns;
        if !names.contains(line.event) {
            names.insert(line.event.to_owned());
        }
        match words.event(line.event, line.text) {
            Some(event) => {
                is_anonymous |= line.thread.is_none();
                let thread = line.thread.unwrap_or_else(|| words.vcpu_as_thread());
                let process = line.process.unwrap_or(0);
                if !line.task.is_empty() && named.insert(thread) {
                    sink.thread_name(process, thread, line.task);
                }
                let stamp = Stamp { time_ns, process, thread, cpu: line.cpu };
                sink.event(&stamp, &event);
            }
            None if event::is_known(line.event) => not_understood += 1,
            None => {}
        }
    }
    // A recording of our own in which nothing happened is one all the same.
    let is_ours = told.origin.kernel_release.is_some();
    if !is_ours && names.iter().all(|name| !event::is_known(name)) {
        let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        let why = if names.iter().any(is_number) {
            "its times are those of a bare counter: record with trace_clock global or mono"
        } else {
            "no line of text is an event of KVM"
        };
        return Err(Error::UnknownFormat(why.into()));
    }
    if is_anonymous {
        told.origin.warnings.push(
            "lines do not name their threads: vCPUs with the same number of several virtual \
             machines are taken for one"
                .into(),
        );
    }
    if not_understood > 0 {
        told.origin.warnings.push(format!("{not_understood} lines of KVM are not understood"));
    }
    told.origin.events = names.into_iter().collect();
    told.origin.bytes = total;
    told.extra_names = words.extra_names;
    told.inhibit_names = words.inhibit_names;
    Ok(told)
}

trait TakeLine {
    fn take_line(self, most: u64, into: &mut Vec<u8>) -> std::io::Result<u64>;
}

impl<R: BufRead> TakeLine for &mut R {
    /// Reads to the end of a line, keeping at most `most` bytes of it.
    fn take_line(self, most: u64, into: &mut Vec<u8>) -> std::io::Result<u64> {
        let mut read = 0;
        loop {
            let available = self.fill_buf()?;
            if available.is_empty() {
                return Ok(read);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(available.len(), |at| at + 1);
            let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(into.len());
            into.extend_from_slice(&available[..length.min(room)]);
            self.consume(length);
            read += length as u64;
            if end.is_some() {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests;
