//! The report for readers: the answer first, then its causes, then, if asked for, everything.

use crate::document;
use crate::layout::{Colour, Look};
use crate::writer::clean;
use rules::capability::{Change, Report, Scope, Sentence};
use rules::finding::{Answer, Finding, Severity};
use std::fmt::Write;

/// How much is shown; each shows what the ones before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The sentences and the three answers.
    Answers,
    /// Beside them the causes.
    Causes,
    /// Every row.
    Rows,
    /// Every row with what was read for it, and the rule's source.
    Everything,
}

/// What matters most, in a sentence: the state, or of hardware alone what it can.
pub fn said(report: &Report) -> &str {
    match report.scope {
        Scope::Host => &report.summary.state.text,
        Scope::Hardware => &report.summary.hardware.text,
    }
}

/// The answer and what would change it on one line, which is never folded.
pub fn line(report: &Report, answer: Answer, look: Look) -> String {
    let word = look.paint(document::Severity::from(answer), &answer.to_string());
    let change = report.summary.change.as_ref().filter(|_| answer == Answer::No);
    let change = change.map_or(String::new(), |change| format!("; {}", changed(change)));
    format!("{word}: {}{}\n", clean(said(report)), clean(&change))
}

fn changed(change: &Change) -> String {
    let lines: Vec<&str> = change.fixes.iter().map(|fix| fix.line.as_str()).collect();
    format!("change: {} (costs: {})", lines.join("; and "), change.needs)
}

/// Kinds of cores that are named one by one.
const CORES_SHOWN: usize = 2;

/// The report as lines.
pub fn text(report: &Report, detail: Detail, look: Look) -> String {
    let mut text = String::new();
    head(&mut text, report, detail, look);
    if report.scope == Scope::Host {
        for answer in &report.answers {
            let reason = detail >= Detail::Rows && answer.answer != Answer::Yes;
            row(&mut text, answer, if reason { detail } else { Detail::Answers }, look);
        }
    }
    if detail == Detail::Answers {
        return text;
    }
    const GROUPS: &[(&str, &str)] =
        &[("cpu-", "Processor"), ("kvm-", "KVM"), ("iommu-", "IOMMU"), ("guest-", "As a guest")];
    for (prefix, title) in GROUPS {
        let rows: Vec<&Finding> = report
            .findings
            .iter()
            .filter(|row| row.id.starts_with(prefix))
            .filter(|row| detail >= Detail::Rows || is_cause(row))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}", look.paint(Colour::Bold, title));
        for finding in rows {
            row(&mut text, finding, detail, look);
        }
    }
    if detail == Detail::Causes {
        text.push_str(&hidden(report, look));
    }
    text
}

/// What an operator looks at: neither good, nor a mere consequence, nor a note.
fn is_cause(row: &Finding) -> bool {
    row.answer != Answer::Yes && row.follows.is_none() && row.severity > Severity::Note
}

fn head(text: &mut String, report: &Report, detail: Detail, look: Look) {
    let origin = match &report.kernel {
        Some(kernel) => format!("{}: Linux {kernel}", report.origin),
        None => report.origin.clone(),
    };
    text.push_str(&look.hanging("", 0, &origin));
    let shown = if detail >= Detail::Rows { usize::MAX } else { CORES_SHOWN };
    for processor in report.processors.iter().take(shown) {
        text.push_str(&look.hanging("  ", 2, processor));
    }
    if let Some(more) = report.processors.len().checked_sub(shown).filter(|more| *more > 0) {
        text.push_str(&format!("  and {more} more kinds of cores\n"));
    }
    let summary = &report.summary;
    sentence(text, &summary.hardware, look);
    sentence(text, &summary.state, look);
    if let Some(change) = &summary.change {
        let lines: Vec<&str> = change.fixes.iter().map(|fix| fix.line.as_str()).collect();
        let steps = match report.origin.as_str() {
            "live host" => "; avicenna enable shows the steps".to_owned(),
            _ => String::new(),
        };
        let line = format!("{} (costs: {}{steps})", lines.join("; and "), change.needs);
        text.push_str(&look.verbatim("Change: ", &line));
    }
}

fn sentence(text: &mut String, sentence: &Sentence, look: Look) {
    let colour = colour(sentence.answer, Severity::Error);
    let mut letters = sentence.text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let line = look.hanging("", 0, &format!("{first}{}.", letters.as_str()));
    text.push_str(&look.painted_line(colour, &line));
}

fn colour(answer: Answer, severity: Severity) -> Colour {
    match (answer, severity) {
        (Answer::Yes, _) => Colour::Green,
        (Answer::No, Severity::Error) => Colour::Red,
        _ => Colour::Yellow,
    }
}

/// One row: answer, statement, and for everything but a plain yes what was read and what would
/// change it.
fn row(text: &mut String, finding: &Finding, detail: Detail, look: Look) {
    const WIDTH: usize = Look::ROW;
    let subject = match finding.subject.as_str() {
        "host" | "this kernel as a guest" => String::new(),
        other => format!("  [{other}]"),
    };
    let statement = format!("{}{subject}", finding.statement);
    let colour = colour(finding.answer, finding.severity);
    text.push_str(&look.row(colour, &finding.answer.to_string(), &statement));
    let line = |text: &mut String, name: &str, value: &str| {
        let lines = look.hanging(&format!("{:WIDTH$}{name}", ""), WIDTH + 6, value);
        text.push_str(&look.painted_line(Colour::Dim, &lines));
    };
    let is_everything = detail == Detail::Everything;
    if detail == Detail::Answers || (finding.answer == Answer::Yes && !is_everything) {
        return;
    }
    line(text, "why", &finding.reason);
    if is_everything || !finding.id.starts_with("answer-") {
        for evidence in &finding.evidence {
            let read = format!("{} at {}: {}", evidence.what, evidence.place, evidence.value);
            line(text, "read", &read);
        }
    }
    if is_everything {
        line(text, "rule", &finding.source);
    }
    if let Some(fix) = finding.fix.as_ref().filter(|_| finding.answer == Answer::No) {
        let lines = look.verbatim(
            &format!("{:WIDTH$}fix   ", ""),
            &format!("{} (needs: {})", fix.line, fix.needs),
        );
        text.push_str(&look.painted_line(Colour::Dim, &lines));
    }
}

/// What was left out, in one line.
fn hidden(report: &Report, look: Look) -> String {
    let count =
        |is: &dyn Fn(&Finding) -> bool| report.findings.iter().filter(|row| is(row)).count();
    let good = count(&|row| row.answer == Answer::Yes);
    let following = count(&|row| row.answer != Answer::Yes && row.follows.is_some());
    let notes = report.findings.len() - good - following - count(&|row| is_cause(row));
    let follow = if following == 1 { "that only follows" } else { "that only follow" };
    let parts: Vec<String> = [
        (good, "good".to_owned()),
        (following, format!("{follow} from these")),
        (notes, if notes == 1 { "note".to_owned() } else { "notes".to_owned() }),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(
            "\n{}",
            look.hanging("", 0, &format!("More rows: {}; --all shows them.", parts.join(", ")))
        ),
    }
}
