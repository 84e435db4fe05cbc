//! Whether a trial was what it was to be: without proof that its switch took effect, it is void.

use crate::place::{Evidence, Seen};
use crate::plan::{Plan, Proof, Setting, is_within};
use serde::{Deserialize, Serialize};

/// Why a trial does not count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Void {
    /// What was found.
    pub why: String,
    /// What to do about it; empty where a repetition may do.
    pub fix: String,
    /// Whether the switch was without effect, which another attempt will not change.
    pub is_without_effect: bool,
}

/// Takes what a trial printed that proofs ask for: `output:PATTERN`, in how many places.
pub fn take_output(plan: &Plan, seen: &mut Seen) {
    for proof in &plan.proofs {
        if let Some(pattern) = proof.pattern()
            && let Ok(pattern) = regex::Regex::new(pattern)
        {
            let count = Evidence::Number(pattern.find_iter(&seen.output).count() as f64);
            seen.evidence.insert(proof.evidence.clone(), count);
        }
    }
}

/// What is wrong with a trial, if anything is.
pub fn void(plan: &Plan, setting: &Setting, seen: &Seen) -> Option<Void> {
    if let Some(why) = &seen.disturbed {
        return Some(Void { why: why.clone(), fix: String::new(), is_without_effect: false });
    }
    let level = setting.get(&plan.design.compare)?;
    let own = plan.proofs.iter().filter(|one| one.levels.contains(level));
    let own = own.filter(|one| is_within(setting, &one.only));
    own.filter_map(|proof| failure(proof, seen)).next()
}

fn failure(proof: &Proof, seen: &Seen) -> Option<Void> {
    let found = evidence(&proof.evidence, seen);
    let holds = found.as_ref().is_some_and(|found| holds(proof, found));
    let found = found.map_or("not found out".to_owned(), |found| found.to_string());
    let by = seen.evidence.get("inhibited-by").filter(|_| proof.evidence == "inhibited");
    let by = by.map_or(String::new(), |by| format!(", by {by}"));
    (!holds).then(|| Void {
        why: format!("{} ({} is {found}{by})", proof.why, proof.evidence),
        fix: proof.fix.clone(),
        is_without_effect: true,
    })
}

/// What was found out, or counted: `exits:msr`, `exits:work`.
fn evidence(name: &str, seen: &Seen) -> Option<Evidence> {
    let Some(which) = name.strip_prefix("exits:") else { return seen.evidence.get(name).cloned() };
    if seen.exits.is_empty() {
        return None;
    }
    let rows = seen.exits.iter().filter(|(reason, row)| match which {
        "all" => true,
        "work" => !row.is_wait,
        which => reason.eq_ignore_ascii_case(which),
    });
    Some(Evidence::Number(rows.map(|(_, row)| row.count as f64).sum()))
}

fn holds(proof: &Proof, found: &Evidence) -> bool {
    let is_exactly = proof.is.as_ref().is_none_or(|wanted| *wanted == found.to_string());
    let number = match found {
        Evidence::Number(number) => Some(*number),
        Evidence::Text(text) => text.parse().ok(),
    };
    let bounds = [
        proof.at_most.map(|most| number.is_some_and(|number| number <= most)),
        proof.at_least.map(|least| number.is_some_and(|number| number >= least)),
    ];
    is_exactly && bounds.into_iter().flatten().all(|holds| holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Exits;
    use crate::plan::tests::small;
    use std::collections::BTreeMap;

    fn seen(inhibited: f64) -> Seen {
        let evidence = BTreeMap::from([
            ("inhibited".to_owned(), Evidence::Number(inhibited)),
            ("inhibited-by".to_owned(), Evidence::Text("PIT_REINJ".into())),
        ]);
        Seen { evidence, ..Seen::default() }
    }

    fn setting(level: &str) -> Setting {
        Setting::from([("feature".into(), level.into()), ("apic".into(), "xapic".into())])
    }

    #[test]
    fn a_switch_without_effect_voids_its_trial_with_the_reason_and_the_fix() {
        let plan = small();
        let found = void(&plan, &setting("on"), &seen(1.0)).expect("void");
        assert!(found.why.contains("inhibited is 1, by PIT_REINJ"), "{}", found.why);
        assert!(found.is_without_effect && !found.fix.is_empty());
        assert_eq!(void(&plan, &setting("on"), &seen(0.0)), None);
        assert_eq!(void(&plan, &setting("off"), &seen(1.0)), None, "no proof is asked of off");
    }

    #[test]
    fn what_was_not_found_out_proves_nothing() {
        let found = void(&small(), &setting("on"), &Seen::default()).expect("void");
        assert!(found.why.contains("not found out"), "{}", found.why);
    }

    #[test]
    fn a_disturbed_trial_is_void_whatever_it_measured() {
        let seen = Seen { disturbed: Some("steal 9 %".into()), ..seen(0.0) };
        let found = void(&small(), &setting("on"), &seen).expect("void");
        assert!(!found.is_without_effect && found.why == "steal 9 %");
    }

    #[test]
    fn what_a_trial_printed_is_evidence_where_a_proof_asks_for_it() {
        let mut plan = small();
        "output:(?m)^ready$".clone_into(&mut plan.proofs[0].evidence);
        (plan.proofs[0].at_most, plan.proofs[0].at_least) = (None, Some(2.0));
        let said = |output: &str| {
            let mut seen = Seen { output: output.into(), ..Seen::default() };
            take_output(&plan, &mut seen);
            void(&plan, &setting("on"), &seen)
        };
        assert_eq!(said("ready\nnot ready\nready\n"), None);
        let found = said("ready\n").expect("void");
        assert!(found.why.contains("ready$ is 1"), "{}", found.why);
    }

    #[test]
    fn counts_of_exits_are_evidence_where_exits_were_counted() {
        let row = Exits { count: 5, ..Exits::default() };
        let seen = Seen { exits: BTreeMap::from([("msr".into(), row)]), ..Seen::default() };
        assert_eq!(evidence("exits:MSR", &seen), Some(Evidence::Number(5.0)));
        assert_eq!(evidence("exits:npf", &seen), Some(Evidence::Number(0.0)));
        assert_eq!(evidence("exits:npf", &Seen::default()), None);
    }
}
