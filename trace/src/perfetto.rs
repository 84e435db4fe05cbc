//! Export for the Perfetto UI and Chrome's trace viewer: the JSON trace event format.
//!
//! A track per processor shows when it runs, when it is halted and which guest it runs; a track
//! per vCPU shows when that one runs, on which processor, and between an exit and the
//! next entry what it exited for. A third group shows when the hardware delivers interrupts to a
//! vCPU, and when its hypervisor has that inhibited or off. An interprocessor
//! interrupt is a flow: an arrow from who sends it to who takes its vector, whether a local APIC or
//! a virtual one. Everything else is an instant on its processor's track. Left out: counters.

use crate::event::{Event, Record};
use crate::exit_reason::Isa;
use crate::symbol::Symbols;
use crate::virtual_cpu::VirtualCpu;
use crate::word::Shown;
use arch::identity::{CpuIndex, Vector};
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

/// Process numbers that group the tracks.
const PROCESSORS: u32 = 1;
const VIRTUAL_PROCESSORS: u32 = 2;
const VIRTUAL_APICS: u32 = 3;
/// vCPUs beyond this share the last track.
const MOST_VIRTUAL: usize = 4096;
/// Interrupts of one vector that are on their way at once; the oldest is lost to more.
const MOST_SENT: usize = 64;
/// How wide an end of an arrow is drawn: arrows lead between slices, not instants.
const ARROW_END: Picoseconds = Picoseconds::from_nanoseconds(1);

/// What a processor's track has open.
#[derive(Clone, Copy)]
enum Open {
    Halt { since: Picoseconds },
    Guest { vcpu: VirtualCpu, since: Picoseconds },
}

/// A vCPU's time outside the guest.
#[derive(Clone, Copy)]
struct Outside {
    since: Picoseconds,
    isa: Isa,
    /// The code of [`Isa::reason_name`].
    reason: u32,
}

/// Whether a virtual APIC is the hardware's, for a stretch of time.
#[derive(Clone, Copy)]
struct Acceleration {
    since: Picoseconds,
    is_on: bool,
}

/// An interrupt that was sent and not taken yet.
#[derive(Clone, Copy)]
struct Sent {
    cpu: CpuIndex,
    at: Picoseconds,
}

/// Writes records as they come; [`Export::finish`] closes what is open.
pub struct Export<W: Write> {
    output: W,
    symbols: Symbols,
    is_first: bool,
    open: BTreeMap<CpuIndex, Open>,
    outside: BTreeMap<VirtualCpu, Outside>,
    accelerations: BTreeMap<VirtualCpu, Acceleration>,
    virtual_cpus: BTreeMap<VirtualCpu, usize>,
    /// By vector, those of guests apart.
    sent: BTreeMap<(bool, Vector), VecDeque<Sent>>,
    flows: u64,
    last: Picoseconds,
}

