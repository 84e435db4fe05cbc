//! `lab run --format json` follows `docs/schema/lab-1.json`, with and without what only KVM knows.

use arch::time::Picoseconds;
use bench::{Configuration, Outcome};
use lab::counters::Count;
use lab::prediction::{Scale, predict};
use lab::protocol::{Guest, Step, StepResult, Tracepoints};
use lab::result::{HostFacts, LabResult, RunFacts};
use lab::session::Observed;
use serde_json::Value;
use std::collections::BTreeMap;

/// A run of one virtual machine, as an agent would tell it.
fn observed(is_on: bool) -> Observed {
    let counts = |exits| BTreeMap::from([(0x60, exits), (0x401, 2)]);
    let count = |exits| Count { exits, handled: Picoseconds(1_000_000), completed: exits };
    let exits: BTreeMap<u64, Count> =
        counts(500).into_iter().map(|(code, exits)| (code, count(exits))).collect();
    let record =
        r#"{"record":"latency","test":"ipi_acknowledged","destination":"physical","p50":3000}"#;
    Observed {
        step: Step {
            name: "xAPIC".into(),
            is_on,
            configuration: Configuration::default(),
            guest: Guest::Benchmark(String::new()),
            is_traced: true,
            limit: 1,
        },
        result: StepResult {
            outcome: Outcome::PowerOff,
            seconds: 1.0,
            console: vec![record.into()],
            process_exits: BTreeMap::new(),
            tracepoints: Some(Tracepoints {
                exits: counts(499),
                incomplete: BTreeMap::from([(1, 2)]),
                unaccelerated: BTreeMap::from([(0x80, 3), (0x9999, 1)]),
                inhibits: vec![(1.0, "set reason=2, inhibits=0x4".into())],
                numbering: None,
            }),
            parameter: "N".into(),
            messages: Vec::new(),
        },
        window: exits.clone(),
        exits,
        doorbells: 3,
        time: Picoseconds(1),
    }
}

fn result(observed: &[Observed], workload: &str) -> LabResult {
    let comparisons = lab::comparison::compare(observed, "6.12.107");
    let scale = Scale { tsc_hertz: 2_400_000_000, guest_cpus: 2 };
    LabResult {
        schema: LabResult::SCHEMA,
        host: HostFacts {
            cpu: "zen4".into(),
            cpus: 4,
            kernel: "test".into(),
            guest_cpus: 2,
            interrupt_chip: (!observed.is_empty()).then(|| "split".into()),
            timer: None,
        },
        workload: workload.into(),
        predictions: predict(workload, &comparisons, scale),
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

#[test]
fn json_follows_its_published_schema() {
    let schema = schema::published("lab-1.json");
    let both = [observed(false), observed(true)];
    for (result, what) in [
        (result(&both, "ipi"), "off and on"),
        (result(&both[..1], "mesh"), "off only, figures without a prediction"),
        (result(&both[1..], "ipi"), "on only"),
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
    let result = result(&[observed(false), observed(true)], "ipi");
    for output in [result.to_text(), result.to_html()] {
        for word in
            ["target not running", "TPR", "0x9999", "ABSENT", "they differ in", "asked for avic=1"]
        {
            assert!(output.contains(word), "{word} is missing in {output}");
        }
    }
    assert!(result.to_html().contains("when KVM inhibited AVIC"));
}
