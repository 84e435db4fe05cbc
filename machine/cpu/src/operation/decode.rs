//! From bytes to operations, once. iced-x86 finds the instruction; here its operands are laid out.
//! What executes it is found elsewhere, by the instruction.

use super::op::Op;
use super::operands;
use iced_x86::{Code, Decoder, DecoderError, Instruction};

pub use super::code::{CodeSize, Dialect};
pub use super::cost::Cost;
pub(crate) use super::operands::{is_absolute, is_memory, is_register, width};

/// The longest instruction.
pub(crate) const MAX_LENGTH: usize = 15;

/// What bytes are.
pub(crate) enum Decoded {
    /// An instruction, and its operands laid out.
    Instruction(Instruction, Op),
    /// No instruction: #UD, or #GP if it is longer than 15 bytes.
    Invalid { op: Op, is_too_long: bool },
}

/// Decodes the instruction at the front of `bytes`; `None` if it does not end within them.
/// `before` is its offset in its block.
pub(crate) fn decode(
    bytes: &[u8],
    size: CodeSize,
    before: u16,
    dialect: Dialect,
) -> Option<Decoded> {
    let window = &bytes[..bytes.len().min(MAX_LENGTH)];
    let mut decoder = Decoder::new(size.bits(), window, dialect.options());
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    if instruction.code() == Code::INVALID {
        let ran_out = decoder.last_error() == DecoderError::NoMoreBytes;
        if ran_out && window.len() < MAX_LENGTH {
            return None;
        }
        let is_too_long = ran_out || exceeds_length(window, size, dialect);
        let op = placed(before, instruction.len().clamp(1, MAX_LENGTH));
        return Some(Decoded::Invalid { op, is_too_long });
    }
    let mut op = placed(before, instruction.len());
    operands::fill(&mut op, &instruction, size);
    if let Some(opcode) = x87_opcode(window, size == CodeSize::Bits64) {
        op.immediate = opcode;
    }
    Some(Decoded::Instruction(instruction, op))
}

/// Whether an instruction that is invalid in 15 bytes is so because it is longer: without its first
/// prefix it does not end within the rest either.
fn exceeds_length(window: &[u8], size: CodeSize, dialect: Dialect) -> bool {
    if window.len() < MAX_LENGTH {
        return false;
    }
    let mut decoder = Decoder::new(size.bits(), &window[1..], dialect.options());
    decoder.decode_out(&mut Instruction::default());
    decoder.last_error() == DecoderError::NoMoreBytes
}

/// Decodes an instruction that begins in `head`, the rest of a page, and continues in `tail`.
pub(crate) fn decode_across(head: &[u8], tail: &[u8], size: CodeSize, dialect: Dialect) -> Decoded {
    let mut bytes = [0; MAX_LENGTH];
    let from_head = head.len().min(MAX_LENGTH);
    bytes[..from_head].copy_from_slice(&head[..from_head]);
    let from_tail = (MAX_LENGTH - from_head).min(tail.len());
    bytes[from_head..from_head + from_tail].copy_from_slice(&tail[..from_tail]);
    let nothing = || Decoded::Invalid { op: placed(0, 1), is_too_long: false };
    decode(&bytes, size, 0, dialect).unwrap_or_else(nothing)
}

/// An operation of `length` bytes that begins `before` bytes into its block.
fn placed(before: u16, length: usize) -> Op {
    Op { length: length as u8, end: before + length as u16, ..Op::default() }
}

/// The opcode that the environment records, from the instruction's bytes: what follows the
/// prefixes, if it is an x87 instruction.
fn x87_opcode(bytes: &[u8], is_64_bit: bool) -> Option<u64> {
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
