//! What is said of kernels that show a finding, and of those that do not.

use super::*;
use crate::explore::finding::example;

fn tried(release: &str, found: bool) -> Tried {
    Tried {
        kernel: release.into(),
        release: release.into(),
        found,
        windows: 9,
        strategy: found.then_some(Strategy::Random),
        cpu_seconds: 1.5,
    }
}

fn bisection(kernels: &[(&str, bool)]) -> Bisection {
    let kernels = kernels.iter().map(|(release, found)| tried(release, *found)).collect();
    Bisection::new(&example(), 9, kernels, Vec::new())
}

#[test]
fn kernels_stand_in_the_order_of_their_releases_and_what_changes_between_two_is_said() {
    let both = bisection(&[
        ("7.2.13+deb14-amd64", true),
        ("6.12.118+deb13-amd64", false),
        ("6.1.0-56-amd64", true),
        ("6.1.0-9-amd64", false),
    ]);
    let changes: Vec<_> = both.boundaries.iter().map(|one| (one.change, &*one.newer)).collect();
    let expected = [
        (Change::Comes, "6.1.0-56-amd64"),
        (Change::Goes, "6.12.118+deb13-amd64"),
        (Change::Comes, "7.2.13+deb14-amd64"),
    ];
    assert_eq!(changes, expected);
    let last = "the last that has it: 6.1.0-56-amd64; 6.12.118+deb13-amd64 does not show it";
    assert!(both.to_text(100).contains(last), "{}", both.to_text(100));
}

#[test]
fn where_nothing_changes_that_is_the_answer() {
    for (kernels, answer) in [
        (&[("6.1", true), ("6.12", true)][..], "found in each of 2 kernels"),
        (&[("6.1", false), ("6.12", false)], "found in none of 2 kernels"),
        (&[("6.1", false)], "not found in the one kernel"),
        (&[], "no kernel was to be had"),
    ] {
        let text = bisection(kernels).to_text(100);
        assert!(text.starts_with(answer), "{text}");
    }
}

#[test]
fn the_published_schema_is_that_of_the_answer() {
    let title = "avicenna lab explore bisect --format json";
    let schema = schema::of::<Bisection>(title, Bisection::SCHEMA);
    schema::assert_published("lab-explore-bisect-1.json", &schema);
    let mut value = bisection(&[("6.1", true), ("6.12", false)]);
    value.absent.push(Absent { kernel: "debian-sid".into(), why: "no network".into() });
    let value = serde_json::to_value(value).expect("plain JSON");
    schema::assert_follows(&value, &schema, "an answer");
}
