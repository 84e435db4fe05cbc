//! How experiments run, are interrupted and go on; and the bars that their answers keep, by
//! simulation: a place whose machine gets slower with time and is noisy.

use super::*;
use crate::journal::FILE;
use crate::place::{Evidence, Order, Remark};
use crate::plan::tests::small;
use crate::random::Random;
use crate::statistics::{Verdict, quantile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

/// A place that gives figures as a host would.
#[derive(Default)]
struct Simulated {
    /// What the second level does, as a factor.
    effect: f64,
    /// Standard deviation of one trial, as a share.
    noise: f64,
    /// How much slower the host gets from the first to the last trial, as a share.
    drift: f64,
    /// Of the share of time that the feature is inhibited though it is on.
    inhibited: f64,
    /// The trial, counted from the first, that is interrupted.
    interrupted_at: Option<usize>,
    /// Trials that are disturbed the first time.
    disturbed: Vec<usize>,
    /// What is changed for each trial.
    changes: bool,
    performed: AtomicUsize,
    restored: AtomicUsize,
}

impl Simulated {
    fn value(&self, order: &Order<'_>) -> f64 {
        let mut random = Random::new(order.seed);
        let share = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let noise = quantile(share.clamp(1e-9, 1.0 - 1e-9)) * self.noise;
        let is_on = order.setting["feature"] == "on";
        let drift = 1.0 + self.drift * order.index as f64 / 48.0;
        1000.0 * drift * (1.0 + noise) * if is_on { self.effect } else { 1.0 }
    }
}

impl Place for Simulated {
    fn name(&self) -> &'static str {
        "host"
    }

    fn is_lab(&self) -> bool {
        false
    }

    fn check(&self, _: &Plan) -> Vec<Remark> {
        Vec::new()
    }

    fn provenance(&self, _: &Plan) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn perform(&self, order: &Order<'_>, teller: &mut dyn Teller) -> Result<Seen, Failure> {
        let count = self.performed.fetch_add(1, Ordering::Relaxed);
        if self.changes {
            let what = format!("trial {}", order.index);
            teller.change(Change { what, undo: "undo".into() })?;
        }
        if self.interrupted_at == Some(count) {
            return Err(Failure::Interrupted);
        }
        let is_on = order.setting["feature"] == "on";
        let inhibited = if is_on { self.inhibited } else { 0.0 };
        let is_disturbed = self.disturbed.contains(&count);
        Ok(Seen {
            output: format!("{{\"record\":\"latency\",\"p50\":{}}}", self.value(order)),
            evidence: BTreeMap::from([("inhibited".into(), Evidence::Number(inhibited))]),
            disturbed: is_disturbed.then(|| "steal 9 %".to_owned()),
            ..Seen::default()
        })
    }

    fn restore(&self, changes: &[Change]) -> Result<(), Failure> {
        self.restored.fetch_add(changes.len(), Ordering::Relaxed);
        Ok(())
    }
}

