//! `lab run --format json` follows `docs/schema/lab-1.json`, with and without what only KVM knows.

mod lab_made;

use bench::Outcome;
use lab::drive::example::Choice;
use lab::drive::observed::Observed;
use lab::plan::{Experiment, Setting};
use lab::protocol::Guest;
use lab::result::compare::Side;
use lab_made::{observed, result, steps};
use serde_json::Value;

/// The same with a device whose interrupts nearly all arrived.
fn with_device(observed: Observed) -> Observed {
    let mut observed = observed;
    (observed.step.name, observed.step.workload) = ("running".into(), "device".into());
    let records = [
        r#"{"record":"device_sent","sent":10000,"refused":0}"#,
        r#"{"record":"device","target":"spinning","arrived":9999}"#,
        r#"{"record":"device_latency","min":570,"p50":578,"p90":579,"p99":590,"max":3001,"samples":9991}"#,
    ];
    observed.result.console.extend(records.map(str::to_owned));
    observed
}

#[test]
fn an_interrupt_of_a_device_that_is_lost_is_told() {
    let result = result(&[observed(Setting::On)].map(with_device), "device");
    let text = result.to_text(10_000);
    assert!(text.contains("9,999 of 10,000 interrupts of the device arrived"), "{text}");
    assert!(!result.verdict.is_sound);
    assert!(text.contains("exits per interrupt"), "{text}");
    assert!(text.contains("3,001"), "the longest way to the handler: {text}");
}

/// The same with a network function, one interrupt of which the host took.
fn with_network(observed: Observed) -> Observed {
    let mut observed = observed;
    observed.step.workload = "network".into();
    observed.step.guest = Guest::Linux(String::new());
    // Of a host whose AVIC is inhibited nothing is demanded.
    if let Some(counted) = &mut observed.result.tracepoints {
        counted.inhibits.clear();
    }
    let records = [
        r#"{"record":"network","sent":1000,"received":1000,"seconds":0.001,"round_trip":0.00005,"interrupts":7}"#,
        r#"{"record":"network_host","taken":1}"#,
    ];
    observed.result.console.extend(records.map(str::to_owned));
    observed
}

#[test]
fn an_interrupt_that_the_host_takes_though_it_could_be_posted_is_told() {
    let result = result(&[observed(Setting::On)].map(with_network), "network");
    let text = result.to_text(10_000);
    assert!(text.contains("the host took 1 interrupts of the function"), "{text}");
    assert!(!result.verdict.is_sound);
    assert!(text.contains("round trip µs") && text.contains("50.0"), "{text}");
}

#[test]
fn an_arm_between_off_and_on_is_in_every_form_and_in_the_verdict() {
    let result = result(&steps(), "ipi");
    let [between] = result.comparisons[0].between.as_slice() else { panic!("one arm") };
    assert_eq!((between.arm.as_str(), between.total()), ("AVIC alone", 502));
    assert_eq!(between.measures[0].value, 3500.0);
    assert!(result.verdict.text.contains("(AVIC alone +0.0 %)"), "{}", result.verdict.text);
    for output in [result.to_text(100), result.to_html("avicenna lab run"), result.to_markdown()] {
        for word in ["VM exits with AVIC alone", "AVIC alone: KVM", "3500"] {
            assert!(output.contains(word), "{word} is missing in {output}");
        }
    }
    let json: Value = serde_json::from_str(&result.to_json().expect("plain data")).expect("JSON");
    assert_eq!(json["comparisons"][0]["between"][0]["arm"], "AVIC alone");
}

#[test]
fn json_follows_its_published_schema() {
    let schema = schema::published("lab-1.json");
    let both = [observed(Setting::Off), observed(Setting::On)];
    for (result, what) in [
        (result(&both, "ipi"), "off and on"),
        (result(&both[..1], "mesh"), "off only, figures without a prediction"),
        (result(&both[1..], "ipi"), "on only"),
        (result(&both.clone().map(with_device), "device"), "a device"),
        (result(&both.clone().map(with_network), "network"), "a network function"),
        (result(&steps(), "ipi"), "steps"),
        (result(&[], "threads"), "nothing"),
    ] {
        let json = result.to_json().expect("plain data");
        let mut value: Value = serde_json::from_str(&json).expect("JSON");
        schema::assert_follows(&value, &schema, what);
        value["run"]["instructions"] = "many".into();
        assert!(schema::fault(&value, &schema).is_some(), "{what}");
    }
}

