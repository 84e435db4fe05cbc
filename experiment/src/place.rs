//! Where trials are run: the lab and hosts are behind this seam.

use crate::plan::{Plan, Setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where provenance has the command of this machine that trials are.
pub const COMMAND: &str = "command";

/// What to do for one trial.
#[derive(Clone, Debug)]
pub struct Order<'p> {
    /// Of which plan.
    pub plan: &'p Plan,
    /// All levels.
    pub setting: &'p Setting,
    /// Differs between trials and attempts; the lab starts each at another moment by it.
    pub seed: u64,
    /// Of the trial, over the whole experiment.
    pub index: usize,
}

/// VM exits of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Exits {
    /// How many.
    pub count: u64,
    /// From exit to entry, together, where that is known.
    pub time_ns: Option<u64>,
    /// Whether the guest had nothing to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_wait: bool,
}

/// Something that was found out about a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Evidence {
    /// A share, a count.
    Number(f64),
    /// A word, such as what a parameter says.
    Text(String),
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// What a trial saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Of the workload.
    pub output: String,
    /// By reason.
    pub exits: BTreeMap<String, Exits>,
    /// Percent of the host's processors' time, by its parts.
    pub cpu: BTreeMap<String, f64>,
    /// By name, such as `posted`.
    pub counters: BTreeMap<String, f64>,
    /// What it was, by name: `inhibited`, `inhibited-by`, `parameter:kvm_amd.avic`.
    pub evidence: BTreeMap<String, Evidence>,
    /// What makes it worthless whatever it measured, such as a busy host.
    pub disturbed: Option<String>,
}

/// How much a remark weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Good to know.
    Note,
    /// An arm cannot take effect: its trials would be void.
    Futile,
    /// The experiment cannot run here.
    Blocks,
}

/// What is known before the first trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Remark {
    /// How much it weighs.
    pub weight: Weight,
    /// What is so.
    pub cause: String,
    /// What would change it; empty where nothing has to.
    pub remedy: String,
}

impl Remark {
    /// A remark.
    pub fn new(weight: Weight, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { weight, cause: cause.into(), remedy: remedy.into() }
    }
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.weight {
            Weight::Note => "note",
            Weight::Futile => "futile",
            Weight::Blocks => "blocked",
        };
        write!(f, "{word}: {}", self.cause)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// What was changed and how it is put back: written to the journal before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// For readers.
    pub what: String,
    /// For the place that made it.
    pub undo: String,
}

/// Why a trial could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user has asked for it; the trial is repeated when the experiment goes on.
    #[error("interrupted")]
    Interrupted,
    /// It failed, and so would another.
    #[error("{0}")]
    Failed(String),
}

/// How a trial goes, and what it changes.
pub trait Teller {
    /// What happens, for readers.
    fn line(&mut self, text: &str);
    /// To be called before something is changed that must be put back.
    fn change(&mut self, change: Change) -> Result<(), Failure>;
}

/// The lab, or a host.
pub trait Place: Sync {
    /// `lab` or `host`.
    fn name(&self) -> &'static str;

    /// Whether it is the lab: counts are exact there, and plans have a scale of their own.
    fn is_lab(&self) -> bool;

    /// What would keep the plan from running, or make it worthless. Nothing is changed.
    fn check(&self, plan: &Plan) -> Vec<Remark>;

    /// What the results rest on: versions, kernels, settings. The same for every trial.
    fn provenance(&self, plan: &Plan) -> BTreeMap<String, String>;

    /// Runs a trial.
    fn perform(&self, order: &Order<'_>, teller: &mut dyn Teller) -> Result<Seen, Failure>;

    /// Puts back what was changed; the last change comes first.
    fn restore(&self, changes: &[Change]) -> Result<(), Failure>;
}
