//! What a debugged machine is looked at for: accesses of watched bytes by instructions and by
//! hardware, and events; and what there is to say of them.

use super::machine::DebuggedMachine;
use super::{Stop, StopPoint, WatchedAccess};
use arch::address::{Linear, SystemPhysical};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use bus::{Author, HardwareWrite, Initiator};
use cpu::Range;
use trace::{EventGoal, Record};

/// Records told of one stop.
const MOST_TOLD: usize = 4;

/// What is looked for besides instructions, and what was seen.
#[derive(Default)]
pub(super) struct Looks {
    pub events: Vec<EventGoal>,
    /// A word of memory whose changes count, by instructions too.
    pub word: Option<(SystemPhysical, u64)>,
    /// Records of what happened are kept for this debugger alone.
    pub owns_records: bool,
    /// So many records have been looked at.
    heard: usize,
    /// What there is to tell.
    pub words: String,
}

impl DebuggedMachine<'_> {
    /// Has the processors look at all points, and at no others.
    pub(super) fn observe(&mut self) {
        self.is_behind = false;
        let ranges: Vec<Range> = self.watches().map(|(range, _)| range).collect();
        let points = self.points.iter().filter_map(|point| match *point {
            StopPoint::Execute(at) => Some(at),
            StopPoint::Watch { .. } => None,
        });
        let points: Vec<Linear> = points.collect();
        for cpu in &mut self.machine.state.cpus {
            cpu.observe(ranges.clone(), &points);
        }
        self.probe();
    }

    fn watches(&self) -> impl Iterator<Item = (Range, WatchedAccess)> {
        self.points.iter().filter_map(|point| match *point {
            StopPoint::Watch { start, length, access } => Some((
                Range {
                    start,
                    length,
                    reads: access != WatchedAccess::Write,
                    writes: access != WatchedAccess::Read,
                },
                access,
            )),
            StopPoint::Execute(_) => None,
        })
    }

    /// Watched bytes in RAM, where processors' translations have them now, with the linear address
    /// of each.
    fn probed(&self) -> Vec<(SystemPhysical, u64, Linear, WatchedAccess)> {
        let mut probed = Vec::new();
        for (range, access) in self.watches().filter(|(range, _)| range.writes) {
            let cpus = self.machine.state.cpus.iter();
            let mut places: Vec<SystemPhysical> =
                cpus.filter_map(|cpu| cpu.peek(&self.machine.memory, range.start)).collect();
            places.sort_unstable();
            places.dedup();
            probed.extend(places.into_iter().map(|at| (at, range.length, range.start, access)));
        }
        let word =
            self.looks.word.map(|(at, length)| (at, length, Linear(at.0), WatchedAccess::Write));
        probed.extend(word);
        probed
    }

    /// Watches hardware's writes from now on. Translations change, so this is done often.
    pub(super) fn probe(&mut self) {
        let ranges: Vec<_> = self.probed().iter().map(|(at, length, ..)| (*at, *length)).collect();
        self.machine.memory.probe(&ranges);
    }

    /// Whether a stretch has to be looked at behind it.
    pub(super) fn has_looks(&self) -> bool {
        !self.looks.events.is_empty() || self.watches().next().is_some()
    }

    /// How many records there are.
    pub(super) fn records(&self) -> usize {
        self.machine.state.wiring.recorder.records.as_ref().map_or(0, Vec::len)
    }

    fn record(&self, number: usize) -> Option<Record> {
        self.machine.state.wiring.recorder.records.as_ref()?.get(number).copied()
    }

    /// Records from here on are yet to be looked at.
    pub(super) fn hear_from(&mut self, number: usize) {
        self.looks.heard = number;
    }

    /// An event among the records that were not looked at, if one is waited for.
    pub(super) fn take_event(&mut self) -> Option<Record> {
        let end = self.records();
        let start = self.looks.heard.min(end);
        self.looks.heard = end;
        if self.looks.events.is_empty() {
            return None;
        }
        let mut found = None;
        for number in start..end {
            let Some(record) = self.record(number) else { break };
            // Each counts vCPUs, and sees all.
            let is_it =
                self.looks.events.iter_mut().fold(false, |is_it, goal| goal.is(&record) | is_it);
            found = found.or(Some(record).filter(|_| is_it));
        }
        found
    }

    /// What the last instruction led to that is looked for.
    pub(super) fn noticed(&mut self) -> Option<Stop> {
        let first = self.looks.heard;
        let event = self.take_event();
        let access = self.watched(first);
        if let Some(record) = event {
            self.looks.words += &format!("event: {record}\n");
        }
        access.or(event.map(|record| Stop::Event { cpu: record.cpu }))
    }

    /// An access that the last instruction or hardware made.
    fn watched(&mut self, first: usize) -> Option<Stop> {
        let by_hardware = self.hardware(first);
        let by_instruction = self.machine.state.cpus.iter_mut().find_map(|cpu| {
            let seen = cpu.observation.take()?;
            let access = match (seen.range.reads, seen.range.writes) {
                (true, true) => WatchedAccess::Either,
                (true, false) => WatchedAccess::Read,
                _ => WatchedAccess::Write,
            };
            Some(Stop::Watch { cpu: cpu.index, address: seen.range.start, access })
        });
        by_instruction.or(by_hardware)
    }

    fn hardware(&mut self, first: usize) -> Option<Stop> {
        let write = self.machine.memory.take_probed()?;
        let probed = self.probed();
        let (at, length, address, access) = *probed.get(write.range)?;
        let digits = 2 + 2 * length.min(8) as usize;
        self.looks.words += &format!(
            "hardware: {} wrote {address} (RAM {at}): {:#0digits$x} -> {:#0digits$x}\n",
            author(&write),
            write.old,
            write.new
        );
        let records = (first..self.records()).take(MOST_TOLD).filter_map(|one| self.record(one));
        let records: String = records.map(|record| format!("with it: {record}\n")).collect();
        self.looks.words += &records;
        let cpu = match write.during {
            Initiator::Cpu(cpu) => cpu,
            Initiator::Device(_) | Initiator::Board => CpuIndex(0),
        };
        Some(Stop::Watch { cpu, address, access })
    }

    /// The moment before which nothing is seen that is looked for, if something was.
    pub(super) fn first_seen(&mut self) -> Option<Picoseconds> {
        let event = self.take_event().map(|record| record.at);
        let hardware = self.machine.memory.take_probed().map(|write| write.since);
        let cpus = self.machine.state.cpus.iter_mut();
        let accesses = cpus.filter_map(|cpu| Some(cpu.observation.take()?.since)).min();
        [event, hardware, accesses].into_iter().flatten().min()
    }

    /// Whether anything was seen that is looked for, or a point come to, since this was last asked.
    pub(super) fn take_seen(&mut self) -> bool {
        let is_reached = self
            .machine
            .state
            .cpus
            .iter_mut()
            .fold(false, |is_reached, cpu| cpu.observation.take_reached() | is_reached);
        self.first_seen().is_some() | is_reached
    }
}

/// Who wrote, in words.
fn author(write: &HardwareWrite) -> String {
    let turn = match write.during {
        Initiator::Cpu(cpu) => format!(" in the turn of processor {cpu}"),
        Initiator::Device(requester) => format!(" for {requester}"),
        Initiator::Board => " outside of processors' turns".to_owned(),
    };
    match write.author {
        Author::PageWalk => format!("the page walk (accessed and dirty bits){turn}"),
        Author::ControlBlock => format!("the world switch (VMCB or VMCS){turn}"),
        Author::Interrupts => format!("interrupt hardware (virtual APIC, posting, IOMMU){turn}"),
        Author::Device(requester) => format!("device {requester}{turn}"),
        Author::Other => format!("hardware{turn}"),
    }
}
