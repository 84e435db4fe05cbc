//! Pages, metrics and rows of hosts, read by the programs they are for: promtool, Prometheus,
//! DuckDB, ClickHouse. What is not installed is named and skipped.

#[path = "fleet/hosts.rs"]
mod hosts;

use hosts::Choice;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn avicenna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

fn recording() -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    data.join("small-xapic-pp.data.zst").display().to_string()
}

fn has(program: &str, arguments: &[&str], how: &str) -> bool {
    let outcome =
        Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = outcome.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: {program} {} does not run: {how}", arguments.join(" "));
    }
    is_there
}

/// A host with three machines, one of a name that formats have to escape.
fn host(index: usize) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let choice = Choice::of(index);
    let root = folder.path().join(&choice.name);
    choice.write(&root);
    let path = root.display().to_string();
    (folder, path)
}

/// Every form of metrics that there is, by the verb's name.
fn metrics() -> BTreeMap<&'static str, String> {
    // Index 5: AMD, able, off, three machines.
    let (_folder, root) = host(5);
    let made = |arguments: &[&str]| stdout(&avicenna(arguments));
    BTreeMap::from([
        ("check", made(&["check", "--root", &root, "--format", "prometheus"])),
        ("why", made(&["why", "--root", &root, "--format", "prometheus"])),
        ("exits", made(&["exits", "report", "--format", "prometheus", &recording()])),
        ("report", made(&["report", &root, &recording(), "--format", "prometheus"])),
    ])
}

