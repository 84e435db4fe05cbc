//! Diagnostics for readers: place, message, the line itself, the change.

use super::{Judged, Judgement};
use crate::layout::{COLUMNS, Colour, Look};
use crate::writer::steers;
use reading::Kernel;
use reading::version::{NEWEST_KERNEL, NEWEST_QEMU};
use rules::finding::{Answer, Severity};
use rules::lint::Diagnostic;
use rules::position::Lines;

/// What was found as lines; `quiet` leaves out notes and the summary.
pub fn text(judged: &[Judged], quiet: bool, look: Look) -> String {
    let mut out = String::new();
    for one in judged {
        match &one.outcome {
            Err(why) => {
                let (head, painted) = ("cannot read", look.paint(Colour::Red, "cannot read"));
                let line = look.hanging("", 0, &format!("{}: {head}: {why}", one.name));
                out.push_str(&line.replacen(head, &painted, 1));
            }
            Ok(judgement) => diagnostics(&mut out, one, judgement, quiet, look),
        }
    }
    if !quiet {
        summary(&mut out, judged, look);
    }
    out
}

fn diagnostics(out: &mut String, one: &Judged, judgement: &Judgement, quiet: bool, look: Look) {
    let source = one.text.as_str();
    let lines = Lines::new(source);
    let mut rest = judgement.report.diagnostics.as_slice();
    while let Some((first, more)) = rest.split_first() {
        // Rules that one unknown leaves open are told together.
        let same = more
            .iter()
            .take_while(|next| {
                first.answer == Answer::Unknown
                    && next.answer == first.answer
                    && next.position == first.position
            })
            .count();
        let (group, others) = rest.split_at(1 + same);
        rest = others;
        if !quiet || first.severity > Severity::Note {
            diagnostic(out, one, group, &lines, look);
        }
    }
}

fn diagnostic(out: &mut String, one: &Judged, group: &[Diagnostic], lines: &Lines<'_>, look: Look) {
    let Some(first) = group.first() else { return };
    let ids: Vec<&str> = group.iter().map(|diagnostic| diagnostic.rule.id).collect();
    let (word, colour) = match (first.answer, first.severity) {
        (Answer::Unknown, _) => ("unknown".to_owned(), Colour::Yellow),
        (_, Severity::Error) => (first.severity.to_string(), Colour::Red),
        (_, Severity::Warning) => (first.severity.to_string(), Colour::Yellow),
        (_, Severity::Note) => (first.severity.to_string(), Colour::Dim),
    };
    let position = first.position;
    let place = format!("{}:{}:{}", one.name, position.line, position.column);
    let vendors = match (first.vendors.as_slice(), one.target.vendors.len()) {
        ([vendor], 2) => format!(" ({})", vendor.name()),
        _ => String::new(),
    };
    let subject = first.subject.as_deref().map_or(String::new(), |name| format!("{name}: "));
    let message = format!("{subject}{}{vendors}", first.message);
    // Colour is put in after wrapping, which counts characters.
    let label = format!("{word}[{}]", ids.join(", "));
    let fix = first.remedy.as_ref().map(|remedy| {
        let can_repair = !remedy.edits.is_empty() && one.can_be_repaired;
        let how = if can_repair { " [--fix]" } else { "" };
        format!("{} ({}){how}", remedy.fix.line, remedy.fix.needs)
    });
    if !look.is_folded() {
        let fix = fix.map_or(String::new(), |fix| format!("; fix: {fix}"));
        let line = look.hanging("", 0, &format!("{place}: {label} {message}{fix}"));
        out.push_str(&line.replacen(&word, &look.paint(colour, &word), 1));
        return;
    }
    let wrapped = look.hanging("", 0, &format!("{place}: {label} {message}"));
    out.push_str(&wrapped.replacen(&word, &look.paint(colour, &word), 1));
    excerpt(out, first, lines, look);
    if let Some(fix) = fix {
        out.push_str(&look.verbatim("  fix: ", &fix));
    }
}

/// The line with a mark below, cut around the place.
fn excerpt(out: &mut String, diagnostic: &Diagnostic, lines: &Lines<'_>, look: Look) {
    let position = diagnostic.position;
    let line = lines.line(position.line);
    if position.end <= position.start || line.is_empty() {
        return;
    }
    const MARGIN: usize = 4;
    let width = look.columns.map_or(COLUMNS, |columns| columns.min(COLUMNS)) - MARGIN;
    let at = (position.column as usize).saturating_sub(1);
    let marked = lines.text().get(position.start..position.end).unwrap_or_default();
    let first = marked.lines().next().unwrap_or_default();
    let length = first.chars().take(width + 1).count().max(1);
    // Start a little before the mark where the line is too long.
    let from = if at + length <= width { 0 } else { at.saturating_sub(width / 4) };
    let shown: String = line.chars().skip(from).take(width).map(printable).collect();
    let length = length.min(width.saturating_sub(at - from)).max(1);
    let mark = look.paint(Colour::Bold, &"^".repeat(length));
    out.push_str(&format!("    {}\n    {:2$}{mark}\n", shown.trim_end(), "", at - from));
}

/// One column for each character, whatever it does: the mark below has to meet it.
fn printable(c: char) -> char {
    if steers(c) { ' ' } else { c }
}

fn summary(out: &mut String, judged: &[Judged], look: Look) {
    let all = || {
        judged
            .iter()
            .filter_map(|one| one.outcome.as_ref().ok())
            .flat_map(|judgement| &judgement.report.diagnostics)
    };
    let count =
        |severity| all().filter(|d| d.answer == Answer::No && d.severity == severity).count();
    let plural = |number: usize, word: &str| {
        format!("{number} {word}{}", if number == 1 { "" } else { "s" })
    };
    let mut parts = vec![
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning"),
        plural(count(Severity::Note), "note"),
    ];
    let unknown = all().filter(|d| d.answer == Answer::Unknown).count();
    if unknown > 0 {
        parts.push(format!("{unknown} undecided"));
    }
    let unread = judged.iter().filter(|one| one.outcome.is_err()).count();
    if unread > 0 {
        parts.push(format!("{} unread", plural(unread, "input")));
    }
    let silenced: usize = judged
        .iter()
        .filter_map(|one| one.outcome.as_ref().ok())
        .map(|j| j.report.suppressed)
        .sum();
    if silenced > 0 {
        parts.push(format!("{silenced} silenced"));
    }
    let machines: usize =
        judged.iter().filter_map(|one| one.outcome.as_ref().ok()).map(|j| j.machines).sum();
    let what = format!("{}, {}", plural(judged.len(), "input"), plural(machines, "machine"));
    let assumed = judged.first().map_or(String::new(), |one| {
        let vendors: Vec<_> = one.target.vendors.iter().map(|vendor| vendor.name()).collect();
        let kernel = one.target.kernel.as_ref().map_or(NEWEST_KERNEL, Kernel::numbers);
        let qemu = one.target.qemu.unwrap_or(NEWEST_QEMU);
        format!("; judged for {}, Linux {kernel}, QEMU {qemu}", vendors.join(" and "))
    });
    out.push_str(&look.hanging("", 0, &format!("{what}: {}{assumed}", parts.join(", "))));
}
