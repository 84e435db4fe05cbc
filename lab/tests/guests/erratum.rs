//! Erratum 1235 in running software: the reference hypervisor's guest loses wake-ups on a part that
//! has it, unless IsRunning is never set, which is the work-around that kernels use.

use board::Outcome;

/// Runs IPIs to halted targets under AVIC; what the hypervisor ended with, and its records.
fn run(variant: &str, options: &str) -> (Option<Outcome>, String) {
    let mut model = crate::model("zen2");
    model.choose(variant).expect("a variant");
    let command_line = format!(
        "avic=on output=memory guest.output=memory guest.apic=xapic guest.tests=ipi \
         guest.targets=halted guest.gap=0 guest.samples=100 guest.patience=4000000 \
         {options}"
    );
    crate::run(model, 2, image::HYPERVISOR, &command_line)
}

#[test]
fn a_part_with_the_erratum_loses_wake_ups_of_a_hypervisor_without_the_work_around() {
    let (outcome, text) = run("erratum-1235=on", "");
    assert!(text.contains("\"record\":\"lost\""), "{text}");
    assert_ne!(outcome, Some(Outcome::DebugExit(0)), "{text}");
}

#[test]
fn nothing_is_lost_with_the_work_around_or_without_the_erratum() {
    for (variant, options) in [
        ("erratum-1235=on", "workaround=1235"),
        ("erratum-1235=off", ""),
        ("erratum-1235=off", "workaround=1235"),
    ] {
        let (outcome, text) = run(variant, options);
        assert_eq!(outcome, Some(Outcome::DebugExit(0)), "{variant} {options}: {text}");
        assert!(!text.contains("\"record\":\"lost\""), "{variant} {options}: {text}");
        assert!(text.contains("ipi_round_trip"), "{variant} {options}: {text}");
    }
}
