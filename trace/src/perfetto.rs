//! Export for the Perfetto UI: trace packets in protocol buffers.
//!
//! A track per processor shows when it runs, when it is halted and which guest it runs; a track
//! per vCPU shows when that one runs, on which processor, and between an exit and the
//! next entry what it exited for. A third group shows when the hardware delivers interrupts to a
//! vCPU, and when its hypervisor has that inhibited or off. An interprocessor
//! interrupt is a flow: an arrow from who sends it to who takes its vector, whether a local APIC or
//! a virtual one. Everything else is an instant on its processor's track. Left out: counters, and
//! what of a time is less than a nanosecond.

mod packet;
mod writer;

use crate::event::{Event, Record};
use crate::exit_reason::Isa;
use crate::symbol::Symbols;
use crate::virtual_cpu::VirtualCpu;
use arch::identity::{CpuIndex, Vector};
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use writer::{Group, Line, Packets};

/// vCPUs beyond this share the last track.
const MOST_VIRTUAL: usize = 4096;
/// Interrupts of one vector that are on their way at once; the oldest is lost to more.
const MOST_SENT: usize = 64;

/// What a processor's track has open.
#[derive(Clone, Copy)]
enum Open {
    Halt,
    Guest(VirtualCpu),
}

/// Writes records as they come; [`Export::finish`] closes what is open.
pub struct Export<W: Write> {
    packets: Packets<W>,
    symbols: Symbols,
    open: BTreeMap<CpuIndex, Open>,
    /// vCPUs that exited and have not entered since.
    outside: BTreeSet<VirtualCpu>,
    /// Those of whose virtual APIC it is known whether it is the hardware's.
    accelerations: BTreeSet<VirtualCpu>,
    virtual_cpus: BTreeMap<VirtualCpu, usize>,
    /// The flows of interrupts that were sent and not taken yet, by vector, those of guests apart.
    sent: BTreeMap<(bool, Vector), VecDeque<u64>>,
    flows: u64,
    last: Picoseconds,
}

impl<W: Write> Export<W> {
    /// Begins the trace and names the groups of tracks. Code is called as the symbols have it.
    pub fn new(output: W, symbols: Symbols) -> io::Result<Self> {
        Ok(Self {
            packets: Packets::new(output)?,
            symbols,
            open: BTreeMap::new(),
            outside: BTreeSet::new(),
            accelerations: BTreeSet::new(),
            virtual_cpus: BTreeMap::new(),
            sent: BTreeMap::new(),
            flows: 0,
            last: Picoseconds::ZERO,
        })
    }

