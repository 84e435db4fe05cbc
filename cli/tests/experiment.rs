//! `avicenna experiment` where no machine is started: plans, what is known beforehand, and answers
//! from journals.

use experiment::journal::{Entry, Head, Journal, Kept, Outcome, SCHEMA};
use experiment::plan::Plan;
use experiment::run::Experiment;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn avicenna(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .arg("experiment")
        .args(arguments)
        .output()
        .expect("avicenna");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// One line, whatever the width.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn plans_are_listed_shown_and_checked() {
    let (code, list, _) = avicenna(&["list", "--format", "json"]);
    assert_eq!(code, Some(0));
    for name in ["firecracker-pit", "ipiv-vmexit", "apicv-iozone"] {
        assert!(list.contains(name), "{list}");
    }
    let (_, plain, _) = avicenna(&["show", "firecracker-pit", "--plain"]);
    assert!(Plan::read(&plain, "firecracker-pit").is_ok(), "{plain}");
    let (code, said, _) = avicenna(&["check", "firecracker-pit"]);
    assert!(code == Some(0) && said.contains("32 trials in 8 blocks"), "{said}");
    let (code, said, _) = avicenna(&["check", "apicv-xen-netperf", "--on", "host"]);
    assert_eq!(code, Some(1));
    assert!(joined(&said).contains("no host can run it: apicv= is a word of Xen's"), "{said}");
}

#[test]
fn the_published_schema_is_what_the_program_prints() {
    let (_, printed, _) = avicenna(&["show", "--schema"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema/experiment-plan-1.json");
    assert_eq!(printed, std::fs::read_to_string(path).expect("the schema"));
}

#[test]
fn that_an_arm_cannot_take_effect_is_said_before_the_first_trial() {
    let (code, said, _) = avicenna(&["check", "firecracker-avic"]);
    let said = joined(&said);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("futile: apic x2apic, avic on, pit reinject: AVIC is never active"),
        "{said}"
    );
    assert!(said.contains("let it discard them"), "{said}");
    assert!(!said.contains("pit discard: AVIC is never"), "{said}");
}

/// What a trial prints by its levels, and what is left of it.
const OF_A_COMMAND: &str = r#"
schema = 1
name = "mine"
question = "Does it?"
[design]
compare = "way"
blocks = 2
[[factor]]
name = "way"
kind = "option"
levels = ["one", "other"]
redo = "live"
[lab]
command = "echo way $AVICENNA_WAY: $((AVICENNA_TRIAL % 2 + 7)) | tee -a LEFT"
[[metric]]
name = "it"
unit = "s"
better = "less"
regex = ': ([0-9]+)'
[[proof]]
level = ["one", "other"]
evidence = "output:way (one|other):"
at_least = 1
why = "it has no way"
fix = "none"
"#;

#[test]
fn a_plan_s_command_runs_on_this_machine_if_that_was_said_and_is_told_the_levels() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (plan, left, out) = (path("mine.toml"), path("left"), path("out"));
    std::fs::write(&plan, OF_A_COMMAND.replace("LEFT", &left)).expect("a file");
    let run = ["run", &plan, "--format", "json", "-o", &out];
    let (code, said, _) = avicenna(&run);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing was run") && said.contains("echo way"), "{said}");
    assert!(!Path::new(&left).exists() && !Path::new(&out).exists(), "{said}");
    let (_, said, told) = avicenna(&[&run[..], &["--yes"]].concat());
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(answer["trials"].as_array().map(Vec::len), Some(4), "{said}{told}");
    let left = std::fs::read_to_string(left).expect("what the command wrote");
    let of = |way: &str| left.lines().filter(|line| line.starts_with(way)).count();
    assert_eq!((of("way one: "), of("way other: ")), (2, 2), "{left}");
    let (code, _, said) = avicenna(&["resume", &out]);
    assert!(code == Some(2) && said.contains("pass --yes"), "{said}");
}

