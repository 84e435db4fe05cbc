//! What a comparison has to say.

use super::session::Outcome;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

fn comparisons(outcome: &Outcome) -> Result<&Vec<Value>> {
    let all = outcome.result["comparisons"].as_array().context("no comparisons")?;
    ensure!(!all.is_empty(), "nothing was compared");
    Ok(all)
}

/// Exits of an arm, all reasons together.
fn exits(one: &Value, arm: &str) -> Result<f64> {
    let rows = one["exits"].as_array().context("a comparison without exits")?;
    let exits = rows.iter().map(|row| row[arm]["exits"].as_f64().context("a row without a count"));
    exits.sum()
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Seconds that were looked at, and those of them in which the feature was inhibited.
fn inhibited(one: &Value) -> Result<(f64, f64)> {
    let number = |at: usize| one["inhibited"][at].as_f64();
    number(0).zip(number(1)).context("no times of inhibits")
}

/// Every comparison: the change of exits is at most this, and both counts agree.
pub(super) fn falls(outcome: &Outcome, percent: f64) -> Result<()> {
    for one in comparisons(outcome)? {
        let (off, on) = (exits(one, "off")?, exits(one, "on")?);
        let change = (on - off) / off * 100.0;
        let (workload, name) = (&outcome.result["workload"], &one["name"]);
        println!("{workload} {name}: {off} -> {on} exits, {change:.1} %");
        ensure!(change <= percent, "{name}: {change:.1} %");
        let agreement = one["agreement"].as_array().context("no second count")?;
        let agrees = agreement.iter().all(|both| is_empty(&both["differences"]));
        ensure!(agreement.len() == 2 && agrees, "{name}: {agreement:?}");
        ensure!(is_empty(&one["troubles"]), "{name}: {}", one["troubles"]);
    }
    Ok(())
}

/// A guest that is inhibited all the time gains nothing, and the reason is named: by newer kernels,
/// whose numbers differ between versions.
pub(super) fn is_inhibited(outcome: &Outcome, reasons: &[&str]) -> Result<()> {
    for one in comparisons(outcome)? {
        let (off, on) = (exits(one, "off")?, exits(one, "on")?);
        ensure!(on > 0.9 * off, "{off} -> {on} exits");
        let inhibits = one["inhibits"].as_array().context("no inhibits")?;
        let mut texts = inhibits.iter().filter_map(|inhibit| inhibit[1].as_str());
        let is_named = texts.any(|text| reasons.iter().any(|reason| text.contains(reason)));
        ensure!(is_named, "{inhibits:?}");
        let (seconds, without) = inhibited(one)?;
        ensure!(without > 0.99 * seconds, "inhibited {without} of {seconds} s");
    }
    let verdict = &outcome.result["verdict"];
    let text = verdict["text"].as_str().unwrap_or_default();
    let is_told = text.contains("inhibited all the time by");
    ensure!(verdict["is_active"] == false && is_told, "{verdict}");
    let published = &outcome.result["predictions"];
    ensure!(is_empty(published), "published figures beside an inhibited guest: {published}");
    Ok(())
}

/// Without a reason to be inhibited the feature is active for as long as vCPUs can
/// run.
pub(super) fn is_active(outcome: &Outcome) -> Result<()> {
    let verdict = &outcome.result["verdict"];
    ensure!(verdict["is_active"] == true, "{verdict}");
    for one in comparisons(outcome)? {
        let (seconds, without) = inhibited(one)?;
        ensure!(without < 0.005 * seconds, "inhibited {without} of {seconds} s");
    }
    Ok(())
}

/// Every arm in both modes, APICv alone among them, says what was expected of its IPIs.
pub(super) fn are_as_expected(outcome: &Outcome) -> Result<()> {
    for one in comparisons(outcome)? {
        let sides = one["exits_per_ipi"].as_array().context("no exits per IPI")?;
        let between = one["between"].as_array().context("no arms between")?;
        ensure!((sides.len(), between.len()) == (2, 1), "{one}");
        for side in sides.iter().chain(between.iter().map(|arm| &arm["exits_per_ipi"])) {
            let found = side["exits"].as_f64().context("no exits per IPI")?;
            let expected = &side["expected"];
            let least = expected[0].as_f64().context("no expectation")?;
            println!("{}: {found:.2} exits per IPI, expected {expected}", one["name"]);
            let is_most = expected[1].as_f64().is_none_or(|most| found <= most);
            ensure!(found >= least && is_most, "{side}");
        }
    }
    Ok(())
}

/// Picoseconds between exits and entries in a lane.
fn in_kvm(lane: &Value) -> u64 {
    let spans = lane.as_array().map(Vec::as_slice).unwrap_or_default();
    let own = spans.iter().filter(|span| span["doing"] == "hypervisor");
    own.filter_map(|span| Some(span["to_ps"].as_u64()? - span["from_ps"].as_u64()?)).sum()
}

/// Without the feature KVM sends, tells the target and ends, each in functions that are called so.
pub(super) fn names_functions(outcome: &Outcome) -> Result<()> {
    for one in comparisons(outcome)? {
        let examples = one["examples"].as_array().context("no examples")?;
        let off = examples.iter().find(|one| one["arm"] == "off").context("none without it")?;
        let functions = off["functions"].as_array().context("no functions")?;
        for (during, module) in
            [("ICR write", "kvm"), ("EOI", "kvm"), ("EOI", "kvm_amd"), ("ICR write", "kvm_amd")]
        {
            let is_there = functions
                .iter()
                .any(|function| function["during"] == during && function["module"] == module);
            ensure!(is_there, "{}: nothing of {module} for {during}", one["name"]);
        }
        let time = |is_so: &dyn Fn(&str) -> bool| -> u64 {
            let own = functions.iter().filter(|one| one["name"].as_str().is_some_and(is_so));
            own.filter_map(|one| one["ps"].as_u64()).sum()
        };
        let (all, unnamed) = (time(&|_| true), time(&|name| name.starts_with("0x")));
        println!(
            "{}: {} ns of the host by function, {unnamed} ps unnamed",
            one["name"],
            all / 1000
        );
        ensure!(all > 500_000 && unnamed * 100 < all, "{all} ps, {unnamed} unnamed");
        // What was sampled takes as long as the trace has it between exits and entries.
        let traced: u64 = ["sender", "target"].iter().map(|who| in_kvm(&off[*who])).sum();
        let behind = functions
            .iter()
            .filter(|one| one["during"] != "" && one["name"] != "VM exit by the processor");
        let sampled: u64 = behind.filter_map(|one| one["ps"].as_u64()).sum();
        println!("{}: {sampled} ps sampled, {traced} ps traced", one["name"]);
        ensure!(sampled.abs_diff(traced) * 10 < traced, "{sampled} ps sampled, {traced} traced");
    }
    Ok(())
}

/// Every time is a mean of seeds.
pub(super) fn has_intervals(outcome: &Outcome) -> Result<()> {
    for one in comparisons(outcome)? {
        let measures = one["measures"].as_array().context("no measures")?;
        for measure in measures.iter().filter(|measure| measure["unit"] == "cycles") {
            for side in ["off", "on"] {
                let spread = &measure["over_seeds"][side];
                let number = |key: &str| spread[key].as_f64().context("no spread");
                let (low, mean, high) = (number("low")?, number("mean")?, number("high")?);
                ensure!(spread["seeds"] == 10, "{measure}");
                ensure!(
                    low <= mean && mean <= high && measure[side] == spread["mean"],
                    "{measure}"
                );
            }
        }
        ensure!(!measures.is_empty(), "{}: nothing was measured", one["name"]);
    }
    Ok(())
}

/// The second run starts from the first one's snapshot and is otherwise the same, to the last
/// count.
pub(super) fn is_restored_alike(first: &Outcome, second: &Outcome) -> Result<()> {
    let restored = [first, second].map(|one| &one.result["run"]["is_restored"]);
    ensure!(restored[0] == false && restored[1] == true, "restored: {restored:?}");
    are_alike(first, second)
}

/// Two runs say the same but for the time of this computer, and whether it had to boot.
pub(super) fn are_alike(first: &Outcome, second: &Outcome) -> Result<()> {
    let take = |outcome: &Outcome| {
        let mut result = outcome.result.clone();
        let run = result["run"].as_object_mut().context("no run")?;
        run.remove("is_restored").context("not said whether restored")?;
        let seconds = run.remove("host_seconds").context("no seconds")?;
        anyhow::Ok((result, seconds))
    };
    let ((first, before), (second, after)) = (take(first)?, take(second)?);
    let mut differences = Vec::new();
    compare("", &first, &second, &mut differences);
    ensure!(differences.is_empty(), "the results differ: {}", differences.join("; "));
    println!("host seconds: {before}, then {after}");
    Ok(())
}

/// Differences named at most.
const MOST_NAMED: usize = 12;

/// Names where two results differ.
fn compare(place: &str, first: &Value, second: &Value, differences: &mut Vec<String>) {
    if differences.len() >= MOST_NAMED || first == second {
        return;
    }
    match (first, second) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            for (key, value) in a {
                compare(&format!("{place}/{key}"), value, &b[key], differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (one, other)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}/{at}"), one, other, differences);
            }
        }
        _ => differences.push(format!("{place}: {first} and {second}")),
    }
}

