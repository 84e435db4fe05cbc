//! What is translated at a time.

use iced_x86::{Decoder, Instruction};

/// An instruction of a block, as the interpreter has laid it out.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Bytes.
    pub length: u8,
    /// Picoseconds from the start of the block to its end.
    pub end_time: u32,
    /// The number under which its handler is called.
    pub call: u32,
    /// Its operand in memory has been outside RAM: where the TLB does not know it, code is left so
    /// that the instruction is executed by itself ([`Exit::Alone`](crate::Exit::Alone)).
    pub asks: bool,
}

/// What the bytes of a block mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 64-bit code.
    Long,
    /// 32-bit code of protected mode whose CS, DS and SS begin at 0 and end at 4 GiB, DS and SS
    /// writable, SS with 32 bits of stack pointer: nothing but paging can refuse an access. Where
    /// that is no longer so, code must have been left.
    Flat,
}

impl Mode {
    /// The number by which decoders know it.
    pub fn bits(self) -> u32 {
        match self {
            Self::Long => 64,
            Self::Flat => 32,
        }
    }
}

/// A block of code within one page, or of one instruction that continues in the next.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What they mean.
    pub mode: Mode,
    /// All its instructions, one behind the other.
    pub bytes: &'a [u8],
    /// One for each instruction.
    pub steps: &'a [Step],
    /// Offset of the first byte in its page.
    pub offset: u16,
    /// The index into RAM of the page in which the one instruction continues.
    pub second_page: Option<u64>,
    /// What follows it means the same as before.
    pub is_plain: bool,
    /// The number of the first instruction's counter, if runs are counted: where a run ends, the
    /// counter of its last instruction goes up.
    pub first_counter: Option<u32>,
    /// Of iced's decoder: whose manual says what an encoding means where the vendors differ.
    pub options: u32,
}

impl Block<'_> {
    /// The instructions, as if the block began at address 0.
    pub(crate) fn decode(&self) -> Option<Vec<Instruction>> {
        let mut decoder = Decoder::with_ip(self.mode.bits(), self.bytes, 0, self.options);
        let mut instructions = Vec::with_capacity(self.steps.len());
        for step in self.steps {
            if !decoder.can_decode() {
                return None;
            }
            let instruction = decoder.decode();
            if instruction.len() != usize::from(step.length) {
                return None;
            }
            instructions.push(instruction);
        }
        (!instructions.is_empty()).then_some(instructions)
    }
}
