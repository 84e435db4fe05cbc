//! Plots of a page, drawn from numbers alone: shapes that stretch with the page, and text beside
//! them that keeps its size. Their style is the page's.

mod cumulative;
mod distribution;
mod lanes;
mod over_time;

pub use cumulative::{Values, cumulative};
pub use distribution::{Distribution, distributions};
pub use lanes::{Group, Stretch, lanes};
pub use over_time::{lines, stretches};

use crate::grid::escaped;
use crate::page::{AFTER, BEFORE};
use std::fmt::Write;

/// Colours of what has no meaning but to be told apart.
pub const COLOURS: [&str; 8] = [
    "var(--s0)",
    "var(--s1)",
    "var(--s2)",
    "var(--s3)",
    "var(--s4)",
    "var(--s5)",
    "var(--s6)",
    "var(--s7)",
];

/// Bars drawn at most; the rest are in the tables.
const MOST_BARS: usize = 24;

/// A figure whose title is for who does not see it; headings are the page's.
fn figure(class: &str, title: &str, body: &str) -> String {
    format!(
        "<figure class=\"plot {class}\" role=\"img\" aria-label=\"{}\">\n{body}</figure>\n",
        escaped(title)
    )
}

/// Name, value, text behind the bar, colour.
pub type Bar<'a> = (String, f64, String, &'a str);

/// A horizontal bar per name.
pub fn bars(title: &str, rows: &[Bar<'_>]) -> String {
    bars_beside(title, rows, &[])
}

/// The same, with what is beside the scale: values so large that nothing else would be seen, such
/// as the time that guests wait.
pub fn bars_beside(title: &str, rows: &[Bar<'_>], beside: &[Bar<'_>]) -> String {
    let rows = &rows[..rows.len().min(MOST_BARS)];
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let mut html = String::new();
    for (name, value, text, colour) in rows {
        let _ = writeln!(
            html,
            "<span class=\"name\">{}</span><span class=\"track\">{}</span><span \
             class=\"value\">{}</span>",
            escaped(name),
            bar(*value, most, colour),
            escaped(text)
        );
    }
    for (name, _, text, colour) in beside {
        let _ = writeln!(
            html,
            "<span class=\"beside\">{}beside the scale: {} {}</span>",
            swatch(colour),
            escaped(name),
            escaped(text)
        );
    }
    figure("bars", title, &format!("<div class=\"rows\">\n{html}</div>\n"))
}

fn bar(value: f64, most: f64, colour: &str) -> String {
    let percent = if most > 0.0 { (value / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    format!("<i style=\"width:{percent:.2}%;background:{colour}\"></i>")
}

fn swatch(colour: &str) -> String {
    format!("<b style=\"background:{colour}\"></b>")
}

/// One thing under two settings, with what is to be said of it under its name.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// What it is.
    pub name: String,
    /// What is said under its name; may be empty.
    pub note: String,
    /// Value and its text; `None` where there was none.
    pub before: Option<(f64, String)>,
    /// The same under the second setting.
    pub after: Option<(f64, String)>,
}

/// Two bars per name, to one scale. What they stand for is said by [`crate::page::legend`].
pub fn pairs(title: &str, rows: &[Pair]) -> String {
    let rows = &rows[..rows.len().min(MOST_BARS)];
    let sides = |row: &Pair| [(row.before.clone(), BEFORE), (row.after.clone(), AFTER)];
    let values = rows.iter().flat_map(|row| [&row.before, &row.after]).flatten();
    let most = values.map(|side| side.0).fold(0.0, f64::max);
    let mut html = String::new();
    for row in rows {
        let (mut shapes, mut texts) = (String::new(), Vec::new());
        for (side, colour) in sides(row) {
            let (value, text) = side.unwrap_or((0.0, "–".into()));
            shapes += &bar(value, most, colour);
            texts.push(escaped(&text));
        }
        let note = match row.note.as_str() {
            "" => String::new(),
            note => format!("<small>{}</small>", escaped(note)),
        };
        let _ = writeln!(
            html,
            "<span class=\"name\">{}{note}</span><span class=\"track pair\">{shapes}</span><span \
             class=\"value pair\">{}</span>",
            escaped(&row.name),
            texts.join("<br>")
        );
    }
    figure("pairs", title, &format!("<div class=\"rows\">\n{html}</div>\n"))
}

/// One bar in parts that add up to the whole.
pub fn stack(title: &str, parts: &[(String, f64, &str)]) -> String {
    let total: f64 = parts.iter().map(|part| part.1).sum();
    let share = |value: f64| value / total.max(f64::MIN_POSITIVE) * 100.0;
    let mut html = "<div class=\"stack\">".to_owned();
    for (_, value, colour) in parts.iter().filter(|part| part.1 > 0.0) {
        let _ = write!(html, "<i style=\"width:{:.2}%;background:{colour}\"></i>", share(*value));
    }
    let named: Vec<(String, &str)> = parts
        .iter()
        .map(|(name, value, colour)| (format!("{name} {:.1} %", share(*value)), *colour))
        .collect();
    figure("stack-of-parts", title, &format!("{html}</div>\n{}", legend(&named)))
}

/// Names with their colours.
pub fn legend(named: &[(String, &str)]) -> String {
    let item =
        |(name, colour): &(String, &str)| format!("<li>{}{}</li>", swatch(colour), escaped(name));
    format!("<ul class=\"legend\">{}</ul>\n", named.iter().map(item).collect::<String>())
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
