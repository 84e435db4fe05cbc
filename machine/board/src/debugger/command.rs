//! A debugger's `monitor` commands: events to stop at, and who wrote something last.

use super::machine::DebuggedMachine;
use super::{Backwards, Debuggee, Stop, StopPoint, WatchedAccess};
use arch::address::{Linear, SystemPhysical};
use arch::identity::CpuIndex;
use trace::{EventGoal, Record};

/// Events that are waited for at most.
const MOST_EVENTS: usize = 32;
/// Bytes that are looked at for who wrote them.
const MOST_BYTES: u64 = 8;
/// Records that only a debugger keeps are dropped where there are more.
const MOST_RECORDS: usize = 1 << 20;

const HELP: &str = "\
break EVENT [VALUE] [FIELD=VALUE]...  stop behind the instruction that an event comes from,
                                      forwards and backwards; without EVENT, list them
delete [N]                            no longer stop at any event, or at that
why ADDRESS [BYTES] [cpu=N]           who wrote there last, instruction or hardware: ADDRESS is
                                      linear, as the processor has it, or physical:ADDRESS
";

/// What `why` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Linear(Linear),
    Physical(SystemPhysical),
}

impl DebuggedMachine<'_> {
    /// Stops at an event from now on.
    pub fn add_event(&mut self, goal: EventGoal) -> Result<(), String> {
        if self.looks.events.len() >= MOST_EVENTS {
            return Err(format!("there are {MOST_EVENTS} events already"));
        }
        if self.machine.state.wiring.recorder.records.is_none() {
            self.machine.state.wiring.recorder.records = Some(Vec::new());
            self.looks.owns_records = true;
        }
        self.hear_from(self.records());
        self.looks.events.push(goal);
        Ok(())
    }

    /// Drops records that nobody needs any more, if it is this debugger who keeps them.
    pub(super) fn drop_records(&mut self) {
        let count = self.history.unneeded_records();
        if !self.looks.owns_records || count < MOST_RECORDS {
            return;
        }
        if let Some(records) = &mut self.machine.state.wiring.recorder.records {
            records.drain(..count);
        }
        self.history.forget_records(count);
        self.hear_from(self.records());
    }

    /// Obeys a command.
    pub(super) fn obey(&mut self, command: &str) -> Result<String, String> {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (word, words.as_slice()) {
            ("break", []) => {
                let events = self.looks.events.iter().enumerate();
                Ok(events.map(|(number, event)| format!("{number}: {event}\n")).collect())
            }
            ("break", _) => {
                self.add_event(rest.parse()?)?;
                Ok(format!("event {}\n", self.looks.events.len() - 1))
            }
            ("delete", []) => {
                self.looks.events.clear();
                Ok(String::new())
            }
            ("delete", [number]) => {
                let number = number.parse().ok().filter(|one| *one < self.looks.events.len());
                let number = number.ok_or_else(|| format!("no event {rest}"))?;
                self.looks.events.remove(number);
                Ok(String::new())
            }
            ("why", [place, options @ ..]) => self.why(place, options),
            ("help" | "", _) => Ok(HELP.to_owned()),
            _ => Err(format!("no command {command:?}, must be one of\n{HELP}").trim_end().into()),
        }
    }

    fn why(&mut self, place: &str, options: &[&str]) -> Result<String, String> {
        let (place, length, cpu) = self.parse_why(place, options)?;
        let points = std::mem::take(&mut self.points);
        let events = std::mem::take(&mut self.looks.events);
        self.search = None;
        let present = self.machine.instructions();
        match place {
            Place::Linear(start) => {
                self.points.push(StopPoint::Watch { start, length, access: WatchedAccess::Write });
            }
            Place::Physical(at) => self.looks.word = Some((at, length)),
        }
        self.observe();
        let stop = loop {
            if let Some(stop) = self.run_back(Backwards::Continue) {
                break stop;
            }
        };
        let answer = match stop {
            Stop::Watch { cpu: by, .. } => self.tell_write(place, length, (cpu, by)),
            _ => format!(
                "nobody since {}, where the past begins that is kept\n",
                self.moment(CpuIndex(0))
            ),
        };
        // Back to the present, which is the future here.
        self.run_to(present);
        self.machine.take_console();
        self.looks.word = None;
        (self.points, self.looks.events) = (points, events);
        self.observe();
        self.take_seen();
        self.hear_from(self.records());
        self.looks.words.clear();
        Ok(answer)
    }

    fn parse_why(&self, place: &str, options: &[&str]) -> Result<(Place, u64, CpuIndex), String> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse::<u64>().ok(),
        };
        let address = |text: &str| {
            number(text).ok_or_else(|| format!("{text:?} must be an address, such as 0x5000"))
        };
        let (mut length, mut cpu) = (MOST_BYTES, CpuIndex(0));
        for option in options {
            match option.strip_prefix("cpu=") {
                Some(text) => {
                    let count = u64::from(self.cpu_count());
                    let index = number(text).filter(|index| *index < count);
                    let index =
                        index.ok_or_else(|| format!("cpu={text}: must be below {count}"))?;
                    cpu = CpuIndex(index as u16);
                }
                None => {
                    let bytes = number(option).filter(|bytes| (1..=MOST_BYTES).contains(bytes));
                    length = bytes
                        .ok_or_else(|| format!("{option}: must be 1 to {MOST_BYTES} bytes"))?;
                }
            }
        }
        let place = match place.strip_prefix("physical:") {
            Some(text) => {
                let at = SystemPhysical(address(text)?);
                let is_ram = self.machine.memory.slice(at, length as usize).is_ok();
                Place::Physical(Some(at).filter(|_| is_ram).ok_or(format!("{at} is not RAM"))?)
            }
            None => Place::Linear(Linear(address(place)?)),
        };
        Ok((place, length, cpu))
    }

    /// What the next instruction, or hardware in its course, writes.
    fn tell_write(&mut self, place: Place, length: u64, (cpu, by): (CpuIndex, CpuIndex)) -> String {
        let words = self.take_words();
        let moment = self.moment(by);
        let rip = self.registers(by).rip;
        let activity = self.describe(by);
        let (old, first) = (self.value(place, length, cpu), self.records());
        self.execute_one(None);
        let new = self.value(place, length, cpu);
        self.looks.words.clear();
        let with_it = self.machine.state.wiring.recorder.records.as_deref().unwrap_or_default();
        let with_it = with_it.get(first..).unwrap_or_default().iter().take(4);
        let with_it: String =
            with_it.map(|record: &Record| format!("with it: {record}\n")).collect();
        match words.is_empty() {
            true => format!(
                "{moment}: the instruction at {rip:#x} of processor {by} ({activity}): \
                 {old:#x} -> {new:#x}\n{with_it}"
            ),
            false => format!("{moment}: {words}processor {by} was at {rip:#x} ({activity})\n"),
        }
    }

    /// When the machine stands where it does.
    fn moment(&self, cpu: CpuIndex) -> String {
        let clock = self.machine.state.cpus[usize::from(cpu.0)].clock.now();
        format!("{:.9} s, {} instructions", clock.0 as f64 / 1e12, self.machine.instructions())
    }

    fn value(&mut self, place: Place, length: u64, cpu: CpuIndex) -> u64 {
        let mut bytes = [0; MOST_BYTES as usize];
        let into = &mut bytes[..length as usize];
        match place {
            Place::Linear(start) => drop(self.read_memory(cpu, start, into)),
            Place::Physical(at) => drop(self.machine.memory.read(at, into)),
        }
        u64::from_le_bytes(bytes)
    }

    /// The word whose changes count, if there is one.
    pub(super) fn word(&self) -> Option<u64> {
        let (at, length) = self.looks.word?;
        let bytes = self.machine.memory.slice(at, length as usize).ok()?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Instructions by processor.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.machine.state.cpus.iter().map(|cpu| cpu.clock.instructions()).collect()
    }

    /// That word was changed by the processor that has executed an instruction since.
    pub(super) fn changed(&self, counts: &[u64]) -> Stop {
        let now = self.counts();
        let cpu = now.iter().zip(counts).position(|(now, before)| now != before);
        let cpu = CpuIndex(cpu.unwrap_or(0) as u16);
        let address = Linear(self.looks.word.map_or(0, |(at, _)| at.0));
        Stop::Watch { cpu, address, access: WatchedAccess::Write }
    }
}