/// Without AVIC in the processor nothing is gained, and the comparison says so and fails.
pub(super) fn fails_without_avic(outcome: &Outcome) -> Result<()> {
    ensure!(outcome.status == Some(1), "exit status {:?}", outcome.status);
    for one in comparisons(outcome)? {
        let (off, on) = (exits(one, "off")?, exits(one, "on")?);
        ensure!(on > 0.9 * off, "{off} -> {on} exits");
        let troubles = one["troubles"].as_array().context("no troubles")?;
        let said = |trouble: &Value| {
            trouble.as_str().is_some_and(|text| text.contains("asked for avic=1 and says N"))
        };
        ensure!(troubles.iter().any(said), "{troubles:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(on: u64, differences: Value) -> Outcome {
        let both = serde_json::json!({"differences": []});
        let result = serde_json::json!({"workload": "ipi", "comparisons": [{
            "name": "xAPIC", "exits": [{"off": {"exits": 100}, "on": {"exits": on}}],
            "agreement": [both, {"differences": differences}], "troubles": [],
            "inhibited": [10.0, 0.01],
        }], "verdict": {"is_active": true}});
        Outcome { status: Some(0), result }
    }

    #[test]
    fn a_fall_counts_only_when_both_counts_agree() {
        let none = serde_json::json!([]);
        assert!(falls(&outcome(9, none.clone()), -90.0).is_ok());
        assert!(falls(&outcome(11, none.clone()), -90.0).is_err());
        assert!(falls(&outcome(9, serde_json::json!(["hlt"])), -90.0).is_err());
        assert!(is_active(&outcome(9, none.clone())).is_ok());
        assert!(is_inhibited(&outcome(99, none.clone()), &["PIT"]).is_err());
        let empty = Outcome { status: Some(0), result: serde_json::json!({"comparisons": []}) };
        assert!(falls(&empty, -90.0).is_err(), "nothing proves nothing");
        let run = |is_restored: bool, hash: &str| {
            let run = serde_json::json!({
                "is_restored": is_restored, "host_seconds": 1.0, "trace_hash": hash,
            });
            Outcome { status: Some(0), result: serde_json::json!({"run": run, "arms": [1, 2]}) }
        };
        assert!(is_restored_alike(&run(false, "a"), &run(true, "a")).is_ok());
        assert!(is_restored_alike(&run(false, "a"), &run(false, "a")).is_err());
        assert!(are_alike(&run(false, "a"), &run(false, "a")).is_ok());
        let told = is_restored_alike(&run(false, "a"), &run(true, "b")).unwrap_err().to_string();
        assert_eq!(told, "the results differ: /run/trace_hash: \"a\" and \"b\"");
        assert!(fails_without_avic(&outcome(99, none)).is_err(), "its exit status is 0");
    }
}
