//! Blocks of 64-bit and of flat 32-bit guest code to x86-64 code of the host, by templates: an
//! instruction keeps its operation, guest registers become host registers, and before a memory
//! operand stands a look into the TLB. What is not known here, and every access that the TLB does
//! not know, is done whole by the interpreter's handler, so no instruction is ever half done.
//!
//! All here is pure: nothing is executed, and the code says where it wants to be bound to its
//! surroundings ([`Reference`]).

#![warn(missing_docs)]

mod access;
mod address;
mod block;
mod copies;
mod encode;
mod find;
mod flags;
mod frame;
mod operand;
mod operation;
mod recipe;
mod register;
mod routine;
mod status;
#[cfg(test)]
mod tests;
mod translation;
mod translator;

pub use block::{Block, Mode, Step};
pub use find::Wanted;
pub use frame::{
    Frame, General, JUMPS, State, TRANSLATIONS, Translation, WIDEST, Windows, jump_index, jump_key,
    jump_place, translation_place,
};
pub use routine::{Routines, routines};
pub use translation::translate;

/// Why code was left, as `State::exit` has it; other values are a link's number plus
/// [`Exit::LINKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The next block has no room, or what came before wants to be looked at.
    Room,
    /// A handler said so.
    Handler,
    /// The next block is in another page, or its address was computed, and is not in the jump
    /// cache.
    Jump,
    /// The block is done, and what follows may mean something else.
    End,
    /// The next block, in the same page, is not linked.
    Link(u32),
    /// The instruction whose handler has this number, of which nothing has been done, wants to be
    /// executed by itself.
    Alone(u32),
}

impl Exit {
    pub(crate) const ROOM: i32 = 0;
    pub(crate) const HANDLER: i32 = 1;
    pub(crate) const JUMP: i32 = 2;
    pub(crate) const END: i32 = 3;
    /// The first link's.
    pub const LINKS: u32 = 4;
    /// Set where the rest is the number of a handler's call.
    pub(crate) const ALONE: u32 = 1 << 31;

    /// From what [`State::exit`](frame::State::exit) holds.
    pub fn from_bits(bits: u64) -> Self {
        match bits as u32 {
            0 => Self::Room,
            1 => Self::Handler,
            2 => Self::Jump,
            3 => Self::End,
            call if call & Self::ALONE != 0 => Self::Alone(call & !Self::ALONE),
            link => Self::Link(link - Self::LINKS),
        }
    }
}

/// What a 32-bit distance in code leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The way out: [`Routines::leave`].
    Leave,
    /// The call of a handler: [`Routines::call`].
    Call,
    /// The look into the TLB: [`Routines::find_read`] or [`Routines::find_write`].
    Find {
        /// Which of them.
        is_write: bool,
    },
    /// The jump to an address in a register: [`Routines::jump`] or [`Routines::jump_flat`].
    Jump(Mode),
    /// The slot of one of the block's links, by its place among them.
    Slot(usize),
}

/// A link: an exit to a block of the same page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where in the code begins what is done while it is not linked.
    pub stub: usize,
    /// Where in the code stands the 32-bit value of `exit` for it.
    pub number: usize,
    /// Offset of the target in its page.
    pub target: u16,
}

/// Translated code. Only [`translate`] makes it.
pub struct Code {
    bytes: Vec<u8>,
    references: Vec<(usize, Reference)>,
    links: Vec<Link>,
    counters: usize,
}

impl Code {
    /// To be placed where the host can execute it, with the references filled in.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Distances to fill in, each relative to its own end.
    pub fn references(&self) -> &[(usize, Reference)] {
        &self.references
    }

    /// How many counters of runs there must be.
    pub fn counters(&self) -> usize {
        self.counters
    }

    /// In the order of their numbers in [`Exit::Link`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}