#[test]
fn one_page_has_what_is_known_of_a_host_its_machines_and_its_exits() {
    let (_folder, root) = host(5);
    let of = |format: &str| {
        let output = avicenna(&["report", &root, &recording(), &recording(), "--format", format]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        stdout(&output)
    };
    let text = of("text");
    for expected in [
        "Interrupt virtualization of node-0005",
        "kernel: 5.15.100",
        "Virtual machine vm0",
        "PIT_REINJ",
        "kvm-pit.lost_tick_policy=discard",
        "VM exits in ",
        "Exits before and after",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains('\u{202e}') && text.contains("\\u{202e}"), "{text}");
    let html = of("html");
    assert!(html.contains("<svg") && !html.contains('\u{202e}') && !html.contains("<script"));
    assert!(of("markdown").contains("\n## Virtual machine vm1\n"));
    let json: Value = serde_json::from_str(&of("json")).unwrap();
    schema::assert_follows(&json, &schema::published("report-1.json"), "report");
    assert!(of("csv").contains("reason,"));
    let two = avicenna(&["report", &root, &root, "--format", "prometheus"]);
    assert_eq!(two.status.code(), Some(3), "{two:?}");
    let nobody = avicenna(&["report", "--format", "text", &root, "no-such-machine"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    let one = stdout(&avicenna(&["report", &root, "vm1"]));
    assert!(one.contains("Virtual machine vm1") && !one.contains("Virtual machine vm0"), "{one}");
}

#[test]
fn promtool_takes_every_metric_whatever_machines_are_called() {
    if !has("promtool", &["--version"], "apt install prometheus") {
        return;
    }
    for (verb, text) in metrics() {
        assert!(
            verb == "check"
                || verb == "exits"
                || text.contains("vm=\"b\u{200b}\\\"q\\\\\u{202e}\""),
            "{text}"
        );
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        // Not a word of advice either.
        assert!(output.status.success() && output.stderr.is_empty(), "{verb}: {output:?}\n{text}");
    }
    let folder = packaging().join("prometheus");
    for arguments in
        [["check", "rules", "avicenna.rules.yml"], ["test", "rules", "avicenna.test.yml"]]
    {
        let output =
            Command::new("promtool").args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

/// Answers every request with one text, as an exporter does.
fn serve(text: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream: TcpStream = stream;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{text}", text.len());
        }
    });
    port
}

fn get(port: u16, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// The value as a query's parameter.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Every expression of a dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, member)| match member {
            Value::String(text) if key == "expr" => found.push(text.clone()),
            other => expressions(other, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn prometheus_loads_metrics_alerts_and_every_query_of_the_dashboard() {
    if !has("prometheus", &["--version"], "apt install prometheus") {
        return;
    }
    let exporter = serve(metrics()["report"].clone());
    let folder = tempfile::tempdir().unwrap();
    let rules = packaging().join("prometheus/avicenna.rules.yml");
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n- job_name: \
         node\n  static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]\n",
        rules.display()
    );
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, configuration).unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let outcome = std::panic::catch_unwind(|| watch(port));
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    outcome.unwrap();
}

fn watch(port: u16) {
    let query = |expression: &str| {
        let answer = get(port, &format!("/api/v1/query?query={}", encoded(expression)));
        answer.map(|answer| answer["data"]["result"].as_array().cloned().unwrap_or_default())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while query("avicenna_apicv_active").is_none_or(|found| found.len() != 3) {
        assert!(Instant::now() < until, "Prometheus did not scrape the three machines");
        std::thread::sleep(Duration::from_millis(200));
    }
    while query("ALERTS{alertname=\"AvicennaVmInhibited\"}").is_none_or(|found| found.is_empty()) {
        assert!(Instant::now() < until, "no alert became pending");
        std::thread::sleep(Duration::from_millis(200));
    }
    let rules = get(port, "/api/v1/rules").unwrap();
    for group in rules["data"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            assert_eq!(rule["health"], "ok", "{rule}");
        }
    }
    let text = std::fs::read_to_string(packaging().join("grafana/avicenna.json")).unwrap();
    let mut found = Vec::new();
    expressions(&serde_json::from_str(&text).unwrap(), &mut found);
    assert!(found.len() >= 8, "{found:?}");
    for expression in found {
        let plain = expression.replace("$instance", ".*").replace("$vm", ".*");
        assert!(query(&plain).is_some_and(|found| !found.is_empty()), "nothing for {plain}");
    }
}

const HOSTS: usize = 1000;
const QUESTIONS: usize = 10;

/// What an engine answers to each question: rows, and the columns and first rows.
fn ask(lake: &Path, engine: &str) -> BTreeMap<String, Value> {
    let ask = packaging().join("fleet/ask.py");
    let output =
        Command::new("python3").arg(ask).arg(lake).args([engine, "--json"]).output().unwrap();
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    let answers: BTreeMap<String, Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| (answer["question"].as_str().unwrap().to_owned(), answer))
        .collect();
    assert_eq!(answers.len(), QUESTIONS, "{engine}");
    for answer in answers.values() {
        println!(
            "{engine} {}: {} rows, {:.3} s",
            answer["question"],
            answer["rows"],
            answer["seconds"].as_f64().unwrap()
        );
    }
    answers
}

/// What `experiment run` leaves, with one metric in one cell.
fn answer(verdict: &str, effect: f64) -> String {
    let trial = |number: u64, arm: u64, value: f64| serde_json::json!({"trial": number, "block": 0, "cell": 0, "arm": arm, "figures": {"cycles": value}, "void": null});
    let metric = serde_json::json!({
        "name": "cycles", "unit": "cycles", "less_is_better": true, "is_exact": false, "is_predicted": false,
        "before": null, "after": null, "margin": {"percent": 1.0}, "published": [],
        "effect": {
            "estimate": effect, "interval": {"low": effect - 1.0, "high": effect + 1.0, "confidence": 0.95},
            "is_percent": true, "test": null, "adjusted_p": null, "blocks": 10, "smallest": null
        },
        "verdict": {"verdict": verdict},
    });
    // The members that tell what it is stand first, as the program writes them.
    let rest = serde_json::json!({
        "sentence": "", "place": "host", "is_finished": true, "compare": "feature", "arms": ["off", "on"],
        "is_same": false, "scale": "", "seed": 7, "blocks": 1, "blocks_planned": 1, "level": 0.05, "questions": 1,
        "cells": [{"cell": {"size": "64"}, "void": null, "metrics": [metric], "exits": [], "evidence": {}}],
        "trials": [trial(0, 0, 100.0), trial(1, 1, 90.0)], "provenance": {}, "remarks": [], "plan": "", "plan_hash": "p",
    });
    let rest = rest.to_string();
    format!("{{\"schema\": 1, \"name\": \"ipi\", \"question\": \"?\", {}", &rest[1..])
}

