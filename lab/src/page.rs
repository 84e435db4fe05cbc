//! Results for people and programs: the same tables as text, Markdown, JSON and a page.

use crate::comparison::{Comparison, ExitRow, Measure};
use crate::counters::Count;
use crate::prediction::Prediction;
use report::exits::page;
use report::grid::{Grid, Value, escaped};
use report::plot;
use serde::Serialize;

/// Colours of the two settings; they differ in lightness too.
const OFF: &str = "#c0504d";
const ON: &str = "#2e8b57";

/// Everything that one call of the lab found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabResult {
    /// Version of this form of output.
    pub schema: u32,
    pub host: HostFacts,
    pub workload: String,
    pub comparisons: Vec<Comparison>,
    pub predictions: Vec<Prediction>,
    pub run: RunFacts,
}

/// The emulated host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    pub cpu: String,
    pub cpus: u16,
    /// Distribution and release, or what else ran.
    pub kernel: String,
    pub guest_cpus: u16,
    /// Where the guest's I/O APIC and 8254 are; the reference hypervisor's guest has neither.
    pub interrupt_chip: Option<String>,
    pub timer: Option<String>,
}

/// What the run took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFacts {
    pub instructions: u64,
    pub virtual_seconds: f64,
    pub host_seconds: f64,
    pub trace_hash: String,
}

impl RunFacts {
    pub fn mips(&self) -> f64 {
        self.instructions as f64 / self.host_seconds.max(1e-9) / 1e6
    }
}

impl LabResult {
    /// The version of the JSON form.
    pub const SCHEMA: u32 = 1;

    fn title(&self) -> String {
        let devices = match (&self.host.interrupt_chip, &self.host.timer) {
            (Some(chip), Some(timer)) => format!(" (I/O APIC {chip}, timer {timer})"),
            _ => String::new(),
        };
        format!(
            "{} on {} emulated {} processors, guest with {}{devices}",
            self.host.kernel, self.host.cpus, self.host.cpu, self.host.guest_cpus,
        )
    }

    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("{}\nworkload {}\n\n", self.title(), self.workload);
        for comparison in &self.comparisons {
            grids(comparison).iter().for_each(|grid| text += &format!("{}\n", grid.to_text()));
            remarks(comparison).iter().for_each(|remark| text += &format!("{remark}\n"));
            text.push('\n');
        }
        if let Some(grid) = predictions(&self.predictions) {
            text += &format!("{}\n", grid.to_text());
        }
        text + &self.run_line()
    }

    fn run_line(&self) -> String {
        format!(
            "{} instructions, {:.3} s virtual, {:.1} s host, {:.0} MIPS, trace hash {}\n",
            report::grid::grouped(self.run.instructions),
            self.run.virtual_seconds,
            self.run.host_seconds,
            self.run.mips(),
            self.run.trace_hash
        )
    }

    pub fn to_html(&self) -> String {
        let mut body = format!(
            "<h1>Where the VM exits go: {}</h1>\n<p class=\"facts\">{}</p>\n",
            escaped(&self.workload),
            escaped(&self.title())
        );
        for comparison in &self.comparisons {
            body += &section(comparison);
        }
        if let Some(grid) = predictions(&self.predictions) {
            body += &format!("<h2>Published and predicted</h2>\n{}", grid.to_html());
        }
        body += &format!("<p class=\"facts\">{}</p>\n", escaped(&self.run_line()));
        page(&format!("avicenna lab: {}", self.workload), &body)
    }
}

fn section(comparison: &Comparison) -> String {
    let mut html = format!("<h2>{}</h2>\n", escaped(&comparison.name));
    for remark in remarks(comparison) {
        html += &format!("<p>{}</p>\n", escaped(&remark));
    }
    html += &plot::bars("VM exits by reason, off and on", &bars(comparison));
    for measure in comparison.measures.iter().filter(|measure| measure.unit == "cycles") {
        if let (Some(off), Some(on)) = (measure.off, measure.on) {
            html += &plot::bars(
                &format!("{} in cycles", measure.name),
                &[
                    (format!("{} off", measure.name), off, format!("{off:.0}"), OFF),
                    (format!("{} on", measure.name), on, format!("{on:.0}"), ON),
                ],
            );
        }
    }
    grids(comparison).iter().for_each(|grid| html += &grid.to_html());
    html
}

/// The reasons that matter, each with both settings.
fn bars(comparison: &Comparison) -> Vec<(String, f64, String, &'static str)> {
    let weight = |row: &ExitRow| exits(row.off).unwrap_or(0).max(exits(row.on).unwrap_or(0));
    let mut rows: Vec<&ExitRow> = comparison.exits.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(weight(row)));
    let bar = |row: &ExitRow, setting: &str, count: Option<Count>, colour: &'static str| {
        exits(count).map(|exits| {
            let name = format!("{} {setting}", row.name);
            (name, exits as f64, report::grid::grouped(exits), colour)
        })
    };
    rows.into_iter()
        .take(8)
        .flat_map(|row| [bar(row, "off", row.off, OFF), bar(row, "on", row.on, ON)])
        .flatten()
        .collect()
}

