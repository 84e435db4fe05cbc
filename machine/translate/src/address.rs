//! The linear addresses of memory operands, before they are emitted.

use crate::encode::{Memory, Size};
use crate::frame::{self, Found};
use crate::register::{Guest, general};
use iced_x86::{CodeSize, Instruction, Register as Name};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Or reads and then writes.
    Write,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    None,
    Register(Guest),
    /// The start of the block.
    Block,
}

/// The linear address of a memory operand, if it has as many bits as its code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub base: Base,
    pub index: Option<Guest>,
    pub scale: u8,
    pub displacement: i32,
    /// The base of FS or GS, which is added.
    pub segment: Option<Memory>,
}

impl Address {
    /// On the stack, from RSP.
    pub fn on_stack(displacement: i32) -> Self {
        Self::from_register(Guest::RSP, displacement)
    }

    pub fn from_register(base: Guest, displacement: i32) -> Self {
        Self { base: Base::Register(base), index: None, scale: 0, displacement, segment: None }
    }

    /// Its place among the pages that were found last. Accesses through the same registers are
    /// mostly in the same page; without a register, those that are near to each other.
    pub fn place(&self) -> usize {
        let (base, near) = match self.base {
            Base::Register(guest) => (usize::from(guest.0), 0),
            Base::None | Base::Block => (0, (self.displacement >> 12) as usize),
        };
        let index = self.index.map_or(0, |guest| 5 * usize::from(guest.0) + 1);
        let segment = if self.segment.is_some() { 7 } else { 0 };
        (base + index + segment).wrapping_add(near) % Found::PLACES
    }

    /// Of an instruction that was decoded as if its block began at address 0.
    pub fn of(i: &Instruction) -> Option<Self> {
        let (mut displacement, size) = match i.code_size() {
            CodeSize::Code32 => (i64::from(i.memory_displacement32() as i32), Size::Double),
            _ => (i.memory_displacement64() as i64, Size::Quad),
        };
        let base = match i.memory_base() {
            Name::None => Base::None,
            Name::RIP => {
                displacement = i.ip_rel_memory_address() as i64;
                Base::Block
            }
            register => Base::Register(general(register, size)?),
        };
        let index = match i.memory_index() {
            Name::None => None,
            register => Some(general(register, size)?),
        };
        let segment = match i.memory_segment() {
            Name::FS => Some(frame::FS_BASE),
            Name::GS => Some(frame::GS_BASE),
            // Nothing is known of these.
            Name::CS | Name::ES if size == Size::Double => return None,
            _ => None,
        };
        let scale = i.memory_index_scale().trailing_zeros() as u8;
        let displacement = i32::try_from(displacement).ok()?;
        Some(Self { base, index, scale, displacement, segment })
    }
}
