//! What several rules about the kernel's own parameters say alike.

use crate::boot_word::{BootWord, Takes, WORDS};
use crate::configuration::change::ParameterChange;
use crate::configuration::{Kind, ModuleOption};
use crate::finding::Position;
use crate::lint::decision::module::open_words;
use crate::lint::outcome::Outcome;
use crate::lint::subject::Options;

/// Runs a check on each of the kernel's own parameters; open words decide nothing.
pub fn each(
    options: &Options<'_>,
    outcome: &mut Outcome,
    violated: impl Fn(&ModuleOption, &[&str], &mut Outcome),
) {
    if options.kind != Kind::KernelCommandLine {
        return;
    }
    for option in options.given.iter().filter(|option| option.module.is_empty()) {
        let value = option.value.as_deref().unwrap_or_default();
        if option.name.contains(['$', '`']) || value.contains(['$', '`']) {
            continue;
        }
        let values: Vec<&str> = value.split(',').collect();
        violated(option, &values, outcome);
    }
    open_words(options, outcome);
}

/// Takes one value out of a comma-separated list, or the whole parameter when it was the only one.
pub fn without(option: &ModuleOption, values: &[&str], unwanted: &[&str]) -> ParameterChange {
    let rest = values.iter().filter(|value| !unwanted.contains(value)).count();
    if rest > 0 {
        // The list is rewritten in place by the edits; the name says which.
        let name = format!("{}={}", option.name, unwanted.join(","));
        return ParameterChange::Remove { at: value_place(option, values, unwanted), name };
    }
    ParameterChange::Remove { at: option.at, name: option.at_name() }
}

/// Place of the first unwanted value together with one of its commas.
fn value_place(option: &ModuleOption, values: &[&str], unwanted: &[&str]) -> Position {
    let mut start = option.value_at.start;
    for (index, value) in values.iter().enumerate() {
        let end = start + value.len();
        if unwanted.contains(value) {
            let (start, end) = if index == 0 { (start, end + 1) } else { (start - 1, end) };
            return Position { start, end, ..option.value_at };
        }
        start = end + 1;
    }
    option.at
}

impl ModuleOption {
    fn at_name(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The words of the table that a parameter contains and that matter to the target.
fn taking(option: &ModuleOption, options: &Options<'_>, takes: Takes) -> Vec<&'static BootWord> {
    let value = option.value.as_deref();
    WORDS
        .iter()
        .filter(|word| word.takes == takes && word.is_in(&option.name, value))
        .filter(|word| options.vendors.iter().any(|vendor| word.concerns(*vendor)))
        .collect()
}

/// Says what is taken away by words of the table.
pub fn table(
    options: &Options<'_>,
    outcome: &mut Outcome,
    takes: Takes,
    message: impl Fn(&BootWord) -> String,
) {
    each(options, outcome, |option, values, outcome| {
        let words = taking(option, options, takes);
        let Some(word) = words.first() else { return };
        let unwanted: Vec<&str> = words.iter().map(|word| word.value.unwrap_or("")).collect();
        let vendors = options.vendors.iter().copied().filter(|vendor| word.concerns(*vendor));
        outcome
            .violated(Some(option.at), message(word))
            .on(vendors.collect())
            .repaired_by(without(option, values, &unwanted));
    });
}
