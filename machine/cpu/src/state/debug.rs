//! The debug registers. [APM2 "Software-Debug Resources"]

use arch::control::debug;
use serde::{Deserialize, Serialize};

/// What a breakpoint register waits for: R/W field of DR7.
pub(crate) const EXECUTE: u64 = 0;
pub(crate) const WRITE: u64 = 1;
pub(crate) const READ_WRITE: u64 = 3;

/// DR7 bits that are not reserved, besides bit 10, which reads one.
const DR7_KNOWN: u64 = 0xFFFF_23FF;
/// DR6 bits that software may change.
const DR6_WRITABLE: u64 = 0xE00F;
/// DR7.L0–L3 and LE.
const DR7_LOCAL: u64 = 0x155;

/// Breakpoints, and traps that wait for the end of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debug {
    /// Linear addresses of the breakpoints.
    dr: [u64; 4],
    /// What the last debug exception was for.
    dr6: u64,
    /// Which breakpoints are on, their kinds and lengths.
    dr7: u64,
    /// What DR6 is going to say at the instruction boundary.
    pending: u64,
    /// The causes that DR6 was given last, and what it held before: a VM exit in the place of the
    /// exception takes them back.
    causes: u64,
    /// What DR6 held before `causes` went in.
    before: u64,
}

impl Default for Debug {
    fn default() -> Self {
        Self {
            dr: [0; 4],
            dr6: debug::DR6_RESET,
            dr7: debug::DR7_RESET,
            pending: 0,
            causes: 0,
            before: debug::DR6_RESET,
        }
    }
}

impl Debug {
    /// What MOV reads of DR0–DR3, DR6 or DR7.
    pub(crate) fn read(&self, number: u8) -> u64 {
        match number {
            0..=3 => self.dr[number as usize],
            6 => self.dr6,
            _ => self.dr7,
        }
    }

    /// What MOV to DR0–DR3, DR6 or DR7 leaves there: reserved bits stay.
    pub(crate) fn write(&mut self, number: u8, value: u64) {
        match number {
            0..=3 => self.dr[number as usize] = value,
            6 => self.dr6 = debug::DR6_RESET | value & DR6_WRITABLE,
            _ => self.dr7 = value & DR7_KNOWN | debug::DR7_RESET,
        }
    }

    /// The linear address of breakpoint `i`.
    #[inline]
    pub fn address(&self, i: usize) -> u64 {
        self.dr[i]
    }

    /// Sets the linear address of breakpoint `i`.
    pub fn set_address(&mut self, i: usize, linear: u64) {
        self.dr[i] = linear;
    }

    /// What the last debug exception was for.
    pub fn dr6(&self) -> u64 {
        self.dr6
    }

    /// Loads DR6 with all its bits, as VMRUN does.
    pub fn load_dr6(&mut self, value: u64) {
        self.dr6 = value;
    }

    /// Which breakpoints are on, their kinds and lengths.
    #[inline]
    pub fn dr7(&self) -> u64 {
        self.dr7
    }

    /// Loads DR7 with all its bits, as the switch to a guest does.
    pub fn load_dr7(&mut self, value: u64) {
        self.dr7 = value;
    }

    /// Turns all breakpoints off, as the switch to a host does.
    pub(crate) fn reset_dr7(&mut self) {
        self.dr7 = debug::DR7_RESET;
    }

    /// Turns off what is on for one task alone.
    pub(crate) fn leave_task(&mut self) {
        self.dr7 &= !DR7_LOCAL;
    }

    /// A breakpoint or the exact match of data is on, for a task or for all: bits 7:0 of DR7.
    #[inline]
    pub(crate) fn has_breakpoints(&self) -> bool {
        self.dr7 & 0xFF != 0
    }

    /// What DR6 is going to say at the instruction boundary.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// DR6 is going to say this, too.
    #[inline]
    pub(crate) fn pend(&mut self, causes: u64) {
        self.pending |= causes;
    }

    /// DR6 is going to say this alone.
    pub(crate) fn set_pending(&mut self, causes: u64) {
        self.pending = causes;
    }

    /// What DR6 was going to say, and it says it no more.
    #[inline]
    pub(crate) fn take_pending(&mut self) -> u64 {
        std::mem::take(&mut self.pending)
    }

    /// The causes that DR6 was given last.
    pub(crate) fn causes(&self) -> u64 {
        self.causes
    }

    /// The exception is not delivered: DR6, and DR7.GD if it was the cause, are as before.
    pub(crate) fn take_back_causes(&mut self) {
        self.dr6 = self.before;
        if self.causes & debug::DR6_GENERAL_DETECT != 0 {
            self.dr7 |= debug::DR7_GENERAL_DETECT;
        }
    }

    /// DR7.GD guards the debug registers from this access: it is noted as the cause, and GD goes.
    pub(crate) fn detects_access(&mut self) -> bool {
        let is_guarded = self.dr7 & debug::DR7_GENERAL_DETECT != 0;
        if is_guarded {
            self.note_causes(debug::DR6_GENERAL_DETECT);
            self.dr7 &= !debug::DR7_GENERAL_DETECT;
        }
        is_guarded
    }

    /// (enabled, kind, length in bytes) of breakpoint `i`.
    pub(crate) fn breakpoint(&self, i: usize) -> (bool, u64, u64) {
        let enabled = self.dr7 >> (2 * i) & 3 != 0;
        let control = self.dr7 >> (16 + 4 * i) & 15;
        let length = match control >> 2 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        (enabled, control & 3, length)
    }

    /// A breakpoint on data is on.
    pub(crate) fn has_data_breakpoints(&self) -> bool {
        self.has_breakpoints()
            && (0..4).any(|i| {
                let (enabled, kind, _) = self.breakpoint(i);
                enabled && (kind == WRITE || kind == READ_WRITE)
            })
    }

    /// A breakpoint on an instruction is on.
    pub(crate) fn has_code_breakpoints(&self) -> bool {
        self.has_breakpoints()
            && (0..4).any(|i| {
                let (enabled, kind, _) = self.breakpoint(i);
                enabled && kind == EXECUTE
            })
    }

    /// A debug exception is going to be delivered for `causes`: those of breakpoints replace what
    /// DR6 held, others add to it.
    pub(crate) fn note_causes(&mut self, causes: u64) {
        self.before = self.dr6;
        self.causes = causes;
        let kept = if causes & debug::DR6_GENERAL_DETECT != 0 { self.dr6 } else { self.dr6 & !15 };
        self.dr6 = kept | causes;
    }
}
