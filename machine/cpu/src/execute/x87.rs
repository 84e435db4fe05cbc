//! The x87 unit: its registers and stack, when its instructions are allowed, and how exceptions
//! end them. The families are in the files beside this one. [SDM1 "Programming with the x87 FPU"]
//!
//! Exceptions are checked against AMD processors: an unmasked denormal operand does not keep a load
//! from its register, and comparisons set the condition codes whatever they raise.

mod arithmetic;
mod compare;
mod control;
mod environment;
mod load;
mod store;
mod transcendental;

use crate::execute::binding::Binding;
use crate::operation::decode::CodeSize;
use crate::operation::{FLAT, FLAT_STACK, Op};
use crate::state::Control;
use crate::width::BLOCK_IP;
use crate::{Cpu, Stop};
use arch::control::Cr0;
use arch::exception;
use arch::segment::SegmentRegister;
use iced_x86::Instruction;

impl Cpu {
    /// #MF for an exception that an earlier instruction left pending.
    /// DEVIATION(APM2 "#MF—x87 Floating-Point Exception-Pending"): with CR0.NE clear the external
    /// reporting through FERR is not modelled; execution goes on as if IGNNE were asserted.
    #[inline(always)]
    pub(super) fn check_pending(&self) -> Result<(), Stop> {
        if self.registers.x87.has_pending() && self.control.cr0.contains(Cr0::NUMERIC_ERROR) {
            return Err(Stop::exception(exception::X87));
        }
        Ok(())
    }

    /// The start of every waiting x87 instruction.
    #[inline(always)]
    pub(super) fn enter_x87(&self) -> Result<(), Stop> {
        self.control.check_x87()?;
        self.check_pending()
    }

    /// Records the instruction (and its operand's address) for the environment.
    #[inline(always)]
    pub(super) fn note_x87(&mut self, op: &Op) {
        let next = self.registers.gpr[BLOCK_IP as usize].wrapping_add(u64::from(op.end));
        self.registers.x87.instruction_pointer = next.wrapping_sub(u64::from(op.length));
        self.registers.x87.instruction_segment =
            self.registers.segments[SegmentRegister::Cs].selector;
        self.registers.x87.opcode = op.immediate as u16 & 0x7FF;
        if op.has(Op::MEMORY) {
            self.registers.x87.data_pointer = self.registers.effective_address(op);
            let segment = match op.segment {
                FLAT => Some(SegmentRegister::Ds),
                FLAT_STACK => Some(SegmentRegister::Ss),
                segment => SegmentRegister::from_encoding(segment),
            };
            self.registers.x87.data_segment =
                segment.map_or(0, |register| self.registers.segments[register].selector);
        }
    }
}

pub(super) fn bind(i: &Instruction, size: CodeSize) -> Option<Binding> {
    arithmetic::bind(i)
        .or_else(|| load::bind(i))
        .or_else(|| store::bind(i))
        .or_else(|| compare::bind(i))
        .or_else(|| transcendental::bind(i))
        .or_else(|| control::bind(i))
        .or_else(|| environment::bind(i, size))
}

impl Control {
    /// #NM while the unit is emulated or belongs to another task. [APM2 "CR0 Register"]
    #[inline(always)]
    pub(super) fn check_x87(&self) -> Result<(), Stop> {
        if self.cr0.intersects(Cr0::EMULATION.union(Cr0::TASK_SWITCHED)) {
            return Err(Stop::DEVICE_NOT_AVAILABLE);
        }
        Ok(())
    }
}
