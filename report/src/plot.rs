//! Plots as inline SVG, drawn from numbers alone: no script, no font, nothing fetched.

use crate::grid::escaped;
use std::fmt::Write;

/// Colours that are told apart in print and by the colour-blind (Okabe and Ito).
pub const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#999999", "#f0e442"];

const WIDTH: f64 = 860.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 110.0;
/// Lines and bars drawn at most; the rest would not be told apart.
const MOST_SERIES: usize = 16;
/// Points of a line.
const MOST_POINTS: usize = 240;
const MOST_BARS: usize = 24;

fn open(class: &str, height: f64, title: &str) -> String {
    format!(
        "<svg class=\"plot {class}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>\n",
        escaped(title)
    )
}

/// A horizontal bar per name: value, text behind it, colour.
pub fn bars(title: &str, rows: &[(String, f64, String, &str)]) -> String {
    let rows = &rows[..rows.len().min(MOST_BARS)];
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut svg = open("bars", rows.len() as f64 * 22.0 + 8.0, title);
    for (index, (name, value, text, colour)) in rows.iter().enumerate() {
        let y = index as f64 * 22.0 + 4.0;
        let width = (value / most * (WIDTH - LEFT - RIGHT)).max(0.5);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect x=\"{LEFT}\" \
             y=\"{y:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/><text \
             x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            y + 13.0,
            escaped(name),
            LEFT + width + 6.0,
            y + 13.0,
            escaped(text)
        );
    }
    svg + "</svg>\n"
}

/// One bar in parts that add up to the whole.
pub fn stack(title: &str, parts: &[(String, f64, &str)]) -> String {
    let total: f64 = parts.iter().map(|part| part.1).sum();
    let mut svg = open("stack", 58.0, title);
    let mut x = 4.0;
    let scale = (WIDTH - 8.0) / total.max(f64::MIN_POSITIVE);
    let mut legend = 4.0;
    for (name, value, colour) in parts {
        let width = value * scale;
        let label = format!("{name} {:.1} %", value / total.max(f64::MIN_POSITIVE) * 100.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"4\" width=\"{width:.1}\" height=\"22\" fill=\"{colour}\"/>\
             <rect x=\"{legend:.1}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"47\">{}</text>",
            legend + 17.0,
            escaped(&label)
        );
        x += width;
        legend += 34.0 + 7.2 * label.chars().count() as f64;
    }
    svg + "</svg>\n"
}

/// Lines over a common axis of time.
pub fn lines(title: &str, unit: &str, xs: &[f64], series: &[(String, Vec<f64>)]) -> String {
    const HEIGHT: f64 = 240.0;
    let left_out = series.len().saturating_sub(MOST_SERIES);
    let series = &series[..series.len() - left_out];
    // More points than these overlap.
    let stride = xs.len().div_ceil(MOST_POINTS).max(1);
    let means = series.iter().flat_map(|line| line.1.chunks(stride)).map(mean);
    let most = means.fold(0.0, f64::max);
    let top = nice_ceiling(most);
    let (left, right, bottom) = (70.0, 230.0, HEIGHT - 28.0);
    let end = xs.last().copied().unwrap_or(1.0).max(1e-9);
    let x_of = |x: f64| left + x / end * (WIDTH - left - right);
    let y_of = |y: f64| bottom - y / top * (bottom - 12.0);
    let mut svg = open("lines", HEIGHT, title);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let y = y_of(value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text \
             x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            left - 6.0,
            y + 4.0,
            short(value)
        );
        let x = end * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            x_of(x),
            bottom + 18.0,
            short(x)
        );
    }
    for (index, (name, values)) in series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<String> = xs
            .chunks(stride)
            .zip(values.chunks(stride))
            .map(|(xs, ys)| format!("{:.1},{:.1}", x_of(mean(xs)), y_of(mean(ys))))
            .collect();
        let y = 16.0 + index as f64 * 14.0;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text \
             x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            points.join(" "),
            WIDTH - right + 12.0,
            y - 9.0,
            WIDTH - right + 27.0,
            y,
            escaped(name)
        );
    }
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"9\">{}</text>", escaped(unit));
    if left_out > 0 {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">and {left_out} more, in the JSON</text>",
            WIDTH - right + 12.0,
            16.0 + series.len() as f64 * 14.0
        );
    }
    svg + "</svg>\n"
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Empty octaves in a row that are still drawn.
const LONGEST_GAP: usize = 2;

