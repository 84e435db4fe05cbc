//! Two recordings side by side: what changed, by how much, and whether the recordings show it.
//!
//! Rates make recordings of different length comparable: per second and vCPU, or per unit of work
//! if the user says how much was done. Confidence comes from the blocks of time of each recording
//! by a percentile bootstrap: blocks are drawn with replacement, so that bursts and idle stretches
//! widen the interval as they should. Neighbouring blocks that depend on each other would make it
//! too narrow, so blocks are joined until neighbours hardly do.

use crate::avoidable::is_idle;
use crate::cell::Block;
use crate::key::{Key, View};
use crate::name::row_name;
use crate::profile::{Profile, Selection};
use crate::summary::Context;
use serde::Serialize;
use std::collections::BTreeMap;

/// Draws of the bootstrap.
const DRAWS: usize = 2000;
/// Fewer blocks than these say nothing about spread.
const FEWEST_BLOCKS: usize = 5;
/// Blocks drawn from: longer recordings have neighbouring blocks joined.
const MOST_BLOCKS: usize = 200;
/// So few are not joined further, however much they depend on each other.
const FEWEST_JOINED: usize = 2 * FEWEST_BLOCKS;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// As the user knows it: a file's name.
    pub name: String,
    /// What was recorded.
    pub profile: &'a Profile,
    /// What names and idleness rest on.
    pub context: &'a Context,
    /// Seconds of recording, where the events do not tell.
    pub seconds: Option<f64>,
    /// Units of work done meanwhile.
    pub work: Option<f64>,
}

/// Version of the published form of [`Comparison`]: docs/schema/compare-1.json.
pub const SCHEMA: u32 = 1;

/// What counts are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Both sides say how much work was done.
    PerWork,
    /// Both are recordings with a length.
    PerSecondAndVcpu,
    /// At least one is a printed table, which does not tell its vCPUs.
    PerSecond,
    /// Nothing is known to divide by.
    Count,
}

impl Basis {
    /// For headings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerWork => "per unit of work",
            Self::PerSecondAndVcpu => "per second and vCPU",
            Self::PerSecond => "per second",
            Self::Count => "as counted",
        }
    }
}

/// What a comparison shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval lies below zero.
    Fewer,
    /// The whole interval lies above zero.
    More,
    /// The interval includes no change.
    NoDifferenceShown,
    /// Printed totals or too few blocks: the change is what it is, its confidence is not known.
    NoConfidence,
}

impl Finding {
    /// For tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fewer => "fewer",
            Self::More => "more",
            Self::NoDifferenceShown => "no difference shown",
            Self::NoConfidence => "confidence not known",
        }
    }
}

/// One reason, or the whole.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The exit reason, as the table of one recording names it.
    pub name: String,
    /// Exits on the first side.
    pub count_a: u64,
    /// Exits on the second side.
    pub count_b: u64,
    /// Counts divided as the basis says.
    pub rate_a: f64,
    /// As [`Change::rate_a`].
    pub rate_b: f64,
    /// Change of the rate in per cent; `None` from nothing.
    pub percent: Option<f64>,
    /// The 95 % interval of the change in per cent.
    pub interval: Option<(f64, f64)>,
    /// Points this reason contributes to the change of the whole.
    pub contribution: f64,
    /// Time that the first side's exits took together.
    pub time_a_ns: u64,
    /// Time that the second side's exits took together.
    pub time_b_ns: u64,
    /// Mean duration on the first side.
    pub mean_a_ns: f64,
    /// Mean duration on the second side.
    pub mean_b_ns: f64,
    /// What the interval allows to say.
    pub finding: Finding,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Version of the JSON.
    pub schema: u32,
    /// As [`Side::name`].
    pub name_a: String,
    /// As [`Side::name`].
    pub name_b: String,
    /// What all rates here are divided by.
    pub basis: Basis,
    /// Length of the first side's recording; 0 where it is not known.
    pub seconds_a: f64,
    /// Length of the second side's recording; 0 where it is not known.
    pub seconds_b: f64,
    /// vCPUs of the first side; a printed table counts as one.
    pub vcpus_a: u64,
    /// vCPUs of the second side; a printed table counts as one.
    pub vcpus_b: u64,
    /// All exits together.
    pub total: Change,
    /// The same without exits in which the guest waits.
    pub working: Change,
    /// Largest difference first.
    pub changes: Vec<Change>,
}

/// What one side holds of one reason.
#[derive(Clone, Debug, Default)]
struct Part {
    count: u64,
    time_ns: u64,
    is_idle: bool,
    /// Counts of the whole blocks between the first and the last event.
    blocks: Vec<f64>,
}

