//! `machine trace`: every form has every event, and a question is answered where DuckDB is.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A trace of two processors of the benchmark.
fn trace() -> &'static str {
    static TRACE: OnceLock<String> = OnceLock::new();
    TRACE.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (kernel, trace) = (folder.join("exported.multiboot"), folder.join("exported.trace"));
        fs::write(&kernel, image::BENCHMARK).expect("the folder for tests can be written");
        let status = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["machine", "run", "--cpus", "2", "--until-virtual", "20ms", "--kernel"])
            .arg(&kernel)
            .arg("--trace")
            .arg(&trace)
            .output();
        status.expect("the program starts");
        trace.to_str().expect("a path of ours").to_owned()
    })
}

fn run(change: impl FnOnce(&mut Command) -> &mut Command) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    command.args(["machine", "trace", trace()]);
    change(&mut command);
    command.output().expect("the program starts")
}

fn text(arguments: &[&str]) -> String {
    let output = run(|command| command.args(arguments));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_form_has_every_event() {
    let events = text(&[]).lines().count();
    assert!(events > 100, "{events}");
    let csv = text(&["--format", "csv"]);
    assert_eq!(csv.lines().count(), events + 1);
    assert!(csv.starts_with("at_ps,cpu,event,exit,symbol,"));
    let ndjson = text(&["--format", "ndjson"]);
    assert_eq!(ndjson.lines().count(), events);

    let folder = tempfile::tempdir().expect("a writable folder");
    let packets = folder.path().join("trace.pftrace");
    text(&["--format", "perfetto", "--output", packets.to_str().expect("a path of ours")]);
    let packets = fs::read(packets).expect("it is there");
    assert!(packets.len() > 20 * events && packets.starts_with(&[0x0A]), "packets");
    let place = folder.path().join("ctf");
    let place = place.to_str().expect("a path of ours");
    text(&["--format", "ctf", "--output", place]);
    let streams = fs::read_dir(place).expect("a folder").count();
    assert_eq!(streams, 3, "the description, and a stream for each processor");
    let again = run(|command| command.args(["--format", "ctf", "--output", place]));
    assert_eq!(again.status.code(), Some(3), "what stands there stays");
    let nowhere = run(|command| command.args(["--format", "ctf"]));
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn a_question_is_answered_or_says_what_it_needs() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let ask = |sql: &str, path: Option<&str>| {
        run(|command| match path {
            None => command.args(["--query", sql]),
            Some(path) => command.args(["--query", sql]).env("PATH", path),
        })
    };
    let empty = folder.path().to_str().expect("a path of ours");
    let without = ask("select 1", Some(empty));
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert_eq!(without.status.code(), Some(3), "{said}");
    assert!(said.contains("pip install duckdb"), "{said}");

    let answer = ask("select count(*) as events from trace", None);
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    if said.contains("pip install duckdb") {
        println!("skipped: neither duckdb nor python3 with its module");
        return;
    }
    let events = text(&[]).lines().count();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), format!("events\n{events}\n"), "{said}");
    assert_eq!(ask("selec", None).status.code(), Some(3));
}
