//! The answer on one screen: the verdict first and last, one picture, a row for each virtual
//! machine, and what is measured and what is computed. Everything else is in the tables.

mod table;
#[cfg(test)]
mod tests;

use super::LabResult;
use super::lane;
use crate::comparison::{ArmExample, Comparison, Measure};
use crate::drive::counters::Count;
use crate::drive::example::Interrupt;
use crate::evidence::Use;
use crate::plan::Setting;
use crate::verdict::none_lost;
use crate::workload;
use report::grid::{folded, grouped};
use table::aligned;

/// Lines of the screen that a terminal of 24 has besides the prompt.
const MOST_LINES: usize = 22;
const MOST_LINES_WIDE: usize = 48;
/// Reasons with a bar.
const MOST_REASONS: usize = 4;
/// The same where there is room.
const MOST_REASONS_WIDE: usize = 8;
/// A change by less than this factor is none.
const SAME: f64 = 1.02;

/// What goes first where there are too many lines, the last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Answer,
    Picture,
    Basis,
    Advice,
    Middle,
    Gap,
}

/// How a run of the lab ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The result is sound and as expected.
    Good,
    /// It cannot be trusted, or is not as expected.
    Bad,
    /// The built-in hypervisor took the place of KVM.
    Instead,
}

impl Ending {
    /// The exit status that stands for it.
    pub const fn status(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Bad => 1,
            Self::Instead => 4,
        }
    }
}

impl LabResult {
    /// From so many columns on there is room for what the host's functions take and for bars by
    /// reason, and for more lines.
    pub const WIDE: usize = 120;

    /// For a terminal of so many columns.
    pub fn to_screen(&self, columns: usize) -> String {
        let most = if columns >= Self::WIDE { MOST_LINES_WIDE } else { MOST_LINES };
        let mut lines: Vec<(Weight, String)> = Vec::new();
        let mut add = |weight: Weight, text: String| {
            lines.extend(text.lines().map(|line| (weight, line.trim_end().to_owned())));
        };
        let gap = || (Weight::Gap, "\n".to_owned());
        let sentence = |text: &str| folded(text, columns, 2);
        add(Weight::Answer, sentence(&self.head()));
        for (weight, text) in [
            gap(),
            (Weight::Picture, self.picture(columns)),
            gap(),
            (Weight::Answer, self.rows(columns)),
            gap(),
            (Weight::Basis, sentence(&self.basis())),
            (
                Weight::Middle,
                self.against_published().map_or(String::new(), |text| sentence(&text)),
            ),
            (Weight::Basis, sentence(&self.ran())),
            gap(),
            (Weight::Advice, self.advice(columns)),
            (Weight::Answer, sentence(&self.last())),
        ] {
            add(weight, text);
        }
        while lines.len() > most {
            let heaviest = lines.iter().map(|(weight, _)| *weight).max();
            let Some(weight) = heaviest.filter(|weight| *weight > Weight::Answer) else { break };
            let Some(place) = lines.iter().rposition(|(own, _)| *own == weight) else { break };
            lines.remove(place);
        }
        let cut = |line: String| line.chars().take(columns).collect::<String>();
        lines.into_iter().fold(String::new(), |text, (_, line)| text + &cut(line) + "\n")
    }

    /// What the program ends with.
    pub fn ending(&self) -> Ending {
        match (&self.host.instead, self.verdict.is_good()) {
            (Some(_), _) => Ending::Instead,
            (None, true) => Ending::Good,
            (None, false) => Ending::Bad,
        }
    }

    /// What is switched.
    fn feature(&self) -> &str {
        let label = self.arms.last().map_or("", |arm| arm.label.as_str());
        label.rsplit_once(' ').map_or(label, |(feature, _)| feature)
    }