/// Compares two sides by exit reason.
pub fn compare(a: &Side<'_>, b: &Side<'_>) -> Comparison {
    let (parts_a, parts_b) = (parts(a), parts(b));
    let basis = basis(a, b);
    let (scale_a, scale_b) = (divisor(a, basis), divisor(b, basis));
    let mut names: Vec<&String> = parts_a.keys().chain(parts_b.keys()).collect();
    names.sort();
    names.dedup();
    let whole = |parts: &BTreeMap<String, Part>, has_idle: bool| {
        sum_of(parts.values().filter(|part| has_idle || !part.is_idle))
    };
    let (whole_a, whole_b) = (whole(&parts_a, true), whole(&parts_b, true));
    let (working_a, working_b) = (whole(&parts_a, false), whole(&parts_b, false));
    let total_rate = whole_a.count as f64 / scale_a;
    let row = |name: &str, a: &Part, b: &Part| change(name, a, b, scale_a, scale_b, total_rate);
    // A reason that one side does not have is known to be absent from all its blocks.
    let none = |whole: &Part| Part { blocks: vec![0.0; whole.blocks.len()], ..Part::default() };
    let (none_a, none_b) = (none(&whole_a), none(&whole_b));
    let mut changes: Vec<Change> = names
        .into_iter()
        .map(|name| {
            row(name, parts_a.get(name).unwrap_or(&none_a), parts_b.get(name).unwrap_or(&none_b))
        })
        .collect();
    changes.sort_by(|a, b| {
        let size = |change: &Change| (change.rate_b - change.rate_a).abs();
        size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name))
    });
    Comparison {
        schema: SCHEMA,
        name_a: a.name.clone(),
        name_b: b.name.clone(),
        basis,
        seconds_a: seconds(a).unwrap_or(0.0),
        seconds_b: seconds(b).unwrap_or(0.0),
        vcpus_a: a.profile.vcpus.len() as u64,
        vcpus_b: b.profile.vcpus.len() as u64,
        total: row("all exits", &whole_a, &whole_b),
        working: row("working exits", &working_a, &working_b),
        changes,
    }
}

fn seconds(side: &Side<'_>) -> Option<f64> {
    side.seconds.or_else(|| Some(side.profile.seconds())).filter(|seconds| *seconds > 0.0)
}