#[test]
fn text_and_page_name_what_avic_left_to_kvm_and_why_it_was_inhibited() {
    let result = result(&[observed(Setting::Off), observed(Setting::On)], "ipi");
    for output in [result.to_text(80), result.to_html("avicenna lab run")] {
        for word in [
            "target not running",
            "TPR",
            "0x9999",
            "PIT_REINJ",
            "they differ in",
            "asked for avic=1",
        ] {
            assert!(output.contains(word), "{word} is missing in {output}");
        }
    }
    assert!(result.to_html("avicenna lab run").contains("when KVM inhibited AVIC"));
}

#[test]
fn the_verdict_is_the_first_line_of_every_form() {
    let result = result(&[observed(Setting::Off), observed(Setting::On)], "ipi");
    let verdict = &result.verdict.text;
    assert!(verdict.starts_with("NOT TO BE TRUSTED"), "{verdict}");
    let text = result.to_text(10_000);
    assert_eq!(text.lines().next(), Some(verdict.as_str()));
    let page = result.to_html("avicenna lab run");
    let body = page.split("<body>").nth(1).expect("a body");
    assert!(body.trim_start().starts_with("<p class=\"answer\">NOT TO BE TRUSTED"), "{body}");
    let json = result.to_json().expect("plain data");
    let members: Vec<&str> = json.lines().filter(|line| line.starts_with("  \"")).collect();
    assert!(members[1].starts_with("  \"verdict\""), "{members:?}");
}

#[test]
fn every_form_says_what_its_times_rest_on() {
    let result = result(&[observed(Setting::On)], "ipi");
    let sentence = "cost profile zen4";
    for output in [result.to_text(100), result.to_html("avicenna lab run"), result.costs_sentence()]
    {
        assert!(output.replace('\n', " ").contains(sentence), "{output}");
    }
    let json: Value = serde_json::from_str(&result.to_json().expect("plain data")).expect("JSON");
    assert_eq!(json["costs"]["profile"], "zen4");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let result = result(&[observed(Setting::Off), observed(Setting::On)], "ipi");
    for columns in [60, 80, 100, 160] {
        let text = result.to_text(columns);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn a_comparison_of_two_results_follows_its_published_schema() {
    let json = |steps: &[Observed]| result(steps, "ipi").to_json().expect("plain data");
    let (first, second) = (json(&steps()), json(&[observed(Setting::Off), observed(Setting::On)]));
    let schema = schema::published("lab-compare-1.json");
    let names = ["first", "second"];
    let compared = lab::result::compare::compare([&first, &second], names, Side::On, &[]);
    let compared = compared.expect("two results").to_json().expect("plain data");
    let mut value: Value = serde_json::from_str(&compared).expect("JSON");
    schema::assert_follows(&value, &schema, "compared");
    value["is_equal"] = "perhaps".into();
    assert!(schema::fault(&value, &schema).is_some());
}

/// What the benchmark says when it has waited in vain.
const LOST: &str = r#"{"record":"lost","test":"ipi_acknowledged","destination":"logical"}"#;

fn loses(workload: &str, is_traced: bool) -> Observed {
    let mut one = observed(Setting::Off);
    one.step.workload = workload.into();
    one.step.is_traced = is_traced;
    one.result.console.push(LOST.into());
    one.result.outcome = Outcome::DebugExit(1);
    one
}

#[test]
fn a_lost_interrupt_is_a_doubt_about_every_workload() {
    for workload in ["ipi", "timer", "wake", "mesh"] {
        for is_traced in [true, false] {
            let result = result(&[observed(Setting::Off), loses(workload, is_traced)], workload);
            let said = "xAPIC, off: an interrupt was lost (ipi_acknowledged logical)";
            let text = &result.verdict.text;
            assert!(text.contains(&format!("NOT TO BE TRUSTED: {said}")), "{workload}: {text}");
            assert!(!result.verdict.is_sound, "{workload}");
            assert_eq!(result.comparisons[0].lost, [said], "{workload}");
        }
    }
}

#[test]
fn it_is_the_answer_where_that_was_asked_and_other_doubts_stay() {
    let asked = ["lost >= 0".parse().expect("an expectation")];
    let verdict = |one: Observed| {
        let comparisons = lab::comparison::compare(&[one], "6.12.107", Choice::Typical);
        let never = ["lost == 0".parse::<lab::verdict::expect::Expectation>().expect("another")];
        assert_eq!(never[0].failures(&comparisons).len(), 1);
        lab::verdict::of(&Experiment::default(), "wake", &comparisons, None, &asked)
    };
    let told = verdict(loses("wake", true));
    assert_eq!(told.lost, Some(1));
    assert!(told.text.starts_with("LOST: xAPIC, off: an interrupt was lost"), "{}", told.text);
    let mut ended = loses("wake", true);
    ended.result.outcome = Outcome::TimeLimit;
    let doubted = verdict(ended);
    assert!(!doubted.is_sound && doubted.text.contains("did not end"), "{}", doubted.text);
}
