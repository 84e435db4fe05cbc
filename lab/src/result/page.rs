//! A result as a page: self-contained, with plots.

use super::LabResult;
use super::gloss::Glossary;
use super::grids::{self, exits};
use super::{lane, remarks};
use crate::comparison::per_ipi::ExitsPerIpi;
use crate::comparison::{ArmExample, Comparison, ExitRow, Measure};
use crate::drive::example::{Doing, Function, Span};
use crate::plan::{Arm, Setting};
use report::grid::{Grid, escaped, grouped};
use report::page::{self, AFTER, BEFORE, page};
use report::plot::{self, Bar, Group, Pair, Stretch, Values};

/// Text that is looked through, not shown: a page has its own width.
const UNFOLDED: usize = usize::MAX;
/// Of the lanes that can be copied.
const TEXT_COLUMNS: usize = 100;
/// Of arms between the two.
const BETWEEN: &str = plot::COLOURS[2];
/// Reasons with a bar; all are in the tables.
const MOST_REASONS: usize = 8;

impl LabResult {
    /// The verdict comes first. `command` is what brought it about.
    pub fn to_html(&self, command: &str) -> String {
        let mut body = format!("<p class=\"answer\">{}</p>\n", escaped(&self.verdict.text));
        body += &format!(
            "<h1>Where the VM exits go: {}</h1>\n<p class=\"facts\">{}\n{}</p>\n",
            escaped(&self.workload),
            escaped(&self.title()),
            escaped(&self.costs_sentence())
        );
        if let Some(arm) = self.arms.first() {
            let feature = arm.label.rsplit_once(' ').map_or("", |(feature, _)| feature);
            body += &page::legend(&format!("{feature} off"), &format!("{feature} on"));
        }
        let mut glossary = Glossary::default();
        for comparison in &self.comparisons {
            body += &section(comparison, &mut glossary);
        }
        if let Some(grid) = grids::predictions(&self.predictions) {
            body += &table(&grid, &mut glossary);
        }
        for remark in remarks::of_predictions(self) {
            body += &format!("<p>{}</p>\n", escaped(&remark));
        }
        body += &self.provenance(command);
        page(&format!("avicenna lab: {}", self.workload), &body)
    }

    /// By what the same can be had again.
    fn provenance(&self, command: &str) -> String {
        let arm = |arm: &Arm| {
            let parameters = arm.parameters.iter().map(ToString::to_string);
            (arm.label.clone(), parameters.collect::<Vec<_>>().join(" "))
        };
        let mut rows = vec![
            ("command".to_owned(), command.to_owned()),
            ("kernel".into(), self.host.kernel.clone()),
            (
                "processors".into(),
                format!(
                    "{} x {} at {} GHz, emulated",
                    self.host.cpus,
                    self.host.cpu,
                    self.host.core_hertz as f64 / 1e9
                ),
            ),
        ];
        rows.extend(self.arms.iter().map(arm));
        rows.push(("run".into(), self.run_line()));
        rows.push(("program".into(), format!("avicenna {}", env!("CARGO_PKG_VERSION"))));
        let row = |(name, text): (String, String)| {
            format!("<dt>{}</dt><dd>{}</dd>\n", escaped(&name), escaped(&text))
        };
        let rows: String = rows.into_iter().map(row).collect();
        format!("<h2>Where this comes from</h2>\n<dl class=\"facts\">\n{rows}</dl>\n")
    }
}

/// A table, and what its words mean.
fn table(grid: &Grid, glossary: &mut Glossary) -> String {
    let words = glossary.explain(&grid.to_text_within(UNFOLDED));
    let words: Vec<String> = words.iter().map(|line| escaped(line)).collect();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!("<p class=\"facts\">{}</p>\n", words.join("\n"))
    };
    format!("<div class=\"scroll\">{}</div>\n{words}", grid.to_html())
}