    /// In order of time for each processor.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        self.last = self.last.max(record.at);
        let line = self.processor(record.cpu)?;
        match record.event {
            Event::Halt { .. } => {
                self.close(record.cpu, record.at)?;
                self.open.insert(record.cpu, Open::Halt);
                self.packets.begin(line, record.at, "halted")
            }
            Event::Entry { vcpu, .. } => self.enter(record, line, vcpu),
            Event::Wake {} => self.close(record.cpu, record.at),
            Event::SvmExit { vcpu, code, .. } => self.exit(record, vcpu, Isa::Svm, reason_of(code)),
            Event::VmxExit { vcpu, reason, .. } => self.exit(record, vcpu, Isa::Vmx, reason),
            Event::VirtualApic { vcpu, is_on } => self.accelerate(vcpu, is_on, record.at),
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
            | Event::NestedRoot { .. } => self.instant(record, None),
        }
    }

    /// Closes open slices at the last record's time.
    pub fn finish(mut self) -> io::Result<W> {
        let open: Vec<_> = self.open.keys().copied().collect();
        for cpu in open {
            self.close(cpu, self.last)?;
        }
        for vcpu in std::mem::take(&mut self.accelerations) {
            let line = (Group::VirtualApics, self.virtual_index(vcpu)?);
            self.packets.end(line, self.last)?;
        }
        self.packets.finish()
    }

    fn enter(&mut self, record: &Record, line: Line, vcpu: VirtualCpu) -> io::Result<()> {
        self.close(record.cpu, record.at)?;
        let own = (Group::VirtualProcessors, self.virtual_index(vcpu)?);
        // A vCPU that never enters again has no end of its last exit.
        if self.outside.remove(&vcpu) {
            self.packets.end(own, record.at)?;
        }
        self.open.insert(record.cpu, Open::Guest(vcpu));
        self.packets.begin(line, record.at, &format!("guest {vcpu}"))?;
        self.packets.begin(own, record.at, &format!("on cpu{}", record.cpu))
    }

    fn close(&mut self, cpu: CpuIndex, at: Picoseconds) -> io::Result<()> {
        let Some(open) = self.open.remove(&cpu) else { return Ok(()) };
        let line = self.processor(cpu)?;
        self.packets.end(line, at)?;
        if let Open::Guest(vcpu) = open {
            let own = (Group::VirtualProcessors, self.virtual_index(vcpu)?);
            self.packets.end(own, at)?;
        }
        Ok(())
    }

    fn exit(&mut self, record: &Record, vcpu: VirtualCpu, isa: Isa, code: u32) -> io::Result<()> {
        self.close(record.cpu, record.at)?;
        if self.outside.len() < MOST_VIRTUAL && self.outside.insert(vcpu) {
            let own = (Group::VirtualProcessors, self.virtual_index(vcpu)?);
            let name = match isa.reason_name(code) {
                Some(name) => format!("exit {name}"),
                None => format!("exit {code:#x}"),
            };
            self.packets.begin(own, record.at, &name)?;
        }
        self.instant(record, None)
    }

    /// Ends the stretch that a virtual APIC was in, and begins the next.
    fn accelerate(&mut self, vcpu: VirtualCpu, is_on: bool, at: Picoseconds) -> io::Result<()> {
        let line = (Group::VirtualApics, self.virtual_index(vcpu)?);
        if self.accelerations.contains(&vcpu) {
            self.packets.end(line, at)?;
        } else if self.accelerations.len() == MOST_VIRTUAL {
            return Ok(());
        }
        self.accelerations.insert(vcpu);
        self.packets.begin(line, at, if is_on { "active" } else { "inhibited or off" })
    }

    fn send(&mut self, record: &Record, what: (bool, Vector)) -> io::Result<()> {
        self.flows += 1;
        let waiting = self.sent.entry(what).or_default();
        if waiting.len() == MOST_SENT {
            waiting.pop_front();
        }
        waiting.push_back(self.flows);
        self.instant(record, Some(self.flows))
    }

    /// The arrow comes from the first that sent the vector, and was not heard yet. What a device
    /// sends has none.
    fn accept(&mut self, record: &Record, what: (bool, Vector)) -> io::Result<()> {
        let flow = self.sent.get_mut(&what).and_then(VecDeque::pop_front);
        self.instant(record, flow)
    }

    fn instant(&mut self, record: &Record, flow: Option<u64>) -> io::Result<()> {
        let line = self.processor(record.cpu)?;
        let place = record.event.rip().and_then(|rip| self.symbols.name(rip));
        self.packets.instant(line, record.at, &record.event, place, flow)
    }

    fn processor(&mut self, cpu: CpuIndex) -> io::Result<Line> {
        let line = (Group::Processors, usize::from(cpu.0));
        self.packets.name(line, || format!("cpu{cpu}"))?;
        Ok(line)
    }

    /// The place of a vCPU in its groups, whose tracks are named when it is first seen.
    fn virtual_index(&mut self, vcpu: VirtualCpu) -> io::Result<usize> {
        if let Some(index) = self.virtual_cpus.get(&vcpu) {
            return Ok(*index);
        }
        let index = self.virtual_cpus.len();
        if index >= MOST_VIRTUAL {
            return Ok(MOST_VIRTUAL);
        }
        self.virtual_cpus.insert(vcpu, index);
        for group in [Group::VirtualProcessors, Group::VirtualApics] {
            self.packets.name((group, index), || format!("vcpu {index} at {vcpu}"))?;
        }
        Ok(index)
    }
}

/// An exit code as KVM's tracepoint has it: 32 bits.
fn reason_of(code: ExitCode) -> u32 {
    code.into_bits() as u32
}

