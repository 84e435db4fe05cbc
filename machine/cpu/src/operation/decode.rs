//! From bytes to operations, once. iced-x86 finds the instruction; here it is bound to a handler
//! that needs no further decision, and its operands are laid out.

mod operands;

use super::{Handler, Kind, Op};
use crate::execute::{self, fused::Role};
use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, Instruction};

pub(crate) use operands::{is_absolute, is_memory, is_register, width};

/// The longest instruction.
pub(crate) const MAX_LENGTH: usize = 15;

/// The default operand and address size of the code segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CodeSize {
    /// A 16-bit code segment, real mode among them.
    Bits16 = 0,
    /// A 32-bit code segment, compatibility mode among them.
    Bits32 = 1,
    /// 64-bit mode.
    Bits64 = 2,
}

impl CodeSize {
    /// The default address size.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits16 => 16,
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

/// How an instruction may stand in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Anywhere.
    Within,
    /// It is the last of its block: what follows may mean something else.
    Ends,
    /// It is the last of its block, and what follows means the same as before: a near branch.
    Last,
    /// A conditional near branch: if it is not taken, the block goes on.
    Condition,
    /// It is a block of its own: it needs the exact time, or changes what other code means.
    Alone,
}

/// What an instruction costs, by class; the numbers are the board's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cost {
    /// Registers alone, in the integer pipeline.
    Simple,
    /// A memory operand that is read.
    Load,
    /// A memory operand that is written.
    Store,
    /// Branches, calls and returns, taken or not.
    Branch,
    /// MUL and IMUL.
    Multiply,
    /// DIV and IDIV.
    Divide,
    /// LOCK, and XCHG with memory.
    Locked,
    /// SSE, MMX and the quick ones of x87.
    Vector,
    /// Divisions, square roots and transcendental functions.
    FloatSlow,
    /// String instructions; elements cost beside it.
    StringSetup,
    /// MFENCE and SFENCE.
    Fence,
    /// LFENCE.
    LoadFence,
    /// PAUSE.
    Pause,
    /// Saving and loading of extended state, undefined instructions, and what stands alone without
    /// a class of its own.
    System,
    /// What stands alone and waits for all before it: CPUID, MSRs, control registers.
    Serializing,
    /// RDTSC and RDTSCP.
    TimeStamp,
    /// IN and OUT: a round trip to a device on a slow bus.
    Port,
}

impl Cost {
    /// Classes, for tables by class.
    pub const COUNT: usize = 17;
}

/// A handler and the way it stands in a block.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub handler: Handler,
    pub boundary: Boundary,
    pub cost: Cost,
}

impl Binding {
    pub fn within(handler: Handler) -> Option<Self> {
        Some(Self { handler, boundary: Boundary::Within, cost: Cost::Simple })
    }

    pub fn ends(handler: Handler) -> Option<Self> {
        Some(Self { handler, boundary: Boundary::Ends, cost: Cost::Branch })
    }

    pub fn branches(handler: Handler, boundary: Boundary) -> Option<Self> {
        Some(Self { handler, boundary, cost: Cost::Branch })
    }

    pub fn alone(handler: Handler) -> Option<Self> {
        Some(Self { handler, boundary: Boundary::Alone, cost: Cost::System })
    }

    pub fn costing(handler: Handler, cost: Cost) -> Option<Self> {
        Some(Self { handler, boundary: Boundary::Within, cost })
    }
}

pub(crate) struct Decoded {
    pub op: Op,
    pub kind: Kind,
    pub boundary: Boundary,
    pub cost: Cost,
    /// What it can be in a pair that is executed as one operation.
    pub role: Option<Role>,
}

/// Whose manual says what an encoding means where the two differ: operand sizes of near branches
/// with the prefix 66h and of far pointers with REX.W in 64-bit mode, LOCK MOV CR0 as CR8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// AMD's manuals.
    Amd,
    /// Intel's manuals.
    Intel,
}

impl Dialect {
    /// For iced's decoder.
    pub(crate) fn options(self) -> u32 {
        match self {
            Dialect::Amd => DecoderOptions::AMD,
            Dialect::Intel => DecoderOptions::NONE,
        }
    }
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
        return Some(invalid(before, instruction.len(), is_too_long));
    }
    let mut decoded = bind(&instruction, size, before);
    if let Some(opcode) = execute::x87::opcode(window, size == CodeSize::Bits64) {
        decoded.op.immediate = opcode;
    }
    Some(decoded)
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
    decode(&bytes, size, 0, dialect).unwrap_or_else(|| invalid(0, 1, false))
}

/// An undefined instruction, or one longer than 15 bytes (#GP).
fn invalid(before: u16, length: usize, is_too_long: bool) -> Decoded {
    let handler = if is_too_long { execute::too_long } else { execute::undefined };
    let length = length.clamp(1, MAX_LENGTH);
    let mut op = Op::new(handler);
    op.length = length as u8;
    op.end = before + length as u16;
    let kind = Kind::INVALID;
    Decoded { op, kind, boundary: Boundary::Ends, cost: Cost::System, role: None }
}

fn bind(instruction: &Instruction, size: CodeSize, before: u16) -> Decoded {
    let Some(binding) = execute::bind(instruction, size) else {
        return invalid(before, instruction.len(), false);
    };
    let mut op = Op::new(binding.handler);
    op.length = instruction.len() as u8;
    op.end = before + instruction.len() as u16;
    operands::fill(&mut op, instruction, size);
    if let Some(handler) = execute::flat::bind(instruction, &op, size) {
        op.handler = handler;
    }
    let cost = match binding.cost {
        Cost::Simple if op.has(Op::LOCK) => Cost::Locked,
        Cost::Simple if op.has(Op::MEMORY) && is_memory(instruction, 0) => Cost::Store,
        Cost::Simple if op.has(Op::MEMORY) => Cost::Load,
        cost => cost,
    };
    let role = execute::fused::role(instruction, &op, size);
    let kind = Kind::new(instruction.code());
    Decoded { op, kind, boundary: binding.boundary, cost, role }
}
