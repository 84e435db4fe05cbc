//! Reducing a window to the decisions that it needs, by delta debugging.
//! [Zeller, Hildebrandt: "Simplifying and Isolating Failure-Inducing Input"]

use super::oracle::Key;
use super::stage::Stage;
use super::window::Seen;
use arch::time::Picoseconds;
use board::perturb::{Decision, Source};

/// Windows that one reduction may take.
const MOST_WINDOWS: u32 = 400;

/// The fewest decisions with which an alarm of this cause is still raised, each as short as it may
/// be; the window, and how many windows that took.
pub fn minimise(stage: &mut Stage, key: &Key, found: &[Decision]) -> (Vec<Decision>, Seen, u32) {
    let mut trial = Trial { stage: &mut *stage, key, left: MOST_WINDOWS };
    let mut kept = trial.fewest(found.to_vec());
    trial.shorten(&mut kept);
    let windows = MOST_WINDOWS - trial.left;
    let seen = stage.window(Source::Plan(kept.clone()));
    (kept, seen, windows)
}

struct Trial<'a> {
    stage: &'a mut Stage,
    key: &'a Key,
    left: u32,
}

impl Trial<'_> {
    fn holds(&mut self, decisions: &[Decision]) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let seen = self.stage.window(Source::Plan(decisions.to_vec()));
        seen.alarm(self.key).is_some()
    }

    /// Takes out what is not needed: all, then halves, then ever smaller parts.
    fn fewest(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        if self.holds(&[]) {
            return Vec::new();
        }
        let lasting: Vec<Decision> =
            decisions.iter().filter(|one| one.delay.0 > 0).copied().collect();
        let is_enough = lasting.len() < decisions.len() && self.holds(&lasting);
        let decisions = if is_enough { lasting } else { decisions };
        fewest(decisions, |some| self.holds(some))
    }

    /// Halves delays as long as the alarm is raised.
    fn shorten(&mut self, decisions: &mut [Decision]) {
        for index in 0..decisions.len() {
            // Bounded: a delay has so many bits.
            while decisions[index].delay.0 > 1 {
                let before = decisions[index].delay;
                decisions[index].delay = Picoseconds(before.0 / 2);
                if !self.holds(decisions) {
                    decisions[index].delay = before;
                    break;
                }
            }
        }
    }
}

/// The part of `all` that `holds` still holds of, such that it does not without any one of them, as
/// long as it answers for itself.
fn fewest<T: Clone>(mut all: Vec<T>, mut holds: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut parts = 2;
    while all.len() > 1 && parts <= all.len() {
        let size = all.len().div_ceil(parts);
        let without = (0..all.len()).step_by(size).find_map(|start| {
            let end = (start + size).min(all.len());
            let rest = [&all[..start], &all[end..]].concat();
            holds(&rest).then_some(rest)
        });
        match without {
            Some(rest) => {
                all = rest;
                parts = (parts - 1).max(2);
            }
            None if parts == all.len() => break,
            None => parts = (parts * 2).min(all.len()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_together_is_all_that_stays() {
        for needed in [vec![3], vec![0, 99], vec![10, 11, 57], vec![]] {
            let mut asked = 0;
            let found = fewest((0..100).collect(), |some| {
                asked += 1;
                needed.iter().all(|one| some.contains(one))
            });
            let expected = if needed.is_empty() { 1 } else { needed.len() };
            assert_eq!(found.len(), expected, "{found:?}");
            assert!(needed.iter().all(|one| found.contains(one)), "{found:?}");
            assert!(asked < 120, "{asked}");
        }
    }
}
