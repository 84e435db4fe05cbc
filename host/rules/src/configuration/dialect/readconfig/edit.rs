//! Edits of QEMU's `-readconfig` files.

use super::section::Section;
use crate::configuration::change::MachineChange;
use crate::configuration::dialect::MachineText;
use crate::configuration::edit::{Edit, insert, replace};
use crate::configuration::pairs::Pair;

/// The sections of the one machine.
#[derive(Debug)]
pub struct Sections<'t> {
    pub text: &'t str,
    pub sections: Vec<Section>,
}

impl MachineText for Sections<'_> {
    fn edits(&self, _: usize, change: &MachineChange) -> Option<Vec<Edit>> {
        edits(self.text, &self.sections, change)
    }
}

fn edits(text: &str, sections: &[Section], change: &MachineChange) -> Option<Vec<Edit>> {
    let value_of = |section: &Section, key: &str| {
        section.pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone())
    };
    match change {
        MachineChange::DiscardPitTicks => {
            let policy = sections.iter().rev().find(|section| {
                section.group == "global"
                    && value_of(section, "driver").as_deref() == Some("kvm-pit")
                    && value_of(section, "property").as_deref() == Some("lost_tick_policy")
            });
            match policy.and_then(|section| section.pairs.iter().find(|pair| pair.key == "value")) {
                Some(pair) => Some(replace_value(pair, "discard")),
                None => {
                    let section = "[global]\n  driver = \"kvm-pit\"\n  property = \"lost_tick_policy\"\n  \
                                   value = \"discard\"\n";
                    let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
                    Some(insert(text.len(), format!("{gap}{section}")))
                }
            }
        }
        MachineChange::SplitIrqchip => {
            let mut machines = sections
                .iter()
                .rev()
                .filter(|section| matches!(section.group.as_str(), "machine" | "accel"));
            let written = machines.clone().find_map(|section| {
                section.pairs.iter().find(|pair| pair.key.replace('_', "-") == "kernel-irqchip")
            });
            match (written, machines.find(|section| section.group == "machine")) {
                (Some(pair), _) => Some(replace_value(pair, "split")),
                (None, Some(machine)) => {
                    Some(insert(machine.end, "\n  kernel-irqchip = \"split\""))
                }
                (None, None) => {
                    let section = "\n[machine]\n  kernel-irqchip = \"split\"\n";
                    Some(insert(text.len(), section))
                }
            }
        }
        MachineChange::Viommu(key) => {
            let device = sections.iter().find(|section| {
                section.group == "device"
                    && matches!(
                        value_of(section, "driver").as_deref(),
                        Some("intel-iommu" | "amd-iommu")
                    )
            })?;
            match device.pairs.iter().find(|pair| pair.key == *key) {
                Some(pair) => Some(replace_value(pair, "on")),
                None => Some(insert(device.end, format!("\n  {key} = \"on\""))),
            }
        }
        // CPU features have no section of their own.
        MachineChange::HyperV(..) | MachineChange::CpuFeature(..) => None,
        MachineChange::RemovePair(_) => None,
    }
}

fn replace_value(pair: &Pair, value: &str) -> Vec<Edit> {
    replace(pair.value_at.start, pair.value_at.end, value)
}
