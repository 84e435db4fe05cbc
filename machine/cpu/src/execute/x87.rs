//! The x87 registers.

use serde::{Deserialize, Serialize};

/// An 80-bit register: significand, then sign and exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extended {
    pub significand: u64,
    pub sign_exponent: u16,
}

/// The x87 state, also that of MMX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct X87 {
    /// Physical registers, not relative to the top of the stack.
    pub registers: [Extended; 8],
    pub control: u16,
    /// TOP in bits 13:11.
    pub status: u16,
    /// A bit per physical register that is not empty.
    pub valid: u8,
    pub opcode: u16,
    pub instruction_pointer: u64,
    pub instruction_segment: u16,
    pub data_pointer: u64,
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
