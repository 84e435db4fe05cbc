//! A core's clock that software changes, on models that announce it: the part that all have. The
//! clock changes at the end of the instruction that asks for it, and each logical processor has its
//! own. [SDM3 "Power and Thermal Management"] [APM2 "P-State Control"]
//!
//! DEVIATION(APM2 "P-State Control"): threads of a core do not share its clock.

use crate::{Attention, Cpu};

/// The core is to run at this clock: the board, whose turns and prices depend on it, hears of it at
/// the boundary. Nothing is faster than what the machine was told to run at.
pub(super) fn follow(cpu: &mut Cpu, wanted: u64) {
    let hertz = wanted.min(cpu.model.core_hertz());
    if hertz != cpu.clock.core_hertz() {
        cpu.clock.set_core_hertz(hertz);
        cpu.pending.raise(Attention::YIELD);
    }
}