fn head(plan: &Plan, seed: u64, same: bool) -> Head {
    Head {
        schema: journal::SCHEMA,
        version: "0".into(),
        plan: plan.text.clone(),
        hash: plan.hash(),
        place: "host".into(),
        same: same.then(|| "off".into()),
        seed: Some(seed),
        blocks: None,
        shard: None,
        options: BTreeMap::new(),
        provenance: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

/// In memory where the system has such a place: a hundred experiments wait for no disk.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

fn run(
    plan: &Plan,
    head: Head,
    place: &Simulated,
    folder: &Path,
    jobs: usize,
) -> (Result<(), Error>, Answer) {
    let (mut journal, written) = match Journal::create(folder, head.clone(), || 0) {
        Ok(journal) => (journal, Vec::new()),
        Err(journal::Error::Exists(_)) => Journal::open(folder, || 0).expect("a journal"),
        Err(error) => panic!("{error}"),
    };
    let mut experiment = Experiment::new(plan, head, &written);
    let go = AtomicBool::new(false);
    let result = experiment.run(place, &mut journal, jobs, &go, &mut |_| {});
    (result, experiment.answer())
}

fn answer(seed: u64, same: bool, place: &Simulated) -> Answer {
    let (plan, folder) = (small(), folder());
    let (result, answer) = run(&plan, head(&plan, seed, same), place, folder.path(), 1);
    result.expect("an experiment");
    answer
}

fn verdicts(answer: &Answer) -> Vec<Verdict> {
    answer.cells.iter().flat_map(|cell| &cell.metrics).filter_map(|one| one.verdict).collect()
}

fn noisy(effect: f64) -> Simulated {
    Simulated { effect, noise: 0.01, drift: 0.1, ..Simulated::default() }
}

#[test]
fn of_a_hundred_experiments_on_equal_arms_at_most_five_say_better_or_worse() {
    let says = |seed: &u64| {
        let answer = answer(*seed, true, &noisy(1.0));
        verdicts(&answer).iter().any(|one| matches!(one, Verdict::Better | Verdict::Worse))
    };
    let wrong = (1..=100).filter(says).count();
    println!("{wrong} of 100 experiments on equal arms say better or worse");
    assert!(wrong <= 5, "{wrong} of 100");
}

#[test]
fn a_planted_change_of_three_percent_is_found_in_at_least_forty_of_fifty() {
    for (effect, expected) in [(0.97, Verdict::Better), (1.03, Verdict::Worse)] {
        let finds = |seed: &u64| {
            let answer = answer(1000 + *seed, false, &noisy(effect));
            verdicts(&answer).iter().all(|one| *one == expected)
        };
        let found = (0..50).filter(finds).count();
        println!("a change by {effect} is found in {found} of 50");
        assert!(found >= 40, "{found} of 50 for {effect}");
    }
}

#[test]
fn a_planted_switch_without_effect_is_void_in_twenty_of_twenty_and_ends_early() {
    for seed in 0..20 {
        let place = Simulated { inhibited: 1.0, ..noisy(0.5) };
        let answer = answer(seed, false, &place);
        for cell in &answer.cells {
            let void = cell.void.as_ref().expect("void throughout");
            assert_eq!((void.level.as_str(), void.trials), ("on", 3));
        }
        assert!(answer.sentence.contains("never took effect"), "{}", answer.sentence);
        assert!(answer.sentence.contains("let the PIT discard late ticks"), "{}", answer.sentence);
        // Three blocks of two cells of two arms, and none of the five blocks that follow.
        assert_eq!(place.performed.load(Ordering::Relaxed), 12);
    }
}

#[test]
fn interrupted_at_any_trial_it_goes_on_to_the_same_answer() {
    let plan = small();
    let whole = answer(7, false, &noisy(0.98));
    for moment in (0..32).step_by(3) {
        let folder = folder();
        let place = Simulated { interrupted_at: Some(moment), changes: true, ..noisy(0.98) };
        let (result, _) = run(&plan, head(&plan, 7, false), &place, folder.path(), 1);
        assert!(matches!(result, Err(Error::Interrupted)));
        assert_eq!(place.restored.load(Ordering::Relaxed), moment + 1, "all changes are put back");
        let place = noisy(0.98);
        let (result, answer) = run(&plan, head(&plan, 7, false), &place, folder.path(), 1);
        result.expect("the rest");
        assert_eq!(place.performed.load(Ordering::Relaxed), 32 - moment, "nothing is run twice");
        assert_eq!(answer.to_json().expect("JSON"), whole.to_json().expect("JSON"));
    }
}

/// What a killed process leaves is the journal up to some byte.
#[test]
fn killed_at_twenty_random_moments_it_restores_and_goes_on_to_the_same_answer() {
    let plan = small();
    let changing = Simulated { changes: true, ..noisy(0.98) };
    let folder = folder();
    let (result, whole) = run(&plan, head(&plan, 3, false), &changing, folder.path(), 1);
    result.expect("an experiment");
    let path = folder.path().join(FILE);
    let bytes = std::fs::read(&path).expect("the journal");
    let first = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let mut random = Random::new(20);
    for _ in 0..20 {
        let length = first + random.below(bytes.len() - first);
        std::fs::write(&path, &bytes[..length]).expect("a file");
        let written = journal::read(folder.path()).expect("a journal");
        let left = State::of(&written).changes.len();
        let (mut journal, written) = Journal::open(folder.path(), || 0).expect("a journal");
        let mut experiment = Experiment::new(&plan, head(&plan, 3, false), &written);
        let place = Simulated { changes: true, ..noisy(0.98) };
        let restored = experiment.restore(&place, &mut journal).expect("restored");
        assert_eq!((restored, place.restored.load(Ordering::Relaxed)), (left, left));
        assert!(experiment.state.changes.is_empty());
        drop(journal);
        let (result, answer) = run(&plan, head(&plan, 3, false), &place, folder.path(), 1);
        result.expect("the rest");
        assert_eq!(answer.to_json().expect("JSON"), whole.to_json().expect("JSON"), "{length}");
    }
}

#[test]
fn results_depend_neither_on_how_many_run_at_once_nor_on_shards() {
    let plan = small();
    for inhibited in [0.0, 1.0] {
        let place = || Simulated { inhibited, ..noisy(0.98) };
        let whole = answer(5, false, &place()).to_json().expect("JSON");
        let parallel = folder();
        let (result, answer) = run(&plan, head(&plan, 5, false), &place(), parallel.path(), 4);
        result.expect("an experiment");
        assert_eq!(answer.to_json().expect("JSON"), whole);
        let mut lines = Vec::new();
        for own in 0..3 {
            let (folder, place) = (folder(), place());
            let head = Head { shard: Some((own, 3)), ..head(&plan, 5, false) };
            run(&plan, head, &place, folder.path(), 1).0.expect("a shard");
            lines.extend(journal::read(folder.path()).expect("a journal"));
        }
        let together = Experiment::new(&plan, head(&plan, 5, false), &lines);
        assert_eq!(together.answer().to_json().expect("JSON"), whole);
    }
}

#[test]
fn a_disturbed_trial_is_repeated_with_another_seed() {
    let (plan, folder) = (small(), folder());
    let place = Simulated { disturbed: vec![4], ..noisy(0.98) };
    let (result, answer) = run(&plan, head(&plan, 5, false), &place, folder.path(), 1);
    result.expect("an experiment");
    assert_eq!(place.performed.load(Ordering::Relaxed), 33);
    assert!(answer.trials.iter().all(|trial| trial.void.is_none()));
}

#[test]
fn an_experiment_that_may_stop_early_does_once_all_is_decided() {
    let text = crate::plan::tests::SMALL
        .replace("blocks = 8", "blocks = 24\nlooks = [12, 24]\nlevel = 0.2");
    let plan = Plan::read(&text, "small").unwrap_or_else(|faults| panic!("{faults}"));
    let run_it = |effect: f64| {
        let folder = folder();
        let place = noisy(effect);
        run(&plan, head(&plan, 9, false), &place, folder.path(), 1).0.expect("an experiment");
        place.performed.load(Ordering::Relaxed)
    };
    assert_eq!(run_it(0.8), 12 * 4, "a large effect is certain at the first look");
    assert_eq!(run_it(0.991), 24 * 4, "an effect about the margin needs them all");
}

#[test]
fn answers_follow_the_published_schema() {
    let published = schema::published("experiment-1.json");
    let places = [noisy(0.97), noisy(1.0), Simulated { inhibited: 1.0, ..noisy(0.5) }];
    for (seed, place) in places.iter().enumerate() {
        let answer = answer(seed as u64, seed == 1, place);
        let json: serde_json::Value =
            serde_json::from_str(&answer.to_json().expect("JSON")).expect("JSON");
        schema::assert_follows(&json, &published, "an answer");
    }
}

#[test]
fn all_forms_say_the_answer_and_names_of_others_do_no_harm_in_the_page() {
    let mut answer = answer(3, false, &noisy(0.9));
    answer.provenance.insert("<script>alert(1)</script>".into(), "\"'&".into());
    let text = crate::page::text(&answer, 100, true);
    let markdown = crate::page::markdown(&answer, true);
    let page = crate::page::html(&answer);
    assert!(text.contains("latency is better") && markdown.contains(&answer.sentence));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(page.matches("<circle").count(), answer.trials.len());
    assert!(!page.contains("<script>") && !page.contains("http://"), "{page}");
    for part in ["<h2>The plan</h2>", "<h2>Provenance</h2>", "stroke"] {
        assert!(page.contains(part), "{part}");
    }
}
