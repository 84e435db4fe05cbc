//! What a result says, in one sentence: what someone who reads nothing else has to know, the bad
//! news in front.

mod activity;
mod change;
pub mod expect;

pub(crate) use activity::inhibition;
pub use change::Change;

use crate::comparison::Comparison;
use crate::plan::Experiment;
use activity::{Activity, is_without};
use change::{better_sentence, exits, worse, worse_sentence};
use expect::Expectation;
use report::grid::grouped;
use serde::Serialize;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// In a sentence, the bad news in front.
    pub text: String,
    /// Whether the result can be trusted: both counts agree, and everything ended as it should.
    pub is_sound: bool,
    /// What got worse with the feature on, the worst first.
    pub worse: Vec<Change>,
    /// Of the number of exits.
    pub exits: Vec<Change>,
    /// Whether the feature was active all the time; None where nobody could tell.
    pub is_active: Option<bool>,
    /// Whether software and machine counted the same exits; None where only one of them counted.
    pub counts_agree: Option<bool>,
    /// How many interrupts did not come, where an expectation is about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
    /// What is not as it was expected.
    pub unexpected: Vec<String>,
    /// The part of the sentence that is bad news.
    #[serde(skip)]
    pub bad_news: Vec<String>,
    /// Who counted besides the machine.
    #[serde(skip)]
    pub counted_by: &'static str,
}

impl Verdict {
    /// Takes what is not as it was expected, which is then said first.
    pub(crate) fn expect(&mut self, unexpected: Vec<String>) {
        if !unexpected.is_empty() {
            let first = format!("UNEXPECTED: {}", unexpected.join("; "));
            self.text = format!("{first}; {}", self.text);
            self.bad_news.insert(0, first);
        }
        self.unexpected = unexpected;
    }

    /// Whether the result can be trusted and is as expected.
    pub fn is_good(&self) -> bool {
        self.is_sound && self.unexpected.is_empty()
    }
}

/// `instead` says which kernel was meant, and why another took its place. Interrupts that do not
/// come are a reason to doubt a run unless its expectations are about them.
pub fn of(
    experiment: &Experiment,
    workload: &str,
    comparisons: &[Comparison],
    instead: Option<&str>,
    expectations: &[Expectation],
) -> Verdict {
    let feature = experiment.name();
    let inhibited = experiment.inhibited_name();
    let between = |one| Comparison::between_agreements(one);
    let agreement = || comparisons.iter().flat_map(|one| one.agreement.iter().chain(between(one)));
    let counts_agree =
        agreement().next().map(|_| agreement().all(|one| one.differences.is_empty()));
    let is_about_losses = expectations.iter().any(Expectation::is_about_losses);
    let doubts = comparisons.iter().flat_map(|one| {
        one.troubles.iter().filter(move |text| !is_about_losses || !one.lost.contains(text))
    });
    let troubles: Vec<&String> = doubts.collect();
    let lost = comparisons.iter().flat_map(|one| &one.lost).filter(|_| is_about_losses);
    let lost: Vec<&str> = lost.map(String::as_str).collect();
    let mut parts = Vec::new();
    parts.extend(instead.map(str::to_owned));
    if !lost.is_empty() {
        parts.push(format!("LOST: {}", lost.join("; ")));
    }
    parts.extend(troubles.first().map(|first| format!("NOT TO BE TRUSTED: {first}")));
    if counts_agree == Some(false) {
        parts.push("NOT TO BE TRUSTED: software and machine counted different exits".into());
    }
    let activity = Activity::of(comparisons);
    let is_inhibited = activity.is_inhibited();
    parts.extend(activity.sentence(inhibited));
    // Without the feature on either side, differences are chance.
    let with = comparisons.iter().filter(|one| !is_without(one));
    let with: Vec<&Comparison> = with.collect();
    let worse = worse(&with);
    let is_without = with.is_empty() && !comparisons.is_empty();
    if is_without {
        parts.push("both sides ran without it".into());
    } else if !worse.is_empty() {
        parts.push(worse_sentence(&worse, &feature));
    }
    let bad_news = parts.clone();
    let lost = is_about_losses.then_some(lost.len());
    parts.extend(none_lost(lost).map(str::to_owned));
    parts.extend(said(comparisons));
    let exits: Vec<Change> = comparisons.iter().filter_map(exits).collect();
    parts.extend(exits_sentence(experiment, workload, comparisons, &exits));
    parts.extend(better_sentence(&with));
    if activity.is_known() && !is_inhibited {
        parts.push(format!("{inhibited} was active all the time"));
    }
    if counts_agree == Some(true) {
        let by = agreement().next().map_or("", |one| one.counted_by);
        parts.push(format!("{by} and the machine counted the same exits"));
    }
    Verdict {
        text: parts.join("; "),
        is_sound: troubles.is_empty() && counts_agree != Some(false),
        worse,
        exits,
        is_active: activity.is_known().then_some(!is_inhibited),
        counts_agree,
        lost,
        unexpected: Vec::new(),
        bad_news,
        counted_by: agreement().next().map_or("", |one| one.counted_by),
    }
}