/// Columns over powers of two, one histogram per row of small multiples; a long stretch without
/// any is cut out.
pub fn histogram(title: &str, octaves: &[(u64, u64)], colour: &str) -> String {
    const HEIGHT: f64 = 96.0;
    let most = octaves.iter().map(|octave| octave.1).max().unwrap_or(1).max(1) as f64;
    let step = 26.0;
    let columns = without_gaps(octaves);
    let width = (columns.len() as f64 * step + 20.0).max(160.0);
    let mut svg = format!(
        "<svg class=\"plot histogram\" viewBox=\"0 0 {width} {HEIGHT}\" style=\"width:{width}px\" \
         role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{0}</title><text x=\"4\" \
         y=\"11\">{0}</text>\n",
        escaped(title)
    );
    let mut is_labelled = false;
    for (index, column) in columns.iter().enumerate() {
        let x = 6.0 + index as f64 * step;
        let Some((floor, count)) = column else {
            let _ = writeln!(svg, "<text class=\"small\" x=\"{x:.1}\" y=\"90\">…</text>");
            is_labelled = false;
            continue;
        };
        let height = *count as f64 / most * 56.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"><title>{} and more: {count}</title></rect>",
            76.0 - height,
            step - 3.0,
            duration(*floor)
        );
        is_labelled = !is_labelled;
        if is_labelled {
            let _ = writeln!(
                svg,
                "<text class=\"small\" x=\"{x:.1}\" y=\"90\">{}</text>",
                duration(*floor)
            );
        }
    }
    svg + "</svg>\n"
}

/// The octaves, and `None` for those that a gap is made of.
fn without_gaps(octaves: &[(u64, u64)]) -> Vec<Option<(u64, u64)>> {
    let runs = octaves.chunk_by(|one, other| (one.1 == 0) == (other.1 == 0));
    let columns = runs.flat_map(|run| match run {
        [(_, 0), ..] if run.len() > LONGEST_GAP => vec![None],
        run => run.iter().copied().map(Some).collect(),
    });
    columns.collect()
}

/// Rows of coloured stretches over time: name and its `(from, to)` in seconds.
pub fn stretches(title: &str, end: f64, rows: &[(String, Vec<(f64, f64)>)]) -> String {
    let mut svg = open("stretches", rows.len() as f64 * 24.0 + 26.0, title);
    let right = 20.0;
    let x_of = |x: f64| LEFT + x / end.max(1e-9) * (WIDTH - LEFT - right);
    for (index, (name, spans)) in rows.iter().enumerate() {
        let y = index as f64 * 24.0 + 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect class=\"free\" \
             x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"16\"/>",
            LEFT - 6.0,
            y + 13.0,
            escaped(name),
            WIDTH - LEFT - right
        );
        for (from, to) in spans {
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"16\" fill=\"{}\"/>",
                x_of(*from),
                (x_of(*to) - x_of(*from)).max(0.4),
                COLOURS[3]
            );
        }
    }
    for step in 0..=4 {
        let x = end * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            x_of(x),
            rows.len() as f64 * 24.0 + 18.0,
            short(x)
        );
    }
    svg + "</svg>\n"
}

/// The next of 1, 2, 5 times a power of ten.
fn nice_ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= value).unwrap_or(value)
}

/// A number in few characters.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.1} G", value / 1e9),
        v if v >= 1e6 => format!("{:.1} M", value / 1e6),
        v if v >= 1e4 => format!("{:.0} k", value / 1e3),
        v if v >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Nanoseconds in few characters.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests;
