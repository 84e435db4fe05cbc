//! What measured times are made of: the same program on the emulated host under the base profile,
//! and under profiles that differ in one figure each. How much a time changes by a figure is how
//! often what the figure is about lies on the way that is measured.

use crate::watch::Watch;
use anyhow::Context;
use board::cost::{CostProfile, Entry, IN_CORE_CYCLES, Range};

/// A figure is changed by this factor: enough that a counter's tick does not matter.
const FACTOR: f64 = 1.5;
/// What an own register's access takes is at least what its instruction does, so that instruction
/// is made cheaper.
const CHEAPER: (&str, &str, f64) = ("instruction", "serializing", 0.6);

/// Times as functions of costs, near some costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Section and name of each figure.
    pub figures: Vec<(&'static str, &'static str)>,
    /// What is known of each before.
    pub ranges: Vec<Range>,
    /// The costs at which times are `base`.
    pub center: Vec<f64>,
    /// Names of times.
    pub rows: Vec<String>,
    /// Nanoseconds, or in whatever unit the times are.
    pub base: Vec<f64>,
    /// What each time, by row, changes with each figure.
    pub slopes: Vec<Vec<f64>>,
}

impl Model {
    /// All times at some costs.
    pub fn times(&self, costs: &[f64]) -> Vec<f64> {
        let away: Vec<f64> = costs.iter().zip(&self.center).map(|(cost, own)| cost - own).collect();
        let rows = self.base.iter().zip(&self.slopes);
        rows.map(|(base, row)| base + row.iter().zip(&away).map(|(a, b)| a * b).sum::<f64>())
            .collect()
    }

    /// The same if cores were clocked by this ratio faster.
    pub fn at_clock(&self, ratio: f64) -> Self {
        let mut model = self.clone();
        for (figure, (section, _)) in self.figures.iter().enumerate() {
            if !IN_CORE_CYCLES.contains(section) {
                continue;
            }
            for row in 0..self.rows.len() {
                let slope = self.slopes[row][figure];
                model.slopes[row][figure] = slope / ratio;
                model.base[row] += slope * (1.0 / ratio - 1.0) * self.center[figure];
            }
        }
        model
    }

    /// The same of those times alone that a host has, too.
    pub fn kept(&self, has: impl Fn(&str) -> bool) -> Self {
        let mut model = self.clone();
        let keeps: Vec<bool> = self.rows.iter().map(|row| has(row)).collect();
        let mut keep = keeps.iter();
        model.rows.retain(|_| keep.next().copied().unwrap_or(false));
        let mut keep = keeps.iter();
        model.base.retain(|_| keep.next().copied().unwrap_or(false));
        let mut keep = keeps.iter();
        model.slopes.retain(|_| keep.next().copied().unwrap_or(false));
        model
    }

    /// The times as they were measured at other costs; how they change is taken to be the same.
    pub fn recenter(&mut self, costs: &[f64], times: &[(String, f64)]) -> anyhow::Result<()> {
        for (row, base) in self.rows.iter().zip(&mut self.base) {
            let found = times.iter().find(|(name, _)| name == row);
            *base = found.with_context(|| format!("{row} was not measured again"))?.1;
        }
        self.center = costs.to_vec();
        Ok(())
    }

    /// A profile with these costs in it.
    pub fn profile(&self, base: &CostProfile, costs: &[f64]) -> anyhow::Result<CostProfile> {
        let mut profile = base.clone();
        for ((section, name), cost) in self.figures.iter().zip(costs) {
            profile.set(section, name, *cost)?;
        }
        Ok(profile)
    }