#[cfg(test)]
mod tests {
    use super::packet::{BEGIN, CLEARED, END, INSTANT, Trace, TrackEvent};
    use super::*;
    use arch::address::{Linear, SystemPhysical};
    use prost::Message;

    const GUEST: VirtualCpu = VirtualCpu(SystemPhysical(0x1000));

    /// An event as a reader has it.
    #[derive(Debug, Default)]
    struct Shown {
        name: String,
        /// Names of its track and of what that lies under.
        line: String,
        /// In nanoseconds.
        at: u64,
        /// Of a slice.
        length: Option<u64>,
        fields: Vec<(String, String)>,
        flows: Vec<u64>,
    }

    /// Reads packets in their order, as the format's rules have it.
    #[derive(Default)]
    struct Reader {
        lines: BTreeMap<u64, String>,
        events: BTreeMap<u64, String>,
        fields: BTreeMap<u64, String>,
        texts: BTreeMap<u64, String>,
        open: BTreeMap<u64, Vec<usize>>,
        shown: Vec<Shown>,
    }

    impl Reader {
        fn read(bytes: &[u8]) -> Vec<Shown> {
            let mut reader = Self::default();
            for packet in Trace::decode(bytes).expect("well-formed").packets {
                if let Some(track) = packet.track {
                    let parent = track.parent.map(|parent| reader.lines[&parent].clone() + "/");
                    let name = parent.unwrap_or_default() + &track.name.expect("a name");
                    reader.lines.insert(track.id.expect("a number"), name);
                }
                if packet.flags.unwrap_or(0) & CLEARED != 0 {
                    (reader.events, reader.fields, reader.texts) = Default::default();
                }
                let interned = packet.interned.unwrap_or_default();
                for (known, new) in [
                    (&mut reader.events, interned.events),
                    (&mut reader.fields, interned.fields),
                    (&mut reader.texts, interned.texts),
                ] {
                    known.extend(new.into_iter().map(|one| (one.id.unwrap(), one.name.unwrap())));
                }
                if let Some(event) = packet.event {
                    reader.take(packet.timestamp.expect("a time"), &event);
                }
            }
            assert!(reader.open.values().all(Vec::is_empty), "slices are closed");
            reader.shown
        }

        fn take(&mut self, at: u64, event: &TrackEvent) {
            let track = event.track.expect("a track");
            let open = self.open.entry(track).or_default();
            if event.kind == Some(END) {
                let begun = &mut self.shown[open.pop().expect("an open slice")];
                begun.length = Some(at - begun.at);
                return;
            }
            if event.kind == Some(BEGIN) {
                open.push(self.shown.len());
            } else {
                assert_eq!(event.kind, Some(INSTANT));
            }
            let fields = event.fields.iter().map(|field| {
                let number = field.number.map(|number| format!("{number:#x}"));
                let text = field.text.map(|text| self.texts[&text].clone());
                let name = self.fields[&field.name.expect("a name")].clone();
                (name, number.or(text).expect("a value"))
            });
            self.shown.push(Shown {
                name: self.events[&event.name.expect("a name")].clone(),
                line: self.lines[&track].clone(),
                at,
                length: None,
                fields: fields.collect(),
                flows: event.flows.clone(),
            });
        }
    }

    fn exported(events: &[(u16, u64, Event)]) -> Vec<Shown> {
        let mut symbols = Symbols::default();
        symbols.extend([(0x4000, "idle".to_owned())]);
        let mut export = Export::new(Vec::new(), symbols).expect("memory takes everything");
        for (cpu, nanoseconds, event) in events {
            let at = Picoseconds::from_nanoseconds(*nanoseconds);
            export.push(&Record { at, cpu: CpuIndex(*cpu), event: *event }).expect("memory");
        }
        Reader::read(&export.finish().expect("memory"))
    }