fn section(comparison: &Comparison, glossary: &mut Glossary) -> String {
    let name = escaped(&comparison.name);
    let mut html = format!("<h2>{name}</h2>\n");
    for trouble in &comparison.troubles {
        html += &format!("<p class=\"warning\">{}</p>\n", escaped(trouble));
    }
    html += "<ul>\n";
    for remark in remarks::of_comparison(comparison) {
        html += &format!("<li>{}</li>\n", escaped(&remark));
    }
    html += "</ul>\n";
    html += &swim(comparison);
    html += &per_ipi(comparison);
    html += &lengths(comparison);
    let exits = exit_pairs(comparison);
    if !exits.is_empty() {
        html += &format!("<h3>{name}: VM exits {}</h3>\n", comparison.scope.words());
        html += &plot::pairs("VM exits by reason, off and on", &exits);
    }
    html += &halts(comparison);
    let mut units: Vec<&str> = comparison.measures.iter().map(|measure| measure.unit).collect();
    units.dedup();
    for unit in units {
        let title = format!("{name}: what the guest measured, {}", escaped(unit));
        html += &format!("<h3>{title}</h3>\n");
        html += &plot::pairs(&title, &measure_pairs(comparison, unit));
    }
    let machines = comparison.inhibit_history.iter().flat_map(|history| &history.machines);
    for machine in machines.filter(|machine| machine.inhibited_seconds > 0.0) {
        html += &format!("<h3>{name}: when KVM inhibited {}</h3>\n", comparison.hardware);
        html += &report::exits::inhibit_plot(machine);
    }
    for grid in grids::of_comparison(comparison) {
        html += &table(&grid, glossary);
    }
    html
}

/// Functions that a stretch names.
const MOST_NOTES: usize = 12;

/// One interrupt of each arm as swim-lanes, to be pointed at, and the same as text to be copied.
fn swim(comparison: &Comparison) -> String {
    let group = |ArmExample { arm, example, functions, .. }: &ArmExample| Group {
        title: format!(
            "{arm}: {} {}, VM exits: {}",
            microseconds(example.duration_ps as f64),
            example.interrupt.extent(),
            example.exits
        ),
        end: example.duration_ps as f64,
        lanes: example
            .lanes()
            .into_iter()
            .map(|(who, spans)| {
                let stretches = spans.iter().map(|span| stretch(span, functions));
                (who.to_owned(), stretches.collect())
            })
            .collect(),
    };
    let groups: Vec<Group> = comparison.examples.iter().map(group).collect();
    let Some(first) = comparison.examples.first() else { return String::new() };
    let title = lane::title(comparison, first.example.interrupt);
    let named = Doing::ALL.map(|doing| (doing.words().to_owned(), colour(doing)));
    format!(
        "<h3>{title}</h3>\n{}{}<details><summary>the same as text</summary><pre \
         class=\"lanes\">{}</pre></details>\n",
        plot::legend(&named),
        plot::lanes(&title, &groups, microseconds),
        escaped(&lane::of(comparison, TEXT_COLUMNS)),
        title = escaped(&title),
    )
}

/// With what the host's processors did in its like, by function.
fn stretch(span: &Span, functions: &[Function]) -> Stretch {
    let own = functions.iter().filter(|one| one.is_for(span)).take(MOST_NOTES);
    Stretch {
        from: span.from_ps as f64,
        to: span.to_ps as f64,
        label: span.what.clone(),
        notes: own.map(|one| format!("{} {} ns", one.words(), one.ps / 1000)).collect(),
        colour: colour(span.doing),
    }
}

const fn colour(doing: Doing) -> &'static str {
    match doing {
        Doing::Hypervisor => plot::COLOURS[3],
        Doing::Hardware => plot::COLOURS[2],
        Doing::Handler => plot::COLOURS[6],
    }
}

fn microseconds(ps: f64) -> String {
    format!("{:.2} µs", ps / 1e6)
}

/// VM exits for each IPI, a bar for each arm.
fn per_ipi(comparison: &Comparison) -> String {
    let between = comparison.between.iter().filter_map(|arm| arm.exits_per_ipi.as_ref());
    let (off, on): (Vec<_>, Vec<_>) = comparison.exits_per_ipi.iter().partition(|one| !one.is_on);
    let off = off.into_iter().map(|one| (one, BEFORE));
    let on = on.into_iter().map(|one| (one, AFTER));
    let all = off.chain(between.map(|one| (one, BETWEEN))).chain(on);
    let bar = |(one, colour): (&ExitsPerIpi, &'static str)| {
        (one.side().to_owned(), one.exits, format!("{:.2}", one.exits), colour)
    };
    let bars: Vec<Bar<'_>> = all.map(bar).collect();
    if bars.is_empty() {
        return String::new();
    }
    let title = format!("{}: VM exits for each IPI, HLT aside", comparison.name);
    format!("<h3>{}</h3>\n{}", escaped(&title), plot::bars(&title, &bars))
}

