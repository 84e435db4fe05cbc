//! What those who interrupt a vCPU are told of it: whether it runs, and on which processor.

use super::Way;
use crate::silicon::{self, remapping::Posting};
use arch::address::SystemPhysical;
use arch::identity::ApicId;
use arch::svm::avic::{PHYSICAL_ENTRY_SIZE, PhysicalEntry};
use arch::svm::vmcb::control;
use board::Machine;

/// A vCPU that is said to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// To whom: a function, or the guest's other processors.
    pub to: Way,
    /// The APIC to which they send what interrupts it.
    pub on: ApicId,
}

/// The entry of AVIC's physical table that names a vCPU's backing page, where it says that it runs.
pub(super) fn by_table(machine: &Machine, block: SystemPhysical) -> Option<Said> {
    let pointer = silicon::vmcb(machine, block)?.get(control::AVIC_PHYSICAL_TABLE);
    let page = silicon::apic_page(machine, block)?;
    (0..=u64::from(pointer.max_index())).find_map(|index| {
        let at = pointer.table().offset(index * PHYSICAL_ENTRY_SIZE);
        let entry = PhysicalEntry::from_bits(machine.memory.read_u64(at).unwrap_or(0));
        let is_said = entry.is_valid() && entry.is_running() && entry.backing_page() == page;
        is_said.then(|| Said { to: Way::Physical, on: entry.host() })
    })
}

/// A remapping entry that says so, or the descriptor of one to whom a function posts, or other
/// processors of its guest.
pub(super) fn by_postings(
    machine: &Machine,
    block: SystemPhysical,
    postings: &[Posting],
) -> Option<Said> {
    let page = silicon::apic_page(machine, block);
    let descriptor = silicon::descriptor(machine, block);
    let announced = silicon::announced_as_running(machine, block);
    let by_function = postings.iter().find_map(|posting| match posting {
        Posting::Entry(entry) => {
            (entry.is_running() && Some(entry.backing_page()) == page).then(|| entry.destination())
        }
        Posting::Descriptor(at) => announced.filter(|_| Some(*at) == descriptor),
    });
    if let Some(on) = by_function {
        return Some(Said { to: Way::Device, on });
    }
    let on = announced.filter(|_| silicon::virtualizes_ipis(machine, block))?;
    Some(Said { to: Way::Physical, on })
}
