//! The search on the reference hypervisor, on a part that loses wake-ups and on one that does not.

use super::bisect::seek;
use super::choice::Strategy;
use super::minimise::minimise;
use super::oracle::{Rule, Way};
use super::report::Report;
use super::search::{Search, search};
use super::stage::{Mix, Stage};
use super::story;
use crate::drive::session::{Meanwhile, Visitor};
use crate::reference;
use crate::watch::{Told, Watch};
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome, perturb};
use cpu::CpuModel;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Of guests of these seeds, one loses a wake-up in a few windows that are searched, and one loses
/// one that the next interrupt brings.
const SEARCHED: u64 = 5;
const WOKEN: u64 = 3;

/// Two vCPUs, the second of which halts most of the time, under way.
fn stage(erratum: &str, seed: u64) -> Stage {
    let mut model = CpuModel::named("zen2").expect("a model that comes with the machine");
    model.choose(&format!("erratum-1235={erratum}")).expect("a variant");
    stage_of(model, seed)
}

fn stage_of(model: CpuModel, seed: u64) -> Stage {
    let options =
        format!("avic=on apicv=on vcpus=2 guest.tests=mix guest.apic=xapic guest.seed={seed}");
    let machine = reference::under_way(model.clone(), &options, "\"record\":\"mix\"");
    Stage::of(machine, reference::configuration(model), "the reference hypervisor")
}

fn plan(windows: u64, jobs: usize, shard: (u64, u64)) -> Search {
    let mix = Mix { apic: "xapic".into(), vcpus: 2, seed: SEARCHED, ..Mix::default() };
    let (budget, windows, words) = (None, Some(windows), Vec::new());
    Search { budget, windows, seed: 1, shard, jobs, words, mix, told: BTreeSet::new() }
}

/// What comes of a search, without what it took.
fn outcome(stage: Stage, plan: &Search) -> Value {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: Told<'_>| {};
    let mut watch = Watch::new(&stop, Duration::MAX, &mut ignore);
    let report = search(stage, plan, &mut watch, |_| Ok(())).expect("a search that ends");
    let mut value = serde_json::to_value(report).expect("plain JSON");
    schema::assert_follows(&value, &schema::published("lab-explore-1.json"), "a report");
    take_out_times(&mut value);
    value
}

fn take_out_times(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.remove("cpu_seconds");
        members.values_mut().for_each(take_out_times);
    }
    if let Some(elements) = value.as_array_mut() {
        elements.iter_mut().for_each(take_out_times);
    }
}

#[test]
fn a_search_has_the_same_rows_whatever_its_jobs_and_its_parts_those_of_the_whole() {
    let (windows, whole) = (40, (0, 1));
    let alone = outcome(stage("on", SEARCHED), &plan(windows, 1, whole));
    assert_eq!(alone["windows"].as_array().map(Vec::len), Some(40));
    assert_ne!(alone["findings"], json!([]), "a part that loses wake-ups");
    assert_eq!(outcome(stage("on", SEARCHED), &plan(windows, 2, whole)), alone, "two jobs");
    let parts = [0, 1].map(|part| outcome(stage("on", SEARCHED), &plan(windows, 1, (part, 2))));
    let mut rows: Vec<Value> =
        parts.iter().flat_map(|part| part["windows"].as_array().cloned().unwrap()).collect();
    rows.sort_by_key(|row| row["window"].as_u64());
    assert_eq!(Value::from(rows), alone["windows"], "two parts");
}

#[test]
fn the_published_schema_is_that_of_the_report() {
    let schema = schema::of::<Report>("avicenna lab explore --format json", Report::SCHEMA);
    schema::assert_published("lab-explore-1.json", &schema);
}

/// Moments at which a journal is kept.
const MOMENTS: usize = 4;

#[test]
fn what_the_hypervisor_does_to_memory_is_seen_without_a_trace() {
    let mut stage = stage("off", WOKEN);
    let study = stage.study();
    let touches: Vec<_> = study.touches.iter().flat_map(|(_, touches)| touches).collect();
    assert!(touches.iter().any(|one| one.is_write) && touches.iter().any(|one| !one.is_write));
    assert!(touches.iter().any(|one| one.rip.0 == 0), "what the silicon posts");
    stage.learn();
    let again = stage.study();
    assert_eq!(again.records, study.records);
    let mut kept = again.touches.iter().flat_map(|(_, touches)| touches);
    assert!(kept.all(|one| touches.contains(&one)), "nothing but what all of it has");
}

