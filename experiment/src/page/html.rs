//! One page that needs nothing but itself.

use super::tables;
use super::text::grids;
use crate::answer::sentence::shown;
use crate::answer::{Answer, MetricAnswer};
use report::grid::escaped;
use report::page::{AFTER, ALARM, BEFORE, legend, page};
use std::fmt::Write;

/// Of the drawing of trials.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 44.0;

/// The page.
pub fn html(answer: &Answer) -> String {
    let mut body = format!(
        "<h1>{}</h1>\n<p>{}</p>\n<p class=\"answer\">{}</p>\n",
        escaped(&answer.name),
        escaped(&answer.question),
        escaped(&answer.sentence)
    );
    for remark in &answer.remarks {
        let _ = writeln!(body, "<p class=\"warning\">{}</p>", escaped(&remark.to_string()));
    }
    let facts = tables::notes(answer).join("\n");
    let _ = writeln!(body, "<p class=\"facts\">{}</p>", escaped(&facts));
    let [before, after] = &answer.arms;
    body +=
        &legend(&format!("{} {before}", answer.compare), &format!("{} {after}", answer.compare));
    for (index, cell) in answer.cells.iter().enumerate() {
        let _ = writeln!(body, "<h2>Trials{}</h2>", escaped(&tables::name(cell)));
        for metric in &cell.metrics {
            body += &dots(answer, index, metric);
        }
        if let Some(void) = &cell.void {
            let _ = writeln!(
                body,
                "<p class=\"warning\">{} never took effect: {}; {}</p>",
                escaped(&void.level),
                escaped(&void.why),
                escaped(&void.fix)
            );
        }
    }
    for grid in grids(answer, true) {
        let _ = writeln!(
            body,
            "<h2>{}</h2>\n<div class=\"scroll\">{}</div>",
            escaped(&grid.title),
            grid.to_html()
        );
    }
    let _ = writeln!(body, "<h2>Provenance</h2>\n<table>");
    for (name, value) in &answer.provenance {
        let _ = writeln!(body, "<tr><td>{}</td><td>{}</td></tr>", escaped(name), escaped(value));
    }
    let _ = writeln!(
        body,
        "<tr><td>plan</td><td>hash {}, seed {}</td></tr></table>\n<h2>The plan</h2>\n<pre>{}</pre>",
        escaped(&answer.plan_hash),
        answer.seed,
        escaped(&answer.plan)
    );
    page(&answer.name, &body)
}

/// A dot for every trial: the first arm's row above the second's; void ones are hollow. The bar is
/// the range, the stroke the median.
fn dots(answer: &Answer, cell: usize, metric: &MetricAnswer) -> String {
    let trials = answer.trials.iter().filter(|one| one.cell == cell);
    let values: Vec<(usize, f64, Option<&String>)> = trials
        .filter_map(|one| Some((one.arm, *one.figures.get(&metric.name)?, one.void.as_ref())))
        .collect();
    let least = values.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    let most = values.iter().map(|one| one.1).fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        return String::new();
    }
    let span = if most > least { most - least } else { 1.0 };
    let x = |value: f64| 8.0 + (value - least) / span * (WIDTH - 16.0);
    let mut shapes = String::new();
    for (arm, value, void) in &values {
        let (y, colour) = if *arm == 0 { (12.0, BEFORE) } else { (32.0, AFTER) };
        let style = match void {
            None => format!("fill=\"{colour}\" fill-opacity=\"0.6\""),
            Some(_) => format!("fill=\"none\" stroke=\"{ALARM}\" stroke-width=\"2\""),
        };
        let title = void.map_or(String::new(), |why| format!(", void: {why}"));
        let _ = write!(
            shapes,
            "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" {style}><title>{}</title></circle>",
            x(*value),
            escaped(&format!("{} {}{title}", shown(*value), metric.unit))
        );
    }
    for (summary, y, colour) in [(&metric.before, 12.0, BEFORE), (&metric.after, 32.0, AFTER)] {
        if let Some(summary) = summary {
            let at = x(summary.median);
            let _ = write!(
                shapes,
                "<path d=\"M{at:.1} {:.1}v20\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                y - 10.0
            );
        }
    }
    format!(
        "<figure><figcaption>{}: {} to {} {}; {}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         style=\"width:100%;max-width:62rem\" role=\"img\" aria-label=\"{}\">{shapes}</svg></figure>\n",
        escaped(&metric.name),
        shown(least),
        shown(most),
        escaped(&metric.unit),
        escaped(&tables::verdict(metric)),
        escaped(&metric.name)
    )
}