    /// The bad news, and then what changed.
    fn head(&self) -> String {
        let mut parts = self.verdict.bad_news.clone();
        parts.extend(none_lost(self.verdict.lost).map(str::to_owned));
        let mut good = self.change().into_iter().chain(self.gain()).collect::<Vec<_>>().join(", ");
        if self.verdict.is_active == Some(true) {
            good += ", active all the time";
        }
        parts.push(good);
        if self.verdict.counts_agree == Some(true) {
            let by = self.verdict.counted_by;
            parts.push(format!("{by} and the machine counted the same exits"));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }

    /// Of the number of exits, over all virtual machines.
    fn change(&self) -> Option<String> {
        let feature = self.feature();
        Some(match self.exits() {
            (Some(off), Some(on)) => {
                let percent = percent(off, on);
                let (off, on) = (grouped(off), grouped(on));
                format!("{feature} off -> on: {off} -> {on} VM exits ({percent:+.1} %)")
            }
            (Some(one), None) => format!("{feature} off only: {} VM exits", grouped(one)),
            (None, Some(one)) => format!("{feature} on only: {} VM exits", grouped(one)),
            (None, None) => return None,
        })
    }

    /// Of all virtual machines, off and on.
    fn exits(&self) -> (Option<u64>, Option<u64>) {
        let sum = |side: fn(&Comparison) -> Option<u64>| {
            self.comparisons.iter().map(side).sum::<Option<u64>>().filter(|sum| *sum > 0)
        };
        (sum(Comparison::exits_off), sum(Comparison::exits_on))
    }

    /// The figure that the workload is about, in each comparison that has it and knows how far it
    /// may be off.
    fn headlines(&self) -> Vec<(&Comparison, &Measure)> {
        let name = workload::of_title(&self.workload).headline().0;
        let is_it = |measure: &Measure| measure.name == name && measure.has_interval();
        let measure = |one: &'_ Comparison| one.measures.iter().position(is_it);
        let found = self.comparisons.iter().filter_map(|one| Some((one, measure(one)?)));
        found.map(|(one, place)| (one, &one.measures[place])).collect()
    }

    /// How many times as fast that got, between the ends of all its intervals.
    fn gain(&self) -> Option<String> {
        let factors: Vec<(f64, f64)> =
            self.headlines().iter().filter_map(|(_, measure)| factors(measure)).collect();
        let least = factors.iter().map(|one| one.0).reduce(f64::min)?;
        let most = factors.iter().map(|one| one.1).reduce(f64::max)?;
        let words = workload::of_title(&self.workload).headline().1;
        Some(match (least, most) {
            // What got slower is among the bad news.
            (least, _) if least < 1.0 / SAME => return None,
            (_, most) if most <= SAME => format!("{words} as fast as before"),
            (least, most) if most - least < 0.1 => format!("{words} {most:.1} x as fast"),
            (least, most) => format!("{words} {least:.1} to {most:.1} x as fast"),
        })
    }

    /// One: a typical interrupt, or else the figure that the workload is about, or exits by reason;
    /// on a wide terminal those as well.
    fn picture(&self, columns: usize) -> String {
        let width = columns.min(100);
        let headlines = self.headlines();
        // Several ways of waiting are the picture where there are some.
        let is_ipi = |one: &&Comparison| {
            one.examples.iter().any(|one| one.example.interrupt == Interrupt::Ipi)
        };
        let with_example = self.comparisons.iter().rev().find(is_ipi);
        let most = if columns >= Self::WIDE { MOST_REASONS_WIDE } else { MOST_REASONS };
        let reasons =
            || self.comparisons.last().map_or(String::new(), |one| reasons(one, width, most));
        let mut picture = match with_example {
            Some(comparison) => lane::of(comparison, width),
            None if headlines.len() > 1 => {
                let words = workload::of_title(&self.workload).headline().1;
                let unit = headlines[0].1.unit;
                let pairs: Vec<_> =
                    headlines.iter().map(|(one, m)| (one.name.as_str(), m.off, m.on)).collect();
                lane::bars(&format!("{words}, {unit}"), &pairs, width)
            }
            None => return reasons(),
        };
        if columns >= Self::WIDE {
            let functions = with_example.map(|one| lane::functions(one, columns));
            picture += &functions.unwrap_or_default();
            picture += &format!("\n{}", reasons());
        }
        picture
    }

    /// A row for each virtual machine.
    fn rows(&self, columns: usize) -> String {
        let headline = workload::of_title(&self.workload).headline();
        let mut table = vec![vec![String::new(), "exits other than HLT".to_owned()]];
        let has_ipis = self.comparisons.iter().any(|one| !one.exits_per_ipi.is_empty());
        let is_ipi = |one: &ArmExample| one.example.interrupt == Interrupt::Ipi;
        let with_examples = self.comparisons.iter().any(|one| one.examples.iter().any(is_ipi));
        let unit = self.headlines().first().map(|(_, measure)| measure.unit);
        table[0].extend(has_ipis.then(|| "exits per IPI".to_owned()));
        table[0].extend(unit.map(|unit| format!("{}, {unit}", headline.1)));
        table[0].extend(with_examples.then(|| "time in KVM".to_owned()));
        for one in &self.comparisons {
            let (off, on) = one.work();
            let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), grouped);
            let mut row = vec![one.name.clone(), format!("{} -> {}", count(off), count(on))];
            if has_ipis {
                let all: Vec<String> =
                    per_ipi(one).iter().map(|exits| format!("{exits:.2}")).collect();
                row.push(all.join(" -> "));
            }
            if unit.is_some() {
                let is_it = |one: &&Measure| one.name == headline.0 && one.has_interval();
                let measure = one.measures.iter().find(is_it);
                row.push(measure.map_or_else(String::new, |measure| {
                    let off = within(measure.off, measure.half(Setting::Off));
                    let on = within(measure.on, measure.half(Setting::On));
                    format!("{off} -> {on}")
                }));
            }
            if with_examples {
                let shares = one.examples.iter();
                let shares =
                    shares.map(|one| format!("{:.0} %", one.example.share_in_hypervisor()));
                row.push(shares.collect::<Vec<_>>().join(" -> "));
            }
            table.push(row);
        }
        aligned(table, columns)
    }

    /// What is measured and what is computed.
    fn basis(&self) -> String {
        let counted = match self.verdict.counts_agree {
            Some(_) => "counted twice",
            None => "counted by the machine",
        };
        let headlines = self.headlines();
        let spreads = headlines.iter().filter_map(|(_, measure)| measure.over_seeds);
        let seeds = spreads.filter_map(|both| both.off.or(both.on)).map(|one| one.seeds).max();
        let draws = headlines.iter().filter_map(|(_, one)| Some(one.over_prices?.draws)).max();
        let of = match (seeds, draws) {
            (Some(seeds), Some(draws)) => {
                format!(", {seeds} seeds and {draws} draws of prices ± 90 %")
            }
            (Some(seeds), None) => format!(", {seeds} seeds ± 95 %, likely prices"),
            (None, Some(draws)) => format!(", {draws} draws of prices ± 90 %"),
            // Only what was measured more than once tells how far it may be off.
            (None, None) if self.comparisons.iter().any(|one| !one.measures.is_empty()) => {
                ", of one run, so not judged".to_owned()
            }
            (None, None) => String::new(),
        };
        format!(
            "Exits: {counted}. Times: emulated{of}, {} of {} costs measured.",
            self.costs.measured, self.costs.figures
        )
    }

    /// What others measured on real hosts.
    fn against_published(&self) -> Option<String> {
        let of = |served: Use| {
            let mine = self.predictions.iter().filter(move |one| one.served == served);
            mine.filter_map(|one| one.error).collect::<Vec<f64>>()
        };
        let range = |errors: &[f64]| {
            let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
            let most = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if errors.len() == 1 {
                format!("{least:+.0} %")
            } else {
                format!("{least:+.0} to {most:+.0} %")
            }
        };
        let (predicted, fitted) = (of(Use::Prediction), of(Use::Calibration));
        let mut parts = Vec::new();
        if !predicted.is_empty() {
            parts.push(format!("predicted {}", range(&predicted)));
        }
        if !fitted.is_empty() {
            parts.push(format!("fitted {}", range(&fitted)));
        }
        (!parts.is_empty())
            .then(|| format!("Against published times of real hosts: {}.", parts.join(", ")))
    }

    /// On what, how long, and the hash by which a run is known again.
    fn ran(&self) -> String {
        let mut guests = match self.host.guests {
            1 => String::new(),
            count => format!(", {count} guests on the same processors"),
        };
        if self.host.guest_cpus > self.host.cpus {
            guests += &format!(", {} vCPUs", self.host.guest_cpus);
        }
        format!(
            "{}, {} x {} at {} GHz{guests}; {:.1} s, hash {}",
            self.host.kernel,
            self.host.cpus,
            self.host.cpu,
            self.host.core_hertz as f64 / 1e9,
            self.run.host_seconds,
            self.run.trace_hash
        )
    }

    /// What to try next.
    fn advice(&self, columns: usize) -> String {
        let is_intel = self.comparisons.first().is_some_and(|one| one.hardware == "APICv");
        let other = if is_intel { "--cpu zen4 (AMD)" } else { "--cpu sapphire-rapids (Intel)" };
        let workload = if self.workload == "device" { "threads" } else { "device" };
        folded(&format!("More: --all every table, --format html a page, {other},"), columns, 6)
            + &format!(
                "      --workload {workload}; lab recipes lists questions and what answers them\n"
            )
    }

    /// Once more, for a reader who sees the end only.
    fn last(&self) -> String {
        let ending = self.ending();
        let status = ending.status();
        let why = match ending {
            Ending::Good => "sound",
            Ending::Instead => "the built-in hypervisor, not KVM",
            Ending::Bad if !self.verdict.is_sound => "not to be trusted",
            Ending::Bad => "not as expected",
        };
        let bad = match self.verdict.worse.first().filter(|_| !self.verdict.bad_news.is_empty()) {
            Some(worst) => {
                format!("{} {} {:+.0} %; ", worst.comparison, worst.what, worst.percent)
            }
            None => String::new(),
        };
        let lost = match self.verdict.lost {
            Some(1..) => "interrupts were lost; ".to_owned(),
            lost => none_lost(lost).map_or(String::new(), |text| format!("{text}; ")),
        };
        let exits = match self.exits() {
            (Some(off), Some(on)) => format!("VM exits {:+.1} %; ", percent(off, on)),
            _ => String::new(),
        };
        format!("{}: {lost}{bad}{exits}exit status {status}: {why}", self.feature())
    }
}

