//! Guest registers that no host register holds throughout, but one happens to hold right now.

use crate::encode::{Encoder, Register};
use crate::register::Guest;

/// The host's that are free for each instruction.
const SPARE: [Register; 3] = [Register::RAX, Register::RCX, Register::RDX];

/// What each of [`SPARE`] was a copy of, and how often it may have changed by then.
#[derive(Default)]
pub(crate) struct Copies([Option<(Guest, u32)>; SPARE.len()]);

impl Copies {
    /// The host register that has the value of a guest register.
    pub fn of(&self, guest: Guest, e: &Encoder) -> Option<Register> {
        let is_copy = |(register, copy): &(Register, Option<(Guest, u32)>)| {
            copy.is_some_and(|(of, then)| of == guest && e.changes(*register) == Some(then))
        };
        SPARE.into_iter().zip(self.0).find(is_copy).map(|(register, _)| register)
    }

    /// `register` has the value of a guest register, whole.
    pub fn note(&mut self, guest: Guest, register: Register, e: &Encoder) {
        if let Some(place) = SPARE.iter().position(|one| *one == register) {
            self.0[place] = e.changes(register).map(|now| (guest, now));
        }
    }

    /// A guest register has another value.
    pub fn forget(&mut self, guest: Guest) {
        for copy in &mut self.0 {
            *copy = copy.filter(|(of, _)| *of != guest);
        }
    }
}
