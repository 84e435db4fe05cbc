//! Export for the Perfetto UI and Chrome's trace viewer: the JSON trace event format.
//!
//! A track per processor shows when it runs, when it is halted and which guest it runs; a track
//! per virtual processor shows when that one runs, on which processor. Everything else is an
//! instant on its processor's track. Left out: counters, and arrows from cause to effect.

use crate::event::{Event, Record, VirtualCpu};
use crate::word::Shown;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Process numbers that group the tracks.
const PROCESSORS: u32 = 1;
const VIRTUAL_PROCESSORS: u32 = 2;
/// Virtual processors beyond this share the last track.
const MOST_VIRTUAL: usize = 4096;

/// What a processor's track has open.
#[derive(Clone, Copy)]
enum Open {
    Halt { since: Picoseconds },
    Guest { vcpu: VirtualCpu, since: Picoseconds },
}

/// Writes records as they come; [`Export::finish`] closes what is open.
pub struct Export<W: Write> {
    output: W,
    is_first: bool,
    open: BTreeMap<CpuIndex, Open>,
    virtual_cpus: BTreeMap<VirtualCpu, usize>,
    last: Picoseconds,
}

impl<W: Write> Export<W> {
    /// Begins the document and names the groups of tracks.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut export = Self {
            output,
            is_first: true,
            open: BTreeMap::new(),
            virtual_cpus: BTreeMap::new(),
            last: Picoseconds::ZERO,
        };
        export.name("process_name", PROCESSORS, 0, "processors")?;
        export.name("process_name", VIRTUAL_PROCESSORS, 0, "virtual processors")?;
        Ok(export)
    }

    /// In order of time for each processor.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        self.last = self.last.max(record.at);
        match record.event {
            Event::Halt { .. } => {
                self.close(record.cpu, record.at)?;
                self.open.insert(record.cpu, Open::Halt { since: record.at });
                Ok(())
            }
            Event::Entry { vcpu, .. } => {
                self.close(record.cpu, record.at)?;
                self.open.insert(record.cpu, Open::Guest { vcpu, since: record.at });
                Ok(())
            }
            Event::Wake {} => self.close(record.cpu, record.at),
            Event::SvmExit { .. } | Event::VmxExit { .. } => {
                self.close(record.cpu, record.at)?;
                self.instant(record)
            }
            // Named one by one: a new kind is not left out by accident.
            Event::InterruptSent { .. }
            | Event::InterruptAccepted { .. }
            | Event::InterruptDelivered { .. }
            | Event::EndOfInterrupt { .. }
            | Event::VirtualIpiSent { .. }
            | Event::VirtualInterruptAccepted { .. }
            | Event::VirtualInterruptDelivered { .. }
            | Event::VirtualEndOfInterrupt { .. }
            | Event::Doorbell { .. }
            | Event::Posted { .. }
            | Event::PostedTaken { .. }
            | Event::PortRead { .. }
            | Event::PortWrite { .. }
            | Event::DeviceRead { .. }
            | Event::DeviceWrite { .. }
            | Event::Exception { .. }
            | Event::MessageSignalled { .. }
            | Event::Line { .. }
            | Event::LegacyInterrupt { .. }
            | Event::PowerOff {}
            | Event::Reset {}
            | Event::DebugExit { .. }
            | Event::MsrRead { .. }
            | Event::MsrWrite { .. }
            | Event::Shutdown { .. }
            | Event::EntryRefused { .. }
            | Event::NestedRoot { .. } => self.instant(record),
        }
    }

    /// Closes open slices at the last record's time and ends the document.
    pub fn finish(mut self) -> io::Result<W> {
        let open: Vec<_> = self.open.keys().copied().collect();
        for cpu in open {
            self.close(cpu, self.last)?;
        }
        self.output.write_all(b"\n]}\n")?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn close(&mut self, cpu: CpuIndex, at: Picoseconds) -> io::Result<()> {
        match self.open.remove(&cpu) {
            None => Ok(()),
            Some(Open::Halt { since }) => self.slice(PROCESSORS, cpu.0.into(), "halted", since, at),
            Some(Open::Guest { vcpu, since }) => {
                let track = self.virtual_track(vcpu)?;
                self.slice(PROCESSORS, cpu.0.into(), &format!("guest {vcpu}"), since, at)?;
                self.slice(VIRTUAL_PROCESSORS, track, &format!("on cpu{cpu}"), since, at)
            }
        }
    }

    /// The track of a virtual processor, named when it is first seen.
    fn virtual_track(&mut self, vcpu: VirtualCpu) -> io::Result<usize> {
        if let Some(track) = self.virtual_cpus.get(&vcpu) {
            return Ok(*track);
        }
        let track = self.virtual_cpus.len();
        if track >= MOST_VIRTUAL {
            return Ok(MOST_VIRTUAL);
        }
        self.virtual_cpus.insert(vcpu, track);
        self.name("thread_name", VIRTUAL_PROCESSORS, track, &format!("vcpu {track} at {vcpu}"))?;
        Ok(track)
    }

    fn separator(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.output.write_all(separator)
    }

    fn name(&mut self, what: &str, process: u32, thread: usize, name: &str) -> io::Result<()> {
        self.separator()?;
        write!(
            self.output,
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
             \"args\":{{\"name\":\"{name}\"}}}}"
        )
    }

    fn slice(
        &mut self,
        process: u32,
        thread: usize,
        name: &str,
        since: Picoseconds,
        until: Picoseconds,
    ) -> io::Result<()> {
        self.separator()?;
        let length = until.saturating_sub(since);
        write!(
            self.output,
            "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\
             \"ts\":{},\"dur\":{}}}",
            Microseconds(since),
            Microseconds(length)
        )
    }

    fn instant(&mut self, record: &Record) -> io::Result<()> {
        self.separator()?;
        write!(
            self.output,
            "{{\"ph\":\"i\",\"s\":\"t\",\"name\":\"{}\",\"pid\":{PROCESSORS},\"tid\":{},\
             \"ts\":{},\"args\":{{",
            record.event.label(),
            record.cpu,
            Microseconds(record.at)
        )?;
        let mut result = Ok(());
        let mut separator = "";
        let output = &mut self.output;
        record.event.fields(|name, field| {
            if result.is_ok() {
                result = write!(output, "{separator}\"{name}\":\"{}\"", Shown(field));
                separator = ",";
            }
        });
        result?;
        self.output.write_all(b"}}")
    }
}

/// The format's unit, with the picoseconds behind the point.
struct Microseconds(Picoseconds);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.0 / 1_000_000, self.0.0 % 1_000_000)
    }
}
