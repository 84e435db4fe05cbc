//! The published forms of answers are those of their types.

use crate::{capability, enable, why};

#[test]
fn published_schemas_are_those_of_the_types() {
    let rows = [
        (
            "check-1.json",
            schema::of::<capability::Report>("avicenna check --format json", capability::SCHEMA),
        ),
        ("why-1.json", schema::of::<why::Why>("avicenna why --format json", why::SCHEMA)),
        (
            "enable-1.json",
            schema::of::<enable::Plan>("avicenna enable --format json", enable::SCHEMA),
        ),
    ];
    for (file, schema) in rows {
        schema::assert_published(file, &schema);
    }
}
