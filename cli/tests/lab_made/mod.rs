//! Results of the lab as runs would make them.

use arch::time::Picoseconds;
use bench::{Configuration, Outcome};
use board::cost::CostProfile;
use lab::drive::counters::{Count, Reason, Tally};
use lab::drive::example::Choice;
use lab::drive::observed::Observed;
use lab::evidence::{Scale, Subject, predict};
use lab::plan::{Experiment, ModuleParameter, Setting};
use lab::protocol::{Guest, Step, StepResult, Tracepoints};
use lab::result::{HostFacts, LabResult, RunFacts};
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

/// A run of one virtual machine, as an agent would tell it.
pub fn observed(setting: Setting) -> Observed {
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
        examples: None,
        drawn: Vec::new(),
        time: Picoseconds(1),
    }
}

/// Of a workload, on an emulated host.
pub fn result(observed: &[Observed], workload: &str) -> LabResult {
    let comparisons = lab::comparison::compare(observed, "6.12.107", Choice::Typical);
    let scale = Scale { tsc_hertz: 2_400_000_000, guest_cpus: 2 };
    let experiment = Experiment::default();
    let subject = Subject { cpu: "zen4", experiment: &experiment, workload };
    LabResult {
        schema: LabResult::SCHEMA,
        verdict: lab::verdict::of(&experiment, workload, &comparisons, None, &[]),
        arms: experiment.arms(),
        costs: CostProfile::named("zen4").expect("a profile of the board").provenance(),
        host: HostFacts {
            cpu: "zen4".into(),
            core_hertz: 3_700_000_000,
            cpus: 4,
            kernel: "test".into(),
            instead: None,
            guest_cpus: 2,
            guests: 1,
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
pub fn steps() -> [Observed; 3] {
    [Setting::Off, Setting::Between, Setting::On].map(|setting| {
        let mut one = observed(setting);
        if setting == Setting::Between {
            one.result.console = vec![one.result.console[0].replace("3000", "3500")];
        }
        one
    })
}
