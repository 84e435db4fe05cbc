//! The answer in one sentence.

use super::{Answer, CellAnswer, MetricAnswer, arm_words};
use crate::plan::words;
use crate::statistics::{Effect, Margin, Verdict};

/// Begins with what is most certain: an arm that never was, then the headline metric.
pub(super) fn of(answer: &Answer) -> String {
    if answer.trials.is_empty() {
        return "no trial has ended yet".into();
    }
    let cells = answer.cells.iter().filter(|cell| !cell.metrics.is_empty() || cell.void.is_some());
    let sentences: Vec<String> = cells.map(|cell| of_cell(answer, cell)).collect();
    let begun = if answer.is_finished {
        String::new()
    } else {
        format!("after {} of {} blocks, ", answer.blocks, answer.blocks_planned)
    };
    let [before, after] = &answer.arms;
    let arms = if answer.is_same {
        format!("two equal arms of {}", arm_words(&answer.compare, before))
    } else {
        format!("{} instead of {before}", arm_words(&answer.compare, after))
    };
    format!("{begun}{arms}: {}", sentences.join("; "))
}

fn of_cell(answer: &Answer, cell: &CellAnswer) -> String {
    let place =
        if cell.cell.is_empty() { String::new() } else { format!("{}: ", words(&cell.cell)) };
    if let Some(void) = &cell.void {
        let arm = arm_words(&answer.compare, &void.level);
        return format!("{place}{arm} never took effect: {}; {}", void.why, void.fix);
    }
    let judged = cell.metrics.iter().find(|metric| metric.less_is_better.is_some());
    let headline = cell.metrics.first();
    let mut metrics: Vec<&MetricAnswer> = headline.into_iter().collect();
    // A headline that is neither good nor bad is followed by one that is.
    metrics.extend(judged.filter(|judged| headline.is_none_or(|one| one.name != judged.name)));
    let parts: Vec<String> = metrics.into_iter().map(of_metric).collect();
    format!("{place}{}", parts.join(", "))
}

fn of_metric(metric: &MetricAnswer) -> String {
    let (Some(effect), Some(verdict)) = (&metric.effect, metric.verdict) else {
        return format!("{}: no block has both arms", metric.name);
    };
    let values = metric.before.as_ref().zip(metric.after.as_ref());
    let values = values.map_or(String::new(), |(before, after)| {
        format!("{} to {} {}, ", shown(before.median), shown(after.median), metric.unit)
    });
    let known = format!("{} ({values}{})", change(effect, metric), certainty(effect, metric));
    let name = &metric.name;
    match verdict {
        Verdict::Better => format!("{name} is better, {known}"),
        Verdict::Worse => format!("{name} is worse, {known}"),
        Verdict::Different => format!("{name} changes, {known}"),
        Verdict::NoDifference => {
            format!("{name} has no difference larger than {}, {known}", margin(metric))
        }
        Verdict::Undecided { .. } if metric.steps.is_some() => {
            let (steps, margin) = (metric.steps.unwrap_or_default(), margin(metric));
            let unit = if effect.is_percent { "%" } else { &metric.unit };
            format!(
                "{name} is undecided, {known}: it is printed in steps of {} {unit}, more than the \
                 {margin} that matter; a longer run would decide",
                shown(steps)
            )
        }
        Verdict::Undecided { more_blocks } => {
            let more = match more_blocks {
                Some(1) => "1 more block would probably decide".to_owned(),
                Some(more) => format!("{more} more blocks would probably decide"),
                None => "no number of blocks within reach would decide".to_owned(),
            };
            format!("{name} is undecided, {known}: {more}")
        }
    }
}

fn margin(metric: &MetricAnswer) -> String {
    match metric.margin {
        Margin::Percent(percent) => format!("{percent} %"),
        Margin::Absolute(size) => format!("{} {}", shown(size), metric.unit),
    }
}

/// `-12.3 %`, or the difference in the metric's unit.
pub(crate) fn change(effect: &Effect, metric: &MetricAnswer) -> String {
    if effect.is_percent {
        format!("{:+.2} %", effect.estimate)
    } else {
        format!("{:+} {}", Rounded(effect.estimate), metric.unit)
    }
}

fn certainty(effect: &Effect, metric: &MetricAnswer) -> String {
    if metric.is_exact {
        let word = if metric.is_predicted { "predicted, alike in all trials" } else { "exact" };
        return word.into();
    }
    let unit = if effect.is_percent { " %" } else { "" };
    let interval = effect.interval.map(|one| {
        let confidence = one.confidence * 100.0;
        format!("{confidence:.1} % interval {:+.2} to {:+.2}{unit}", one.low, one.high)
    });
    let p = effect.adjusted_p.or(effect.test.map(|test| test.p));
    let p = p.map(|p| format!("p {p:.2e}"));
    [interval, p].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number as people write it.
pub(crate) fn shown(value: f64) -> String {
    format!("{}", Rounded(value))
}

/// Four digits that say something; thousands are parted.
struct Rounded(f64);

impl std::fmt::Display for Rounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        let sign = if self.0 < 0.0 {
            "-"
        } else if f.sign_plus() {
            "+"
        } else {
            ""
        };
        if size >= 1000.0 {
            return write!(f, "{sign}{}", report::grid::grouped(size.round() as u64));
        }
        let digits = if size >= 100.0 {
            1
        } else if size >= 1.0 {
            2
        } else {
            4
        };
        let text = format!("{size:.digits$}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{sign}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        for (value, text) in [
            (13_344.2, "13 344"),
            (0.0, "0"),
            (1.0, "1"),
            (108.25, "108.2"),
            (0.00314, "0.0031"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(shown(value), text.replace(' ', &separator()), "{value}");
        }
    }

    /// As the project's tables part thousands.
    fn separator() -> String {
        report::grid::grouped(1000).replace(['1', '0'], "")
    }
}
