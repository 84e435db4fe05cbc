//! Schemas of members whose types are below this crate: the names that they are written with.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use trace::exit_reason::Isa;
use trace::inhibit::{Authority, Reason};

/// One of these, as they are written; a list that cannot be written admits nothing.
fn one_of(all: &[impl Serialize]) -> Schema {
    json_schema!({ "enum": serde_json::to_value(all).unwrap_or_default() })
}

pub fn isa(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Some(Isa::Svm), Some(Isa::Vmx), None])
}

pub fn authority(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Authority::Kernel, Authority::Version, Authority::Assumed])
}

pub fn reason(_: &mut SchemaGenerator) -> Schema {
    let all = Reason::ALL.into_iter().map(Some).chain([None]);
    one_of(&all.collect::<Vec<_>>())
}
