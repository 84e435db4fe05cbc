//! How status flags are made again that the host had and lost: most are never looked at but by a
//! fault, so they are not saved before each access to memory.

use crate::encode::{Arithmetic, Register, Size};
use crate::frame;
use crate::register::Guest;
use crate::translator::Translator;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess};

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Register(Guest),
    Value(i32),
}

/// What makes flags again, as long as the registers in it stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// Of AND, OR or XOR: the result.
    Logic(Size, Guest),
    /// Of TEST.
    Test(Size, Guest, By),
    /// Of CMP.
    Compare(Size, Guest, By),
    /// Of ADD: the sum, and what was added.
    Sum(Size, Guest, By),
    /// Of SUB: the difference, and what was subtracted.
    Difference(Size, Guest, By),
}

impl Recipe {
    /// Of an operation on a register that has been done.
    pub fn of(operation: Arithmetic, size: Size, to: Guest, by: By) -> Option<Self> {
        let was_itself = by == By::Register(to);
        Some(match operation {
            Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => Self::Logic(size, to),
            Arithmetic::Cmp => Self::Compare(size, to, by),
            Arithmetic::Add if !was_itself => Self::Sum(size, to, by),
            Arithmetic::Sub if !was_itself => Self::Difference(size, to, by),
            _ => return None,
        })
    }

    /// Whether AF counts as clear.
    pub fn clears_auxiliary(self) -> bool {
        matches!(self, Self::Logic(..) | Self::Test(..))
    }

    /// Whether it needs one of these registers, by their numbers' bits.
    pub fn needs(self, written: u16) -> bool {
        let (of, by) = match self {
            Self::Logic(_, of) => (of, None),
            Self::Test(_, of, by)
            | Self::Compare(_, of, by)
            | Self::Sum(_, of, by)
            | Self::Difference(_, of, by) => (of, Some(by)),
        };
        let by = match by {
            Some(By::Register(by)) => 1 << (by.0 & 15),
            _ => 0,
        };
        written & (1 << (of.0 & 15) | by) != 0
    }
}

/// The general registers that each instruction may write, as bits by their numbers.
pub(crate) fn written(instructions: &[Instruction]) -> Vec<u16> {
    let mut factory = InstructionInfoFactory::new();
    let mut of = |i: &Instruction| {
        let used = factory.info(i).used_registers().iter();
        used.filter(|one| one.register().is_gpr() && is_write(one.access()))
            .fold(0, |all, one| all | 1 << (one.register().full_register().number() & 15))
    };
    instructions.iter().map(&mut of).collect()
}

fn is_write(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}

/// Whether flags from before need not be saved for a memory operand of this instruction: it does
/// not look at them, and it goes on to the next one.
pub(crate) fn keeps(i: &Instruction) -> bool {
    use Mnemonic::*;
    i.is_string_instruction()
        || matches!(
            i.mnemonic(),
            Mov | Movzx
                | Movsx
                | Movsxd
                | Add
                | Sub
                | And
                | Or
                | Xor
                | Cmp
                | Test
                | Neg
                | Not
                | Imul
                | Push
                | Pop
        )
}

impl Translator<'_> {
    /// The host's flags are the guest's again, but that AF may have to be cleared. RAX is lost.
    pub(crate) fn make_again(&mut self, recipe: Recipe) {
        match recipe {
            Recipe::Logic(size, of) => {
                let of = self.read(of, Register::RAX);
                self.e.test(size, of, of);
            }
            Recipe::Test(size, of, By::Value(value)) => {
                let of = self.read(of, Register::RAX);
                self.e.test_value(size, of, value);
            }
            Recipe::Test(size, of, By::Register(by)) => {
                let by = self.read(by, Register::RAX);
                match of.host() {
                    Some(of) => self.e.test(size, of, by),
                    None => self.e.test(size, frame::register(of.0), by),
                }
            }
            Recipe::Compare(size, of, by) => {
                let of = self.read(of, Register::RAX);
                self.apply(Arithmetic::Cmp, size, of, by);
            }
            Recipe::Sum(size, of, by) => self.again(Arithmetic::Add, size, of, by),
            Recipe::Difference(size, of, by) => self.again(Arithmetic::Sub, size, of, by),
        }
    }

    /// An operation once more on what was there before it.
    fn again(&mut self, operation: Arithmetic, size: Size, of: Guest, by: By) {
        let back = if operation == Arithmetic::Add { Arithmetic::Sub } else { Arithmetic::Add };
        let held = self.read(of, Register::RAX);
        if held != Register::RAX {
            self.e.mov(Size::Quad, Register::RAX, held);
        }
        self.apply(back, size, Register::RAX, by);
        self.apply(operation, size, Register::RAX, by);
    }

    fn apply(&mut self, operation: Arithmetic, size: Size, to: Register, by: By) {
        match by {
            By::Value(value) => self.e.arithmetic_value(operation, size, to, value),
            By::Register(guest) => match guest.host() {
                Some(host) => self.e.arithmetic(operation, size, to, host),
                None => self.e.arithmetic_load(operation, size, to, frame::register(guest.0)),
            },
        }
    }
}