fn basis(a: &Side<'_>, b: &Side<'_>) -> Basis {
    let both = |test: fn(&Side<'_>) -> bool| test(a) && test(b);
    if both(|side| side.work.is_some_and(|work| work > 0.0)) {
        Basis::PerWork
    } else if both(|side| seconds(side).is_some() && side.profile.span_ns.is_some()) {
        Basis::PerSecondAndVcpu
    } else if both(|side| seconds(side).is_some()) {
        // A printed table does not say how many vCPUs it sums over.
        Basis::PerSecond
    } else {
        Basis::Count
    }
}

fn divisor(side: &Side<'_>, basis: Basis) -> f64 {
    let seconds = seconds(side).unwrap_or(1.0);
    match basis {
        Basis::PerWork => side.work.unwrap_or(1.0),
        Basis::PerSecondAndVcpu => seconds * (side.profile.vcpus.len().max(1) as f64),
        Basis::PerSecond => seconds,
        Basis::Count => 1.0,
    }
}

fn parts(side: &Side<'_>) -> BTreeMap<String, Part> {
    let selection = Selection { view: View::Vmexit, by_reason: true, ..Selection::default() };
    let isa = side.profile.isa.or(side.context.isa);
    let name = |key: Key| row_name(key, isa, &side.context.extra_names);
    let whole = whole_blocks(side.profile);
    let mut parts: BTreeMap<String, Part> = side
        .profile
        .rows(&selection)
        .into_iter()
        .map(|(key, cell)| {
            let mut blocks = vec![0.0; whole.1];
            for (start, block) in cell.blocks.iter() {
                let index = (start / cell.blocks.width_ns()).wrapping_sub(whole.0) as usize;
                if let Some(sum) = blocks.get_mut(index) {
                    let Block { count, .. } = block;
                    *sum += count as f64;
                }
            }
            let is_idle = isa.is_some_and(|isa| is_idle(isa, key.reason()));
            (name(key), Part { count: cell.count, time_ns: cell.time_ns, is_idle, blocks })
        })
        .collect();
    let step = independent_step(&sum_of(parts.values()).blocks);
    parts.values_mut().for_each(|part| part.blocks = join_blocks(&part.blocks, step));
    parts
}

fn sum_of<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Part {
    let mut whole = Part::default();
    for part in parts {
        whole.count += part.count;
        whole.time_ns += part.time_ns;
        whole.blocks.resize(whole.blocks.len().max(part.blocks.len()), 0.0);
        whole.blocks.iter_mut().zip(&part.blocks).for_each(|(sum, block)| *sum += block);
    }
    whole
}

/// Number of the first block that lies wholly within the recording, and how many do.
fn whole_blocks(profile: &Profile) -> (u64, usize) {
    let width = profile.block_width_ns();
    match profile.span_ns {
        Some((first, last)) => {
            let (from, to) = (first.div_ceil(width), last / width);
            (from, usize::try_from(to.saturating_sub(from)).unwrap_or(0).min(1 << 16))
        }
        None => (0, 0),
    }
}

/// How many blocks are joined to one: as few as leave no more than are drawn from, and whose
/// neighbours hardly depend on each other.
fn independent_step(blocks: &[f64]) -> usize {
    let mut step = blocks.len().div_ceil(MOST_BLOCKS).max(1);
    loop {
        let joined = join_blocks(blocks, step);
        if joined.len() < 2 * FEWEST_JOINED || !depends_on_neighbour(&joined) {
            return step;
        }
        step *= 2;
    }
}

fn join_blocks(blocks: &[f64], step: usize) -> Vec<f64> {
    blocks.chunks_exact(step).map(|blocks| blocks.iter().sum()).collect()
}

/// Whether the correlation of neighbours is larger than chance makes it in 19 of 20 cases.
fn depends_on_neighbour(blocks: &[f64]) -> bool {
    let mean = blocks.iter().sum::<f64>() / blocks.len() as f64;
    let product = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
    let spread: f64 = blocks.iter().map(|block| (block - mean).powi(2)).sum();
    let shared: f64 = blocks.windows(2).map(product).sum();
    spread > 0.0 && shared / spread > 1.65 / (blocks.len() as f64).sqrt()
}

fn change(name: &str, a: &Part, b: &Part, scale_a: f64, scale_b: f64, total_rate: f64) -> Change {
    let (rate_a, rate_b) = (a.count as f64 / scale_a, b.count as f64 / scale_b);
    let percent = (rate_a > 0.0).then(|| (rate_b / rate_a - 1.0) * 100.0);
    let found = bootstrap(a, b, rate_a, rate_b);
    let finding = match found {
        None => Finding::NoConfidence,
        Some((_, high)) if high < 0.0 => Finding::Fewer,
        Some((low, _)) if low > 0.0 => Finding::More,
        Some(_) => Finding::NoDifferenceShown,
    };
    // From nothing, or nearly, a change has no size that could be told.
    let interval = found.filter(|(low, high)| low.is_finite() && high.is_finite());
    let mean = |part: &Part| part.time_ns as f64 / part.count.max(1) as f64;
    Change {
        name: name.to_owned(),
        count_a: a.count,
        count_b: b.count,
        rate_a,
        rate_b,
        percent,
        interval,
        contribution: if total_rate > 0.0 { (rate_b - rate_a) / total_rate * 100.0 } else { 0.0 },
        time_a_ns: a.time_ns,
        time_b_ns: b.time_ns,
        mean_a_ns: mean(a),
        mean_b_ns: mean(b),
        finding,
    }
}

/// The 95 % interval of a change in per cent, from drawn blocks; infinite where there may have been
/// nothing before.
fn bootstrap(a: &Part, b: &Part, rate_a: f64, rate_b: f64) -> Option<(f64, f64)> {
    let has_blocks = |part: &Part| {
        part.blocks.len() >= FEWEST_BLOCKS
            && (part.count == 0 || part.blocks.iter().any(|block| *block > 0.0))
    };
    if !has_blocks(a) || !has_blocks(b) {
        return None;
    }
    let mut random = SplitMix(0x5eed);
    let mut draws: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn_a = rate_a * drawn_mean(&a.blocks, &mut random);
            let drawn_b = rate_b * drawn_mean(&b.blocks, &mut random);
            match (drawn_a > 0.0, drawn_b > 0.0) {
                (true, _) => (drawn_b / drawn_a - 1.0) * 100.0,
                (false, true) => f64::INFINITY,
                (false, false) => 0.0,
            }
        })
        .collect();
    draws.sort_by(f64::total_cmp);
    let at = |fraction: f64| draws[((draws.len() - 1) as f64 * fraction).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// The mean of as many drawn blocks, as a multiple of the mean of all.
fn drawn_mean(blocks: &[f64], random: &mut SplitMix) -> f64 {
    let whole: f64 = blocks.iter().sum();
    let drawn: f64 = (0..blocks.len()).map(|_| blocks[random.below(blocks.len())]).sum();
    if whole > 0.0 { drawn / whole } else { 0.0 }
}

/// A small generator with a fixed seed: the same recordings give the same interval.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;