fn exits(count: Option<Count>) -> Option<u64> {
    count.map(|count| count.exits)
}

fn grids(comparison: &Comparison) -> Vec<Grid> {
    let mut grids = vec![exit_grid(comparison)];
    if !comparison.measures.is_empty() {
        grids.push(measure_grid(comparison));
    }
    grids
}

fn exit_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: VM exits", comparison.name),
        &["reason", "off", "share %", "avg µs", "on", "share %", "avg µs", "change %"],
    );
    let (all_off, all_on) = (comparison.exits_off(), comparison.exits_on());
    for row in &comparison.exits {
        let side = |count: Option<Count>, all: Option<u64>| match (count, all) {
            (Some(count), Some(all)) => [
                Value::Count(count.exits),
                Value::Number(100.0 * count.exits as f64 / (all as f64).max(1.0), 1),
                average(count),
            ],
            _ => [Value::Missing, Value::Missing, Value::Missing],
        };
        let mut cells = vec![Value::text(row.name.clone())];
        cells.extend(side(row.off, all_off));
        cells.extend(side(row.on, all_on));
        cells.push(change(exits(row.off), exits(row.on)));
        grid.rows.push(cells);
    }
    let count = |count: Option<u64>| count.map_or(Value::Missing, Value::Count);
    let (work_off, work_on) = comparison.work();
    for (name, off, on) in [("all but hlt", work_off, work_on), ("total", all_off, all_on)] {
        grid.rows.push(vec![
            Value::text(name),
            count(off),
            Value::Missing,
            Value::Missing,
            count(on),
            Value::Missing,
            Value::Missing,
            change(off, on),
        ]);
    }
    grid
}

fn average(count: Count) -> Value {
    if count.completed == 0 {
        return Value::Missing;
    }
    Value::Number(count.handled.0 as f64 / count.completed as f64 / 1e6, 2)
}

fn change(off: Option<u64>, on: Option<u64>) -> Value {
    match (off, on) {
        (Some(off), Some(on)) if off > 0 => {
            Value::Number((on as f64 - off as f64) / off as f64 * 100.0, 1)
        }
        _ => Value::Missing,
    }
}

fn measure_grid(comparison: &Comparison) -> Grid {
    let mut grid = Grid::new(
        format!("{}: what the guest measured", comparison.name),
        &["measure", "unit", "off", "on", "change %"],
    );
    let number = |value: Option<f64>| value.map_or(Value::Missing, |value| Value::Number(value, 0));
    for Measure { name, unit, off, on } in &comparison.measures {
        let change = match (off, on) {
            (Some(off), Some(on)) if *off > 0.0 => Value::Number((on - off) / off * 100.0, 1),
            _ => Value::Missing,
        };
        let cells =
            vec![Value::text(name.clone()), Value::text(*unit), number(*off), number(*on), change];
        grid.rows.push(cells);
    }
    grid
}

/// What the tables do not say.
fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(change) = comparison.change() {
        remarks.push(format!("{}: exits {change:+.1} % with AVIC on", comparison.name));
    }
    for agreement in &comparison.agreement {
        let setting = if agreement.is_on { "on" } else { "off" };
        remarks.push(if agreement.differences.is_empty() {
            format!(
                "{setting}: {} and the machine both counted {} exits",
                agreement.counted_by,
                report::grid::grouped(agreement.machine)
            )
        } else {
            format!(
                "{setting}: {} counted {}, the machine {}; they differ in {:?}",
                agreement.counted_by, agreement.software, agreement.machine, agreement.differences
            )
        });
    }
    if let Some(parameter) = &comparison.parameter {
        remarks.push(format!("kvm_amd says avic={parameter} when it was asked for"));
    }
    remarks.extend(inhibit_remark(comparison));
    remarks.extend(comparison.troubles.iter().map(|trouble| format!("TROUBLE: {trouble}")));
    remarks
}

/// How long AVIC was inhibited, and why.
fn inhibit_remark(comparison: &Comparison) -> Option<String> {
    let (seconds, inhibited) = comparison.inhibited?;
    let share = (inhibited / seconds.max(1e-9) * 100.0).min(100.0);
    let mut history: Vec<&str> =
        comparison.inhibits.iter().map(|(_, text)| text.as_str()).collect();
    let events = history.len();
    history.dedup();
    history.truncate(6);
    let more = if events > history.len() { "; …" } else { "" };
    Some(format!(
        "on: KVM inhibited AVIC for {share:.1} % of {seconds:.3} s; {events} changes: {}{more}",
        history.join("; ")
    ))
}

fn predictions(predictions: &[Prediction]) -> Option<Grid> {
    if predictions.is_empty() {
        return None;
    }
    let mut grid = Grid::new(
        "Published figures and this run",
        &["figure", "published", "here", "error %", "use"],
    );
    for prediction in predictions {
        grid.rows.push(vec![
            Value::text(prediction.name.clone()),
            Value::Number(prediction.published, prediction.decimals),
            Value::Number(prediction.found, prediction.decimals),
            Value::Number(prediction.error(), 1),
            Value::text(if prediction.is_calibration { "calibration" } else { "prediction" }),
        ]);
    }
    Some(grid)
}