#[test]
fn to_see_it_changes_nothing() {
    for name in ["zen2", "sapphire-rapids"] {
        let mut stage =
            stage_of(CpuModel::named(name).expect("a model that comes with the machine"), WOKEN);
        for moment in 0..MOMENTS {
            let (plain, records) = stage.record(Strategy::Plain.source(1));
            let study = stage.study();
            assert_eq!(study.records, records, "{name}, {moment}");
            let again = stage.window(Strategy::Plain.source(1));
            assert_eq!(again.hash, plain.hash, "{name}, {moment}");
            stage.advance(Picoseconds::from_milliseconds(3));
        }
    }
}

/// A finding replays only if that is so: what had been translated is another thing there.
#[test]
fn what_a_run_comes_to_does_not_hang_on_which_code_is_translated() {
    let options = "avic=on apicv=on vcpus=3 guest.tests=mix guest.apic=x2apic guest.seed=3";
    for name in ["zen4", "sapphire-rapids"] {
        let model = || CpuModel::named(name).expect("a model that comes with the machine");
        let run = |heat: Option<u16>| {
            let mut machine = reference::under_way(model(), options, "\"record\":\"mix\"");
            // A host on which nothing can be translated interprets.
            match heat {
                Some(runs) => _ = machine.translate(runs),
                None => machine.interpret(),
            }
            let mut stage = Stage::of(machine, reference::configuration(model()), "it");
            stage.advance(Picoseconds::from_milliseconds(120));
            stage.hash()
        };
        let interpreted = run(None);
        for runs in [0, 64] {
            assert_eq!(run(Some(runs)), interpreted, "{name}, translated after {runs} runs");
        }
    }
}

#[test]
fn a_window_is_the_same_after_every_return_and_on_another_machine() {
    let mut one = stage("off", WOKEN);
    let drawn = || Strategy::Directed.source(7);
    let (first, records) = one.record(drawn());
    assert!(first.holds.len() > 3, "{}", first.holds.len());
    assert!(records.len() > 100, "{}", records.len());
    for round in 0..5 {
        one.window(Strategy::Random.source(round));
        assert_eq!(one.window(drawn()).hash, first.hash, "round {round}");
    }
    let plan = perturb::Source::Plan(first.decisions());
    assert_eq!(one.window(plan.clone()).hash, first.hash, "the log is a plan of the same");
    assert_eq!(stage("off", WOKEN).window(plan).hash, first.hash, "another machine");
}

#[test]
fn the_log_of_any_window_is_a_plan_of_the_same() {
    let mut stage = stage("on", WOKEN);
    for strategy in [Strategy::Random, Strategy::Directed] {
        for seed in 0..40 {
            let seen = stage.window(strategy.source(seed));
            let again = stage.window(perturb::Source::Plan(seen.decisions()));
            assert_eq!(again.hash, seen.hash, "{strategy:?} {seed}");
            assert_eq!(again.holds, seen.holds, "{strategy:?} {seed}");
        }
    }
}

#[test]
fn a_part_that_loses_wake_ups_is_found_out_and_what_it_needs_is_little() {
    let mut stage = stage("on", WOKEN);
    let (seen, alarm) = (0..400)
        .find_map(|seed| {
            if seed % 10 == 9 {
                stage.advance(Picoseconds::from_nanoseconds(3_100_000));
            }
            let seen = stage.window(Strategy::Directed.source(seed));
            let alarm = seen.alarms.iter().find(|alarm| alarm.rule == Rule::Asleep).cloned();
            Some((seen, alarm?))
        })
        .expect("a wake-up that is lost");
    let (kept, again, _) = minimise(&mut stage, &alarm.key(), &seen.decisions());
    assert!(again.alarm(&alarm.key()).is_some(), "it is raised by what is left");
    assert!(kept.len() <= 5, "{kept:?}");
    let plan = perturb::Source::Plan(kept);
    assert_eq!(stage.window(plan.clone()).hash, again.hash, "it repeats bit by bit");
    let alarm = again.alarm(&alarm.key()).expect("as above");
    let is_entry = |record: &trace::Record| story::is_entry(alarm, record);
    let records = stage.beyond(plan.clone(), story::AFTERWARDS, is_entry);
    // Whose wake-up was lost is woken by the next that is sent to it: that is not called late.
    let fate = story::fate(alarm, &records);
    assert!(fate.contains("after it came, and another was posted to it meanwhile"), "{fate}");
    assert!(records.last().is_some_and(is_entry), "up to there");
    let posted = |record: &&trace::Record| matches!(record.event, trace::Event::Posted { .. });
    let others: Vec<_> =
        records.iter().filter(|one| !posted(one) || one.at <= alarm.since).copied().collect();
    let fate = story::fate(alarm, &others);
    assert!(fate.contains("after it came, and nothing was posted to it meanwhile"), "{fate}");
    let fate = story::fate(alarm, &others[..others.len() - 1]);
    assert!(fate.ends_with("nor does that vCPU enter its guest in another 100 ms"), "{fate}");
    assert_eq!(stage.window(plan).hash, again.hash, "to look beyond changes nothing");
}

