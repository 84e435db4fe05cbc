//! What the tables do not say, in sentences.

use crate::comparison::Comparison;
use crate::prediction::Prediction;

/// What the tables do not say.
pub(crate) fn of_comparison(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(change) = comparison.change() {
        remarks.push(format!("{}: exits {change:+.1} % with AVIC on", comparison.name));
    }
    for agreement in &comparison.agreement {
        let setting = if agreement.is_on { "on" } else { "off" };
        remarks.push(if agreement.differences.is_empty() {
            format!(
                "{setting}: {} and the machine both counted {} exits",
                agreement.counted_by,
                report::grid::grouped(agreement.machine)
            )
        } else {
            format!(
                "{setting}: {} counted {}, the machine {}; they differ in {:?}",
                agreement.counted_by, agreement.software, agreement.machine, agreement.differences
            )
        });
    }
    if let Some(parameter) = &comparison.parameter {
        remarks.push(format!("kvm_amd says avic={parameter} when it was asked for"));
    }
    remarks.extend(inhibit_remark(comparison));
    remarks
}

/// Why published figures have no value of the lab's beside them.
pub(crate) fn not_predicted(predictions: &[Prediction]) -> Vec<String> {
    let reason = |one: &Prediction| {
        Some(format!("{}: not predicted, since {}", one.name, one.reason.as_ref()?))
    };
    predictions.iter().filter_map(reason).collect()
}

/// How long AVIC was inhibited.
fn inhibit_remark(comparison: &Comparison) -> Option<String> {
    let (seconds, inhibited) = comparison.inhibited?;
    let share = (inhibited / seconds.max(1e-9) * 100.0).min(100.0);
    let machines = comparison.inhibit_history.iter().flat_map(|history| &history.machines);
    let reasons: Vec<String> = machines
        .flat_map(|machine| &machine.reasons)
        .map(|reason| format!("{} {:.3} s", reason.name, reason.seconds))
        .collect();
    let reasons =
        if reasons.is_empty() { "never".into() } else { format!("by {}", reasons.join(", ")) };
    Some(format!("on: KVM inhibited AVIC for {share:.1} % of {seconds:.3} s: {reasons}"))
}
