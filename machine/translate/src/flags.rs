//! Where the guest's status flags are: in the host's flags until something else needs those, then
//! in the frame, as LAHF and SETO give them.
//!
//! What the manuals leave undefined follows the interpreter's rules, never what this host does: AF
//! is clear after logic operations, shifts and products; the others are computed where their
//! instruction is translated.

use crate::encode::{Arithmetic, BitTest, Condition, Memory, Register, Size};
use crate::frame;
use crate::recipe::Recipe;
use crate::status::Status;
use crate::translator::Translator;

/// Bits of AH after LAHF.
const CARRY: u8 = 1 << 0;
const PARITY: u8 = 1 << 2;
const AUXILIARY: u8 = 1 << 4;
const ZERO: u8 = 1 << 6;
const SIGN: u8 = 1 << 7;

/// The byte of the status word that holds what LAHF gives.
fn high_byte() -> Memory {
    Memory { displacement: frame::STATUS.displacement + 1, ..frame::STATUS }
}

impl Translator<'_> {
    /// The flags are in the frame from here on; RAX is lost if they were not.
    pub(crate) fn save(&mut self) {
        self.have_again();
        if let Status::Host { clears_auxiliary, .. } = self.status {
            self.store_host_flags(clears_auxiliary);
        }
        self.status = Status::Saved;
    }

    fn store_host_flags(&mut self, clears_auxiliary: bool) {
        self.e.lahf();
        self.e.set_if(Condition(0), Register::RAX);
        self.store_status(clears_auxiliary);
    }

    /// The flags need not be in the host's from here on; RAX is lost if they were and cannot be
    /// made again.
    pub(crate) fn put_off(&mut self) {
        match self.status {
            Status::Host { recipe: Some(recipe), .. } => self.status = Status::Again(recipe),
            Status::Again(_) => {}
            _ => self.save(),
        }
    }

    /// Flags that can be made again are the host's from here on; RAX is lost if there are such.
    fn have_again(&mut self) {
        if let Status::Again(recipe) = self.status {
            self.make_again(recipe);
            let clears_auxiliary = recipe.clears_auxiliary();
            self.status = Status::Host { clears_auxiliary, recipe: Some(recipe) };
        }
    }

    /// Before a handler is called where flags are as `status` says; RAX is lost.
    pub(crate) fn save_from(&mut self, status: Status) {
        if let Status::Again(recipe) = status {
            self.make_again(recipe);
            self.store_host_flags(recipe.clears_auxiliary());
        }
    }

    /// Registers are going to be written, as bits by their numbers: what flags are made of goes.
    /// Until it does, an instruction that replaces all flags may have them made.
    pub(crate) fn registers_change(&mut self, written: u16) {
        if !self.keeps_status() {
            return;
        }
        match self.status {
            Status::Host { clears_auxiliary, recipe: Some(recipe) } if recipe.needs(written) => {
                self.status = Status::Host { clears_auxiliary, recipe: None };
            }
            Status::Again(recipe) if recipe.needs(written) => self.save(),
            _ => {}
        }
    }

    /// From AH and AL as `State::status` has them.
    pub(crate) fn store_status(&mut self, clears_auxiliary: bool) {
        if clears_auxiliary {
            self.e.arithmetic_value_to_ah(Arithmetic::And, !AUXILIARY);
        }
        self.e.mov(Size::Word, frame::STATUS, Register::RAX);
    }

    /// The host's flags are the guest's from here on; RAX is lost if they were not.
    pub(crate) fn restore(&mut self) {
        self.have_again();
        if self.status == Status::Saved {
            self.load_status();
            self.status = Status::Both;
        }
    }

    pub(crate) fn load_status(&mut self) {
        self.e.load(Size::Word, Register::RAX, frame::STATUS);
        // 1 + 127 overflows, 0 + 127 does not.
        self.e.arithmetic_value(Arithmetic::Add, Size::Byte, Register::RAX, 0x7F);
        self.e.sahf();
    }

    /// The host's carry flag is the guest's; its other flags are lost unless they were the guest's.
    /// RAX is lost if they can be made again.
    pub(crate) fn restore_carry(&mut self) {
        self.have_again();
        if self.status == Status::Saved {
            self.e.bit_test(BitTest::Bt, Size::Double, frame::STATUS, 8);
        }
    }

    /// The condition of the host's flags that says whether the guest's `condition` holds. RAX is
    /// lost.
    pub(crate) fn condition(&mut self, condition: Condition) -> Condition {
        self.have_again();
        if self.status != Status::Saved {
            return condition;
        }
        let (place, bits) = match condition.0 >> 1 & 7 {
            0 => (frame::STATUS, 1),
            1 => (high_byte(), CARRY),
            2 => (high_byte(), ZERO),
            3 => (high_byte(), CARRY | ZERO),
            4 => (high_byte(), SIGN),
            5 => (high_byte(), PARITY),
            _ => {
                self.restore();
                return condition;
            }
        };
        self.e.test_value(Size::Byte, place, bits as i8 as i32);
        if condition.0 & 1 == 0 { Condition::NOT_ZERO } else { Condition::ZERO }
    }

    /// An operation has left all its flags in the host's; `recipe` makes them again.
    pub(crate) fn flags_are_set(&mut self, clears_auxiliary: bool, recipe: Option<Recipe>) {
        self.status = match self.needs_status() {
            true => Status::Host { clears_auxiliary, recipe },
            false => Status::Dead,
        };
    }

    /// Another carry, which the host's carry flag has; the other flags stay. RCX is lost.
    pub(crate) fn replace_carry(&mut self) {
        debug_assert_eq!(self.status, Status::Saved);
        self.e.set_if(Condition::CARRY, Register::RCX);
        let byte = Size::Byte;
        self.e.arithmetic_value(Arithmetic::And, byte, high_byte(), !CARRY as i8 as i32);
        self.e.arithmetic(Arithmetic::Or, byte, high_byte(), Register::RCX);
    }

    /// Flags of a product in `low`: CF = OF as the host has them, ZF, SF and PF from `low`, AF = 0.
    pub(crate) fn set_product_flags(&mut self, size: Size, low: Register) {
        if !self.needs_status() {
            self.status = Status::Dead;
            return;
        }
        self.e.set_if(Condition(0), Register::RAX);
        self.e.test(size, low, low);
        self.e.lahf();
        self.e.arithmetic_value_to_ah(Arithmetic::And, !(AUXILIARY | CARRY));
        self.e.arithmetic_to_ah(Arithmetic::Or, Register::RAX);
        self.store_status(false);
        self.status = Status::Saved;
    }
}