/// Comes after a while, runs on for a while, and looks between; or does not find what it seeks.
struct Guest {
    is_met: bool,
    stays: Picoseconds,
}

impl Visitor for Guest {
    fn approach(&mut self, machine: &mut Machine, limits: Limits) -> (Option<Outcome>, bool) {
        let until = machine.state.now.saturating_add(Picoseconds::from_nanoseconds(333_333));
        assert!(until < limits.until, "the window is longer");
        (machine.run(Limits { until, ..limits }), self.is_met)
    }

    fn visit(&mut self, machine: &mut Machine, meanwhile: Meanwhile<'_>) -> anyhow::Result<bool> {
        let end = machine.state.now.saturating_add(self.stays);
        while machine.state.now < end {
            let until = machine.state.now.saturating_add(Picoseconds::from_nanoseconds(7_001));
            machine.run(Limits { until, instructions: u64::MAX });
            assert_eq!(meanwhile(machine), None, "nothing ends");
        }
        Ok(true)
    }
}

#[test]
fn a_debugger_sees_the_window_that_was_found_and_changes_nothing() {
    let mut found = stage("on", WOKEN);
    let seen = found.window(Strategy::Random.source(5));
    assert!(!seen.holds.is_empty(), "processors are held");
    let visit = |microseconds: u64, is_met| {
        let stays = Picoseconds::from_nanoseconds(microseconds * 1000);
        stage("on", WOKEN).visit(seen.decisions(), &mut Guest { is_met, stays })
    };
    assert_eq!(visit(0, true).expect("a visit"), Some(seen.hash));
    assert_eq!(visit(1_500, true).expect("a visit"), Some(seen.hash));
    assert_eq!(visit(6_000, true).expect("a visit"), None, "beyond the window's end");
    let error = visit(0, false).expect_err("nothing that it waits for").to_string();
    assert!(error.contains("does not happen in the window"), "{error}");
}

#[test]
fn a_part_that_loses_none_raises_no_alarm() {
    let mut stage = stage("off", WOKEN);
    for seed in 0..60 {
        let strategy = if seed % 2 == 0 { Strategy::Directed } else { Strategy::Random };
        let seen = stage.window(strategy.source(seed));
        assert_eq!(seen.alarms, [], "seed {seed}");
    }
}

#[test]
fn a_guest_that_goes_on_has_no_end_and_to_ask_changes_nothing() {
    let (mut asked, mut other) = (stage("off", WOKEN), stage("off", WOKEN));
    for _ in 0..5 {
        assert_eq!(asked.end(), None);
        asked.fall_silent();
        assert_eq!(asked.end(), None, "it is seen ahead that a vCPU enters");
        for one in [&mut asked, &mut other] {
            one.advance(Picoseconds::from_milliseconds(3));
        }
        assert_eq!(asked.hash(), other.hash());
    }
}

/// What the search of this seed has: it finds the part's fault within as many.
const WINDOWS: u64 = 400;

#[test]
fn a_cause_is_found_where_it_is_and_sought_in_so_many_windows_where_it_is_not() {
    let sought = (Rule::Asleep, Way::Logical, String::new());
    let stop = AtomicBool::new(false);
    let mut ignore = |_: Told<'_>| {};
    let mut watch = Watch::new(&stop, Duration::MAX, &mut ignore);
    let whole = plan(WINDOWS, 1, (0, 1));
    let mut tried = |erratum| seek(erratum, stage(erratum, WOKEN), &whole, &sought, &mut watch);
    let with = tried("on").expect("a search that ends");
    assert!(with.found && with.windows <= WINDOWS && with.strategy.is_some(), "{with:?}");
    let without = tried("off").expect("a search that ends");
    assert_eq!((without.found, without.windows, without.strategy), (false, WINDOWS, None));
}

#[test]
fn each_mutant_names_its_commit_and_what_is_taken_back_where_and_the_page_has_it() {
    let text = include_str!("../../mutants.toml");
    let mutants: toml::Table = toml::from_str(text).expect("TOML");
    assert!(mutants.len() >= 12, "{}", mutants.len());
    let page = include_str!("../../../docs/explore.md");
    for (name, mutant) in &mutants {
        let word = |key: &str| mutant.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let commit = word("commit");
        let is_hash = commit.len() == 40 && commit.chars().all(|letter| letter.is_ascii_hexdigit());
        assert!(is_hash, "{name}: {commit}");
        assert!(matches!(word("vendor"), "amd" | "intel"), "{name}");
        for key in ["fix", "file", "function", "back"] {
            assert!(!word(key).is_empty(), "{name} has no {key}");
        }
        assert!(page.contains(&format!("| {name} | `{}`", &commit[..12])), "{name} on the page");
    }
}
