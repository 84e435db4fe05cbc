//! The way of an interrupt through the host, by function, in two results.

use super::{Change, Function, NAMED, Row, Side};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How often a function was seen is spread as chance has it, by the root of the number: what
/// differs by less than three times that is the same.
const BEYOND_CHANCE: f64 = 3.0;
/// One that was seen less often may have been missed.
const SEEN: u64 = 10;
/// Changes by less, in percent of the whole way, are not told.
const SHARE: f64 = 0.5;

/// What a function took, and how often it was seen.
#[derive(Clone, Copy, Default)]
struct Took {
    ps: f64,
    samples: u64,
}

impl Took {
    /// What chance makes of it.
    fn variance(self) -> f64 {
        let each = self.ps / self.samples.max(1) as f64;
        each * each * self.samples.max(1) as f64
    }
}

/// Whatever exit a function was for.
fn by_name(row: &Row, side: Side) -> BTreeMap<String, Took> {
    let wanted = if side == Side::Off { "off" } else { "on" };
    let own = row.examples.iter().filter(|one| one.arm == wanted);
    let mut all: BTreeMap<String, Took> = BTreeMap::new();
    for one in own.flat_map(|one| &one.functions) {
        let took = all.entry(Function::words(one)).or_default();
        took.ps += one.ps as f64;
        took.samples += one.samples;
    }
    all
}

/// Those that one of the two has and the other has not, or that take another time.
pub(super) fn changes(first: &Row, second: &Row, side: Side) -> Vec<Change> {
    let (old, new) = (by_name(first, side), by_name(second, side));
    if old.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let whole = |all: &BTreeMap<String, Took>| all.values().map(|took| took.ps).sum::<f64>();
    let least = whole(&old).max(whole(&new)) * SHARE / 100.0;
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names.into_iter().filter_map(|name| {
        let pair = [&old, &new].map(|all| all.get(name).copied());
        let [before, after] = pair.map(Option::unwrap_or_default);
        let spread = (before.variance() + after.variance()).sqrt();
        let difference = (after.ps - before.ps).abs();
        let is_seen = before.samples.max(after.samples) >= SEEN;
        let differs = is_seen && difference > least && difference > BEYOND_CHANCE * spread;
        let shown = |took: Option<Took>| took.map(|took| (took.ps / 1000.0).round());
        let [first_ns, second_ns] = pair.map(shown);
        differs.then(|| Change {
            comparison: first.name.clone(),
            what: name.clone(),
            unit: "ns".into(),
            first: first_ns,
            second: second_ns,
            percent: pair[0]
                .map(|_| (after.ps - before.ps) / before.ps * 100.0)
                .filter(|_| pair[1].is_some()),
        })
    });
    changed.collect()
}

/// What is new in front, then what is gone, then what takes another time; the longest first.
pub(super) fn weight(change: &Change) -> (u8, Reverse<u64>) {
    let kind = match (change.first, change.second) {
        (None, _) => 0,
        (_, None) => 1,
        _ => 2,
    };
    let [first, second] = [change.first, change.second].map(Option::unwrap_or_default);
    (kind, Reverse((second - first).abs() as u64))
}

/// The end of the sentence.
pub(super) fn words(changes: &[Change]) -> String {
    let mut text = String::new();
    for (kind, title) in [(0, "new on the way"), (1, "no longer on the way")] {
        let own: Vec<&str> = changes
            .iter()
            .filter(|one| weight(one).0 == kind)
            .map(|one| one.what.as_str())
            .collect();
        if own.is_empty() {
            continue;
        }
        let mut named: Vec<&str> = own.iter().take(NAMED).copied().collect();
        named.dedup();
        let more = own.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &format!("; {title}: {}{more}", named.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(functions: &[(&str, &str, u64, u64)]) -> Row {
        let functions: Vec<String> = functions
            .iter()
            .map(|(during, name, ns, samples)| {
                format!(
                    r#"{{"during":"{during}","name":"{name}","module":"kvm","ps":{},"samples":{samples}}}"#,
                    ns * 1000
                )
            })
            .collect();
        let text = format!(
            r#"{{"name":"x2APIC","exits":[],"measures":[],"troubles":[],
               "examples":[{{"arm":"on","functions":[{}]}}]}}"#,
            functions.join(",")
        );
        serde_json::from_str(&text).expect("a row")
    }

    #[test]
    fn what_is_new_and_gone_and_slower_is_told_and_chance_is_not() {
        let first = row(&[
            ("EOI", "same", 200, 400),
            ("EOI", "gone", 90, 180),
            ("ICR write", "slower", 60, 120),
            ("EOI", "slower", 40, 80),
            ("EOI", "by_chance", 50, 100),
        ]);
        let second = row(&[
            ("EOI", "same", 202, 404),
            ("EOI", "slower", 180, 360),
            ("EOI", "by_chance", 62, 124),
            ("EOI", "fresh", 30, 60),
            ("EOI", "seen_twice", 30, 2),
        ]);
        let mut found = changes(&first, &second, Side::On);
        found.sort_by_key(weight);
        let told: Vec<_> =
            found.iter().map(|one| (one.what.as_str(), one.first, one.second)).collect();
        assert_eq!(
            told,
            [
                ("fresh [kvm]", None, Some(30.0)),
                ("gone [kvm]", Some(90.0), None),
                ("slower [kvm]", Some(100.0), Some(180.0)),
            ]
        );
        assert_eq!(
            words(&found),
            "; new on the way: fresh [kvm]; no longer on the way: gone [kvm]"
        );
        assert!(changes(&first, &second, Side::Off).is_empty());
        assert!(changes(&first, &first, Side::On).is_empty());
    }
}
