//! What a time is made of: how much of it is code that runs, and how much are constants of the cost
//! profile.
//!
//! The same run is repeated on machines on which one kind of cost after the other is taken away;
//! what a figure loses with each is that kind's part of it. This counts what lies on the way that
//! the figure measures, and not what happens beside it. Messages cannot take no time, so half of
//! theirs is taken away and the loss counted twice.

use crate::plan::Setting;
use crate::workload::figure::Figure;
use board::cost::{CostProfile, Figure as Cost};
use serde::Serialize;

/// Kinds of cost, in the order in which they are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// AVIC's or APICv's steps.
    Hardware,
    /// Entries and exits, VMLOAD and VMSAVE.
    WorldSwitches,
    /// Registers of the local APIC, events through the interrupt table, IRET, devices.
    ApicAndDelivery,
    /// Half of the time of messages between processors.
    Messages,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Hardware, Self::WorldSwitches, Self::ApicAndDelivery, Self::Messages];
}

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

/// The profile without some kinds of cost.
pub(crate) fn without(profile: &CostProfile, kinds: &[Kind]) -> CostProfile {
    let mut profile = profile.clone();
    for kind in kinds {
        let free = |figures: &mut [&mut Cost]| {
            figures.iter_mut().for_each(|figure| figure.value = 0.0);
        };
        match kind {
            Kind::Hardware => {
                if let Some(own) = &mut profile.avic {
                    free(&mut [
                        &mut own.send,
                        &mut own.deliver,
                        &mut own.read,
                        &mut own.write,
                        &mut own.doorbell,
                    ]);
                }
                if let Some(own) = &mut profile.apicv {
                    free(&mut [
                        &mut own.send,
                        &mut own.posted,
                        &mut own.deliver,
                        &mut own.read,
                        &mut own.write,
                    ]);
                }
            }
            Kind::WorldSwitches => {
                let own = &mut profile.world_switch;
                free(&mut [&mut own.entry, &mut own.exit, &mut own.state_move]);
            }
            Kind::ApicAndDelivery => {
                let (apic, event) = (&mut profile.apic, &mut profile.event);
                let device = &mut profile.device;
                free(&mut [
                    &mut apic.mmio_read,
                    &mut apic.mmio_write,
                    &mut apic.msr_read,
                    &mut apic.msr_write,
                    &mut apic.msr_command,
                    &mut apic.msr_end_of_interrupt,
                    &mut event.delivery,
                    &mut event.iret,
                    &mut device.read,
                    &mut device.write,
                ]);
            }
            Kind::Messages => {
                let own = &mut profile.message;
                for figure in [
                    &mut own.itself,
                    &mut own.same_core,
                    &mut own.same_complex,
                    &mut own.same_die,
                    &mut own.same_socket,
                    &mut own.other_socket,
                    &mut own.device,
                ] {
                    figure.value /= 2.0;
                }
            }
        }
    }
    profile
}

/// The parts of each figure. `runs` are the figures with all costs, and then without one kind after
/// the other, in the order of [`Kind::ALL`].
pub(crate) fn parts(setting: Setting, runs: &[Vec<Figure>]) -> Vec<Breakdown> {
    let [all, rest @ ..] = runs else { return Vec::new() };
    let of = |figure: &Figure| {
        let same = |run: &Vec<Figure>| {
            run.iter().find(|other| other.name == figure.name).map(|other| other.value)
        };
        let left: Vec<f64> = rest.iter().filter_map(same).collect();
        let [no_avic, no_switches, no_apic, half_messages] = left.try_into().ok()?;
        let messages = 2.0 * (no_apic - half_messages);
        Some(Breakdown {
            measure: figure.name.clone(),
            unit: figure.unit,
            setting,
            total: figure.value,
            avic: figure.value - no_avic,
            world_switches: no_avic - no_switches,
            apic_and_delivery: no_switches - no_apic,
            messages,
            instructions: no_apic - messages,
        })
    };
    // A rate is not a sum.
    all.iter().filter(|figure| !figure.unit.ends_with("/s")).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64) -> Vec<Figure> {
        let rate = Figure {
            name: "rate".into(),
            unit: "messages/s",
            value,
            samples: 1,
            mean: None,
            usual: None,
        };
        vec![
            Figure {
                name: "ipi".into(),
                unit: "cycles",
                value,
                samples: 500,
                mean: None,
                usual: None,
            },
            rate,
        ]
    }

    #[test]
    fn parts_sum_up_to_the_figure() {
        let runs = [1000.0, 700.0, 600.0, 550.0, 450.0].map(run);
        let all = parts(Setting::On, &runs);
        let [one] = all.as_slice() else { panic!("rates have no parts: {all:?}") };
        let (avic, switches, apic) = (one.avic, one.world_switches, one.apic_and_delivery);
        assert_eq!((avic, switches, apic), (300.0, 100.0, 50.0));
        assert_eq!((one.messages, one.instructions), (200.0, 350.0));
        let sum = avic + switches + apic + one.messages + one.instructions;
        assert!((sum - one.total).abs() < 1e-9);
        assert!(parts(Setting::On, &runs[..3]).is_empty(), "a run is missing");
    }

    #[test]
    fn what_is_taken_away_costs_nothing_and_the_rest_what_it_did() {
        for model in ["zen4", "sapphire-rapids"] {
            let profile = CostProfile::named(model).expect("a profile that comes with the board");
            let left = without(&profile, &Kind::ALL);
            for ((section, name), figure) in left.figures() {
                let before = profile.figures().find(|(known, _)| *known == (section, name));
                let before = before.map_or(0.0, |(_, figure)| figure.value);
                let expected = match section {
                    "avic" | "apicv" | "world_switch" | "apic" | "event" => 0.0,
                    "device" if name != "port" => 0.0,
                    "message" => before / 2.0,
                    _ => before,
                };
                assert_eq!(figure.value, expected, "{model} {section}.{name}");
            }
        }
    }
}
