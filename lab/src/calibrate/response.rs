//! What measured times are made of: the same program on the emulated host under the base profile,
//! and under profiles that differ in one figure each. How much a time changes by a figure is how
//! often what the figure is about lies on the way that is measured.
//!
//! One thing in it is not linear and known to be so: an access to an APIC register takes what its
//! figure says, and at least what the instruction does that makes it. So times are linear in what
//! accesses take in effect.

use crate::watch::Watch;
use anyhow::Context;
use board::cost::{CostProfile, Entry, IN_CORE_CYCLES, Range};

/// A figure is changed by this factor: enough that a counter's tick does not matter.
const FACTOR: f64 = 1.5;
/// What APIC registers' accesses take at least, in core cycles; it is made cheaper, so that they do
/// not become dearer with it.
const FLOOR: (&str, &str, f64) = ("instruction", "serializing", 0.6);
/// Those accesses, in nanoseconds.
const FLOORED: (&str, [&str; 4]) =
    ("apic", ["msr_read", "msr_write", "msr_command", "msr_end_of_interrupt"]);

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
    /// What each time, by row, changes with what each figure is in effect.
    pub slopes: Vec<Vec<f64>>,
    /// Core cycles in a nanosecond.
    pub gigahertz: f64,
}

impl Model {
    /// All times at some costs.
    pub fn times(&self, costs: &[f64]) -> Vec<f64> {
        let (costs, center) = (self.in_effect(costs), self.in_effect(&self.center));
        let away: Vec<f64> = costs.iter().zip(&center).map(|(cost, own)| cost - own).collect();
        let rows = self.base.iter().zip(&self.slopes);
        rows.map(|(base, row)| base + row.iter().zip(&away).map(|(a, b)| a * b).sum::<f64>())
            .collect()
    }

    /// What figures are in effect: an access takes at least what its instruction does.
    fn in_effect(&self, costs: &[f64]) -> Vec<f64> {
        let mut costs = costs.to_vec();
        if let Some(floor) = self.floor() {
            let least = costs[floor] / self.gigahertz;
            self.floored().for_each(|figure| costs[figure] = costs[figure].max(least));
        }
        costs
    }

    /// What each time changes with each figure at some costs.
    pub fn slopes_at(&self, costs: &[f64]) -> Vec<Vec<f64>> {
        let mut slopes = self.slopes.clone();
        let Some(floor) = self.floor() else { return slopes };
        let least = costs[floor] / self.gigahertz;
        for figure in self.floored().filter(|figure| costs[*figure] < least) {
            for row in &mut slopes {
                row[floor] += row[figure] / self.gigahertz;
                row[figure] = 0.0;
            }
        }
        slopes
    }

    fn floor(&self) -> Option<usize> {
        self.figures.iter().position(|one| *one == (FLOOR.0, FLOOR.1))
    }

    fn floored(&self) -> impl Iterator<Item = usize> {
        let is_floored =
            |(section, name): (&str, &str)| section == FLOORED.0 && FLOORED.1.contains(&name);
        (0..self.figures.len()).filter(move |figure| is_floored(self.figures[*figure]))
    }

    /// The same if cores were clocked by this ratio faster.
    pub fn at_clock(&self, ratio: f64) -> Self {
        let mut model = Self { gigahertz: self.gigahertz * ratio, ..self.clone() };
        let (before, after) = (self.in_effect(&self.center), model.in_effect(&self.center));
        for (figure, (section, _)) in self.figures.iter().enumerate() {
            let factor = if IN_CORE_CYCLES.contains(section) { 1.0 / ratio } else { 1.0 };
            for row in 0..self.rows.len() {
                let slope = self.slopes[row][figure];
                model.slopes[row][figure] = slope * factor;
                model.base[row] += slope * (factor * after[figure] - before[figure]);
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
    /// some profile, on cores of that clock.
    pub fn of(
        base: &CostProfile,
        gigahertz: f64,
        watch: &mut Watch<'_>,
        mut measure: impl FnMut(&CostProfile, &mut Watch<'_>) -> anyhow::Result<Vec<(String, f64)>>,
    ) -> anyhow::Result<Self> {
        let figures: Vec<Entry> = base
            .entries()
            .filter(|one| one.range.likely > 0.0 && one.range.high > one.range.low)
            .collect();
        watch.stage("measuring under the model's costs");
        let (rows, base_times): (Vec<_>, Vec<_>) = measure(base, watch)?.into_iter().unzip();
        let mut model = Self {
            center: figures.iter().map(|one| one.range.likely).collect(),
            ranges: figures.iter().map(|one| one.range).collect(),
            figures: figures.iter().map(|one| (one.section, one.name)).collect(),
            slopes: vec![vec![0.0; figures.len()]; rows.len()],
            rows,
            base: base_times,
            gigahertz,
        };
        // What accesses take at least comes last, and what it changes of them is known then.
        let mut order: Vec<usize> = (0..figures.len()).collect();
        order.sort_by_key(|figure| Some(*figure) == model.floor());
        for figure in order {
            let (section, name) = model.figures[figure];
            watch.stage(&format!("measuring with {section}.{name} changed"));
            let mut costs = model.center.clone();
            costs[figure] = model.changed(figure);
            let mut changed = base.clone();
            changed.set(section, name, costs[figure])?;
            let expected = model.times(&costs);
            let there = measure(&changed, watch)?;
            for (row, expected) in expected.iter().enumerate() {
                let own = &model.rows[row];
                let found = there.iter().find(|(name, _)| name == own);
                let (_, time) = found.with_context(|| format!("{own} was not measured again"))?;
                let step = costs[figure] - model.in_effect(&model.center)[figure];
                model.slopes[row][figure] = (time - expected) / step;
            }
        }
        Ok(model)
    }

    /// What a figure is changed to.
    fn changed(&self, figure: usize) -> f64 {
        let own = self.in_effect(&self.center)[figure];
        own * if Some(figure) == self.floor() { FLOOR.2 } else { FACTOR }
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
            gigahertz: 3.7,
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
        let model = Model::of(&base, 3.7, &mut watch, measure).expect("it was measured");
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

    #[test]
    fn an_access_takes_no_less_than_the_instruction_that_makes_it() {
        let mut model = model();
        model.figures =
            vec![("instruction", "serializing"), ("apic", "msr_read"), ("message", "device")];
        model.gigahertz = 2.0;
        model.center = vec![100.0, 60.0, 50.0];
        model.slopes = vec![vec![0.1, 3.0, 0.0]; 3];
        // 100 cycles are 50 ns, less than the access's 60; 160 are 80.
        for (serializing, access, more) in [
            (100.0, 60.0, 0.0),
            (110.0, 60.0, 1.0),
            (160.0, 60.0, 6.0 + 3.0 * 20.0),
            (100.0, 40.0, 3.0 * -10.0),
        ] {
            let costs = [serializing, access, 50.0];
            let time = model.times(&costs)[0];
            assert!((time - model.base[0] - more).abs() < 1e-9, "{costs:?}: {time}");
            let slopes = model.slopes_at(&costs);
            for figure in 0..3 {
                let mut dearer = costs;
                dearer[figure] += 0.01;
                let slope = (model.times(&dearer)[0] - time) / 0.01;
                assert!((slope - slopes[0][figure]).abs() < 1e-6, "{costs:?} {figure}: {slope}");
            }
        }
    }
}
