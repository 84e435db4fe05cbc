//! Carries the changes out, until nothing more can be repaired.

use super::diagnostic::{Remedy, Report, Target};
use super::judge::lint;
use crate::configuration::change::{Change, MachineChange};
use crate::configuration::edit::{Edit, applied as applied_to};
use crate::configuration::{self, Hints, InputError, Kind};
use crate::finding::{Answer, Severity};
use std::collections::BTreeMap;

/// Rounds of fixing: one change can uncover another.
const MAX_ROUNDS: usize = 8;

/// A repaired text with what is left to say about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    /// The whole text, as far as it could be repaired.
    pub text: String,
    /// Changes made.
    pub repaired: usize,
    /// Of the repaired text.
    pub report: Report,
}

/// Applies every edit of every diagnostic until nothing more can be repaired.
pub fn fixed(
    file: &str,
    text: &str,
    kind: Option<Kind>,
    target: &Target,
) -> Result<Fixed, InputError> {
    let hints = Hints { qemu: target.qemu };
    let judge = |text: &str, kind| {
        let contents = configuration::read(file, text, kind, &hints)?;
        Ok((contents.kind, lint(&contents, target, file)))
    };
    let mut text = text.to_owned();
    let mut repaired = 0;
    let (kind, mut report) = judge(&text, kind)?;
    for _ in 0..MAX_ROUNDS {
        let (next, applied) = apply(&text, &report);
        if applied == 0 {
            break;
        }
        let (_, next_report) = judge(&next, Some(kind))?;
        // An edit that does not lessen what is wrong would go on for ever.
        if burden(&next_report) >= burden(&report) {
            break;
        }
        repaired += applied;
        (text, report) = (next, next_report);
    }
    Ok(Fixed { text, repaired, report })
}

/// What is wrong, graver things first.
fn burden(report: &Report) -> [usize; 4] {
    let count = |answer, severity| {
        let found = report.diagnostics.iter();
        found.filter(|found| found.answer == answer && found.severity == severity).count()
    };
    [
        count(Answer::No, Severity::Error),
        count(Answer::No, Severity::Warning),
        count(Answer::No, Severity::Note),
        report.diagnostics.len(),
    ]
}

/// Applies the edits that do not touch one another; the others wait for the next round.
fn apply(text: &str, report: &Report) -> (String, usize) {
    // By where they start.
    let mut edits: BTreeMap<usize, Vec<&Edit>> = BTreeMap::new();
    let mut applied = 0;
    let remedies = || {
        let remedies =
            report.diagnostics.iter().filter_map(|diagnostic| diagnostic.remedy.as_ref());
        remedies.filter(|remedy| !remedy.edits.is_empty())
    };
    // A split irqchip takes the in-kernel PIT with it: what to do about the PIT shows afterwards.
    let is = |remedy: &Remedy, change| remedy.change == Change::Machine(change);
    let splits = remedies().any(|remedy| is(remedy, MachineChange::SplitIrqchip));
    let is_early = |remedy: &&Remedy| !splits || !is(remedy, MachineChange::DiscardPitTicks);
    let with_edits = remedies().filter(is_early).map(|remedy| &remedy.edits);
    for group in with_edits {
        let is_there = |edit: &Edit| edits.get(&edit.start).is_some_and(|at| at.contains(&edit));
        if group.iter().all(is_there) {
            // Two rules ask for the same change.
            continue;
        }
        let touches = |edit: &Edit| {
            // Those that are there do not touch: none before this one ends later.
            let before = edits.range(..=edit.end).next_back();
            before.is_some_and(|(_, at)| at.iter().any(|other| edit.start <= other.end))
        };
        if group.iter().any(touches) {
            continue;
        }
        group.iter().for_each(|edit| edits.entry(edit.start).or_default().push(edit));
        applied += 1;
    }
    let mut edits: Vec<&Edit> = edits.into_values().flatten().collect();
    edits.sort();
    (applied_to(text, &edits), applied)
}
