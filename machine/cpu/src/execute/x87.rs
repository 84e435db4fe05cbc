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

use crate::float::extended::Extended;
use crate::float::{Context, Exceptions};
use crate::operation::decode::{Binding, CodeSize};
use crate::operation::{FLAT, FLAT_STACK, Op};
use crate::state::Control;
use crate::width::BLOCK_IP;
use crate::{Cpu, Stop};
use arch::control::Cr0;
use arch::exception;
use arch::segment::SegmentRegister;
use iced_x86::Instruction;
use serde::{Deserialize, Serialize};

/// The stack fault flag.
pub(super) const STACK_FAULT: u16 = 1 << 6;
/// ES and B: an unmasked exception is pending.
const PENDING: u16 = 1 << 7 | 1 << 15;
const EXCEPTION_FLAGS: u16 = 0x3F;
pub(super) const C0: u16 = 1 << 8;
pub(super) const C1: u16 = 1 << 9;
pub(super) const C2: u16 = 1 << 10;
pub(super) const C3: u16 = 1 << 14;
const TOP_SHIFT: u16 = 11;

/// The x87 state, also that of MMX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct X87 {
    /// Physical registers, not relative to the top of the stack.
    pub registers: [Extended; 8],
    /// The control word: masks, precision and rounding.
    pub control: u16,
    /// TOP in bits 13:11.
    pub status: u16,
    /// A bit per physical register that is not empty.
    pub valid: u8,
    /// The last instruction's opcode: the low three bits of its first byte, then its second.
    pub opcode: u16,
    /// FIP: the last instruction's offset, 64 bits with REX.W forms.
    pub instruction_pointer: u64,
    /// FCS: the selector of the code segment that it was in.
    pub instruction_segment: u16,
    /// FDP: the offset of the last memory operand.
    pub data_pointer: u64,
    /// FDS: the selector of that operand's segment.
    pub data_segment: u16,
}

impl Default for X87 {
    fn default() -> Self {
        Self {
            registers: [Extended::default(); 8],
            control: 0x37F,
            status: 0,
            valid: 0,
            opcode: 0,
            instruction_pointer: 0,
            instruction_segment: 0,
            data_pointer: 0,
            data_segment: 0,
        }
    }
}

impl X87 {
    /// The physical register that is ST(0).
    pub fn top(&self) -> u8 {
        (self.status >> TOP_SHIFT & 7) as u8
    }

    pub(crate) fn set_top(&mut self, top: u8) {
        self.status = self.status & !(7 << TOP_SHIFT) | u16::from(top & 7) << TOP_SHIFT;
    }

    /// The physical register of ST(i).
    fn physical(&self, index: u8) -> usize {
        usize::from(self.top().wrapping_add(index) & 7)
    }

    pub(super) fn is_empty(&self, index: u8) -> bool {
        self.valid >> self.physical(index) & 1 == 0
    }

    /// ST(i), whether it is marked empty or not.
    pub fn st(&self, index: u8) -> Extended {
        self.registers[self.physical(index)]
    }

    pub(super) fn set_st(&mut self, index: u8, value: Extended) {
        let physical = self.physical(index);
        self.registers[physical] = value;
        self.valid |= 1 << physical;
    }

    pub(super) fn release(&mut self, index: u8) {
        self.valid &= !(1 << self.physical(index));
    }

    pub(super) fn pop(&mut self) {
        self.release(0);
        self.set_top(self.top().wrapping_add(1));
    }

    pub(super) fn push(&mut self, value: Extended) {
        self.set_top(self.top().wrapping_sub(1));
        self.set_st(0, value);
    }

    /// The context of an operation under the present control word.
    pub(super) fn context(&self) -> Context {
        Context::from_control_word(self.control)
    }

    /// The exceptions that the control word leaves unmasked.
    fn unmasked(&self) -> Exceptions {
        Exceptions::from_bits_truncate((self.status & !self.control & EXCEPTION_FLAGS) as u8)
    }

    /// Sets ES and B to what flags and masks say.
    pub(super) fn refresh_pending(&mut self) {
        let is_pending = self.unmasked() != Exceptions::empty();
        self.status = self.status & !PENDING | if is_pending { PENDING } else { 0 };
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.status & PENDING != 0
    }

    pub(super) fn set_codes(&mut self, mask: u16, codes: u16) {
        self.status = self.status & !mask | codes;
    }

    /// Records what an operation raised, and C1. True if its result must not be stored because of
    /// one of `forbidding`.
    pub(super) fn raise(&mut self, context: &Context, forbidding: Exceptions) -> bool {
        self.set_codes(C1, if context.is_rounded_up { C1 } else { 0 });
        self.status |= u16::from(context.raised.bits());
        self.refresh_pending();
        context.unmasked().intersects(forbidding)
    }

    /// A stack overflow or underflow. True if it is unmasked: then nothing else happens.
    pub(super) fn stack_fault(&mut self, is_overflow: bool) -> bool {
        self.set_codes(C1, if is_overflow { C1 } else { 0 });
        self.status |= STACK_FAULT | u16::from(Exceptions::INVALID.bits());
        self.refresh_pending();
        self.control & u16::from(Exceptions::INVALID.bits()) == 0
    }

    /// The MMX register of a number.
    pub(super) fn mmx(&self, register: u8) -> u64 {
        self.registers[usize::from(register & 7)].significand
    }

    /// What every MMX instruction does to the stack.
    pub(super) fn enter_mmx(&mut self) {
        self.set_top(0);
        self.valid = 0xFF;
    }

    pub(super) fn set_mmx(&mut self, register: u8, value: u64) {
        self.enter_mmx();
        let held = &mut self.registers[usize::from(register & 7)];
        *held = Extended { significand: value, sign_exponent: 0xFFFF };
    }
}

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

/// The opcode that the environment records, from the instruction's bytes: what follows the
/// prefixes, if it is an x87 instruction.
pub(crate) fn opcode(bytes: &[u8], is_64_bit: bool) -> Option<u64> {
    let is_prefix = |byte: &u8| match byte {
        0x26 | 0x2E | 0x36 | 0x3E | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3 => true,
        0x40..=0x4F => is_64_bit,
        _ => false,
    };
    let start = bytes.iter().position(|byte| !is_prefix(byte))?;
    match bytes.get(start..start + 2)? {
        [first @ 0xD8..=0xDF, second] => Some(u64::from(first & 7) << 8 | u64::from(*second)),
        _ => None,
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
