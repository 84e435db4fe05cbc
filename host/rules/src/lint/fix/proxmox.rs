//! Edits of Proxmox VE configurations: through `args`, the words Proxmox appends.

use super::{Change, Edit, Lines, insert};
use crate::configuration::proxmox::entries;

pub fn edits(lines: &Lines<'_>, change: &Change) -> Option<Vec<Edit>> {
    let words = match change {
        Change::DiscardPitTicks => "-global kvm-pit.lost_tick_policy=discard",
        Change::SplitIrqchip => "-machine kernel-irqchip=split",
        // A -cpu in args replaces Proxmox's whole, which this file does not hold.
        _ => return None,
    };
    let text = lines.text();
    match entries(text).find(|entry| entry.key == "args") {
        Some(args) => Some(insert(args.end(), format!(" {words}"))),
        None => {
            // Proxmox sorts its keys, and args comes first, behind the description.
            let first = entries(text).map(|entry| entry.start).next().unwrap_or(0);
            Some(insert(first, format!("args: {words}\n")))
        }
    }
}
