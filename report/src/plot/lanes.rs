//! Who did what when, a lane each: shapes that stretch with the page, labels that keep their size
//! and stand only where there is room, and a text of each stretch for the pointer.

use super::figure;
use crate::grid::escaped;
use std::fmt::Write;

/// Pixels of a lane on a wide page, and on a narrow one; about as much as [`crate::page`] leaves.
const WIDE: f64 = 820.0;
const NARROW: f64 = 250.0;
/// Pixels of a character of a label, and beside a label.
const CHARACTER: f64 = 6.6;
const MARGIN: f64 = 8.0;
/// Marks of the axis, with both its ends.
const MARKS: u32 = 5;

/// A stretch of a lane.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// When it began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// What it was, in a few words.
    pub label: String,
    /// More about it, a line each.
    pub notes: Vec<String>,
    /// A colour of [`crate::page`], as CSS has it.
    pub colour: &'static str,
}

/// Those that belong together, such as two processors with one setting.
#[derive(Clone, Debug)]
pub struct Group {
    /// What is said above them.
    pub title: String,
    /// Until when they last.
    pub end: f64,
    /// Whose, and what.
    pub lanes: Vec<(String, Vec<Stretch>)>,
}

/// All to one scale. `shown` is a moment in words.
pub fn lanes(title: &str, groups: &[Group], shown: impl Fn(f64) -> String) -> String {
    let end = groups.iter().map(|group| group.end).fold(f64::MIN_POSITIVE, f64::max);
    let mut html = String::new();
    for group in groups {
        let _ = writeln!(html, "<span class=\"beside\">{}</span>", escaped(&group.title));
        for (name, stretches) in &group.lanes {
            let _ = writeln!(
                html,
                "<span class=\"name\">{}</span><span class=\"track lane\">{}</span>",
                escaped(name),
                lane(name, stretches, group.end / end, end, &shown)
            );
        }
    }
    let marks = (0..MARKS).map(|mark| shown(end * f64::from(mark) / f64::from(MARKS - 1)));
    let marks: String = marks.map(|mark| format!("<span>{}</span>", escaped(&mark))).collect();
    let body =
        format!("<div class=\"rows lanes\">\n{html}<span class=\"axis\">{marks}</span></div>\n");
    figure("swim", title, &body)
}

fn lane(
    name: &str,
    stretches: &[Stretch],
    share: f64,
    end: f64,
    shown: &impl Fn(f64) -> String,
) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><rect class=\"free\" width=\"{:.2}%\" \
         height=\"100%\"/>",
        share * 100.0
    );
    for one in stretches {
        let (from, width) = (one.from / end, (one.to - one.from).max(0.0) / end);
        let needs = one.label.chars().count() as f64 * CHARACTER + MARGIN;
        let class = match width {
            width if width * NARROW >= needs => Some("label"),
            width if width * WIDE >= needs => Some("label wide"),
            _ => None,
        };
        let label = class.map_or_else(String::new, |class| {
            format!("<text class=\"{class}\" x=\"4\" y=\"15\">{}</text>", escaped(&one.label))
        });
        // What is there is seen, however short it is.
        let _ = write!(
            svg,
            "<svg x=\"{:.3}%\" width=\"{:.3}%\" height=\"100%\"><title>{}: {}, {} to {}{}</title><rect \
             width=\"100%\" height=\"100%\" style=\"fill:{}\"/>{label}</svg>",
            from * 100.0,
            (width * 100.0).max(0.4),
            escaped(name),
            escaped(&one.label),
            escaped(&shown(one.from)),
            escaped(&shown(one.to)),
            one.notes.iter().map(|note| format!("\n{}", escaped(note))).collect::<String>(),
            one.colour
        );
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stands_only_where_there_is_room_and_every_stretch_is_told() {
        let stretch = |from, to, label: &str| Stretch {
            from,
            to,
            label: label.into(),
            notes: vec![format!("note of {label}")],
            colour: "red",
        };
        let stretches = vec![
            stretch(0.0, 50.0, "ICR write"),
            stretch(50.0, 65.0, "handler <h>"),
            stretch(65.0, 65.1, "EOI"),
        ];
        let group =
            Group { title: "off".into(), end: 100.0, lanes: vec![("target".into(), stretches)] };
        let html = lanes("an IPI", &[group], |at| format!("{at:.0} ns"));
        assert!(html.contains("<text class=\"label\" x=\"4\" y=\"15\">ICR write</text>"), "{html}");
        assert!(html.contains("class=\"label wide\""), "{html}");
        assert!(!html.contains(">EOI</text>"), "{html}");
        assert!(html.contains("<title>target: EOI, 65 ns to 65 ns\nnote of EOI</title>"), "{html}");
        assert!(html.contains("handler &lt;h&gt;"), "{html}");
    }
}
