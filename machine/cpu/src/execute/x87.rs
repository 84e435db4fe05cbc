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
pub(super) mod unit;

use crate::Stop;
use crate::execute::binding::Binding;
use crate::operation::decode::CodeSize;
use crate::operation::{FLAT, FLAT_STACK, Op};
use crate::state::Control;
use crate::state::Registers;
use crate::width::BLOCK_IP;
use arch::control::Cr0;
use arch::segment::SegmentRegister;
use iced_x86::Instruction;

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
        if self.cr0().intersects(Cr0::EMULATION.union(Cr0::TASK_SWITCHED)) {
            return Err(Stop::DEVICE_NOT_AVAILABLE);
        }
        Ok(())
    }
}

impl Registers {
    /// Records the instruction (and its operand's address) for the environment.
    #[inline(always)]
    pub(super) fn note_x87(&mut self, op: &Op) {
        let next = self.gpr[BLOCK_IP as usize].wrapping_add(u64::from(op.end));
        self.x87.instruction_pointer = next.wrapping_sub(u64::from(op.length));
        self.x87.instruction_segment = self.segment(SegmentRegister::Cs).selector;
        // DEVIATION(SDM1 "Fopcode Compatibility Mode"): the opcode is kept of every instruction, as
        // AMD's parts do; Intel's keep that of one with an unmasked exception.
        self.x87.opcode = op.immediate as u16 & 0x7FF;
        if op.has(Op::MEMORY) {
            self.x87.data_pointer = self.effective_address(op);
            let segment = match op.segment {
                FLAT => Some(SegmentRegister::Ds),
                FLAT_STACK => Some(SegmentRegister::Ss),
                segment => SegmentRegister::from_encoding(segment),
            };
            self.x87.data_segment = segment.map_or(0, |register| self.segment(register).selector);
        }
    }
}
