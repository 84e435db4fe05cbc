//! What ties an instruction to the code that executes it.

use crate::operation::Op;
use crate::operation::decode::Cost;
use crate::{Bus, Cpu, Stop};

/// Executes one operation. On `Err` of a fault, no architectural state has changed.
pub type Handler = fn(&mut Cpu, &mut Bus<'_>, &Op) -> Result<(), Stop>;

/// An operation with its handler: 32 bytes, executed without deciding anything again.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Bound {
    pub handler: Handler,
    pub op: Op,
}

const _: () = assert!(std::mem::size_of::<Bound>() == 32);

impl Bound {
    #[inline(always)]
    pub fn execute(&self, cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
        (self.handler)(cpu, bus, &self.op)
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

/// Picks the instance of a generic handler for an operand of `$width` bytes.
macro_rules! sized {
    ($width:expr, $handler:ident $(, $argument:ty)*) => {
        match $width {
            1 => $handler::<u8 $(, $argument)*>,
            2 => $handler::<u16 $(, $argument)*>,
            4 => $handler::<u32 $(, $argument)*>,
            _ => $handler::<u64 $(, $argument)*>,
        }
    };
}
pub(crate) use sized;
