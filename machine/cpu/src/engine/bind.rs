//! From decoded instructions to operations with handlers, which need no further decision.

use crate::execute::binding::{Binding, Bound, Boundary};
use crate::execute::{self, flat, fused};
use crate::guest;
use crate::operation::decode::{CodeSize, Cost, Decoded, is_memory};
use crate::operation::{Kind, Op};
use iced_x86::Instruction;

/// An instruction as it goes into a block.
pub(crate) struct Ready {
    pub bound: Bound,
    pub kind: Kind,
    pub boundary: Boundary,
    pub cost: Cost,
    /// What it can be in a pair that is executed as one operation.
    pub role: Option<fused::Role>,
}

/// Finds the handler of what was decoded; `is_flat` if it may be one that stores by itself.
pub(crate) fn bind(decoded: Decoded, size: CodeSize, is_flat: bool) -> Ready {
    match decoded {
        Decoded::Invalid { op, is_too_long } => refused(op, is_too_long),
        Decoded::Instruction(instruction, op) => match binding(&instruction, size) {
            Some(binding) => accepted(&instruction, op, binding, (size, is_flat)),
            None => refused(op, false),
        },
    }
}

/// `None` if the processor does not know the instruction.
fn binding(instruction: &Instruction, size: CodeSize) -> Option<Binding> {
    let mut families = execute::FAMILIES.iter().chain(guest::FAMILIES);
    families.find_map(|family| family(instruction, size))
}

fn accepted(
    instruction: &Instruction,
    op: Op,
    binding: Binding,
    (size, is_flat): (CodeSize, bool),
) -> Ready {
    let flat = if is_flat { flat::bind(instruction, &op, size) } else { None };
    let handler = flat.unwrap_or(binding.handler);
    let cost = match binding.cost {
        Cost::Simple if op.has(Op::LOCK) => Cost::Locked,
        Cost::Simple if op.has(Op::MEMORY) && is_memory(instruction, 0) => Cost::Store,
        Cost::Simple if op.has(Op::MEMORY) => Cost::Load,
        cost => cost,
    };
    Ready {
        bound: Bound { handler, op },
        kind: Kind::new(instruction.code()),
        boundary: binding.boundary,
        cost,
        role: if is_flat { fused::role(instruction, &op, size) } else { None },
    }
}

/// An undefined instruction, or one longer than 15 bytes (#GP).
fn refused(op: Op, is_too_long: bool) -> Ready {
    Ready {
        bound: Bound {
            handler: if is_too_long { execute::too_long } else { execute::undefined },
            op,
        },
        kind: Kind::INVALID,
        boundary: Boundary::Ends,
        cost: Cost::System,
        role: None,
    }
}
