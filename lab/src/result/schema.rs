//! The published schemas are those of the types.

use super::LabResult;
use super::compare::Compared;
use crate::evidence::table::Table;
use crate::suite::Outcome;

/// What times rest on, whose own type is the board's: the tests of real results hold the two
/// together.
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "its shape alone is used")]
pub struct Provenance {
    /// The cost profile's name.
    profile: String,
    /// The profile that the inherited figures come from, or that one's own origin.
    inherits: Option<String>,
    /// All of them: the sum of those below.
    figures: usize,
    /// Own figures that we measured.
    measured: usize,
    /// Own figures that others published.
    published: usize,
    /// Own figures that were computed from published ones.
    derived: usize,
    /// Own figures that were chosen to meet published results.
    fitted: usize,
    /// Own figures without evidence.
    assumed: usize,
    /// Those of another part, whatever they rest on there.
    inherited: usize,
    /// The published results that figures were fitted to, and which a run therefore does not
    /// predict.
    fitted_to: Vec<String>,
    /// The seed by which the figures were drawn from their ranges; without it they are the likely
    /// ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<u64>,
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let lab = schema::of::<LabResult>("avicenna lab run --format json", LabResult::SCHEMA);
    schema::assert_published("lab-1.json", &lab);
    let title = "avicenna lab compare --format json";
    let compared = schema::of::<Compared>(title, Compared::SCHEMA);
    schema::assert_published("lab-compare-1.json", &compared);
    let evidence = schema::of::<Table>("avicenna lab evidence --format json", Table::SCHEMA);
    schema::assert_published("lab-evidence-1.json", &evidence);
    let suite = schema::of::<Outcome>("avicenna lab suite --format json", Outcome::SCHEMA);
    schema::assert_published("lab-suite-1.json", &suite);
}
