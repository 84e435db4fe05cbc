//! Edits of Proxmox VE configurations: through `args`, the words Proxmox appends.

use super::entry::Entry;
use crate::configuration::change::MachineChange;
use crate::configuration::dialect::MachineText;
use crate::configuration::edit::{Edit, insert};

/// The lines of the one machine.
#[derive(Debug)]
pub struct Entries<'t>(pub Vec<Entry<'t>>);

impl MachineText for Entries<'_> {
    fn edits(&self, _: usize, change: &MachineChange) -> Option<Vec<Edit>> {
        let words = match change {
            MachineChange::DiscardPitTicks => "-global kvm-pit.lost_tick_policy=discard",
            MachineChange::SplitIrqchip => "-machine kernel-irqchip=split",
            // A -cpu in args replaces Proxmox's whole, which this file does not hold.
            MachineChange::HyperV(..) | MachineChange::CpuFeature(..) => return None,
            MachineChange::Viommu(_) | MachineChange::RemovePair(_) => return None,
        };
        match self.0.iter().find(|entry| entry.key == "args") {
            Some(args) => Some(insert(args.end(), format!(" {words}"))),
            None => {
                // Proxmox sorts its keys, and args comes first, behind the description.
                let first = self.0.first().map_or(0, |entry| entry.start);
                Some(insert(first, format!("args: {words}\n")))
            }
        }
    }
}