    /// Times of a place as functions of the base profile's costs; `measure` measures them all under
    /// some profile.
    pub fn of(
        base: &CostProfile,
        watch: &mut Watch<'_>,
        mut measure: impl FnMut(&CostProfile, &mut Watch<'_>) -> anyhow::Result<Vec<(String, f64)>>,
    ) -> anyhow::Result<Self> {
        let figures: Vec<Entry> = base
            .entries()
            .filter(|one| one.range.likely > 0.0 && one.range.high > one.range.low)
            .collect();
        watch.stage("measuring under the model's costs");
        let (rows, times): (Vec<_>, Vec<_>) = measure(base, watch)?.into_iter().unzip();
        let mut slopes = vec![Vec::new(); rows.len()];
        for Entry { section, name, range, .. } in &figures {
            watch.stage(&format!("measuring with {section}.{name} changed"));
            let is_cheaper = (*section, *name) == (CHEAPER.0, CHEAPER.1);
            let factor = if is_cheaper { CHEAPER.2 } else { FACTOR };
            let mut changed = base.clone();
            changed.set(section, name, range.likely * factor)?;
            let there = measure(&changed, watch)?;
            for (row, own) in rows.iter().enumerate() {
                let found = there.iter().find(|(name, _)| name == own);
                let (_, time) = found.with_context(|| format!("{own} was not measured again"))?;
                slopes[row].push((time - times[row]) / (range.likely * (factor - 1.0)));
            }
        }
        Ok(Self {
            center: figures.iter().map(|one| one.range.likely).collect(),
            ranges: figures.iter().map(|one| one.range).collect(),
            figures: figures.iter().map(|one| (one.section, one.name)).collect(),
            rows,
            base: times,
            slopes,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Three times and three figures, of the last of which no time tells.
    pub fn model() -> Model {
        let range = |low, likely, high| Range { low, likely, high };
        Model {
            figures: vec![("event", "delivery"), ("event", "iret"), ("message", "device")],
            ranges: vec![
                range(50.0, 100.0, 200.0),
                range(50.0, 100.0, 200.0),
                range(20.0, 50.0, 80.0),
            ],
            center: vec![100.0, 100.0, 50.0],
            rows: ["both", "first", "other"].map(str::to_owned).into(),
            base: vec![500.0, 300.0, 100.0],
            slopes: vec![vec![1.0, 1.0, 0.0], vec![2.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]],
        }
    }

    #[test]
    fn what_times_are_made_of_is_found_from_how_they_change() {
        let base = CostProfile::named("zen4").expect("a profile");
        let time = |profile: &CostProfile| {
            700.0 + 3.0 * profile.event.iret.value + 2.0 * profile.instruction.serializing.value
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut tell = |_: crate::watch::Told<'_>| {};
        let mut watch = Watch::new(&stop, std::time::Duration::MAX, &mut tell);
        let measure = |profile: &CostProfile, _: &mut Watch<'_>| {
            Ok(vec![("a time".to_owned(), time(profile))])
        };
        let model = Model::of(&base, &mut watch, measure).expect("it was measured");
        for (figure, name) in model.figures.iter().enumerate() {
            let expected = match *name {
                ("event", "iret") => 3.0,
                ("instruction", "serializing") => 2.0,
                _ => 0.0,
            };
            assert!((model.slopes[0][figure] - expected).abs() < 1e-9, "{name:?}");
        }
        let drawn = base.drawn(7);
        let costs = model.figures.iter().map(|name| {
            let mut all = drawn.entries();
            all.find(|one| (one.section, one.name) == *name).expect("the same").range.likely
        });
        let costs: Vec<f64> = costs.collect();
        assert!((model.times(&costs)[0] - time(&drawn)).abs() < 1e-6);
    }

    #[test]
    fn a_faster_core_takes_less_of_what_it_does_by_itself_alone() {
        let mut model = model();
        model.figures[0] = ("world_switch", "exit");
        let faster = model.at_clock(2.0);
        let costs = [120.0, 90.0, 50.0];
        let (slow, fast) = (model.times(&costs), faster.times(&costs));
        for (row, expected) in [60.0, 120.0, 0.0].into_iter().enumerate() {
            assert!((slow[row] - fast[row] - expected).abs() < 1e-9, "{row}");
        }
    }
}