/// Rows of a thousand hosts, written by the verb.
fn lake(folder: &Path) -> PathBuf {
    let (roots, lake) = (folder.join("roots"), folder.join("one-day"));
    let paths: Vec<PathBuf> = (0..HOSTS)
        .map(|index| {
            let choice = Choice::of(index);
            let root = roots.join(&choice.name);
            choice.write(&root);
            root
        })
        .collect();
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["report", "--parquet"])
        .arg(&lake)
        .args(&paths)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    println!("{HOSTS} hosts to Parquet: {:.1} s", begun.elapsed().as_secs_f64());
    let output =
        avicenna(&["exits", "report", &recording(), "--parquet", &lake.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    // Three hosts of an experiment, one of which says the opposite.
    let results = folder.join("results");
    for (host, verdict, effect) in
        [("a", "better", -14.0), ("b", "better", -12.0), ("c", "worse", 3.0)]
    {
        let answer = answer(verdict, effect);
        let file = results.join(host).join("answer.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, answer).unwrap();
    }
    let paths = ["a", "b", "c"].map(|name| results.join(name).display().to_string());
    let [a, b, c] = &paths;
    let output = avicenna(&["report", "--parquet", &lake.display().to_string(), a, b, c]);
    assert!(output.status.success(), "{output:?}");
    lake
}

#[test]
fn ten_questions_about_a_thousand_hosts_have_the_answers_that_they_were_made_with() {
    if !has("python3", &["-c", "import duckdb"], "pip install duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one_day = lake(folder.path());
    let month = folder.path().join("month");
    let days = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/days.py");
    let output = Command::new("python3")
        .arg(days)
        .args([&one_day, &month])
        .arg(std::env::var("AVICENNA_FLEET_DAYS").unwrap_or_else(|_| "4".into()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let answers = ask(&one_day, "duckdb");
    let rows = |question: &str| answers[question]["rows"].as_u64().unwrap() as usize;
    let choices: Vec<Choice> = (0..HOSTS).map(Choice::of).collect();
    let able_but_off = choices.iter().filter(|one| one.can && !one.is_on).count();
    assert_eq!(rows("01-able-but-off"), able_but_off);
    // The first machine of every AMD host reinjects; nothing inhibits APICv for that. Before 6.0 a
    // guest that is offered x2APIC, and before 5.19 one that is offered SVM, never has AVIC.
    let inhibits = |one: &Choice| match one.kernel.starts_with("5.15") {
        true => 1 + 2 * one.vms,
        false => 1,
    };
    let inhibited: usize = choices.iter().filter(|one| one.is_amd).map(inhibits).sum();
    assert_eq!(rows("02-inhibited"), inhibited, "{:?}", answers["02-inhibited"]);
    assert_eq!(rows("05-experiments-that-disagree"), 1);
    assert!(rows("04-kernels-with-faults") > 0 && rows("07-changes-that-help-most") > 0);
    assert_eq!(rows("03-before-and-after"), 0, "one day has no before");

    let month_answers = ask(&month, "duckdb");
    let rows = |question: &str| month_answers[question]["rows"].as_u64().unwrap() as usize;
    assert_eq!(rows("10-silent"), 1);
    assert!(
        rows("03-before-and-after") > 0 && rows("08-changed") > 0 && rows("09-most-to-gain") > 0
    );
    if has("python3", &["-c", "import chdb"], "pip install chdb") {
        let others = ask(&month, "clickhouse");
        for (question, answer) in &month_answers {
            assert_eq!(answer["rows"], others[question]["rows"], "{question}");
        }
    }
}
