//! What a run was expected to find: `exits.on < 200`, for checks that nobody looks at.

use crate::comparison::Comparison;
use crate::verdict::inhibition;
use std::str::FromStr;

/// A figure and a bound for it, in every comparison of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    text: String,
    place: Place,
    relation: Relation,
    bound: f64,
}

/// Which of a figure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Off,
    On,
    /// From off to on, in percent.
    Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Of all reasons, or of one.
    Exits(Option<String>, Side),
    Measure(String, Side),
    /// Percent of the time in which vCPUs could run.
    Inhibited,
    /// Runs whose benchmark waited for an interrupt in vain.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
}

/// As they are written; the longer ones come first.
const RELATIONS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Equal),
    ("<", Relation::Less),
    (">", Relation::More),
];

const FORM: &str = "PLACE RELATION NUMBER, such as 'exits.on < 200', 'exits.msr.change <= -90', \
                    'measure.ipi_acknowledged physical.on < 3000', 'inhibited == 0' or \
                    'lost == 0'";

impl Expectation {
    /// What is not as expected, comparison by comparison.
    pub fn failures(&self, comparisons: &[Comparison]) -> Vec<String> {
        let found = comparisons.iter().map(|one| (one, self.place.value(one)));
        let failures: Vec<String> = found
            .clone()
            .filter_map(|(one, value)| {
                let value = value.filter(|value| !self.relation.holds(*value, self.bound))?;
                Some(format!("expected {}, but {} has {value}", self.text, one.name))
            })
            .collect();
        if found.clone().all(|(_, value)| value.is_none()) {
            return vec![format!("expected {}, but this run has no such figure", self.text)];
        }
        failures
    }

    /// Whether interrupts that do not come are what it asks for, and no reason to doubt the run.
    pub(crate) fn is_about_losses(&self) -> bool {
        self.place == Place::Lost
    }
}

impl Relation {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::More => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => (value - bound).abs() < 1e-9,
        }
    }
}

impl Place {
    fn value(&self, comparison: &Comparison) -> Option<f64> {
        let percent = |off: f64, on: f64| (off > 0.0).then(|| (on - off) / off * 100.0);
        let side = |side: Side, off: Option<f64>, on: Option<f64>| match side {
            Side::Off => off,
            Side::On => on,
            Side::Change => percent(off?, on?),
        };
        match self {
            Self::Exits(None, which) => {
                let number = |count: Option<u64>| count.map(|count| count as f64);
                side(*which, number(comparison.exits_off()), number(comparison.exits_on()))
            }
            Self::Exits(Some(reason), which) => {
                let row = comparison.exits.iter().find(|row| row.name == *reason);
                let none = Some(0.0).filter(|_| !comparison.exits.is_empty());
                let number =
                    |count: Option<crate::drive::counters::Count>| count.map(|c| c.exits as f64);
                match row {
                    Some(row) => side(*which, number(row.off), number(row.on)),
                    None => side(*which, none, none),
                }
            }
            Self::Measure(name, which) => {
                let measure = comparison.measures.iter().find(|one| one.name == *name)?;
                side(*which, measure.off, measure.on)
            }
            Self::Inhibited => Some(inhibition(comparison)?.share),
            Self::Lost => Some(comparison.lost.len() as f64),
        }
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not {FORM}");
        let split = RELATIONS.iter().find_map(|(sign, relation)| {
            let (place, bound) = text.split_once(sign)?;
            Some((place.trim(), *relation, bound.trim()))
        });
        let (place, relation, bound) = split.ok_or_else(wrong)?;
        let bound = bound.parse().ok().filter(|bound: &f64| bound.is_finite()).ok_or_else(wrong)?;
        let place = place.parse().map_err(|()| wrong())?;
        Ok(Self { text: text.trim().into(), place, relation, bound })
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "inhibited" => return Ok(Self::Inhibited),
            "lost" => return Ok(Self::Lost),
            _ => {}
        }
        let (rest, side) = text.rsplit_once('.').ok_or(())?;
        let side = match side {
            "off" => Side::Off,
            "on" => Side::On,
            "change" => Side::Change,
            _ => return Err(()),
        };
        match rest.split_once('.') {
            None if rest == "exits" => Ok(Self::Exits(None, side)),
            Some(("exits", reason)) => Ok(Self::Exits(Some(reason.into()), side)),
            Some(("measure", name)) => Ok(Self::Measure(name.into(), side)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{ExitRow, Measure};
    use crate::drive::counters::{Count, Reason};
    use trace::exit_reason::Isa;

    const MSR: Reason = Reason { isa: Isa::Svm, code: 0x7C };

    fn comparison() -> Comparison {
        let count = |exits| Some(Count { exits, ..Count::default() });
        Comparison {
            name: "xAPIC".into(),
            exits: vec![ExitRow::new(MSR, count(1000), count(10))],
            measures: vec![Measure {
                name: "ipi physical".into(),
                unit: "cycles",
                off: Some(6000.0),
                on: Some(2700.0),
                samples: 500,
                over_seeds: None,
                over_prices: None,
            }],
            inhibited: Some((1.0, 0.0)),
            lost: vec!["xAPIC, on: an interrupt was lost".into()],
            ..Comparison::default()
        }
    }

    #[test]
    fn an_expectation_is_about_every_comparison() {
        for (text, holds) in [
            ("exits.on < 200", true),
            ("exits.on<10", false),
            ("exits.off >= 1000", true),
            ("exits.change <= -99", true),
            ("exits.msr.on == 10", true),
            ("exits.vintr.on == 0", true),
            ("measure.ipi physical.on < 3000", true),
            ("measure.ipi physical.change > -50", false),
            ("measure.nosuch.on < 1", false),
            ("inhibited == 0", true),
            ("lost == 0", false),
            ("lost >= 1", true),
        ] {
            let expectation: Expectation = text.parse().expect(text);
            let failures = expectation.failures(&[comparison()]);
            assert_eq!(failures.is_empty(), holds, "{text}: {failures:?}");
            assert!(failures.iter().all(|failure| failure.contains(text)), "{failures:?}");
        }
    }

    #[test]
    fn what_is_none_is_told_what_would_have_been_one() {
        for text in ["", "exits.on", "exits.on < many", "exits < 3", "exits.both < 3", "x.on < 3"] {
            let error = text.parse::<Expectation>().expect_err(text);
            assert!(error.contains("exits.on < 200"), "{error}");
        }
    }
}