/// Said where that is what was asked.
pub(crate) fn none_lost(lost: Option<usize>) -> Option<&'static str> {
    (lost == Some(0)).then_some("no interrupt was lost")
}

/// What the workload says of its own findings, off and on.
fn said(comparisons: &[Comparison]) -> Option<String> {
    let first =
        comparisons.iter().flat_map(|one| &one.found.0).find_map(|one| one.said.as_ref())?;
    let each = comparisons.iter().filter_map(|comparison| {
        let own = comparison.found.0.iter().filter_map(|one| one.said.as_ref());
        let values: Vec<&str> = own.map(|said| said.value.as_str()).collect();
        let name = if first.is_named { format!("{} ", comparison.name) } else { String::new() };
        (!values.is_empty()).then(|| format!("{name}{}", values.join(" -> ")))
    });
    Some(format!("{}: {}", first.what, each.collect::<Vec<_>>().join(", ")))
}

fn exits_sentence(
    experiment: &Experiment,
    workload: &str,
    comparisons: &[Comparison],
    exits: &[Change],
) -> Option<String> {
    let feature = experiment.name();
    if !exits.is_empty() {
        let each = exits.iter().map(|one| {
            let found = comparisons.iter().find(|found| found.name == one.comparison);
            let steps = found.map_or(String::new(), steps);
            format!("{} {:+.1} %{steps}", one.comparison, one.percent)
        });
        let each = each.collect::<Vec<_>>().join(", ");
        return Some(format!("{feature} off -> on, {workload}: VM exits {each}"));
    }
    let [setting] = experiment.settings.as_slice() else { return None };
    let each = comparisons.iter().filter_map(|one| {
        Some(format!("{} {}", one.name, grouped(one.exits_off().or(one.exits_on())?)))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| format!("{feature} {setting} only, {workload}: VM exits {each}"))
}

/// What the arms between off and on come to, in brackets.
fn steps(comparison: &Comparison) -> String {
    let first = comparison.exits_off().unwrap_or(0);
    let each = comparison.between.iter().filter_map(|arm| {
        let change = arm.change(first)?;
        Some(format!(" ({} {change:+.1} %)", arm.arm))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{ExitRow, Measure, Prices};
    use crate::drive::counters::{Count, Reason};
    use trace::exit_reason::Isa;

    const MSR: Reason = Reason { isa: Isa::Svm, code: 0x7C };

    fn comparison(off: u64, on: u64, measures: &[(&str, &'static str, f64, f64)]) -> Comparison {
        let count = |exits| Some(Count { exits, ..Count::default() });
        Comparison {
            name: "x2APIC".into(),
            exits: vec![ExitRow::new(MSR, count(off), count(on))],
            measures: measures
                .iter()
                .map(|(name, unit, off, on)| Measure {
                    name: (*name).into(),
                    unit,
                    off: Some(*off),
                    on: Some(*on),
                    samples: 500,
                    over_seeds: None,
                    over_prices: Some(Prices::near(*off, *on)),
                })
                .collect(),
            ..Comparison::default()
        }
    }

    fn text(comparison: Comparison) -> String {
        of(&Experiment::default(), "timer", &[comparison], None, &[]).text
    }

    #[test]
    fn what_was_measured_once_is_not_judged() {
        let mut once = comparison(1000, 782, &[("late", "cycles", 1000.0, 1817.0)]);
        once.measures[0].over_prices = None;
        let got = text(once);
        assert!(!got.contains("WORSE") && !got.contains("late"), "{got}");
    }

    #[test]
    fn what_got_worse_is_said_before_what_was_gained() {
        let got = text(comparison(
            1000,
            782,
            &[("late", "cycles", 1000.0, 1817.0), ("rate", "messages/s", 100.0, 50.0)],
        ));
        let worse = got.find("WORSE with AVIC: x2APIC late +81.7 % (1,000 -> 1,817 cycles)");
        assert_eq!(worse, Some(0), "{got}");
        assert!(got.contains("rate -50.0 %"), "a lower rate is worse, too: {got}");
        assert!(got.contains("VM exits x2APIC -21.8 %"), "{got}");
    }

    #[test]
    fn a_gain_without_a_loss_is_said_alone() {
        let got = text(comparison(1000, 10, &[("ipi", "cycles", 100.0, 50.0)]));
        assert!(got.starts_with("AVIC off -> on, timer: VM exits x2APIC -99.0 %"), "{got}");
        assert!(got.contains("better by 50.0 %") && !got.contains("WORSE"), "{got}");
    }

    #[test]
    fn more_exits_are_worse() {
        assert!(text(comparison(10, 1000, &[])).starts_with("WORSE with AVIC: x2APIC exits"));
    }

    #[test]
    fn a_guest_that_waits_more_often_is_no_worse() {
        let count = |exits| Some(Count { exits, ..Count::default() });
        let halts = Reason { isa: Isa::Svm, code: 0x78 };
        let mut waiting = comparison(100, 50, &[]);
        waiting.exits.push(ExitRow::new(halts, count(100), count(500)));
        let got = text(waiting);
        assert!(!got.contains("WORSE") && got.contains("VM exits x2APIC +175.0 %"), "{got}");
    }

    #[test]
    fn what_cannot_be_trusted_says_so_first() {
        let troubled = Comparison { troubles: vec!["broken".into()], ..comparison(10, 1, &[]) };
        let verdict = of(&Experiment::default(), "ipi", &[troubled], Some("no KVM here"), &[]);
        assert!(!verdict.is_sound);
        assert!(verdict.text.starts_with("no KVM here; NOT TO BE TRUSTED: broken"), "{verdict:?}");
    }

    #[test]
    fn a_lost_interrupt_is_a_doubt_unless_it_is_what_was_asked_for() {
        let text = "x2APIC, on: an interrupt was lost";
        let loses = || Comparison {
            troubles: vec![text.into()],
            lost: vec![text.into()],
            ..comparison(10, 1, &[])
        };
        let asked: Expectation = "lost >= 0".parse().expect("an expectation");
        let asked = std::slice::from_ref(&asked);
        let verdict =
            |one: Comparison, asked| of(&Experiment::default(), "wake", &[one], None, asked);
        let doubted = verdict(loses(), &[]);
        assert!(!doubted.is_sound && doubted.text.starts_with("NOT TO BE TRUSTED: x2APIC, on"));
        let told = verdict(loses(), asked);
        assert!(told.is_sound && told.lost == Some(1), "{told:?}");
        assert!(told.text.starts_with("LOST: x2APIC, on: an interrupt was lost"), "{told:?}");
        let mut other = loses();
        other.troubles.push("the kernel warned".into());
        assert!(!verdict(other, asked).is_sound, "what else is wrong is still a doubt");
        let none = verdict(comparison(10, 1, &[]), asked);
        assert!(none.text.contains("no interrupt was lost") && none.lost == Some(0), "{none:?}");
    }

    #[test]
    fn differences_between_two_sides_without_the_feature_are_no_finding() {
        let mut inhibited = comparison(1000, 1100, &[("late", "cycles", 1000.0, 1100.0)]);
        inhibited.inhibited = Some((1.0, 1.0));
        let points = crate::protocol::Tracepoints {
            inhibits: vec![(0.0, "set reason=8, inhibits=0x100".into())],
            ran: Some((0.0, 1.0)),
            ..Default::default()
        };
        inhibited.inhibit_history = crate::comparison::history(&points, "6.1.0");
        let got = text(inhibited);
        let start = "AVIC was inhibited all the time by PIT_REINJ: leave out --pit reinject";
        assert!(got.starts_with(start) && got.contains("both sides ran without it"), "{got}");
        assert!(!got.contains("WORSE"), "{got}");
    }

    #[test]
    fn an_inhibit_of_one_guest_hides_no_change_of_another() {
        let late = [("late", "cycles", 1000.0, 1200.0)];
        let named = |name: &str, inhibited| Comparison {
            name: name.into(),
            inhibited: Some((1.0, inhibited)),
            ..comparison(1000, 100, &late)
        };
        let both = [named("xAPIC", 1.0), named("x2APIC", 0.0)];
        let got = of(&Experiment::default(), "ipi", &both, None, &[]).text;
        let start = "AVIC was inhibited in xAPIC all the time; in x2APIC it was active all the time; \
                     WORSE with AVIC: x2APIC late +20.0 %";
        assert!(got.starts_with(start), "{got}");
        assert!(!got.contains("xAPIC late"), "{got}");
    }
}
