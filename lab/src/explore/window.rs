//! A window: from a moment of the machine, with what is decided in it, to its end and a little
//! beyond, where nobody is held up and what was broken stays broken.

use super::oracle::{Alarm, Changes, Key, LOOK, Oracle};
use crate::protocol::PORT;
use arch::time::Picoseconds;
use board::perturb::{Decision, Hold, Source};
use board::{Limits, Machine};

/// How long windows are.
pub const LENGTH: Picoseconds = Picoseconds::from_nanoseconds(4_000_000);
/// What follows, without delays: longer than any oracle's patience.
pub const TAIL: Picoseconds = Picoseconds::from_nanoseconds(1_000_000);
/// Both.
pub const WHOLE: Picoseconds = LENGTH.saturating_add(TAIL);

/// What came of a window.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What was broken, in order of time.
    pub alarms: Vec<Alarm>,
    /// Who was held up, in order of time.
    pub holds: Vec<Hold>,
    /// What the host changed.
    pub changes: Changes,
    /// The hash of all that had happened at its end.
    pub hash: u64,
}

impl Seen {
    /// What was decided.
    pub fn decisions(&self) -> Vec<Decision> {
        self.holds.iter().map(|hold| hold.decision).collect()
    }

    /// The first alarm of a cause.
    pub fn alarm(&self, key: &Key) -> Option<&Alarm> {
        self.alarms.iter().find(|alarm| alarm.key() == *key)
    }
}

/// Runs a window from where the machine stands.
pub fn run(machine: &mut Machine, oracle: &mut Oracle, source: Source) -> Seen {
    let begins = machine.state.now;
    machine.perturb(source);
    oracle.take_changes();
    let mut alarms = run_to(machine, oracle, begins.saturating_add(LENGTH));
    machine.calm();
    // A turn may go beyond a moment that the machine is run to, but where the window ends does not
    // follow from that: a debugger has it run in other stretches.
    alarms.extend(run_to(machine, oracle, begins.saturating_add(WHOLE)));
    let holds = machine.settle();
    let (changes, hash) = (oracle.take_changes(), machine.state.wiring.recorder.hash.value());
    Seen { alarms, holds, changes, hash }
}

/// Runs on as the machine stands, looking at it from time to time; the alarms.
pub fn run_on(machine: &mut Machine, oracle: &mut Oracle, time: Picoseconds) -> Vec<Alarm> {
    let end = machine.state.now.saturating_add(time);
    run_to(machine, oracle, end)
}

/// The same, to a moment.
pub fn run_to(machine: &mut Machine, oracle: &mut Oracle, end: Picoseconds) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    while machine.state.now < end {
        let until = machine.state.now.saturating_add(LOOK).min(end);
        let outcome = machine.run(Limits { until, instructions: u64::MAX });
        let recorder = &mut machine.state.wiring.recorder;
        let records = recorder.records.as_mut().map(std::mem::take).unwrap_or_default();
        records.iter().for_each(|record| oracle.observe(record));
        let console = machine.take_console();
        let host: Vec<u8> =
            console.iter().filter(|(port, _)| *port == 0).map(|(_, byte)| *byte).collect();
        oracle.listen(machine.state.now, &host);
        if let Some(channel) = machine.channel(PORT) {
            oracle.hear(machine.state.now, &machine.take_channel(channel));
        }
        oracle.look(machine);
        alarms.extend(oracle.take());
        if outcome.is_some() {
            break;
        }
    }
    alarms
}
