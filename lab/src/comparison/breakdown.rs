//! What a time is made of: how much of it is code that runs, and how much are constants of the cost
//! profile.
//!
//! The same stretch is measured on machines on which one kind of cost after the other is taken
//! away; what a figure loses with each is that kind's part of it. This counts what lies on the way
//! that the figure measures, and not what happens beside it, so it is not counts times costs of a
//! processor's time: the way of an interrupt goes over several, of which one waits for another.
//! Messages cannot take no time, so half of theirs is taken away and the loss counted twice.

use super::Comparison;
use super::prices::Likely;
use crate::drive::observed::Observed;
use crate::drive::under::{Kind, Under};
use crate::plan::Setting;
use crate::workload::figure::Figure;
use serde::Serialize;

/// A figure in parts, in its unit; they sum up to the total.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Breakdown {
    /// The figure's name.
    pub measure: String,
    /// Of the figure and of its parts.
    pub unit: &'static str,
    /// Whether the feature was off or on.
    pub setting: Setting,
    /// The figure itself.
    pub total: f64,
    /// AVIC's or APICv's steps.
    pub avic: f64,
    /// Entries, exits, VMLOAD and VMSAVE.
    pub world_switches: f64,
    /// Between processors.
    pub messages: f64,
    /// Registers of the local APIC, events through the interrupt table, IRET, devices.
    pub apic_and_delivery: f64,
    /// What is left: instructions, of the guest and, between an exit and an entry, of the
    /// hypervisor.
    pub instructions: f64,
}

/// Gives comparisons what their times are made of, where that was measured.
pub(crate) fn take(comparisons: &mut [Comparison], observed: &[Observed]) {
    for comparison in comparisons {
        let own = observed.iter().filter(|one| one.step.name == comparison.name);
        comparison.breakdown = own.flat_map(of).collect();
    }
}

/// The parts of each figure, by what it lost where they were taken away; none if that was not
/// tried. A rate is not a sum.
fn of(observed: &Observed) -> Vec<Breakdown> {
    let likely = Likely::of(observed);
    let setting = observed.step.arm.setting;
    let without = |count: usize| {
        let mut all = observed.drawn.iter();
        all.find(|drawn| drawn.under == Under::Without(count))
    };
    let Some(first) = without(1) else { return Vec::new() };
    let Some(all) = likely.of_seed(first.seed) else { return Vec::new() };
    let left = |name: &str| -> Option<Vec<f64>> {
        let value = |figures: &[Figure]| {
            figures.iter().find(|figure| figure.name == name).map(Figure::typical)
        };
        let rest = (1..=Kind::ALL.len()).map(|count| value(&without(count)?.figures));
        std::iter::once(value(all)).chain(rest).collect()
    };
    let part = |figure: &Figure| {
        let left = left(&figure.name)?.try_into().ok()?;
        Some(parts(setting, figure, likely.mean(&figure.name)?, left))
    };
    all.iter().filter(|figure| !figure.unit.ends_with("/s")).filter_map(part).collect()
}

/// `left` is the figure with all costs, and then without one kind after the other, in the order of
/// [`Kind::ALL`].
fn parts(
    setting: Setting,
    figure: &Figure,
    total: f64,
    left: [f64; 1 + Kind::ALL.len()],
) -> Breakdown {
    let scale = total / left[0].max(f64::MIN_POSITIVE);
    let [all, no_avic, no_switches, no_apic, half_messages] = left.map(|value| value * scale);
    let messages = 2.0 * (no_apic - half_messages);
    Breakdown {
        measure: figure.name.clone(),
        unit: figure.unit,
        setting,
        total,
        avic: all - no_avic,
        world_switches: no_avic - no_switches,
        apic_and_delivery: no_switches - no_apic,
        messages,
        instructions: no_apic - messages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_up_to_the_figure() {
        let figure = Figure {
            name: "ipi".into(),
            unit: "cycles",
            value: 900.0,
            samples: 100,
            mean: None,
            usual: None,
        };
        // Of one seed, of which the mean over all is twice.
        let left = [1000.0, 700.0, 600.0, 550.0, 450.0];
        let one = parts(Setting::On, &figure, 2000.0, left);
        let (avic, switches, apic) = (one.avic, one.world_switches, one.apic_and_delivery);
        assert_eq!((avic, switches, apic), (600.0, 200.0, 100.0));
        assert_eq!((one.messages, one.instructions), (400.0, 700.0));
        let sum = avic + switches + apic + one.messages + one.instructions;
        assert!((sum - one.total).abs() < 1e-9);
    }
}
