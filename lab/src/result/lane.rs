//! Pictures for a terminal: an interrupt as swim-lanes, and bars.

use crate::comparison::{ArmExample, Comparison};
use crate::drive::example::{Choice, Doing, Function, Interrupt, Span};
use report::grid::{folded, grouped};

/// Before the lanes.
const HEAD: usize = 9;
/// Narrower lanes say nothing.
const LEAST: usize = 20;

/// A typical interrupt of each arm, all to one scale.
pub(super) fn of(comparison: &Comparison, columns: usize) -> String {
    let width = columns.saturating_sub(HEAD + 1).max(LEAST);
    let longest = comparison.examples.iter().map(|one| one.example.duration_ps).max();
    let scale = longest.unwrap_or(1).max(1) as f64 / width as f64;
    let legend = "▓ in KVM  ░ processor  h handler  . guest";
    let what = comparison.examples.first().map(|one| one.example.interrupt).unwrap_or_default();
    let mut text = format!("{}:   {legend}\n", title(comparison, what));
    for ArmExample { arm, choice, example, .. } in &comparison.examples {
        let exits = match example.exits {
            0 => "no exit".to_owned(),
            1 => "1 exit".to_owned(),
            exits => format!("{exits} exits"),
        };
        let took = microseconds(example.duration_ps);
        let which = match (choice, is_mixed(comparison)) {
            (_, false) => String::new(),
            (choice, true) => format!(" ({})", choice.words()),
        };
        text += &format!(" {arm}{which}: {took} µs {}, {exits}\n", what.extent());
        for (who, spans) in example.lanes() {
            let lane = lane(spans, example.duration_ps, scale);
            text += &format!("  {who:<6} {lane}|\n");
        }
    }
    text
}

/// Functions of a stretch that are named.
const MOST_FUNCTIONS: usize = 5;

