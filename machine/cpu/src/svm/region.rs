//! A VMCB in memory.

use crate::Bus;
use arch::address::SystemPhysical;
use arch::svm::vmcb::{SIZE, Vmcb};

/// Changes the VMCB at `at` in place, if it is in RAM.
pub(super) fn write_vmcb(
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    change: impl FnOnce(&mut Vmcb<&mut [u8]>),
) {
    let Some(offset) = bus.memory.offset(at) else { return };
    let Some(bytes) = bus.memory.ram_mut(offset, SIZE) else { return };
    if let Some(mut vmcb) = Vmcb::new(bytes) {
        change(&mut vmcb);
    }
    bus.memory.note_write(offset, SIZE);
}