/// How long interrupts took, all of those that are like the one in the swim-lanes.
fn lengths(comparison: &Comparison) -> String {
    let lengths: Vec<Vec<f64>> = comparison
        .examples
        .iter()
        .map(|one| one.example.lengths_ps.iter().map(|ps| *ps as f64).collect())
        .collect();
    let last = comparison.examples.len().saturating_sub(1);
    let rows = comparison.examples.iter().zip(&lengths).enumerate();
    let rows: Vec<Values<'_>> = rows
        .map(|(place, (one, values))| Values {
            name: one.arm.clone(),
            values,
            colour: match place {
                0 if last > 0 => BEFORE,
                place if place == last => AFTER,
                _ => BETWEEN,
            },
        })
        .collect();
    let extent = comparison.examples.first().map(|one| one.example.interrupt).unwrap_or_default();
    let title = format!("{}: {}", comparison.name, extent.extent());
    match plot::cumulative(&title, &rows, microseconds).as_str() {
        "" => String::new(),
        html => format!("<h3>{}</h3>\n{html}", escaped(&title)),
    }
}

/// All measures in one unit, to one scale.
fn measure_pairs(comparison: &Comparison, unit: &str) -> Vec<Pair> {
    let side = |value: Option<f64>| {
        value.map(|value| {
            let digits = if value < 10.0 { 3 } else { 0 };
            (value, format!("{value:.digits$}"))
        })
    };
    let measures = comparison.measures.iter().filter(|measure| measure.unit == unit);
    let pair = |one: &Measure| Pair {
        name: one.name.clone(),
        note: note(one),
        before: side(one.off),
        after: side(one.on),
    };
    measures.map(pair).collect()
}

/// The change, and where it was measured from several seeds whether chance alone could be it.
fn note(measure: &Measure) -> String {
    let Some(change) = measure.change() else { return String::new() };
    let halves = measure.half(Setting::Off).zip(measure.half(Setting::On));
    // Those that round to nothing are not told.
    let halves = halves.filter(|(off, on)| off.max(*on) >= 0.5);
    let of = if measure.over_prices.is_some() { "90 %, prices too" } else { "95 %" };
    let interval =
        halves.map_or_else(String::new, |(off, on)| format!(", off ±{off:.0}, on ±{on:.0} ({of})"));
    let doubt = if measure.is_within_chance() { "cannot tell: " } else { "" };
    format!("{doubt}{change:+.1} %{interval}")
}

/// The reasons that matter: not HLT, which is not work and would hide the rest.
fn exit_pairs(comparison: &Comparison) -> Vec<Pair> {
    let weight = |row: &&ExitRow| exits(row.off).unwrap_or(0).max(exits(row.on).unwrap_or(0));
    let mut rows: Vec<&ExitRow> = comparison.exits.iter().filter(|row| !row.is_wait).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    let side = |count: Option<u64>| count.map(|count| (count as f64, grouped(count)));
    let pair = |row: &ExitRow| Pair {
        name: row.name.clone(),
        note: String::new(),
        before: side(exits(row.off)),
        after: side(exits(row.on)),
    };
    rows.into_iter().take(MOST_REASONS).map(pair).collect()
}

/// Waiting, beside the scale.
fn halts(comparison: &Comparison) -> String {
    let rows = comparison.exits.iter().filter(|row| row.is_wait);
    let shown = |count: Option<u64>| count.map_or_else(|| "not run".to_owned(), grouped);
    rows.map(|row| {
        let (off, on) = (shown(exits(row.off)), shown(exits(row.on)));
        format!("<p>{}, waiting, beside the scale: off {off}, on {on}</p>\n", escaped(&row.name))
    })
    .collect()
}