/// What the host did in each stretch of the interrupts that are shown, by function, a line each.
pub(super) fn functions(comparison: &Comparison, columns: usize) -> String {
    let mut text = String::new();
    for ArmExample { arm, example, functions, .. } in &comparison.examples {
        let mut kinds: Vec<&str> = Vec::new();
        for span in example.sender.iter().chain(&example.target) {
            let own: Vec<&Function> = functions.iter().filter(|one| one.is_for(span)).collect();
            let Some(first) = own.first().filter(|one| !kinds.contains(&one.during.as_str()))
            else {
                continue;
            };
            kinds.push(&first.during);
            let sum: u64 = own.iter().map(|one| one.ps).sum();
            let named = own.iter().take(MOST_FUNCTIONS);
            let named = named.map(|one| format!("{} {}", one.name, one.ps / 1000));
            let more = if own.len() > MOST_FUNCTIONS { ", ..." } else { "" };
            let named = named.collect::<Vec<_>>().join(", ") + more;
            let line = format!("  {arm}, {} {} ns: {named}", first.during, sum / 1000);
            text += &folded(&line, columns, 4);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("The host's time by function, ns, in the mean of all like these:\n{text}")
}

/// Whether not all arms have one of the same kind.
fn is_mixed(comparison: &Comparison) -> bool {
    comparison.examples.windows(2).any(|pair| pair[0].choice != pair[1].choice)
}

/// What is shown.
pub(super) fn title(comparison: &Comparison, what: Interrupt) -> String {
    let choice = comparison.examples.first().filter(|_| !is_mixed(comparison));
    let which = match choice.map(|one| one.choice).unwrap_or_default() {
        Choice::Slowest => "The slowest",
        _ => "A typical",
    };
    match is_mixed(comparison) {
        false => format!("{which} {} of this run, {}", what.words(), comparison.name),
        true => format!("One {} of each arm of this run, {}", what.words(), comparison.name),
    }
}

fn microseconds(ps: u64) -> String {
    format!("{:.2}", ps as f64 / 1e6)
}

/// The guest's code, and over it what is not.
fn lane(spans: &[Span], duration: u64, scale: f64) -> String {
    let place = |at: u64| (at as f64 / scale).round() as usize;
    let mut cells = vec!['.'; place(duration)];
    for span in spans {
        let fill = match span.doing {
            Doing::Hypervisor => '▓',
            Doing::Hardware => '░',
            Doing::Handler => 'h',
        };
        let from = place(span.from_ps).min(cells.len().saturating_sub(1));
        // What is there is seen, however short it is.
        let to = place(span.to_ps).clamp(from + 1, cells.len().max(from + 1)).min(cells.len());
        let Some(own) = cells.get_mut(from..to) else { continue };
        own.fill(fill);
        if span.doing != Doing::Handler {
            label(own, span);
        }
    }
    cells.into_iter().collect()
}

/// Writes over a span what it is and how long it takes, or as much of that as there is room for.
fn label(cells: &mut [char], span: &Span) {
    let time = microseconds(span.to_ps - span.from_ps);
    let first = span.what.split(' ').next().unwrap_or_default();
    let texts = [
        format!(" {} {time} ", span.what),
        format!(" {} ", span.what),
        format!(" {first} {time} "),
        first.to_owned(),
        time,
    ];
    let fits = |text: &&String| text.chars().count() + 1 < cells.len();
    let Some(text) = texts.iter().find(fits) else { return };
    let start = (cells.len() - text.chars().count()) / 2;
    for (cell, character) in cells[start..].iter_mut().zip(text.chars()) {
        *cell = character;
    }
}

/// Two bars for each, or one line where there is one side only.
pub(super) fn bars(
    title: &str,
    pairs: &[(&str, Option<f64>, Option<f64>)],
    columns: usize,
) -> String {
    let shown = |value: f64| {
        if value < 10.0 && value.fract() != 0.0 {
            format!("{value:.3}")
        } else {
            grouped(value.round() as u64)
        }
    };
    let names = pairs.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let most = pairs.iter().flat_map(|(_, off, on)| [*off, *on]).flatten().fold(0.0, f64::max);
    let width = columns.saturating_sub(names + 22).max(LEAST);
    let mut text = format!("{title}\n");
    for (name, off, on) in pairs {
        let sides = [("off", *off), ("on", *on)].into_iter();
        let mut head = *name;
        for (side, value) in sides.filter_map(|(side, value)| Some((side, value?))) {
            let length = (value / most.max(f64::MIN_POSITIVE) * width as f64).round() as usize;
            let length = if value > 0.0 { length.max(1) } else { 0 };
            let bar = if side == "off" { "▓" } else { "░" }.repeat(length);
            let space = if bar.is_empty() { "" } else { " " };
            text += &format!("  {head:<names$}  {side:<3}  {bar}{space}{}\n", shown(value));
            head = "";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ps: u64, to_ps: u64, doing: Doing, what: &str) -> Span {
        Span { from_ps, to_ps, doing, what: what.into() }
    }

    #[test]
    fn a_lane_says_what_it_has_room_for() {
        let spans = [
            span(0, 400_000, Doing::Hypervisor, "ICR write"),
            span(500_000, 560_000, Doing::Hardware, "deliver"),
            span(560_000, 700_000, Doing::Handler, "handler"),
        ];
        for (scale, lane_of_it) in [
            (10_000.0, "▓▓▓▓▓▓▓▓▓▓▓▓ ICR write 0.40 ▓▓▓▓▓▓▓▓▓▓▓▓..........░0.06░hhhhhhhhhhhhhh"),
            (40_000.0, "▓▓ICR▓▓▓▓▓...░hhhh"),
        ] {
            let lane = lane(&spans, 700_000, scale);
            assert_eq!(lane.chars().count(), (700_000.0_f64 / scale).round() as usize);
            if scale < 20_000.0 {
                assert_eq!(lane, lane_of_it);
            } else {
                assert!(lane.contains('░') && lane.contains('h'), "{lane}");
            }
        }
    }

    #[test]
    fn bars_are_to_one_scale_and_nothing_is_no_bar() {
        let text = bars("title", &[("a", Some(1000.0), Some(500.0)), ("bc", Some(0.0), None)], 64);
        assert_eq!(
            text,
            "title\n  a   off  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 1,000\n      on   \
             ░░░░░░░░░░░░░░░░░░░░ 500\n  bc  off  0\n"
        );
    }
}
