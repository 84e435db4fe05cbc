//! What changes over time: lines, and stretches in which something held.

use super::{COLOURS, figure, legend, short};
use crate::grid::escaped;
use crate::page::ALARM;
use std::fmt::Write;

/// Lines drawn at most; more would not be told apart.
const MOST_SERIES: usize = 16;
/// Points of a line.
const MOST_POINTS: usize = 240;
/// Marks of an axis, with both its ends.
const MARKS: u32 = 5;
const WIDTH: f64 = 1000.0;

/// Lines over a common axis of time.
pub fn lines(title: &str, unit: &str, xs: &[f64], series: &[(String, Vec<f64>)]) -> String {
    const HEIGHT: f64 = 200.0;
    let left_out = series.len().saturating_sub(MOST_SERIES);
    let series = &series[..series.len() - left_out];
    // More points than these overlap.
    let stride = xs.len().div_ceil(MOST_POINTS).max(1);
    let means = series.iter().flat_map(|line| line.1.chunks(stride)).map(mean);
    let top = nice_ceiling(means.fold(0.0, f64::max));
    let end = xs.last().copied().unwrap_or(1.0).max(1e-9);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" \
         xmlns=\"http://www.w3.org/2000/svg\">"
    );
    for mark in 0..MARKS {
        let y = f64::from(mark) / f64::from(MARKS - 1) * HEIGHT;
        let _ = write!(svg, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
    let mut named = Vec::new();
    for (index, (name, values)) in series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<String> = xs
            .chunks(stride)
            .zip(values.chunks(stride))
            .map(|(xs, ys)| {
                format!("{:.1},{:.1}", mean(xs) / end * WIDTH, (1.0 - mean(ys) / top) * HEIGHT)
            })
            .collect();
        let points = points.join(" ");
        let _ = write!(svg, "<polyline points=\"{points}\" style=\"stroke:{colour}\"/>");
        named.push((name.clone(), colour));
    }
    let marks: String = (0..MARKS)
        .rev()
        .map(|mark| short(top * f64::from(mark) / f64::from(MARKS - 1)))
        .map(|mark| format!("<span>{mark}</span>"))
        .collect();
    let mut html = format!(
        "<p>{}</p>\n<div class=\"area\"><div class=\"y\">{marks}</div>{svg}</svg>{}</div>\n{}",
        escaped(unit),
        axis(end),
        legend(&named)
    );
    if left_out > 0 {
        let _ = writeln!(html, "<p>and {left_out} more, in the JSON</p>");
    }
    figure("lines", title, &html)
}

fn axis(end: f64) -> String {
    let marks = (0..MARKS).map(|mark| short(end * f64::from(mark) / f64::from(MARKS - 1)));
    let marks: String = marks.map(|mark| format!("<span>{mark} s</span>")).collect();
    format!("<span class=\"axis\">{marks}</span>")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Rows of coloured stretches over time: name and its `(from, to)` in seconds.
pub fn stretches(title: &str, end: f64, rows: &[(String, Vec<(f64, f64)>)]) -> String {
    let x_of = |x: f64| (x / end.max(1e-9) * WIDTH).clamp(0.0, WIDTH);
    let mut html = String::new();
    for (name, spans) in rows {
        let _ = write!(
            html,
            "<span class=\"name\">{}</span><span class=\"track flat\"><svg viewBox=\"0 0 {WIDTH} \
             16\" preserveAspectRatio=\"none\" xmlns=\"http://www.w3.org/2000/svg\"><rect \
             class=\"free\" width=\"{WIDTH}\" height=\"16\"/>",
            escaped(name)
        );
        for (from, to) in spans {
            // The shortest is still seen.
            let width = (x_of(*to) - x_of(*from)).max(0.5);
            let _ = write!(
                html,
                "<rect x=\"{:.2}\" width=\"{width:.2}\" height=\"16\" style=\"fill:{ALARM}\"/>",
                x_of(*from)
            );
        }
        html += "</svg></span><span class=\"value\"></span>\n";
    }
    figure("stretches", title, &format!("<div class=\"rows\">\n{html}{}</div>\n", axis(end)))
}

/// The next of 1, 2, 5 times a power of ten.
pub(super) fn nice_ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= value).unwrap_or(value)
}

#[cfg(test)]
pub(super) const fn most_points() -> usize {
    MOST_POINTS
}
