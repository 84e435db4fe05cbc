//! How durations are distributed: columns over powers of two, all on one axis.

use super::{duration, figure};
use crate::grid::{escaped, grouped};
use std::fmt::Write;

/// Marks on the axis.
const MOST_MARKS: usize = 7;

/// Counts per power of two of one name.
#[derive(Clone, Debug)]
pub struct Distribution<'a> {
    /// Whose counts they are.
    pub name: String,
    /// Under the name.
    pub note: String,
    /// Lower bounds in nanoseconds with their counts, each bound twice the one before.
    pub octaves: &'a [(u64, u64)],
    /// A colour of [`crate::page`], as CSS has it.
    pub colour: &'a str,
}

/// The place of a bound on the axis: zero for nothing, else the power of two.
fn place(floor: u64) -> usize {
    floor.checked_ilog2().map_or(0, |power| power as usize + 1)
}

/// One row per name; each has its own height, so that rare ones are seen too.
pub fn distributions(title: &str, rows: &[Distribution<'_>]) -> String {
    let filled = rows.iter().flat_map(|row| row.octaves).filter(|octave| octave.1 > 0);
    let places: Vec<usize> = filled.map(|octave| place(octave.0)).collect();
    let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) else {
        return String::new();
    };
    let (first, columns) = (*first, last - first + 1);
    let mut html = String::new();
    for row in rows {
        let _ = writeln!(
            html,
            "<span class=\"name\">{}<small>{}</small></span><span class=\"track\">{}</span><span \
             class=\"value\"></span>",
            escaped(&row.name),
            escaped(&row.note),
            columns_of(row, first, columns)
        );
    }
    figure(
        "distributions",
        title,
        &format!("<div class=\"rows\">\n{html}{}</div>\n", axis(first, columns)),
    )
}

fn columns_of(row: &Distribution<'_>, first: usize, columns: usize) -> String {
    const HEIGHT: f64 = 40.0;
    let most = row.octaves.iter().map(|octave| octave.1).max().unwrap_or(1).max(1) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {columns} {HEIGHT}\" preserveAspectRatio=\"none\" \
         xmlns=\"http://www.w3.org/2000/svg\"><line x1=\"0\" x2=\"{columns}\" y1=\"{HEIGHT}\" \
         y2=\"{HEIGHT}\"/>"
    );
    for (floor, count) in row.octaves.iter().filter(|octave| octave.1 > 0) {
        // The rarest is still seen.
        let height = (*count as f64 / most * HEIGHT).max(1.0);
        let _ = write!(
            svg,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"0.9\" height=\"{height:.2}\" \
             style=\"fill:{}\"><title>{} to {}: {}</title></rect>",
            (place(*floor) - first) as f64 + 0.05,
            HEIGHT - height,
            row.colour,
            duration(*floor),
            duration(floor.saturating_mul(2).max(1)),
            grouped(*count)
        );
    }
    svg + "</svg>"
}

/// Marks where their columns begin.
fn axis(first: usize, columns: usize) -> String {
    let step = columns.div_ceil(MOST_MARKS);
    let mut html = format!(
        "<span class=\"axis cells\" style=\"grid-template-columns:repeat({columns},minmax(0,1fr))\">"
    );
    for column in (0..columns).step_by(step) {
        let floor = (first + column).checked_sub(1).map_or(0, |power| 1u64 << power.min(63));
        let width = step.min(columns - column);
        let _ = write!(
            html,
            "<span style=\"grid-column:{}/span {width}\">{}</span>",
            column + 1,
            duration(floor)
        );
    }
    html + "</span>"
}