    fn named<'a>(events: &'a [Shown], name: &str) -> Vec<&'a Shown> {
        events.iter().filter(|event| event.name == name).collect()
    }

    fn entry() -> Event {
        Event::Entry { vcpu: GUEST, injected: 0, rip: Linear(0x4010) }
    }

    fn exit() -> Event {
        let (code, rip) = (ExitCode::Hlt, Linear(0x4010));
        Event::SvmExit { vcpu: GUEST, code, info1: 0xAB, info2: 0, interrupt_info: 0, rip }
    }

    #[test]
    fn the_time_from_an_exit_to_the_next_entry_is_a_slice_with_its_reason() {
        let end = Event::Halt { rip: Linear(0) };
        let events =
            exported(&[(0, 1000, entry()), (0, 2000, exit()), (1, 5000, entry()), (1, 6000, end)]);
        let slices = named(&events, "exit hlt");
        assert_eq!(slices.len(), 1);
        assert_eq!((slices[0].at, slices[0].length), (2000, Some(3000)));
        assert_eq!(slices[0].line, format!("vCPUs/vcpu 0 at {GUEST}"));
        let on = named(&events, "on cpu1");
        assert_eq!((on[0].at, on[0].length), (5000, Some(1000)));
        let guests = named(&events, &format!("guest {GUEST}"));
        let lines: Vec<_> = guests.iter().map(|guest| guest.line.as_str()).collect();
        assert_eq!(lines, ["processors/cpu0", "processors/cpu1"]);
        let instant = named(&events, "vm-exit")[0];
        let of = |name: &str| instant.fields.iter().find(|(known, _)| known == name);
        assert_eq!(of("at").map(|field| field.1.as_str()), Some("idle+0x10"));
        assert_eq!(of("code").map(|field| field.1.as_str()), Some("Hlt"));
        assert_eq!(of("info1").map(|field| field.1.as_str()), Some("0xab"));
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
        let inhibited = named(&events, "inhibited or off");
        assert_eq!(inhibited.len(), 1);
        assert_eq!((inhibited[0].at, inhibited[0].length), (2000, Some(3000)));
        assert!(inhibited[0].line.starts_with("AVIC or APICv/"));
        let active = named(&events, "active");
        let lengths: Vec<_> = active.iter().map(|slice| slice.length).collect();
        assert_eq!(lengths, [Some(2000), Some(1000)]);
    }

    #[test]
    fn an_interrupt_is_an_arrow_from_its_sender_to_whom_takes_it() {
        let vector = Vector(0xFB);
        let sent = Event::VirtualIpiSent { vcpu: GUEST, icr: 0x1_0000_00FB };
        let accepted = Event::VirtualInterruptAccepted { vcpu: GUEST, vector };
        let other = Event::VirtualInterruptAccepted { vcpu: GUEST, vector: Vector(0x20) };
        let events = exported(&[(0, 1000, sent), (1, 1200, other), (1, 1500, accepted)]);
        let with_flow: Vec<_> = events.iter().filter(|event| !event.flows.is_empty()).collect();
        let [from, to] = with_flow[..] else { panic!("{with_flow:?}") };
        assert_eq!(from.flows, to.flows);
        assert_eq!((from.line.as_str(), from.at), ("processors/cpu0", 1000));
        assert_eq!((to.line.as_str(), to.at), ("processors/cpu1", 1500), "not the device's");
    }

    #[test]
    fn names_that_are_forgotten_are_said_again() {
        let mut symbols = Symbols::default();
        symbols.extend([(0x1_0000, "loop".to_owned())]);
        let mut export = Export::new(Vec::new(), symbols).expect("memory takes everything");
        let most = 70_000;
        for index in 0..most {
            let event = Event::Halt { rip: Linear(0x1_0000 + index) };
            let at = Picoseconds::from_nanoseconds(index);
            export.push(&Record { at, cpu: CpuIndex(0), event }).expect("memory");
            let event = Event::VirtualIpiSent { vcpu: GUEST, icr: index };
            export.push(&Record { at, cpu: CpuIndex(0), event }).expect("memory");
        }
        let bytes = export.finish().expect("memory");
        let cleared = Trace::decode(&bytes[..]).expect("well-formed").packets;
        let cleared = cleared.iter().filter(|packet| packet.flags.unwrap_or(0) & CLEARED != 0);
        assert_eq!(Reader::read(&bytes).len() as u64, 2 * most);
        assert!((1..=3).contains(&cleared.count()));
    }
}
