//! A VMCB in memory.

use crate::Bus;
use arch::address::SystemPhysical;
use arch::svm::vmcb::{SIZE, Vmcb};
use bus::Author;

/// Changes the VMCB at `at` in place, if it is in RAM.
pub(super) fn write_vmcb(
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    change: impl FnOnce(&mut Vmcb<&mut [u8]>),
) {
    let Some(offset) = bus.memory.offset(at) else { return };
    bus.memory.change_by(Author::ControlBlock, offset, SIZE, |bytes| {
        if let Some(mut vmcb) = Vmcb::new(bytes) {
            change(&mut vmcb);
        }
    });
}