/// How many times as fast a figure got, at least and at most.
fn factors(measure: &Measure) -> Option<(f64, f64)> {
    if measure.is_within_chance() {
        return Some((1.0, 1.0));
    }
    let factor = |percent: f64| {
        let factor = 1.0 + percent / 100.0;
        let factor = if measure.is_better_when_less() { 1.0 / factor } else { factor };
        (factor.is_finite() && factor > 0.0).then_some(factor)
    };
    let change = measure.change()?;
    let ends = measure.over_prices.and_then(|prices| prices.change);
    let (low, high) = ends.map_or((change, change), |ends| (ends.low, ends.high));
    let (one, other) = (factor(low)?, factor(high)?);
    Some((one.min(other), one.max(other)))
}

fn percent(off: u64, on: u64) -> f64 {
    (on as f64 - off as f64) / off as f64 * 100.0
}

/// A value, and how far others like it may lie from it.
fn within(value: Option<f64>, half: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let number = |number: f64| match value < 10.0 {
        true => format!("{number:.2}"),
        false => grouped(number.round() as u64),
    };
    // One that is not seen is left out.
    let half = half.map(number);
    let half = half.filter(|half| half.contains(|digit: char| ('1'..='9').contains(&digit)));
    number(value) + &half.map_or_else(String::new, |half| format!(" ±{half}"))
}

/// Off, between and on.
fn per_ipi(comparison: &Comparison) -> Vec<f64> {
    let between = comparison.between.iter().filter_map(|arm| arm.exits_per_ipi.as_ref());
    let (off, on): (Vec<_>, Vec<_>) = comparison.exits_per_ipi.iter().partition(|one| !one.is_on);
    off.into_iter().chain(between).chain(on).map(|one| one.exits).collect()
}

/// Exits by reason, off and on.
fn reasons(comparison: &Comparison, columns: usize, most: usize) -> String {
    let exits = |count: Option<Count>| count.map(|count| count.exits as f64);
    let rows = comparison.exits.iter().filter(|row| !row.is_wait).take(most);
    let pairs: Vec<_> =
        rows.map(|row| (row.name.as_str(), exits(row.off), exits(row.on))).collect();
    lane::bars(&format!("VM exits by reason, {}", comparison.name), &pairs, columns)
}
