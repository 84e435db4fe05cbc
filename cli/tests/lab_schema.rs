//! `lab run --format json` follows `docs/schema/lab-1.json`, with and without what only KVM knows.

use arch::time::Picoseconds;
use bench::{Configuration, Outcome};
use board::cost::CostProfile;
use lab::drive::counters::{Count, Reason, Tally};
use lab::drive::observed::Observed;
use lab::evidence::{Scale, Subject, predict};
use lab::plan::{Experiment, ModuleParameter, Setting};
use lab::protocol::{Guest, Step, StepResult, Tracepoints};
use lab::result::compare::Side;
use lab::result::{HostFacts, LabResult, RunFacts};
use serde_json::Value;
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// A run of one virtual machine, as an agent would tell it.
fn observed(setting: Setting) -> Observed {
    let counts = |exits| BTreeMap::from([(0x60, exits), (0x401, 2)]);
    let of = |code| Reason { isa: Isa::Svm, code };
    let count = |exits| Count { exits, handled: Picoseconds(1_000_000), completed: exits };
    let arm = Experiment::default().arm(setting);
    let record = r#"{"record":"latency","test":"ipi_one_way","destination":"physical","p50":3000,"samples":9}"#;
    Observed {
        result: StepResult {
            outcome: Outcome::PowerOff,
            seconds: 1.0,
            console: vec![record.into()],
            times: Vec::new(),
            process_exits: BTreeMap::new(),
            tracepoints: Some(Tracepoints {
                exits: counts(499),
                incomplete: BTreeMap::from([(1, 2)]),
                unaccelerated: BTreeMap::from([(0x80, 3), (0x9999, 1)]),
                inhibits: vec![(1.0, "set reason=9, inhibits=0x200".into())],
                ran: Some((0.5, 2.0)),
                woken: Some(2),
                ..Tracepoints::default()
            }),
            parameters: vec![ModuleParameter { value: "N".into(), ..arm.parameters[0].clone() }],
            messages: Vec::new(),
        },
        step: Step {
            name: "xAPIC".into(),
            workload: "ipi".into(),
            arm,
            configuration: Configuration::default(),
            guest: Guest::Benchmark("warmup=1".into()),
            posts: true,
            is_traced: true,
            guests: 1,
            limit: 1,
        },
        all: Tally {
            exits: counts(500).into_iter().map(|(code, exits)| (of(code), count(exits))).collect(),
            incomplete: BTreeMap::from([(1, 2)]),
            unaccelerated: BTreeMap::from([(0x80, 3), (0x9999, 1)]),
            doorbells: 3,
            ..Tally::default()
        },
        window: None,
        example: None,
        time: Picoseconds(1),
    }
}

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

fn result(observed: &[Observed], workload: &str) -> LabResult {
    let comparisons = lab::comparison::compare(observed, "6.12.107");
    let scale = Scale { tsc_hertz: 2_400_000_000, guest_cpus: 2 };
    let experiment = Experiment::default();
    let subject = Subject { cpu: "zen4", experiment: &experiment, workload };
    LabResult {
        schema: LabResult::SCHEMA,
        verdict: lab::verdict::of(&experiment, workload, &comparisons, None),
        arms: experiment.arms(),
        costs: CostProfile::named("zen4").expect("a profile of the board").provenance(),
        host: HostFacts {
            cpu: "zen4".into(),
            core_hertz: 3_700_000_000,
            cpus: 4,
            kernel: "test".into(),
            instead: None,
            guest_cpus: 2,
            interrupt_chip: (!observed.is_empty()).then(|| "split".into()),
            timer: None,
            inhibit: Some("auto-eoi".into()),
        },
        workload: workload.into(),
        predictions: predict(subject, &comparisons, scale, &[]),
        comparisons,
        run: RunFacts {
            is_restored: true,
            instructions: 1,
            virtual_seconds: 1.0,
            host_seconds: 1.0,
            trace_hash: "0".into(),
        },
    }
}

/// Off, on, and an arm between them.
fn steps() -> [Observed; 3] {
    [Setting::Off, Setting::Between, Setting::On].map(|setting| {
        let mut one = observed(setting);
        if setting == Setting::Between {
            one.result.console = vec![one.result.console[0].replace("3000", "3500")];
        }
        one
    })
}

#[test]
fn an_arm_between_off_and_on_is_in_every_form_and_in_the_verdict() {
    let result = result(&steps(), "ipi");
    let [between] = result.comparisons[0].between.as_slice() else { panic!("one arm") };
    assert_eq!((between.arm.as_str(), between.total()), ("AVIC alone", 502));
    assert_eq!(between.measures[0].value, 3500.0);
    assert!(result.verdict.text.contains("(AVIC alone +0.0 %)"), "{}", result.verdict.text);
    for output in [result.to_text(100), result.to_html(), result.to_markdown()] {
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
    for output in [result.to_text(80), result.to_html()] {
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
    assert!(result.to_html().contains("when KVM inhibited AVIC"));
}

#[test]
fn the_verdict_is_the_first_line_of_every_form() {
    let result = result(&[observed(Setting::Off), observed(Setting::On)], "ipi");
    let verdict = &result.verdict.text;
    assert!(verdict.starts_with("NOT TO BE TRUSTED"), "{verdict}");
    let text = result.to_text(10_000);
    assert_eq!(text.lines().next(), Some(verdict.as_str()));
    let page = result.to_html();
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
    for output in [result.to_text(100), result.to_html(), result.costs_sentence()] {
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
