//! When the instructions of the unit are allowed.

use crate::{Cpu, Stop};
use arch::control::Cr0;
use arch::exception;

/// #MF for an exception that an earlier instruction left pending.
/// DEVIATION(APM2 "#MF—x87 Floating-Point Exception-Pending"): with CR0.NE clear the external
/// reporting through FERR is not modelled; execution goes on as if IGNNE were asserted.
#[inline(always)]
pub(crate) fn check_pending(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.registers.x87.has_pending() && cpu.control.cr0().contains(Cr0::NUMERIC_ERROR) {
        return Err(Stop::exception(exception::X87));
    }
    Ok(())
}

/// The start of every waiting x87 instruction.
#[inline(always)]
pub(crate) fn enter_x87(cpu: &Cpu) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    check_pending(cpu)
}
