//! Whether KVM kept virtual machines from the feature, for how long and why.

use crate::comparison::Comparison;

/// A share of the time, in percent, below which the feature counts as active all the time and above
/// which as inhibited all the time.
const NEVER: f64 = 0.5;
const ALWAYS: f64 = 99.5;

/// Whether KVM kept virtual machines from the feature, each by itself.
pub(super) struct Activity<'a>(Vec<(&'a Comparison, Inhibition)>);

impl<'a> Activity<'a> {
    pub fn of(comparisons: &'a [Comparison]) -> Self {
        Self(comparisons.iter().filter_map(|one| Some((one, inhibition(one)?))).collect())
    }

    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn is_inhibited(&self) -> bool {
        self.0.iter().any(|(_, one)| one.share > NEVER)
    }

    /// The one that was kept from it longest, and which were not.
    pub fn sentence(&self, feature: &str) -> Option<String> {
        let longest = self.0.iter().max_by(|a, b| a.1.share.total_cmp(&b.1.share));
        let (place, worst) = longest.filter(|(_, one)| one.share > NEVER)?;
        let active = self.0.iter().filter(|(_, one)| one.share <= NEVER);
        let active: Vec<&str> = active.map(|(one, _)| one.name.as_str()).collect();
        if active.is_empty() {
            return Some(worst.sentence(feature, None));
        }
        let rest = format!("in {} it was active all the time", active.join(", "));
        Some(format!("{}; {rest}", worst.sentence(feature, Some(&place.name))))
    }
}

/// Whether KVM kept a virtual machine from the feature all the time.
pub(super) fn is_without(comparison: &Comparison) -> bool {
    inhibition(comparison).is_some_and(|one| one.share > ALWAYS)
}

/// How long a virtual machine was kept from the feature.
pub(crate) struct Inhibition {
    /// Percent of the time in which its processors could run.
    pub(crate) share: f64,
    /// Reasons by the time that they took, the longest first.
    pub(crate) reasons: Vec<(String, f64)>,
}

/// None where KVM was not there to say.
pub(crate) fn inhibition(comparison: &Comparison) -> Option<Inhibition> {
    let (seconds, inhibited) = comparison.inhibited?;
    let machines = comparison.inhibit_history.iter().flat_map(|history| &history.machines);
    let reasons = machines.flat_map(|machine| &machine.reasons);
    let mut reasons: Vec<(String, f64)> = reasons
        .filter(|reason| reason.seconds > 0.0)
        .map(|reason| (reason.name.clone(), reason.seconds))
        .collect();
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = (inhibited / seconds.max(1e-9) * 100.0).min(100.0);
    Some(Inhibition { share, reasons })
}

impl Inhibition {
    /// `place` says which virtual machine, where there are others.
    pub(crate) fn sentence(&self, feature: &str, place: Option<&str>) -> String {
        // What lasted no time beside the longest is not a reason for the share.
        let longest = self.reasons.first().map_or(0.0, |(_, seconds)| *seconds);
        let lasting = self.reasons.iter().filter(|(_, time)| *time >= longest * NEVER / 100.0);
        let names: Vec<&str> = lasting.map(|(name, _)| name.as_str()).collect();
        let by = if names.is_empty() { String::new() } else { format!(" by {}", names.join(", ")) };
        let time = match self.share {
            share if share < NEVER => return format!("{feature} was active all the time"),
            share if share > ALWAYS => "all the time".to_owned(),
            share => format!("for {share:.1} % of the time"),
        };
        let advice = names.iter().find_map(|name| advice(name));
        let advice = advice.map_or(String::new(), |advice| format!(": {advice}"));
        let place = place.map_or(String::new(), |place| format!("in {place} "));
        format!("{feature} was inhibited {place}{time}{by}{advice}")
    }
}

/// What to change in the call of the lab.
fn advice(reason: &str) -> Option<&'static str> {
    match reason {
        "PIT_REINJ" => {
            Some("leave out --pit reinject, or let late ticks be dropped, --pit discard")
        }
        "HYPERV" | "BLOCKIRQ" | "APIC_ID_MODIFIED" | "APIC_BASE_MODIFIED" => {
            Some("leave out --inhibit")
        }
        "DISABLE" | "DISABLED" => Some("leave out what switches the feature off"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inhibit_is_told_with_what_to_change() {
        for (share, reason, sentence) in [
            (100.0, "PIT_REINJ", "AVIC was inhibited all the time by PIT_REINJ: leave out --pit"),
            (0.0, "ABSENT", "AVIC was active all the time"),
            (12.34, "IRQWIN", "AVIC was inhibited for 12.3 % of the time by IRQWIN"),
        ] {
            let reasons = vec![(reason.into(), 1.0), ("BRIEF".into(), 0.0001)];
            let inhibition = Inhibition { share, reasons };
            assert!(!inhibition.sentence("AVIC", None).contains("BRIEF"), "{share} {reason}");
            assert!(inhibition.sentence("AVIC", None).starts_with(sentence), "{share} {reason}");
        }
    }
}
