//! What experiments and runs of the lab hand over: figures of trials, and what they say together.

use serde::{Deserialize, Serialize};

/// One figure of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The plan's name, or `lab`.
    pub experiment: String,
    /// A digest of the plan, so that only equal ones are compared.
    pub plan: Option<String>,
    /// What ran.
    pub workload: String,
    /// What was set.
    pub arm: String,
    /// Trials that belong together.
    pub block: u64,
    /// The virtual machine, where it is one.
    pub vm: Option<String>,
    /// What the trial was started from.
    pub seed: Option<u64>,
    /// What was measured.
    pub metric: String,
    /// In what.
    pub unit: Option<String>,
    /// How much; none of a trial that gave no figure.
    pub value: Option<f64>,
    /// Why it does not count; none if it does.
    pub void: Option<String>,
}

/// What an experiment found for one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The plan's name, or `lab`.
    pub experiment: String,
    /// A digest of the plan.
    pub plan: Option<String>,
    /// What ran.
    pub workload: String,
    /// What was measured.
    pub metric: String,
    /// better, worse, no difference, undecided or void.
    pub verdict: String,
    /// Change against the first arm.
    pub effect_percent: Option<f64>,
    /// Its interval; none where counts are exact.
    pub interval_percent: Option<(f64, f64)>,
    /// Blocks that count.
    pub blocks: u64,
    /// Trials that do not.
    pub voids: u64,
}
