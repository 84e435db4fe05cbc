use super::*;

fn identity(host: &str, time_us: u64) -> Identity {
    Identity { host: host.into(), time_us, kernel: Some("6.12.1".into()), seed: None }
}

#[test]
fn days_are_those_of_the_calendar() {
    // From `date -u -d @$((day * 86400)) +%F`.
    for (day, text) in [
        (0, "1970-01-01"),
        (58, "1970-02-28"),
        (59, "1970-03-01"),
        (789, "1972-02-29"),
        (11_016, "2000-02-29"),
        (11_017, "2000-03-01"),
        (20_780, "2026-11-23"),
        (47_540, "2100-02-28"),
        (47_541, "2100-03-01"),
    ] {
        assert_eq!(date(day), text);
    }
}

#[test]
fn rows_of_a_day_are_one_file_and_the_same_rows_the_same_file() {
    let outcome = crate::result::Outcome { experiment: "x".into(), ..Default::default() };
    let made = |hosts: &[(&str, u64)]| {
        let mut lake = Lake::default();
        for (host, time_us) in hosts {
            outcomes(std::slice::from_ref(&outcome), &identity(host, *time_us), &mut lake);
        }
        let parts = lake.parts();
        assert_eq!(parts.iter().filter(|part| part.table.rows.is_empty()).count(), 7, "the others");
        let parts = parts.into_iter().map(|part| (part.path, part.table.rows.len()));
        parts.filter(|part| part.1 > 0).collect::<Vec<_>>()
    };
    let two_days = made(&[("a", 5), ("b", 7), ("b", DAY_US)]);
    assert_eq!(two_days.len(), 2);
    assert!(two_days[0].0.starts_with("outcomes/dt=1970-01-01/part-"), "{two_days:?}");
    assert_eq!(two_days[0].1, 2);
    assert!(two_days[1].0.starts_with("outcomes/dt=1970-01-02/b-"), "{two_days:?}");
    assert_eq!(made(&[("a", 5), ("b", 7), ("b", DAY_US)]), two_days, "idempotent");
    assert_ne!(made(&[("a", 5), ("b", 8)])[0].0, two_days[0].0);
    // A host's name makes no path, and two that look alike as a path stay apart.
    let (strange, other) = (made(&[("../x/y", 5)]), made(&[(".._x_y", 5)]));
    assert!(!strange[0].0.contains("..") && strange[0].0.matches('/').count() == 2, "{strange:?}");
    assert_ne!(strange, other);
}

#[test]
fn every_column_is_named_once_and_explained() {
    for schema in SCHEMAS {
        let names: Vec<&str> = schema.columns().map(|column| column.name).collect();
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len(), "{}", schema.name);
        assert!(schema.columns().all(|column| !column.about.is_empty()), "{}", schema.name);
    }
}

#[test]
fn the_published_schema_and_the_page_are_those_of_the_types() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let schema = serde_json::to_string_pretty(&json_schema()).expect("serializable") + "\n";
    expect_test::expect_file![root.join("docs/schema/lake-1.json")].assert_eq(&schema);
    let page = format!(
        "# Columns of the Parquet tables\n\nMade from the schema, version 1.\n\n{}",
        documentation()
    );
    expect_test::expect_file![root.join("docs/schema/lake-1.md")].assert_eq(&page);
}
