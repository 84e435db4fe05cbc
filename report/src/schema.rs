//! The published schemas, which the tests of the crates that own the types compare with them.

/// The published schema of a form.
macro_rules! published {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../docs/schema/", $name)))),*]
    };
}

/// Each with its file's name.
pub const ALL: [(&str, &str); 26] = published!(
    "calibrate-1.json"
    "check-1.json"
    "compare-1.json"
    "enable-1.json"
    "exits-1.json"
    "experiment-1.json"
    "experiment-line-1.json"
    "experiment-list-1.json"
    "experiment-plan-1.json"
    "inspect-1.json"
    "lab-1.json"
    "lab-compare-1.json"
    "lab-evidence-1.json"
    "lab-explore-1.json"
    "lab-explore-bisect-1.json"
    "lab-explore-swarm-1.json"
    "lab-suite-1.json"
    "lake-1.json"
    "lint-1.json"
    "machine-1.json"
    "machine-composition-1.json"
    "machine-cpus-1.json"
    "machine-price-1.json"
    "machine-variants-1.json"
    "report-1.json"
    "why-1.json"
);

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_published_schema_is_there_and_says_what_it_is_of() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schema");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".json"))
            .collect();
        names.sort();
        assert_eq!(names, ALL.map(|(name, _)| name));
        for (name, text) in ALL {
            let schema: serde_json::Value = serde_json::from_str(text).expect(name);
            assert!(schema["title"].is_string(), "{name} has no title");
            assert!(schema["$schema"].is_string(), "{name} does not say which JSON Schema it is");
        }
    }
}
