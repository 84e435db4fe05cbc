//! Which of many alike interrupts is shown.

use super::share::{self, Function};
use super::{Example, LEAST, MOST_LENGTHS, exit_of, word};
use crate::drive::sampling::Samples;
use arch::time::Picoseconds;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use trace::{Record, VirtualCpu};

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// One that takes as long as the median.
    #[default]
    Typical,
    /// The one that takes longest.
    Slowest,
    /// With the feature on, the one that takes longest of those with an exit that there was none
    /// of before.
    WorstNew,
}

impl Choice {
    /// For readers.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Typical => "a typical one",
            Self::Slowest => "the slowest",
            Self::WorstNew => "the slowest with an exit that is new",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "typical" => Ok(Self::Typical),
            "slowest" => Ok(Self::Slowest),
            "worst-new" => Ok(Self::WorstNew),
            _ => Err(format!("{text:?} is none of typical, slowest and worst-new")),
        }
    }
}

/// A stretch of records that is one interrupt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Places of its first record, and of the first behind it.
    pub from: usize,
    pub to: usize,
    pub start: Picoseconds,
    pub end: Picoseconds,
}

impl Stretch {
    pub fn length(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

/// What is kept of the interrupts of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examples {
    typical: Example,
    slowest: Example,
    /// For each kind of exit the slowest that has one.
    with: BTreeMap<String, Example>,
    /// Where the host's processors were meanwhile, in the mean of all.
    pub functions: Vec<Function>,
}

impl Examples {
    /// Of stretches that are alike; None if they are too few to tell what is typical. `show` tells
    /// how one of them went, by its place among them.
    pub(super) fn of(
        records: &[Record],
        samples: &Samples,
        stretches: &[Stretch],
        vcpus: &[VirtualCpu],
        show: impl Fn(usize) -> Option<Example>,
    ) -> Option<Self> {
        if stretches.len() < LEAST {
            return None;
        }
        let mut order: Vec<usize> = (0..stretches.len()).collect();
        order.sort_by_key(|place| stretches[*place].length());
        let lengths: Vec<u64> = order.iter().map(|place| stretches[*place].length()).collect();
        let lengths_ps = kept(&lengths);
        let shown =
            |place: usize| show(place).map(|one| Example { lengths_ps: lengths_ps.clone(), ..one });
        let mut longest: BTreeMap<String, usize> = BTreeMap::new();
        for place in &order {
            let stretch = &stretches[*place];
            let own = records[stretch.from..stretch.to].iter().filter(|one| one.at < stretch.end);
            for record in own {
                if let Some((_, reason)) = exit_of(record).filter(|(own, _)| vcpus.contains(own)) {
                    longest.insert(word(record, reason), *place);
                }
            }
        }
        let with = longest.into_iter().filter_map(|(what, place)| Some((what, shown(place)?)));
        // The first of those that take as long.
        let first = |length: u64| stretches.iter().position(|one| one.length() == length);
        Some(Self {
            typical: shown(first(lengths[lengths.len() / 2])?)?,
            slowest: shown(first(*lengths.last()?)?)?,
            with: with.collect(),
            functions: share::by_function(records, samples, stretches),
        })
    }

    /// The one that was asked for, or else a typical one. `before` has what there was without the
    /// feature.
    pub fn chosen(&self, choice: Choice, before: Option<&Self>) -> (Choice, &Example) {
        let is_new = |what: &str| before.is_some_and(|before| !before.with.contains_key(what));
        let new = self.with.iter().filter(|(what, _)| is_new(what)).map(|(_, one)| one);
        match choice {
            Choice::Typical => (choice, &self.typical),
            Choice::Slowest => (choice, &self.slowest),
            Choice::WorstNew => match new.max_by_key(|one| one.duration_ps) {
                Some(worst) => (choice, worst),
                None => (Choice::Typical, &self.typical),
            },
        }
    }
}

/// One that stands for all.
impl From<Example> for Examples {
    fn from(example: Example) -> Self {
        let (typical, slowest) = (example.clone(), example);
        Self { typical, slowest, with: BTreeMap::new(), functions: Vec::new() }
    }
}

/// Of sorted lengths, as many as are kept.
fn kept(lengths: &[u64]) -> Vec<u64> {
    let kept = lengths.len().min(MOST_LENGTHS);
    (0..kept).map(|one| lengths[one * lengths.len() / kept]).collect()
}
