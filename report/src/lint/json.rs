//! Diagnostics as JSON: docs/schema/lint-1.json.

use super::{Judged, SCHEMA};
use rules::finding::{Answer, Needs, Position, Severity};
use rules::inhibit::Vendor;
use rules::lint::{Diagnostic, Edit};
use serde::Serialize;
use serde_json::Value;

/// What was found in every input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Lint<'a> {
    /// [`SCHEMA`], the version of this form.
    schema: u32,
    /// In the order in which they were given.
    inputs: Vec<Input<'a>>,
}

/// One input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Input<'a> {
    /// As named; inside a host's archive ARCHIVE:/PATH.
    file: &'a str,
    /// The language of the input; absent where it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Virtual machines found.
    #[serde(skip_serializing_if = "Option::is_none")]
    machines: Option<usize>,
    /// What it was judged for.
    target: Target,
    /// Diagnostics silenced by comments.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<usize>,
    /// Why the input could not be read; `kind` is absent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// In the order of their places.
    diagnostics: Vec<Found<'a>>,
}

/// What inputs are judged for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Target {
    #[cfg_attr(test, schemars(schema_with = "schema::vendors"))]
    vendors: Vec<Vendor>,
    /// None is a current one.
    kernel: Option<String>,
    /// None is a current one.
    qemu: Option<String>,
}

/// A rule that an input violates, or that could not be decided.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Found<'a> {
    /// Stable: AV001.
    rule: &'static str,
    /// The rule in words: pit-reinject.
    name: &'static str,
    #[cfg_attr(test, schemars(schema_with = "schema::severity"))]
    severity: Severity,
    /// No: violated; unknown: could not be decided.
    #[cfg_attr(test, schemars(schema_with = "schema::answer"))]
    answer: Answer,
    /// The virtual machine's name.
    subject: Option<&'a str>,
    message: &'a str,
    #[cfg_attr(test, schemars(with = "schema::Position"))]
    position: Position,
    #[cfg_attr(test, schemars(schema_with = "schema::vendors"))]
    vendors: &'a [Vendor],
    /// The kernel's name of the reason.
    inhibit: Option<&'static str>,
    fix: Option<Fix<'a>>,
}

/// What changes it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Fix<'a> {
    /// What to write.
    line: &'a str,
    #[cfg_attr(test, schemars(schema_with = "schema::needs"))]
    needs: Needs,
    /// What --fix does; empty where it cannot.
    #[cfg_attr(test, schemars(with = "Vec<schema::Edit>"))]
    edits: &'a [Edit],
}

/// What was found in every input, as a value.
pub fn json(judged: &[Judged]) -> serde_json::Result<Value> {
    serde_json::to_value(Lint { schema: SCHEMA, inputs: judged.iter().map(input).collect() })
}

/// The same with the version and one input on each line.
pub fn json_lines(judged: &[Judged]) -> serde_json::Result<String> {
    let mut text = String::new();
    for one in judged {
        let value = serde_json::to_value(Lint { schema: SCHEMA, inputs: vec![input(one)] })?;
        text += &value.to_string();
        text.push('\n');
    }
    Ok(text)
}

fn input(one: &Judged) -> Input<'_> {
    let judgement = one.outcome.as_ref().ok();
    let found = judgement.map_or(&[][..], |judgement| &judgement.report.diagnostics);
    Input {
        file: &one.name,
        kind: judgement.map(|judgement| judgement.kind.name()),
        machines: judgement.map(|judgement| judgement.machines),
        target: Target {
            vendors: one.target.vendors.clone(),
            kernel: one.target.kernel.as_ref().map(|kernel| kernel.numbers().to_string()),
            qemu: one.target.qemu.map(|version| version.to_string()),
        },
        suppressed: judgement.map(|judgement| judgement.report.suppressed),
        error: one.outcome.as_ref().err().map(String::as_str),
        diagnostics: found.iter().map(diagnostic).collect(),
    }
}

fn diagnostic(diagnostic: &Diagnostic) -> Found<'_> {
    Found {
        rule: diagnostic.rule.id,
        name: diagnostic.rule.name,
        severity: diagnostic.severity,
        answer: diagnostic.answer,
        subject: diagnostic.subject.as_deref(),
        message: &diagnostic.message,
        position: diagnostic.position,
        vendors: &diagnostic.vendors,
        inhibit: diagnostic.inhibit.map(|reason| reason.name()),
        fix: diagnostic.remedy.as_ref().map(|remedy| Fix {
            line: &remedy.fix.line,
            needs: remedy.fix.needs,
            edits: &remedy.edits,
        }),
    }
}

#[cfg(test)]
mod schema;
