//! The registers of the x87 unit and their stack, which MMX shares.
//! [SDM1 "Programming with the x87 FPU"]

use crate::float::extended::Extended;
use crate::float::{Context, Exceptions};
use serde::{Deserialize, Serialize};

/// The stack fault flag.
pub(crate) const STACK_FAULT: u16 = 1 << 6;
/// ES and B: an unmasked exception is pending.
const PENDING: u16 = 1 << 7 | 1 << 15;
const EXCEPTION_FLAGS: u16 = 0x3F;
pub(crate) const C0: u16 = 1 << 8;
pub(crate) const C1: u16 = 1 << 9;
pub(crate) const C2: u16 = 1 << 10;
pub(crate) const C3: u16 = 1 << 14;
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

    pub(crate) fn is_empty(&self, index: u8) -> bool {
        self.valid >> self.physical(index) & 1 == 0
    }

    /// ST(i), whether it is marked empty or not.
    pub fn st(&self, index: u8) -> Extended {
        self.registers[self.physical(index)]
    }

    pub(crate) fn set_st(&mut self, index: u8, value: Extended) {
        let physical = self.physical(index);
        self.registers[physical] = value;
        self.valid |= 1 << physical;
    }

    pub(crate) fn release(&mut self, index: u8) {
        self.valid &= !(1 << self.physical(index));
    }

    pub(crate) fn pop(&mut self) {
        self.release(0);
        self.set_top(self.top().wrapping_add(1));
    }

    pub(crate) fn push(&mut self, value: Extended) {
        self.set_top(self.top().wrapping_sub(1));
        self.set_st(0, value);
    }

    /// The context of an operation under the present control word.
    pub(crate) fn context(&self) -> Context {
        Context::from_control_word(self.control)
    }

    /// The exceptions that the control word leaves unmasked.
    fn unmasked(&self) -> Exceptions {
        Exceptions::from_bits_truncate((self.status & !self.control & EXCEPTION_FLAGS) as u8)
    }

    /// Sets ES and B to what flags and masks say.
    pub(crate) fn refresh_pending(&mut self) {
        let is_pending = self.unmasked() != Exceptions::empty();
        self.status = self.status & !PENDING | if is_pending { PENDING } else { 0 };
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.status & PENDING != 0
    }

    pub(crate) fn set_codes(&mut self, mask: u16, codes: u16) {
        self.status = self.status & !mask | codes;
    }

    /// Records what an operation raised, and C1. True if its result must not be stored because of
    /// one of `forbidding`.
    pub(crate) fn raise(&mut self, context: &Context, forbidding: Exceptions) -> bool {
        self.set_codes(C1, if context.is_rounded_up { C1 } else { 0 });
        self.status |= u16::from(context.raised.bits());
        self.refresh_pending();
        context.unmasked().intersects(forbidding)
    }

    /// A stack overflow or underflow. True if it is unmasked: then nothing else happens.
    pub(crate) fn stack_fault(&mut self, is_overflow: bool) -> bool {
        self.set_codes(C1, if is_overflow { C1 } else { 0 });
        self.status |= STACK_FAULT | u16::from(Exceptions::INVALID.bits());
        self.refresh_pending();
        self.control & u16::from(Exceptions::INVALID.bits()) == 0
    }

    /// The MMX register of a number.
    pub(crate) fn mmx(&self, register: u8) -> u64 {
        self.registers[usize::from(register & 7)].significand
    }

    /// What every MMX instruction does to the stack.
    pub(crate) fn enter_mmx(&mut self) {
        self.set_top(0);
        self.valid = 0xFF;
    }

    pub(crate) fn set_mmx(&mut self, register: u8, value: u64) {
        self.enter_mmx();
        let held = &mut self.registers[usize::from(register & 7)];
        *held = Extended { significand: value, sign_exponent: 0xFFFF };
    }
}