impl<W: Write> Export<W> {
    /// Begins the document and names the groups of tracks. Code is called as the symbols have it.
    pub fn new(mut output: W, symbols: Symbols) -> io::Result<Self> {
        output.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut export = Self {
            output,
            symbols,
            is_first: true,
            open: BTreeMap::new(),
            outside: BTreeMap::new(),
            accelerations: BTreeMap::new(),
            virtual_cpus: BTreeMap::new(),
            sent: BTreeMap::new(),
            flows: 0,
            last: Picoseconds::ZERO,
        };
        export.name("process_name", PROCESSORS, 0, "processors")?;
        export.name("process_name", VIRTUAL_PROCESSORS, 0, "vCPUs")?;
        export.name("process_name", VIRTUAL_APICS, 0, "AVIC or APICv")?;
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
                self.end_exit(vcpu, record.at)?;
                self.open.insert(record.cpu, Open::Guest { vcpu, since: record.at });
                Ok(())
            }
            Event::Wake {} => self.close(record.cpu, record.at),
            Event::SvmExit { vcpu, code, .. } => {
                self.begin_exit(record, vcpu, Isa::Svm, reason_of(code))
            }
            Event::VmxExit { vcpu, reason, .. } => self.begin_exit(record, vcpu, Isa::Vmx, reason),
            Event::VirtualApic { vcpu, is_on } => {
                self.accelerate(vcpu, Some(Acceleration { since: record.at, is_on }), record.at)
            }
            Event::InterruptSent { vector, .. } => self.send(record, (false, vector)),
            Event::InterruptAccepted { vector, .. } => self.accept(record, (false, vector)),
            Event::VirtualIpiSent { icr, .. } => self.send(record, (true, Vector(icr as u8))),
            Event::VirtualInterruptAccepted { vector, .. } => self.accept(record, (true, vector)),
            // Named one by one: a new kind is not left out by accident.
            Event::InterruptDelivered { .. }
            | Event::EndOfInterrupt { .. }
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
            | Event::VmxEntryRefused { .. }
            | Event::GuestLogged { .. }
            | Event::IommuEvent { .. }
            | Event::RemappingFault { .. }
            | Event::VmxAbort { .. }
            | Event::UserPosted { .. }
            | Event::UserNotification { .. }
            | Event::UserInterruptDelivered { .. }
            | Event::NestedRoot { .. } => self.instant(record),
        }
    }

    /// Closes open slices at the last record's time and ends the document.
    pub fn finish(mut self) -> io::Result<W> {
        let open: Vec<_> = self.open.keys().copied().collect();
        for cpu in open {
            self.close(cpu, self.last)?;
        }
        let accelerated: Vec<_> = self.accelerations.keys().copied().collect();
        for vcpu in accelerated {
            self.accelerate(vcpu, None, self.last)?;
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

    fn begin_exit(
        &mut self,
        record: &Record,
        vcpu: VirtualCpu,
        isa: Isa,
        reason: u32,
    ) -> io::Result<()> {
        self.close(record.cpu, record.at)?;
        if self.outside.len() < MOST_VIRTUAL {
            self.outside.insert(vcpu, Outside { since: record.at, isa, reason });
        }
        self.instant(record)
    }

    /// A vCPU that never enters again has no end of its last exit.
    fn end_exit(&mut self, vcpu: VirtualCpu, at: Picoseconds) -> io::Result<()> {
        let Some(Outside { since, isa, reason }) = self.outside.remove(&vcpu) else {
            return Ok(());
        };
        let track = self.virtual_track(vcpu)?;
        let name = match isa.reason_name(reason) {
            Some(name) => format!("exit {name}"),
            None => format!("exit {reason:#x}"),
        };
        self.slice(VIRTUAL_PROCESSORS, track, &name, since, at)
    }

    /// Ends the stretch that a virtual APIC was in, and begins the next.
    fn accelerate(
        &mut self,
        vcpu: VirtualCpu,
        next: Option<Acceleration>,
        at: Picoseconds,
    ) -> io::Result<()> {
        let before = self.accelerations.remove(&vcpu);
        if let Some(next) = next.filter(|_| self.accelerations.len() < MOST_VIRTUAL) {
            self.accelerations.insert(vcpu, next);
        }
        let Some(Acceleration { since, is_on }) = before else { return Ok(()) };
        let track = self.virtual_track(vcpu)?;
        let name = if is_on { "active" } else { "inhibited or off" };
        self.slice(VIRTUAL_APICS, track, name, since, at)
    }

    fn send(&mut self, record: &Record, what: (bool, Vector)) -> io::Result<()> {
        let waiting = self.sent.entry(what).or_default();
        if waiting.len() == MOST_SENT {
            waiting.pop_front();
        }
        waiting.push_back(Sent { cpu: record.cpu, at: record.at });
        self.instant(record)
    }

    /// Draws the arrow from the first that sent the vector, and was not heard yet. What a device
    /// sends has none.
    fn accept(&mut self, record: &Record, what: (bool, Vector)) -> io::Result<()> {
        let sent = self.sent.get_mut(&what).and_then(VecDeque::pop_front);
        if let Some(sent) = sent {
            let (_, vector) = what;
            let name = format!("IPI {:#x}", vector.0);
            self.flows += 1;
            self.arrow_end("s", sent, &name)?;
            self.arrow_end("f", Sent { cpu: record.cpu, at: record.at }, &name)?;
        }
        self.instant(record)
    }

    fn arrow_end(&mut self, phase: &str, end: Sent, name: &str) -> io::Result<()> {
        let until = end.at.saturating_add(ARROW_END);
        self.slice(PROCESSORS, end.cpu.0.into(), name, end.at, until)?;
        self.separator()?;
        write!(
            self.output,
            "{{\"ph\":\"{phase}\",\"bp\":\"e\",\"cat\":\"ipi\",\"name\":\"{name}\",\"id\":{},\
             \"pid\":{PROCESSORS},\"tid\":{},\"ts\":{}}}",
            self.flows,
            end.cpu.0,
            Microseconds(end.at)
        )
    }

    /// The track of a vCPU, named when it is first seen.
    fn virtual_track(&mut self, vcpu: VirtualCpu) -> io::Result<usize> {
        if let Some(track) = self.virtual_cpus.get(&vcpu) {
            return Ok(*track);
        }
        let track = self.virtual_cpus.len();
        if track >= MOST_VIRTUAL {
            return Ok(MOST_VIRTUAL);
        }
        self.virtual_cpus.insert(vcpu, track);
        let name = format!("vcpu {track} at {vcpu}");
        self.name("thread_name", VIRTUAL_PROCESSORS, track, &name)?;
        self.name("thread_name", VIRTUAL_APICS, track, &name)?;
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
        if let Some(name) = record.event.rip().and_then(|rip| self.symbols.name(rip)) {
            let name = name.replace(['"', '\\'], "'");
            write!(self.output, "{separator}\"at\":\"{name}\"")?;
        }
        self.output.write_all(b"}}")
    }
}

/// An exit code as KVM's tracepoint has it: 32 bits.
fn reason_of(code: ExitCode) -> u32 {
    code.into_bits() as u32
}

/// The format's unit, with the picoseconds behind the point.
struct Microseconds(Picoseconds);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.0 / 1_000_000, self.0.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use serde_json::Value;

    const GUEST: VirtualCpu = VirtualCpu(SystemPhysical(0x1000));

    fn exported(events: &[(u16, u64, Event)]) -> Vec<Value> {
        let mut symbols = Symbols::default();
        symbols.extend([(0x4000, "idle".to_owned())]);
        let mut export = Export::new(Vec::new(), symbols).expect("memory takes everything");
        for (cpu, nanoseconds, event) in events {
            let at = Picoseconds::from_nanoseconds(*nanoseconds);
            export.push(&Record { at, cpu: CpuIndex(*cpu), event: *event }).expect("memory");
        }
        let bytes = export.finish().expect("memory");
        let mut value: Value = serde_json::from_slice(&bytes).expect("well-formed");
        match value["traceEvents"].take() {
            Value::Array(events) => events,
            other => panic!("{other}"),
        }
    }

    fn named<'a>(events: &'a [Value], phase: &str, name: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == phase && event["name"] == name).collect()
    }

    #[test]
    fn the_time_from_an_exit_to_the_next_entry_is_a_slice_with_its_reason() {
        let rip = Linear(0x4010);
        let entry = Event::Entry { vcpu: GUEST, injected: 0, rip };
        let exit = Event::SvmExit {
            vcpu: GUEST,
            code: ExitCode::Hlt,
            info1: 0,
            info2: 0,
            interrupt_info: 0,
            rip,
        };
        let events = exported(&[(0, 1000, entry), (0, 2000, exit), (1, 5000, entry)]);
        let slices = named(&events, "X", "exit hlt");
        assert_eq!(slices.len(), 1);
        assert_eq!((&slices[0]["ts"], &slices[0]["dur"]), (&2.0.into(), &3.0.into()));
        assert_eq!(slices[0]["pid"], VIRTUAL_PROCESSORS);
        assert_eq!(named(&events, "i", "vm-exit")[0]["args"]["at"], "idle+0x10");
    }

    #[test]
    fn a_stretch_without_the_hardware_s_help_is_a_slice() {
        let state = |is_on| Event::VirtualApic { vcpu: GUEST, is_on };
        let end = Event::PowerOff {};
        let events = exported(&[
            (0, 0, state(true)),
            (1, 2000, state(false)),
            (0, 5000, state(true)),
            (0, 6000, end),
        ]);
        let inhibited = named(&events, "X", "inhibited or off");
        assert_eq!(inhibited.len(), 1);
        assert_eq!((&inhibited[0]["ts"], &inhibited[0]["dur"]), (&2.0.into(), &3.0.into()));
        assert_eq!(inhibited[0]["pid"], VIRTUAL_APICS);
        let active = named(&events, "X", "active");
        assert_eq!(active.iter().map(|slice| &slice["dur"]).collect::<Vec<_>>(), [2.0, 1.0]);
    }

    #[test]
    fn an_interrupt_is_an_arrow_from_its_sender_to_whom_takes_it() {
        let vector = Vector(0xFB);
        let sent = Event::VirtualIpiSent { vcpu: GUEST, icr: 0x1_0000_00FB };
        let accepted = Event::VirtualInterruptAccepted { vcpu: GUEST, vector };
        let other = Event::VirtualInterruptAccepted { vcpu: GUEST, vector: Vector(0x20) };
        let events = exported(&[(0, 1000, sent), (1, 1200, other), (1, 1500, accepted)]);
        let (starts, ends) = (named(&events, "s", "IPI 0xfb"), named(&events, "f", "IPI 0xfb"));
        assert_eq!((starts.len(), ends.len()), (1, 1));
        assert_eq!(starts[0]["id"], ends[0]["id"]);
        assert_eq!((&starts[0]["tid"], &starts[0]["ts"]), (&0.into(), &1.0.into()));
        assert_eq!((&ends[0]["tid"], &ends[0]["ts"]), (&1.into(), &1.5.into()));
        // Both ends lie in slices, which arrows need.
        assert_eq!(named(&events, "X", "IPI 0xfb").len(), 2);
        assert!(events.iter().all(|event| event["name"] != "IPI 0x20"), "a device's");
    }
}
