//! A plan: what is switched, what works, what is measured, when it is enough.
//!
//! Plans are TOML files. [`keys`] has all keys as data; what a plan may not say is in [`Fault`]s
//! with the line, the cause and what would be right, all of them at once.

mod check;
mod fault;
pub mod keys;
mod read;
mod setup;
mod table;

pub use fault::{Fault, Faults};
pub use setup::{HostSetup, LabSetup};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Levels by the names of their factors.
pub type Setting = BTreeMap<String, String>;

/// What has to be done again to change a factor; the dearest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redo {
    /// Nothing.
    Live,
    /// The virtual machine starts again.
    Vm,
    /// KVM's modules are loaded again, for which all virtual machines of the host stop.
    Module,
    /// The host starts again.
    Reboot,
}

impl Redo {
    const ALL: [Self; 4] = [Self::Live, Self::Vm, Self::Module, Self::Reboot];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().zip(keys::REDO).find(|(_, name)| **name == word).map(|(one, _)| one)
    }

    /// For readers.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Live => "while everything runs",
            Self::Vm => "by a restart of the virtual machine",
            Self::Module => "by a reload of KVM's modules",
            Self::Reboot => "by a restart of the host",
        }
    }
}

/// Something that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// How results call it.
    pub name: String,
    /// One of [`keys::FACTORS`].
    pub kind: String,
    /// Which feature or parameter.
    pub of: Option<String>,
    /// The first is what others are compared with.
    pub levels: Vec<String>,
    /// The same at the lab's scale.
    pub lab_levels: Option<Vec<String>>,
    /// What has to be done again to change it.
    pub redo: Redo,
}

/// Blocks, looks and levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// The factor whose levels are compared.
    pub compare: String,
    /// At most.
    pub blocks: usize,
    /// Runs within one setting.
    pub repeats: usize,
    /// Blocks after which to look; the last is `blocks`.
    pub looks: Vec<usize>,
    /// Chance of any wrong answer.
    pub level: f64,
    /// Percent below which a difference does not matter.
    pub difference: f64,
    /// Void trials of an arm in a row that end a cell.
    pub voids: usize,
}

/// Where a metric's values come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first group of each match in the workload's output.
    Regex(String),
    /// A path in the output, which is JSON.
    Json(String),
    /// Lines of JSON that have these members.
    Record {
        /// Names and values.
        members: BTreeMap<String, String>,
        /// Which member is the value.
        value: String,
        /// Which member it is divided by.
        per: Option<String>,
    },
    /// VM exits: `all`, `work`, or a reason, and what of them.
    Exits(String, OfExits),
    /// A part of the host's processors' time.
    Cpu(String),
    /// One of [`keys::COUNTERS`].
    Counter(String),
    /// What the place found out about the switch.
    Evidence(String),
}

/// What is taken of VM exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfExits {
    /// How many.
    Count,
    /// Percent of all that are not waiting.
    Share,
    /// Nanoseconds of one, from exit to entry.
    Mean,
}

impl OfExits {
    /// As it is written.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "count" => Some(Self::Count),
            "share" => Some(Self::Share),
            "mean" => Some(Self::Mean),
            _ => None,
        }
    }
}

impl Source {
    /// Whether values are counted and not timed: on an emulated machine such a figure is exact.
    pub fn is_count(&self) -> bool {
        match self {
            Self::Evidence(_) => true,
            Self::Exits(_, of) => *of != OfExits::Mean,
            Self::Counter(name) => name != "seconds",
            Self::Regex(_) | Self::Json(_) | Self::Record { .. } | Self::Cpu(_) => false,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// How results call it.
    pub name: String,
    /// Of its values.
    pub unit: String,
    /// None where neither way is good by itself.
    pub less_is_better: Option<bool>,
    /// Where values come from.
    pub source: Source,
    /// Only in cells with these levels.
    pub only: Setting,
    /// What values are divided by.
    pub divide: f64,
    /// Percent that matters; the design's if None.
    pub difference: Option<f64>,
    /// The same in its unit.
    pub absolute: Option<f64>,
    /// Whether trials count whose output lacks it.
    pub is_optional: bool,
    /// What counts of several values in a trial.
    pub of_several: OfSeveral,
}

/// What counts of several values in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfSeveral {
    /// The median, without the warm-up: one thing, measured again and again.
    #[default]
    Median,
    /// The mean of all: of each guest, or of each part.
    Mean,
    /// All together.
    Sum,
}

impl OfSeveral {
    /// By its name in plans.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "median" => Some(Self::Median),
            "mean" => Some(Self::Mean),
            "sum" => Some(Self::Sum),
            _ => None,
        }
    }
}

/// What must hold for a level to have taken effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Of the compared factor.
    pub levels: Vec<String>,
    /// Name of the evidence.
    pub evidence: String,
    /// Exactly this.
    pub is: Option<String>,
    /// No more.
    pub at_most: Option<f64>,
    /// No less.
    pub at_least: Option<f64>,
    /// Only in cells with these levels.
    pub only: Setting,
    /// What it means if it does not hold.
    pub why: String,
    /// What to do then.
    pub fix: String,
}

