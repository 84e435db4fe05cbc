//! The order of trials: randomised complete blocks.
//!
//! A block has each level in each cell once, in an order drawn from the seed. What is dear to
//! change is changed rarely: within a block, the level of the dearest factor is the outermost.

use crate::plan::{Plan, Redo, Setting};
use crate::random::Random;

/// A trial that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Over the whole experiment, from 0 on.
    pub index: usize,
    /// From 0 on.
    pub block: usize,
    /// Which run within its setting, from 0 on.
    pub repeat: usize,
    /// The first or the second arm: 0 or 1.
    pub arm: usize,
    /// Which of the plan's cells.
    pub cell: usize,
    /// All levels.
    pub setting: Setting,
}

/// Which trials of a plan there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// In the order in which they are run.
    pub trials: Vec<Trial>,
    /// All of them, by their indices in [`Trial::cell`].
    pub cells: Vec<Setting>,
    /// Levels of the compared factor, or the same level twice.
    pub arms: [String; 2],
    /// How many blocks there are.
    pub blocks: usize,
}

/// What an experiment is run with besides its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Both arms have this level: whatever differs then is noise.
    pub same: Option<String>,
    /// Instead of the plan's.
    pub seed: Option<u64>,
    /// Instead of the plan's.
    pub blocks: Option<usize>,
}

impl Schedule {
    /// All trials of a plan.
    pub fn new(plan: &Plan, choice: &Choice, is_lab: bool) -> Self {
        let of_lab = plan.lab.as_ref().filter(|_| is_lab).and_then(|lab| lab.blocks);
        let blocks = choice.blocks.or(of_lab).unwrap_or(plan.design.blocks);
        let arms = arms(plan, choice, is_lab);
        let cells = plan.cells(is_lab);
        let mut random = Random::new(choice.seed.unwrap_or(plan.seed));
        let mut trials = Vec::new();
        for block in 0..blocks {
            let mut settings = in_random_order(plan, is_lab, &mut random);
            group_by_cost(plan, &mut settings);
            for (cell, arm) in settings {
                for repeat in 0..plan.design.repeats {
                    let mut setting = cells[cell].clone();
                    setting.insert(plan.design.compare.clone(), arms[arm].clone());
                    let index = trials.len();
                    trials.push(Trial { index, block, repeat, arm, cell, setting });
                }
            }
        }
        Self { trials, cells, arms, blocks }
    }

    /// The seed of an attempt at a trial.
    pub fn seed(plan: &Plan, choice: &Choice, trial: &Trial, attempt: u32) -> u64 {
        let seed = choice.seed.unwrap_or(plan.seed);
        let place = (trial.index as u64) << 8 | u64::from(attempt & 0xFF);
        Random::new(seed ^ Random::new(place).bits()).bits()
    }
}

fn arms(plan: &Plan, choice: &Choice, is_lab: bool) -> [String; 2] {
    if let Some(level) = &choice.same {
        return [level.clone(), level.clone()];
    }
    let levels = plan.levels(plan.compared(), is_lab);
    let level = |index: usize| levels.get(index).cloned().unwrap_or_default();
    [level(0), level(1)]
}

/// (cell, arm), each once.
fn in_random_order(plan: &Plan, is_lab: bool, random: &mut Random) -> Vec<(usize, usize)> {
    let cells = plan.cells(is_lab).len();
    let mut all: Vec<(usize, usize)> = (0..cells).flat_map(|cell| [(cell, 0), (cell, 1)]).collect();
    random.shuffle(&mut all);
    all
}

/// Puts settings together that share what is dear to change, without another change of the order
/// that was drawn: the group that came first stays first.
fn group_by_cost(plan: &Plan, settings: &mut [(usize, usize)]) {
    let is_compared_dearer = {
        let others = plan.factors.iter().filter(|one| one.name != plan.design.compare);
        plan.compared().redo > others.map(|one| one.redo).max().unwrap_or(Redo::Live)
    };
    let key = |setting: &(usize, usize)| if is_compared_dearer { setting.1 } else { setting.0 };
    let mut seen: Vec<usize> = Vec::new();
    for setting in settings.iter() {
        if !seen.contains(&key(setting)) {
            seen.push(key(setting));
        }
    }
    settings.sort_by_key(|setting| seen.iter().position(|one| *one == key(setting)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small;

    #[test]
    fn a_block_has_each_level_of_each_cell_once() {
        let plan = small();
        let schedule = Schedule::new(&plan, &Choice::default(), true);
        let cells = schedule.cells.len();
        assert_eq!(schedule.trials.len(), plan.design.blocks * 2 * cells);
        for block in schedule.trials.chunks(2 * cells) {
            let mut settings: Vec<_> = block.iter().map(|one| (one.cell, one.arm)).collect();
            settings.sort_unstable();
            settings.dedup();
            assert_eq!(settings.len(), 2 * cells);
        }
    }

    #[test]
    fn orders_differ_between_blocks_and_seeds_and_are_the_same_again() {
        let plan = small();
        let of = |seed| {
            let choice = Choice { seed: Some(seed), ..Choice::default() };
            Schedule::new(&plan, &choice, true)
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let first_arms = of(1).trials.iter().step_by(2).map(|one| one.arm).collect::<Vec<_>>();
        assert!(first_arms.contains(&0) && first_arms.contains(&1), "{first_arms:?}");
    }

    #[test]
    fn an_experiment_on_equal_arms_has_one_level_and_different_seeds() {
        let plan = small();
        let choice = Choice { same: Some("on".into()), ..Choice::default() };
        let schedule = Schedule::new(&plan, &choice, true);
        assert!(schedule.trials.iter().all(|one| one.setting["feature"] == "on"));
        let seed = |index: usize| Schedule::seed(&plan, &choice, &schedule.trials[index], 0);
        assert_ne!(seed(0), seed(1));
        assert_ne!(seed(0), Schedule::seed(&plan, &choice, &schedule.trials[0], 1));
    }

    #[test]
    fn what_is_dear_to_change_is_changed_once_a_block() {
        let plan = small();
        let schedule = Schedule::new(&plan, &Choice::default(), true);
        // The feature takes a reload of modules, the APIC's mode a restart of the machine.
        for block in schedule.trials.chunks(4) {
            let arms: Vec<_> = block.iter().map(|one| one.arm).collect();
            assert!(arms[0] == arms[1] && arms[2] == arms[3], "{arms:?}");
        }
    }
}
