//! A region of a given function: what the guest's processors reach without leaving the guest.

use crate::error::BenchError;
use crate::vfio::{Function, Region, Window};
use arch::address::PAGE_SIZE;
use device::map;
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use std::ops::Range;

/// A region with the parts of it that this process has mapped for KVM.
pub(super) struct GivenRegion {
    pub(super) region: Region,
    /// Each with its memory slot.
    windows: Vec<(Window, u32)>,
    /// Where the guest has it.
    at: Option<u64>,
}

impl GivenRegion {
    /// Maps the pages without what is `trapped`. What cannot be mapped goes through this process.
    pub(super) fn new(
        function: &Function,
        region: Region,
        trapped: &[Range<u64>],
        slot: &mut u32,
    ) -> Self {
        let mut windows = Vec::new();
        for pages in untouched(region.bytes, trapped) {
            let bytes = pages.end - pages.start;
            if let Some(window) = function.window(&region, pages.start, bytes) {
                windows.push((window, *slot));
                *slot += 1;
            }
        }
        Self { region, windows, at: None }
    }

    /// Puts the region where the guest's base address register has it. While a guest finds out its
    /// size, that is nowhere: only what lies in the board's window for PCI is mapped.
    pub(super) fn settle(&mut self, address: Option<u64>, vm: &VmFd) -> Result<(), BenchError> {
        let is_inside = |at: &u64| {
            let end = at.checked_add(self.region.bytes);
            *at >= map::PCI_MEMORY_START.0 && end.is_some_and(|end| end <= map::PCI_MEMORY_END.0)
        };
        let address = address.filter(is_inside).filter(|at| at % PAGE_SIZE == 0);
        if address == self.at {
            return Ok(());
        }
        if self.at.is_some() {
            self.each_slot(vm, |window| (window.offset, 0))?;
        }
        if let Some(at) = address {
            self.each_slot(vm, |window| (at + window.offset, window.bytes()))?;
        }
        self.at = address;
        Ok(())
    }

    /// Gives each slot an address of the guest's and a length; a slot of no length ceases to be.
    fn each_slot(
        &self,
        vm: &VmFd,
        place: impl Fn(&Window) -> (u64, u64),
    ) -> Result<(), BenchError> {
        self.windows.iter().try_for_each(|(window, slot)| {
            let (guest_phys_addr, memory_size) = place(window);
            let region = kvm_userspace_memory_region {
                slot: *slot,
                flags: 0,
                guest_phys_addr,
                memory_size,
                userspace_addr: window.address(),
            };
            // SAFETY: the window is mapped for as long as the devices live that have this value,
            // and processors only run while they do. Nothing in this process reaches its bytes.
            unsafe { vm.set_user_memory_region(region) }
                .map_err(|error| BenchError::kvm("KVM_SET_USER_MEMORY_REGION", error))
        })
    }
}

/// The pages of a region that hold nothing of what is trapped; of a region that is smaller than a
/// page, none.
fn untouched(bytes: u64, trapped: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut trapped: Vec<Range<u64>> = trapped
        .iter()
        .map(|part| part.start & !(PAGE_SIZE - 1)..part.end.next_multiple_of(PAGE_SIZE))
        .collect();
    trapped.sort_by_key(|part| part.start);
    let end = bytes & !(PAGE_SIZE - 1);
    let mut from = 0;
    let mut pages = Vec::new();
    for part in trapped {
        pages.push(from..part.start.min(end));
        from = from.max(part.end);
    }
    pages.push(from..end);
    pages.retain(|pages| pages.start < pages.end);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_something_trapped_are_left_out_and_all_others_are_not() {
        let parts = |pairs: &[(u64, u64)]| -> Vec<Range<u64>> {
            pairs.iter().map(|&(start, end)| start..end).collect()
        };
        for (bytes, trapped, pages) in [
            (0x4000, &[][..], &[(0, 0x4000)][..]),
            (0x4000, &[(0, 0x30)], &[(0x1000, 0x4000)]),
            (0x4000, &[(0, 0x30), (0x2000, 0x2008)], &[(0x1000, 0x2000), (0x3000, 0x4000)]),
            (0x4000, &[(0x3FF0, 0x4010), (0x800, 0x808)], &[(0x1000, 0x3000)]),
            (0x4000, &[(0x1FF0, 0x2010), (0x1000, 0x1010)], &[(0, 0x1000), (0x3000, 0x4000)]),
            (0x1000, &[(0, 0x30)], &[]),
            (0x80, &[], &[]),
            (0x2000, &[(0x5000, 0x5010)], &[(0, 0x2000)]),
        ] {
            assert_eq!(untouched(bytes, &parts(trapped)), parts(pages), "{bytes:#x} {trapped:x?}");
        }
    }
}
