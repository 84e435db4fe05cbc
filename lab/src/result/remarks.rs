//! What the tables do not say, in sentences.

use super::LabResult;
use crate::comparison::between::Between;
use crate::comparison::per_ipi::ExitsPerIpi;
use crate::comparison::{Comparison, Scope};
use crate::evidence::{Prediction, Published, Use};
use crate::plan::Setting;
use crate::verdict::inhibition;
use report::grid::grouped;

/// What the tables do not say.
pub(crate) fn of_comparison(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    let between = comparison.between.iter();
    let between = between.filter_map(|arm| Some((arm.arm.as_str(), arm.agreement.as_ref()?)));
    let sides = comparison.agreement.iter().map(|one| (one.setting.name(), one));
    for (side, agreement) in sides.chain(between) {
        let (by, machine) = (agreement.counted_by, grouped(agreement.machine));
        let inside = match (comparison.scope, agreement.setting) {
            (Scope::Life, _) => None,
            (Scope::Workload, Setting::On) => comparison.exits_on(),
            (Scope::Workload, Setting::Off) => comparison.exits_off(),
            (Scope::Workload, Setting::Between) => {
                comparison.between.iter().find(|arm| arm.arm == side).map(Between::total)
            }
        };
        let inside = inside.map(|count| format!(", {} of them in the workload", grouped(count)));
        let inside = inside.unwrap_or_default();
        remarks.push(if agreement.differences.is_empty() {
            format!(
                "{side}: {by} and the machine both counted {machine} exits {}{inside}",
                Scope::Life.words()
            )
        } else {
            format!(
                "{side}: {by} counted {}, the machine {machine}; they differ in {}",
                grouped(agreement.software),
                differences(&agreement.differences)
            )
        });
    }
    let in_between = comparison.between.iter().filter_map(|arm| arm.exits_per_ipi.as_ref());
    let per_ipi = comparison.exits_per_ipi.iter().chain(in_between);
    remarks.extend(per_ipi.map(ExitsPerIpi::sentence));
    if let Some(parameter) = &comparison.parameter {
        remarks.push(format!("on: the module's parameter says {parameter}"));
    }
    remarks.extend(inhibit_remark(comparison));
    let once = comparison.measures.iter().any(|one| one.samples <= 1 && one.change().is_some());
    if once {
        remarks.push(
            "rates and run times were measured once on each side: how far they vary is not known"
                .into(),
        );
    }
    remarks
}

/// Reason by reason, at most a few.
fn differences(all: &[(String, u64, u64)]) -> String {
    const SHOWN: usize = 5;
    let shown = all.iter().take(SHOWN).map(|(name, software, machine)| {
        format!("{name} ({} against {})", grouped(*software), grouped(*machine))
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(SHOWN);
    if more > 0 { format!("{shown} and {more} more reasons") } else { shown }
}

/// How many predictions there are, why some figures have no value of the lab's beside them, and why
/// there may be none at all.
pub(crate) fn of_predictions(result: &LabResult) -> Vec<String> {
    let mut remarks = Vec::new();
    let predictions = &result.predictions;
    if predictions.is_empty() && result.verdict.is_active == Some(false) {
        let hardware = result.comparisons.first().map_or("", |one| one.hardware);
        remarks.push(format!(
            "published figures are left out: they are of hosts whose {hardware} was not inhibited"
        ));
    }
    let changed = changed_processor(&result.host.cpu, &result.workload);
    remarks.extend(changed.filter(|_| predictions.is_empty()));
    if !predictions.is_empty() {
        let counts = |served| predictions.iter().filter(|one| one.served == served).count();
        remarks.push(format!(
            "{} of these figures are predictions; {} served to choose costs, {} follow from other rows",
            counts(Use::Prediction),
            counts(Use::Calibration),
            counts(Use::Computed)
        ));
    }
    let reason = |one: &Prediction| {
        Some(format!("{}: not predicted, since {}", one.name, one.reason.as_ref()?))
    };
    remarks.extend(predictions.iter().filter_map(reason));
    remarks
}

/// Where figures were published for this workload on the processor as it comes, but not with
/// features taken away or added.
fn changed_processor(cpu: &str, workload: &str) -> Option<String> {
    let (base, _) = cpu.split_once(',')?;
    let has_figures = Published::all().iter().any(|one| one.cpu == base && one.is_about(workload));
    let left_out = "published figures are left out: they are of";
    has_figures.then(|| format!("{left_out} {base} as it comes, and this is {cpu}"))
}

/// How long the feature was inhibited while vCPUs could run.
fn inhibit_remark(comparison: &Comparison) -> Option<String> {
    let (seconds, _) = comparison.inhibited?;
    let inhibition = inhibition(comparison)?;
    let times = inhibition.reasons.iter().map(|(name, seconds)| format!("{name} {seconds:.3} s"));
    let times = times.collect::<Vec<_>>().join(", ");
    let times = if times.is_empty() { times } else { format!(" ({times})") };
    let sentence = inhibition.sentence(comparison.hardware, None);
    Some(format!("on: {sentence}; vCPUs could run for {seconds:.3} s{times}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_processor_says_why_no_published_figure_stands_beside_it() {
        for (cpu, workload, is_said) in [
            ("sapphire-rapids,-hle", "ipi", true),
            ("sapphire-rapids", "ipi", false),
            ("sapphire-rapids,-hle", "timer", false),
            ("zen5,-avic", "ipi", false),
        ] {
            assert_eq!(changed_processor(cpu, workload).is_some(), is_said, "{cpu} {workload}");
        }
    }
}
