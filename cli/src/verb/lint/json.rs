//! Diagnostics as JSON: docs/schema/lint-1.json.

use super::Judged;
use rules::lint::{Diagnostic, Target};
use serde_json::{Value, json};

/// Version of the published form.
const SCHEMA: u32 = 1;

pub fn json(judged: &[Judged]) -> Value {
    let inputs: Vec<Value> = judged
        .iter()
        .map(|one| match &one.outcome {
            Ok(judgement) => json!({
                "file": one.input.name,
                "kind": judgement.kind.name(),
                "machines": judgement.machines,
                "target": target(&one.target),
                "suppressed": judgement.report.suppressed,
                "diagnostics": judgement.report.diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
            }),
            Err(why) => json!({
                "file": one.input.name,
                "target": target(&one.target),
                "error": why,
                "diagnostics": [],
            }),
        })
        .collect();
    json!({ "schema": SCHEMA, "inputs": inputs })
}

fn target(target: &Target) -> Value {
    json!({
        "vendors": target.vendors,
        "kernel": target.kernel.as_ref().map(|kernel| kernel.numbers().to_string()),
        "qemu": target.qemu.map(|version| version.to_string()),
    })
}

fn diagnostic(diagnostic: &Diagnostic) -> Value {
    let fix = diagnostic.remedy.as_ref().map(|remedy| {
        json!({
            "line": remedy.fix.line,
            "needs": remedy.fix.needs,
            "edits": remedy.edits,
        })
    });
    json!({
        "rule": diagnostic.rule.id,
        "name": diagnostic.rule.name,
        "severity": diagnostic.severity,
        "answer": diagnostic.answer,
        "subject": diagnostic.subject,
        "message": diagnostic.message,
        "position": diagnostic.position,
        "vendors": diagnostic.vendors,
        "inhibit": diagnostic.inhibit.map(|reason| reason.name()),
        "fix": fix,
    })
}