impl Proof {
    /// Where the evidence is in how many places of the output something stands: what.
    pub fn pattern(&self) -> Option<&str> {
        self.evidence.strip_prefix("output:")
    }
}

/// A figure that others measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Which metric.
    pub metric: String,
    /// The cell, by its levels.
    pub only: Setting,
    /// Of the first level.
    pub before: Option<f64>,
    /// Of the second level.
    pub after: Option<f64>,
    /// In percent; the low end of a range.
    pub change: Option<f64>,
    /// The high end.
    pub most_change: Option<f64>,
    /// Where it was published.
    pub source: String,
    /// Why ours may differ.
    pub reason: Option<String>,
}

/// A plan without faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The file.
    pub text: String,
    /// Letters, digits, hyphens.
    pub name: String,
    /// As one sentence.
    pub question: String,
    /// Where the procedure was published.
    pub from: Option<String>,
    /// What is to be seen.
    pub shows: Option<String>,
    /// Orders are drawn from it.
    pub seed: u64,
    /// Blocks, looks and levels.
    pub design: Design,
    /// What is set.
    pub factors: Vec<Factor>,
    /// How a trial runs in the lab.
    pub lab: Option<LabSetup>,
    /// How a trial runs on a host.
    pub host: Option<HostSetup>,
    /// What is measured.
    pub metrics: Vec<Metric>,
    /// What shows that a level took effect.
    pub proofs: Vec<Proof>,
    /// Figures of others.
    pub published: Vec<Published>,
}

impl Plan {
    /// Reads a plan; `file` is how messages call it.
    pub fn read(text: &str, file: &str) -> Result<Self, Faults> {
        read::plan(text).map_err(|mut faults| {
            faults.sort_by_key(|fault| fault.line);
            Faults { file: file.to_owned(), faults }
        })
    }

    /// Of the file, so that a journal can tell whether it is about this plan (FNV-1a).
    pub fn hash(&self) -> String {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", self.text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// The factor that is compared.
    pub fn compared(&self) -> &Factor {
        let name = &self.design.compare;
        // The reader refuses plans without it.
        self.factors.iter().find(|one| one.name == *name).unwrap_or(&self.factors[0])
    }

    /// What runs on this machine itself for a trial in the lab.
    pub fn command(&self, is_lab: bool) -> Option<&str> {
        self.lab.as_ref().filter(|_| is_lab)?.command.as_deref()
    }

    /// A factor's levels at the lab's or the full scale.
    pub fn levels<'p>(&self, factor: &'p Factor, is_lab: bool) -> &'p [String] {
        factor.lab_levels.as_ref().filter(|_| is_lab).unwrap_or(&factor.levels)
    }

    /// All combinations of the levels of the factors that are not compared, in the plan's order.
    pub fn cells(&self, is_lab: bool) -> Vec<Setting> {
        let others = self.factors.iter().filter(|one| one.name != self.design.compare);
        others.fold(vec![Setting::new()], |cells, factor| {
            let with = |cell: &Setting, level: &String| {
                let mut cell = cell.clone();
                cell.insert(factor.name.clone(), level.clone());
                cell
            };
            let levels = self.levels(factor, is_lab);
            cells.iter().flat_map(|cell| levels.iter().map(|level| with(cell, level))).collect()
        })
    }

    /// The setting of a kind of factor in a trial, such as the `pit` of it.
    pub fn of_kind<'s>(&self, setting: &'s Setting, kind: &str) -> Option<(&Factor, &'s str)> {
        let factor = self.factors.iter().find(|one| one.kind == kind)?;
        Some((factor, setting.get(&factor.name)?))
    }

    /// Metrics that a cell has.
    pub fn metrics_of<'p>(&'p self, cell: &'p Setting) -> impl Iterator<Item = &'p Metric> {
        self.metrics.iter().filter(|metric| is_within(cell, &metric.only))
    }

    /// How many answers are had at once: those that are judged, over all cells.
    pub fn questions(&self, is_lab: bool) -> usize {
        let judged = |cell: &Setting| {
            self.metrics_of(cell).filter(|metric| metric.less_is_better.is_some()).count()
        };
        self.cells(is_lab).iter().map(judged).sum()
    }

    /// Of so many blocks planned, how many it takes at least before anything that has to be tested
    /// can be decided: the smallest p-value is a matter of their number.
    pub fn least_blocks(&self, is_lab: bool, planned: usize) -> usize {
        let mut looks = self.design.looks.clone();
        looks.retain(|look| *look < planned);
        looks.push(planned);
        let last = crate::statistics::levels(self.design.level, &looks).last().copied();
        let questions = self.questions(is_lab).max(1);
        crate::statistics::least_blocks(last.unwrap_or(self.design.level) / questions as f64)
    }
}

/// Whether a cell has all the levels that are asked for.
pub fn is_within(cell: &Setting, only: &Setting) -> bool {
    only.iter().all(|(name, level)| cell.get(name) == Some(level))
}

/// A setting for readers: `pit reinject, apic xapic`.
pub fn words(setting: &Setting) -> String {
    setting.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests;