#[test]
fn a_broken_plan_is_a_matter_of_usage_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.toml");
    let path = path.to_str().expect("text");
    let (_, plain, _) = avicenna(&["show", "firecracker-pit", "--plain"]);
    std::fs::write(path, plain.replace("[design]\ncompare", "[design]\ncompaer")).expect("a file");
    for verb in [&["check", path][..], &["run", path], &["show", path]] {
        let (code, _, said) = avicenna(verb);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            joined(&said).contains(
                "mine.toml: line 11: [design] has no key \"compaer\": did you mean compare?"
            ),
            "{said}"
        );
    }
    let (code, _, said) = avicenna(&["run", "nosuch"]);
    assert!(code == Some(2) && said.contains("firecracker-pit"), "{said}");
    let (code, _, said) = avicenna(&["run", "firecracker-pit", "--aa", "sideways"]);
    assert!(code == Some(2) && said.contains("reinject, discard"), "{said}");
    // 2 / 2^n has to be 0.02 over the metrics and cells at most.
    let few = &["run", "firecracker-pit", "--on", "host", "--blocks", "5"];
    let (code, _, said) = avicenna(few);
    let wanted = "5 blocks cannot decide 4 metrics and cells at level 0.02: at least 9 could";
    assert!(code == Some(2) && joined(&said).contains(wanted), "{said}");
    let (code, _, said) = avicenna(&["status", path]);
    assert!(code == Some(2), "{said}");
}

/// Journals of an experiment of the lab in so many shards, made up.
fn journals(folder: &Path, shards: usize) -> Vec<String> {
    let text = experiment::shipped::PLANS[0].1;
    let plan = Plan::read(text, "firecracker-pit").expect("a plan");
    let head = |shard| Head {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        plan: text.into(),
        hash: plan.hash(),
        place: "lab".into(),
        same: None,
        seed: None,
        blocks: None,
        shard,
        options: BTreeMap::new(),
        provenance: BTreeMap::from([("machine".into(), "made up".into())]),
        remarks: Vec::new(),
    };
    let schedule = Experiment::new(&plan, head(None), &[]).schedule;
    let mut folders = Vec::new();
    for own in 0..shards {
        let shard = (shards > 1).then_some((own, shards));
        let path = folder.join(format!("{own}-of-{shards}"));
        let mut journal = Journal::create(&path, head(shard), || 0).expect("a journal");
        for trial in schedule.trials.iter().filter(|trial| trial.index % shards == own) {
            let is_first = trial.arm == 0;
            let latency = if is_first { 5000.0 } else { 2000.0 } + trial.index as f64;
            let figures = BTreeMap::from([
                ("time inhibited".into(), if is_first { 100.0 } else { 0.0 }),
                ("IPI, acknowledged".into(), latency),
                ("exits other than HLT".into(), if is_first { 5413.0 } else { 99.0 }),
            ]);
            let kept = Kept { figures, ..Kept::default() };
            let outcome = Outcome::Done;
            let ended = Entry::Ended { trial: trial.index, attempt: 0, outcome, kept };
            journal.write(&ended).expect("a line");
        }
        journal.write(&Entry::Finished).expect("a line");
        folders.push(path.to_string_lossy().into_owned());
    }
    folders
}

#[test]
fn shards_put_together_are_the_same_answer_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, shards) = (journals(folder.path(), 1), journals(folder.path(), 3));
    for format in ["text", "markdown", "json", "html"] {
        let report = |folders: &[String]| {
            let own = ["report", "--format", format];
            let words: Vec<&str> =
                own.into_iter().chain(folders.iter().map(String::as_str)).collect();
            avicenna(&words)
        };
        let (code, one, said) = report(&whole);
        assert_eq!(code, Some(0), "{said}{one}");
        assert_eq!(report(&shards).1, one);
        let one = joined(&one);
        assert!(one.contains("pit discard instead of reinject"), "{one}");
        let (_, part, _) = report(&shards[..2]);
        assert_ne!(joined(&part), one, "a share that is missing is not an end");
    }
    let (_, status, _) = avicenna(&["status", &whole[0]]);
    assert!(status.contains("finished") && status.contains("32 of 32 trials ended"), "{status}");
}

#[test]
fn a_damaged_journal_is_refused_by_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = journals(folder.path(), 1);
    let path = Path::new(&whole[0]).join("journal.jsonl");
    let text = std::fs::read_to_string(&path).expect("a journal");
    std::fs::write(&path, text.replacen("99.0", "98.0", 1)).expect("a file");
    let (code, _, said) = avicenna(&["report", &whole[0]]);
    assert!(code == Some(2) && said.contains("line ") && said.contains("the sum is"), "{said}");
}
