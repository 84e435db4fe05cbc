//! The screen as it looks at 80 columns and 24 lines, and at 160 and 50.

use super::*;
use crate::comparison::{Agreement, ArmExample, ExitRow, Prices, Spread, Spreads};
use crate::drive::counters::Reason;
use crate::drive::example::{Choice, Doing, Example, Function, Span};
use crate::plan::{Experiment, Setting};
use crate::result::{HostFacts, RunFacts};
use crate::verdict;
use crate::workload::found::{Findings, Found};
use board::cost::CostProfile;
use expect_test::expect_file;
use trace::exit_reason::Isa;

fn comparison(
    name: &str,
    exits: &[(u64, u64, u64)],
    measure: (&str, &'static str, f64, f64),
) -> Comparison {
    let count = |exits| Some(Count { exits, ..Count::default() });
    let row = |(code, off, on): &(u64, u64, u64)| {
        ExitRow::new(Reason { isa: Isa::Svm, code: *code }, count(*off), count(*on))
    };
    let (what, unit, off, on) = measure;
    let agreement = |setting| Agreement {
        setting,
        counted_by: "KVM's tracepoints",
        software: 1,
        machine: 1,
        differences: Vec::new(),
    };
    Comparison {
        name: name.into(),
        hardware: "AVIC",
        exits: exits.iter().map(row).collect(),
        measures: vec![Measure {
            name: what.into(),
            unit,
            off: Some(off),
            on: Some(on),
            samples: 500,
            over_seeds: None,
            over_prices: Some(Prices::near(off, on)),
        }],
        agreement: Setting::BOTH.map(agreement).to_vec(),
        inhibited: Some((1.0, 0.0)),
        ..Comparison::default()
    }
}

fn result(workload: &str, comparisons: Vec<Comparison>) -> LabResult {
    let experiment = Experiment::default();
    LabResult {
        schema: LabResult::SCHEMA,
        verdict: verdict::of(&experiment, workload, &comparisons, None, &[]),
        arms: experiment.arms(),
        costs: CostProfile::named("zen4").expect("a profile of the board").provenance(),
        host: HostFacts {
            cpu: "zen4".into(),
            core_hertz: 3_700_000_000,
            cpus: 4,
            kernel: "debian-13, Linux 6.12.117+deb13-amd64".into(),
            instead: None,
            guest_cpus: 2,
            guests: 1,
            interrupt_chip: Some("split".into()),
            timer: Some("process".into()),
            inhibit: None,
        },
        workload: workload.into(),
        predictions: Vec::new(),
        comparisons,
        run: RunFacts {
            is_restored: true,
            instructions: 1,
            virtual_seconds: 1.0,
            host_seconds: 3.25,
            trace_hash: "0cbef8f3dc7ad88d".into(),
        },
    }
}

fn span(from: u64, to: u64, doing: Doing, what: &str) -> Span {
    Span { from_ps: from * 1000, to_ps: to * 1000, doing, what: what.into() }
}

fn ipi() -> LabResult {
    let measure = |off, on| ("ipi_acknowledged physical", "cycles", off, on);
    let exits = [(0x400, 9969, 4), (0x60, 8000, 40), (0x64, 1500, 0), (0x78, 20, 20)];
    let mut x2apic = comparison("x2APIC", &exits, measure(5428.0, 2245.0));
    let off = Example {
        duration_ps: 2_316_000,
        exits: 3,
        sender: vec![span(0, 437, Doing::Hypervisor, "ICR write")],
        target: vec![
            span(0, 721, Doing::Hypervisor, "EOI of the one before"),
            span(1139, 1714, Doing::Hypervisor, "interrupt window"),
            span(1714, 2231, Doing::Handler, "handler"),
            span(2231, 2316, Doing::Hypervisor, "EOI"),
        ],
        ..Example::default()
    };
    let on = Example {
        duration_ps: 959_000,
        exits: 0,
        sender: vec![span(0, 531, Doing::Hardware, "send")],
        target: vec![
            span(531, 751, Doing::Hardware, "deliver"),
            span(751, 883, Doing::Handler, "handler"),
        ],
        ..Example::default()
    };
    x2apic.examples = [("off", off), ("on", on)]
        .map(|(arm, example)| ArmExample {
            arm: arm.into(),
            choice: Choice::Typical,
            example,
            functions: Vec::new(),
        })
        .to_vec();
    let function = |during: &str, name: &str, ps| Function {
        during: during.into(),
        name: name.into(),
        module: Some("kvm".into()),
        ps,
        samples: 100,
        ..Function::default()
    };
    x2apic.examples[0].functions = vec![
        function("EOI", "kvm_arch_vcpu_ioctl_run", 94_000),
        function("ICR write", "kvm_irq_delivery_to_apic", 43_000),
        function("ICR write", "kvm_set_msr_common", 12_000),
        function("hlt", "kvm_vcpu_halt", 9_000),
    ];
    let spread = |mean, half| Spread {
        mean,
        low: mean - half,
        high: mean + half,
        least: mean - half,
        most: mean + half,
        seeds: 10,
    };
    let over_seeds = Spreads { off: Some(spread(5428.0, 156.0)), on: Some(spread(2245.0, 0.2)) };
    x2apic.measures[0].over_seeds = Some(over_seeds);
    result("ipi", vec![comparison("xAPIC", &exits, measure(7628.0, 2327.0)), x2apic])
}

/// A device whose interrupts reach a sleeping processor later than before.
fn device() -> LabResult {
    let measure = |off, on| ("write to handler", "ns", off, on);
    let exits = [(0x60, 10_049, 57), (0x400, 10_001, 0)];
    let mut halted = comparison("halted", &exits, measure(2265.0, 6764.0));
    let cause = "a halted target now waits until another interrupt has woken it";
    halted.found = Findings(vec![Found {
        is_on: true,
        causes: vec![("write to handler", cause.into())],
        ..Found::default()
    }]);
    result("device", vec![comparison("running", &exits, measure(2148.0, 578.0)), halted])
}

fn assert_fits(text: &str, columns: usize, lines: usize) {
    assert!(text.lines().count() <= lines, "{} lines:\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(line.chars().count() <= columns, "{columns} columns: {line}");
    }
}

#[test]
fn the_screen_is_as_it_is_kept() {
    for (result, name) in [(ipi(), "ipi"), (device(), "device")] {
        let narrow = result.to_screen(80);
        assert_fits(&narrow, 80, MOST_LINES);
        expect_file![format!("snapshots/{name}-80x24.txt")].assert_eq(&narrow);
        let wide = result.to_screen(160);
        assert_fits(&wide, 160, MOST_LINES_WIDE);
        expect_file![format!("snapshots/{name}-160x50.txt")].assert_eq(&wide);
    }
}

#[test]
fn what_got_worse_is_in_the_first_sentence_with_its_cause_and_in_the_last_line() {
    let text = device().to_screen(200);
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with("WORSE with AVIC: halted write to handler +198.6 %"), "{first}");
    assert!(text.contains("a halted target now waits"), "{text}");
    let last = text.lines().last().expect("a line");
    assert!(last.contains("halted write to handler +199 %"), "{last}");
    assert!(!ipi().to_screen(80).contains("WORSE"));
}

#[test]
fn a_result_that_cannot_be_trusted_says_so_first_and_last() {
    let mut broken = ipi();
    broken.comparisons[0].troubles.push("the kernel warned".into());
    let broken = result("ipi", broken.comparisons);
    let text = broken.to_screen(80);
    assert!(text.starts_with("NOT TO BE TRUSTED: the kernel warned"), "{text}");
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with("exit status 1: not to be trusted"), "{last}");
    assert_eq!((broken.ending(), ipi().ending()), (Ending::Bad, Ending::Good));
}

#[test]
fn nothing_that_was_run_makes_the_screen_too_long_or_too_wide() {
    let mut long = ipi();
    let extra = long.comparisons[1].clone();
    let reason = "a reason that takes a line and more of a screen of eighty columns".repeat(3);
    long.verdict.bad_news = vec![reason; 2];
    long.comparisons[1].examples.extend(extra.examples.clone());
    for columns in [60, 80, 100, 119] {
        assert_fits(&long.to_screen(columns), columns, MOST_LINES);
    }
    assert_fits(&long.to_screen(200), 200, MOST_LINES_WIDE);
    let empty = result("threads", Vec::new());
    assert!(empty.to_screen(80).contains("exit status 0"));
}
