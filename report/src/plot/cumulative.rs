//! How values are distributed, as a cumulative curve with a dot for each of some of the values
//! below it: where they crowd, dots stand on each other, so that every mode is seen.

use super::{figure, legend};
use crate::grid::escaped;
use std::fmt::Write;

/// Dots of a row, each for as many of the values.
const DOTS: usize = 120;
/// Places of dots along the axis.
const PLACES: usize = 100;
/// Pixels that dots have, upwards.
const HEIGHT: f64 = 56.0;
/// Marks of an axis, with both its ends.
const MARKS: u32 = 5;
const WIDTH: f64 = 1000.0;
/// What the axis shows at least of each row; the longest few would press the rest together.
const SHOWN: f64 = 0.995;

/// The values of one name, in any order.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// Whose they are.
    pub name: String,
    /// All of them.
    pub values: &'a [f64],
    /// A colour of [`crate::page`], as CSS has it.
    pub colour: &'static str,
}

/// All rows on one axis, which begins at zero. Nothing where there are no values.
pub fn cumulative(title: &str, rows: &[Values<'_>], shown: impl Fn(f64) -> String) -> String {
    let sorted: Vec<(&Values<'_>, Vec<f64>)> = rows
        .iter()
        .filter(|row| !row.values.is_empty())
        .map(|row| {
            let mut values = row.values.to_vec();
            values.sort_by(f64::total_cmp);
            (row, values)
        })
        .collect();
    let end = sorted.iter().map(|(_, values)| quantile(values, SHOWN)).fold(0.0, f64::max) * 1.05;
    if end <= 0.0 {
        return String::new();
    }
    let mut html = format!(
        "<div class=\"area\"><div class=\"y\"><span>100 %</span><span>50 %</span><span>0 \
         %</span></div>{}{}\n",
        curves(&sorted, end),
        axis(end, &shown)
    );
    for (row, values) in &sorted {
        let beyond = values.iter().filter(|value| **value > end).count();
        let last = values.last().copied().unwrap_or(0.0);
        let beyond = match beyond {
            0 => String::new(),
            beyond => format!("; {beyond} beyond, up to {}", shown(last)),
        };
        let median = shown(quantile(values, 0.5));
        let _ = writeln!(
            html,
            "<span class=\"whose\">{}</span><span class=\"track dots\">{}</span>",
            escaped(&format!("{}: median {median}{beyond}", row.name)),
            dots(values, end, row.colour),
        );
    }
    html += "</div>\n";
    let named: Vec<(String, &str)> =
        sorted.iter().map(|(row, _)| (row.name.clone(), row.colour)).collect();
    figure("cumulative", title, &(html + &legend(&named)))
}

/// Of sorted values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let place = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(place).copied().unwrap_or(0.0)
}

fn curves(rows: &[(&Values<'_>, Vec<f64>)], end: f64) -> String {
    const TALL: f64 = 200.0;
    const POINTS: usize = 200;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {TALL}\" preserveAspectRatio=\"none\" \
         xmlns=\"http://www.w3.org/2000/svg\">"
    );
    for mark in 0..3 {
        let y = f64::from(mark) / 2.0 * TALL;
        let _ = write!(svg, "<line x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>");
    }
    for (row, values) in rows {
        let mut points = format!("0,{TALL}");
        let mut height = TALL;
        for point in 0..=POINTS {
            let share = point as f64 / POINTS as f64;
            let x = (quantile(values, share) / end).min(1.0) * WIDTH;
            // A step: nothing lies between two values.
            let _ = write!(points, " {x:.1},{height:.1}");
            height = (1.0 - share) * TALL;
            let _ = write!(points, " {x:.1},{height:.1}");
        }
        let _ = write!(points, " {WIDTH},{height:.1}");
        let _ = write!(
            svg,
            "<polyline points=\"{points}\" style=\"stroke:{}\"><title>{}</title></polyline>",
            row.colour,
            escaped(&row.name)
        );
    }
    svg + "</svg>"
}

/// Dots at evenly spaced places of the sorted values, on each other where they crowd.
fn dots(values: &[f64], end: f64, colour: &str) -> String {
    let count = values.len().min(DOTS);
    let picked = (0..count).map(|dot| quantile(values, (dot as f64 + 0.5) / count as f64));
    let mut places = [0_u32; PLACES + 1];
    for value in picked.filter(|value| *value <= end) {
        places[((value / end * PLACES as f64).round() as usize).min(PLACES)] += 1;
    }
    let highest = places.iter().max().copied().unwrap_or(1).max(1);
    let step = (HEIGHT / f64::from(highest)).min(5.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><line x1=\"0\" x2=\"100%\" y1=\"{HEIGHT}\" \
         y2=\"{HEIGHT}\"/>"
    );
    for (place, dots) in places.iter().enumerate() {
        for dot in 0..*dots {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}%\" cy=\"{:.1}\" r=\"2\" style=\"fill:{colour}\"/>",
                place as f64 / PLACES as f64 * 100.0,
                HEIGHT - 2.5 - f64::from(dot) * step
            );
        }
    }
    svg + "</svg>"
}

fn axis(end: f64, shown: &impl Fn(f64) -> String) -> String {
    let marks = (0..MARKS).map(|mark| shown(end * f64::from(mark) / f64::from(MARKS - 1)));
    let marks: String = marks.map(|mark| format!("<span>{}</span>", escaped(&mark))).collect();
    format!("<span class=\"axis\">{marks}</span>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_modes_are_two_heaps_of_dots_and_what_lies_beyond_is_told() {
        let mut values = vec![1.0; 300];
        values.extend([2.0; 300]);
        values.push(900.0);
        let rows = [Values { name: "off".into(), values: &values, colour: "red" }];
        let html = cumulative("latency", &rows, |value| format!("{value:.1} µs"));
        let heaps: std::collections::BTreeSet<&str> =
            html.split("cx=\"").skip(1).filter_map(|rest| rest.split('%').next()).collect();
        assert_eq!(heaps.len(), 2, "{heaps:?}");
        assert_eq!(html.matches("<circle").count(), DOTS);
        assert!(html.contains("1 beyond, up to 900.0 µs"), "{html}");
        assert_eq!(cumulative("nothing", &[], |_| String::new()), "");
    }
}
