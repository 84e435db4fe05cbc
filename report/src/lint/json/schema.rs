//! The published schema is that of the types.

use super::{Answer, Lint, Needs, SCHEMA, Severity, Vendor};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// One of these, as they are written.
fn one_of<T: serde::Serialize>(all: &[T]) -> Schema {
    json_schema!({ "enum": serde_json::to_value(all).expect("plain names") })
}

pub fn vendors(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": one_of(&[Vendor::Amd, Vendor::Intel]) })
}

pub fn severity(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Severity::Note, Severity::Warning, Severity::Error])
}

pub fn answer(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Answer::No, Answer::Unknown])
}

pub fn needs(_: &mut SchemaGenerator) -> Schema {
    use Needs::{Firmware, Hardware, Live, ModuleReload, Reboot, VmRestart};
    one_of(&[Live, VmRestart, ModuleReload, Reboot, Firmware, Hardware])
}

/// A range of an input.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its shape alone is used")]
pub struct Position {
    /// From 1.
    line: u32,
    /// In characters, from 1.
    column: u32,
    /// Byte offset.
    start: usize,
    /// Byte offset, one past the last.
    end: usize,
}

/// Bytes that others replace.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its shape alone is used")]
pub struct Edit {
    /// Byte offset.
    start: usize,
    /// Byte offset, one past the last.
    end: usize,
    /// What stands there then.
    replacement: String,
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let schema = schema::of::<Lint<'_>>("avicenna lint --format json", SCHEMA);
    schema::assert_published("lint-1.json", &schema);
}
