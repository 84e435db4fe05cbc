//! Other costs than those that are likely: what is measured under them says how far a time may be
//! off because prices are, and what it is made of.

use board::cost::{CostProfile, Figure as Cost};

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

/// Which costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// A draw of this number from the ranges that the profile has.
    Draw(u64),
    /// The likely ones, without so many kinds of them.
    Without(usize),
}

impl Under {
    pub(crate) fn costs(self, likely: &CostProfile) -> CostProfile {
        match self {
            Self::Draw(number) => likely.drawn(number),
            Self::Without(count) => without(likely, &Kind::ALL[..count]),
        }
    }

    pub(crate) fn is_without(self) -> bool {
        matches!(self, Self::Without(_))
    }
}

impl std::fmt::Display for Under {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Draw(number) => write!(f, "draw {number}"),
            Self::Without(count) => {
                write!(f, "without {count} of {} kinds of cost", Kind::ALL.len())
            }
        }
    }
}

/// The profile without some kinds of cost.
fn without(profile: &CostProfile, kinds: &[Kind]) -> CostProfile {
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

#[cfg(test)]
mod tests {
    use super::*;

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
