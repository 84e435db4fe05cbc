//! Control-transfer recording: where the last branch came from and went to, and the same for the
//! last branch before an exception or interrupt. [APM2 "Control-Transfer Recording"]
//!
//! While it is on, instructions run one at a time; while it is off, it costs nothing. Exceptions
//! and interrupts are recorded as branches are, after what stood there has become the record of the
//! last branch before them. A #DB is not recorded and turns recording off. World switches are no
//! control transfers of either side.

use crate::state::Control;
use crate::{Attention, Cpu};
use arch::exception;

/// DebugCtl: LBR, branches are recorded.
const RECORDS: u64 = 1 << 0;
/// DebugCtl: BTF, TF steps from branch to branch.
const STEPS_BRANCHES: u64 = 1 << 1;
/// DebugCtl: the bits that are kept; the rest select pins.
const KNOWN: u64 = 0x3F;

pub(crate) fn write_debug_control(cpu: &mut Cpu, value: u64) {
    cpu.control.msr.debug_ctl = value & KNOWN;
    cpu.pending.set(Attention::BRANCH_RECORDS, value & RECORDS != 0);
}

/// A branch at `from` has been taken.
pub(crate) fn record_branch(cpu: &mut Cpu, from: u64) {
    if cpu.control.msr.debug_ctl & RECORDS != 0 {
        let records = &mut cpu.control.msr.branch_records;
        (records.branch_from, records.branch_to) = (from, cpu.registers.ip);
    }
}

/// An exception or interrupt that came up at `from` has reached its handler.
pub(crate) fn record_event(cpu: &mut Cpu, vector: u8, from: u64) {
    if cpu.control.msr.debug_ctl & (RECORDS | STEPS_BRANCHES) == 0 {
        return;
    }
    if vector == exception::DEBUG {
        return write_debug_control(cpu, cpu.control.msr.debug_ctl & !(RECORDS | STEPS_BRANCHES));
    }
    if cpu.control.msr.debug_ctl & RECORDS != 0 {
        let records = &mut cpu.control.msr.branch_records;
        records.exception_from = records.branch_from;
        records.exception_to = records.branch_to;
        record_branch(cpu, from);
    }
}

impl Control {
    /// Whether single steps go from branch to branch.
    pub(crate) fn steps_branches(&self) -> bool {
        self.msr.debug_ctl & STEPS_BRANCHES != 0
    }
}
