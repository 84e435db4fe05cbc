//! Diagnostics as workflow commands of GitHub Actions.

use super::Judged;
use crate::writer::shown;
use rules::finding::{Answer, Severity};

/// A command for each diagnostic.
pub fn github(judged: &[Judged]) -> String {
    let mut out = String::new();
    for one in judged {
        let file = property(&one.name);
        let judgement = match &one.outcome {
            Ok(judgement) => judgement,
            Err(why) => {
                out.push_str(&format!("::error file={file}::{}\n", data(why)));
                continue;
            }
        };
        for found in &judgement.report.diagnostics {
            let command = match (found.answer, found.severity) {
                (Answer::Unknown, _) | (_, Severity::Note) => "notice",
                (_, Severity::Warning) => "warning",
                (_, Severity::Error) => "error",
            };
            let at = found.position;
            let title = property(&format!("{} {}", found.rule.id, found.rule.name));
            let fix = found.remedy.as_ref().map_or(String::new(), |remedy| {
                format!("\nfix: {} ({})", remedy.fix.line, remedy.fix.needs)
            });
            let message = data(&format!("{}{fix}", found.message));
            let (line, column) = (at.line.max(1), at.column.max(1));
            out.push_str(&format!(
                "::{command} file={file},line={line},col={column},title={title}::{message}\n"
            ));
        }
    }
    out
}

/// Escapes of a message.
fn data(text: &str) -> String {
    shown(text, false).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_reserve_is_escaped() {
        assert_eq!(data("a%b\nc:d,e"), "a%25b%0Ac:d,e");
        assert_eq!(property("a:b,c\n"), "a%3Ab%2Cc%0A");
    }
}
