//! A finding as a file: what it takes to see it again, bit by bit, and what it was.

use super::choice::Strategy;
#[cfg(test)]
use super::oracle::Way;
use super::oracle::{Alarm, Key, Rule};
use super::stage::{Mix, Stage};
use super::story;
use super::window::Seen;
use crate::drive::session::Visitor;
use anyhow::{Context, ensure};
use arch::time::Picoseconds;
use board::perturb::{Decision, Hold, Source};
use serde::{Deserialize, Serialize};
use std::path::Path;
use trace::Record;
use trace::symbol::Symbols;

/// The form of the file.
pub const SCHEMA: u32 = 2;
/// Bytes of a file at most.
const MOST_BYTES: u64 = 16 << 20;

/// A rule that was broken, and all that made it so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of the program that found it: another one makes another host, and other times.
    pub version: String,
    /// The options that say which host it was.
    pub words: Vec<String>,
    /// Of the host's kernel.
    pub release: String,
    /// What ran in the guest.
    pub mix: Mix,
    /// The number of the window that showed it first.
    pub window: u64,
    /// How its decisions were drawn.
    pub strategy: Strategy,
    /// When the window began, after the workload had run plainly.
    pub begins: Picoseconds,
    /// The hash of all that had happened by then.
    pub before: String,
    /// What was decided in the window.
    pub decisions: Vec<Decision>,
    /// Where in the host's kernel processors were held; a file of an earlier version has none.
    #[serde(default)]
    pub places: Vec<Place>,
    /// Decisions that the window had before it was minimised.
    pub drawn: usize,
    /// Which rule was broken.
    pub alarm: Alarm,
    /// The hash of all that had happened at the window's end.
    pub after: String,
    /// It told in a few lines.
    pub story: Vec<String>,
    /// What the two processors did meanwhile.
    pub lanes: Vec<String>,
}

/// Where a processor was held in the host's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// As the kernel calls it.
    pub function: String,
    /// Bytes behind its start.
    pub offset: u64,
    /// For how long.
    pub delay: Picoseconds,
}

impl Place {
    /// Those of a window up to an alarm, in order of time.
    pub(super) fn of(seen: &Seen, alarm: &Alarm, symbols: &Symbols) -> Vec<Self> {
        let is_held = |hold: &&Hold| hold.at <= alarm.at && hold.decision.delay.0 > 0;
        let holds = seen.holds.iter().filter(is_held);
        let place = |hold: &Hold| {
            let (function, offset) = symbols.find(hold.rip)?;
            Some(Self { function: function.into(), offset, delay: hold.decision.delay })
        };
        holds.filter_map(place).collect()
    }
}

/// What came of a repetition.
pub struct Repeated {
    /// The window.
    pub seen: Seen,
    /// Whether the same happened, to the last record.
    pub is_same: bool,
}

impl Finding {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("cannot read {}", path.display());
        let length = std::fs::metadata(path).with_context(place)?.len();
        ensure!(length <= MOST_BYTES, "{}: longer than any finding", path.display());
        let text = std::fs::read(path).with_context(place)?;
        let finding: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a finding of lab explore", path.display()))?;
        let schema = finding.schema;
        ensure!(schema == SCHEMA, "{}: form {schema}, not {SCHEMA}", path.display());
        Ok(finding)
    }

    /// What it is found by again: the name of its file.
    pub fn cause(&self) -> String {
        cause(&self.alarm.key())
    }

    /// The file's text.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Brings a stage to where the window began. A host that another program boots is another
    /// host.
    pub fn set(&self, stage: &mut Stage) -> anyhow::Result<()> {
        stage.advance_to(self.begins);
        let now = hash(stage.hash());
        ensure!(
            now == self.before,
            "the host comes to another state than the finding's ({now}, not {}): the finding is of \
             version {}, kernel {}; this is version {}, kernel {}",
            self.before,
            self.version,
            self.release,
            env!("CARGO_PKG_VERSION"),
            stage.release
        );
        Ok(())
    }

    /// What happens in the window, on a stage that stands where it began: and beyond it, where the
    /// finding is of a vCPU that sleeps, until that enters its guest again, 100 ms at most.
    pub fn records(&self, stage: &mut Stage) -> Vec<Record> {
        let plan = Source::Plan(self.decisions.clone());
        match self.alarm.rule {
            Rule::Asleep | Rule::SaidToRun | Rule::InService => {
                stage.beyond(plan, story::AFTERWARDS, |one| story::is_entry(&self.alarm, one))
            }
            _ => stage.record(plan).1,
        }
    }

    /// Has a debugger look on as the window repeats, on a stage that stands where it began: whether
    /// the same happened, to the last record; None if the debugger went on beyond its end.
    pub fn debug(
        &self,
        stage: &mut Stage,
        visitor: &mut dyn Visitor,
    ) -> anyhow::Result<Option<bool>> {
        let after = stage.visit(self.decisions.clone(), visitor)?;
        Ok(after.map(|after| hash(after) == self.after))
    }

    /// Repeats the window on a stage that stands where it began.
    pub fn repeat(&self, stage: &mut Stage) -> Repeated {
        let seen = stage.window(Source::Plan(self.decisions.clone()));
        Repeated { is_same: hash(seen.hash) == self.after, seen }
    }
}

/// A name for what is found by a key, the same in every run: the rule, and the way of the vector or
/// a number for what the kernel said.
pub(super) fn cause((rule, way, text): &Key) -> String {
    match rule {
        Rule::Console | Rule::Ended => {
            let mixed = text.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
            format!("{}-{:08x}", rule.name(), mixed as u32)
        }
        Rule::Lost | Rule::Unasked => rule.name().into(),
        _ => format!("{}-{}", rule.name(), way.word()),
    }
}

/// As files and people have it.
pub(super) fn hash(value: u64) -> String {
    format!("{value:016x}")
}

/// One that is for tests: no machine has shown it.
#[cfg(test)]
pub(super) fn example() -> Finding {
    let time = Picoseconds::ZERO;
    Finding {
        schema: SCHEMA,
        version: "0".into(),
        words: Vec::new(),
        release: "6.1".into(),
        mix: Mix { apic: "xapic".into(), vcpus: 2, ..Mix::default() },
        window: 0,
        strategy: Strategy::Plain,
        begins: time,
        before: String::new(),
        decisions: Vec::new(),
        places: Vec::new(),
        drawn: 0,
        alarm: Alarm {
            rule: Rule::Asleep,
            at: time,
            since: time,
            vcpu: 0,
            cpu: 0,
            vector: 0x31,
            place: 0,
            way: Way::Logical,
            text: String::new(),
        },
        after: String::new(),
        story: Vec::new(),
        lanes: Vec::new(),
    }
}
