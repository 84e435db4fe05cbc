//! Diagnostics as SARIF.

use super::Judged;
use crate::sarif::{log, uri};
use rules::finding::{Answer, Position, Severity};
use rules::lint::{Diagnostic, rules as catalogue};
use rules::position::Lines;
use serde_json::{Value, json};

/// A run with its rules and results.
pub fn sarif(judged: &[Judged]) -> Value {
    let rules: Vec<Value> = catalogue::all()
        .map(|rule| {
            json!({
                "id": rule.id,
                "name": rule.name,
                "shortDescription": { "text": format!("{}.", rule.summary) },
                "fullDescription": { "text": rule.explanation.trim() },
                "help": { "text": rule.page(), "markdown": rule.page() },
                "defaultConfiguration": { "level": level(rule.severity) },
            })
        })
        .collect();
    let results: Vec<Value> = judged.iter().flat_map(results).collect();
    let unread: Vec<Value> = judged
        .iter()
        .filter_map(|one| {
            let why = one.outcome.as_ref().err()?;
            Some(json!({
                "level": "error",
                "message": { "text": format!("{}: {why}", one.name) },
            }))
        })
        .collect();
    log("avicenna lint", rules, results, unread)
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn results(one: &Judged) -> Vec<Value> {
    let Ok(judgement) = &one.outcome else { return Vec::new() };
    let lines = Lines::new(&one.text);
    judgement.report.diagnostics.iter().map(|found| result(one, found, &lines)).collect()
}

fn result(one: &Judged, diagnostic: &Diagnostic, lines: &Lines<'_>) -> Value {
    let index = catalogue::all().position(|rule| rule == diagnostic.rule);
    let artifact = json!({ "uri": uri(&one.name) });
    let is_open = diagnostic.answer == Answer::Unknown;
    let mut result = json!({
        "ruleId": diagnostic.rule.id,
        "ruleIndex": index,
        // SARIF's "open": the tool could not decide.
        "kind": if is_open { "open" } else { "fail" },
        "level": if is_open { "none" } else { level(diagnostic.severity) },
        "message": { "text": diagnostic.message },
        "locations": [{ "physicalLocation": {
            "artifactLocation": artifact,
            "region": region(diagnostic.position, lines),
        }}],
    });
    if let Some(remedy) = diagnostic.remedy.as_ref().filter(|remedy| !remedy.edits.is_empty()) {
        let replacements: Vec<Value> = remedy
            .edits
            .iter()
            .map(|edit| {
                json!({
                    "deletedRegion": { "byteOffset": edit.start, "byteLength": edit.end - edit.start },
                    "insertedContent": { "text": edit.replacement },
                })
            })
            .collect();
        result["fixes"] = json!([{
            "description": { "text": remedy.fix.line },
            "artifactChanges": [{ "artifactLocation": artifact, "replacements": replacements }],
        }]);
    }
    result
}

fn region(position: Position, lines: &Lines<'_>) -> Value {
    let end = lines.position(position.end, position.end);
    json!({
        "startLine": position.line.max(1),
        "startColumn": position.column.max(1),
        "endLine": end.line.max(position.line).max(1),
        "endColumn": end.column,
        "byteOffset": position.start,
        "byteLength": position.end - position.start,
    })
}
