//! Tickets of what the host sends to a guest, in memory of the guest's that it looks at: one is
//! taken before an interrupt is sent and handed in when KVM has it. So the guest knows of one that
//! is lost.

use crate::error::BenchError;
use crate::memory::Ram;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, GuestAddress};

/// Bytes of an account: the last ticket that was taken, and the last that was handed in.
const ACCOUNT: u64 = 16;

/// A ledger, which one thread writes.
pub struct Tickets {
    ram: Ram,
    at: u64,
    /// By account.
    taken: Vec<u64>,
}

impl Tickets {
    pub(crate) fn new(ram: Ram, at: u64, accounts: usize) -> Self {
        Self { ram, at, taken: vec![0; accounts] }
    }

    /// Takes the next ticket of an account. Fails if that is not in the guest's memory.
    pub fn take(&mut self, account: usize) -> Result<u64, BenchError> {
        let ticket = self.taken.get(account).ok_or(BenchError::Ledger { at: self.at })? + 1;
        self.write(account, 0, ticket)?;
        self.taken[account] = ticket;
        Ok(ticket)
    }

    /// Where an account is, in the guest's memory.
    pub fn address(&self, account: usize) -> u64 {
        self.at.saturating_add(account as u64 * ACCOUNT)
    }

    /// Both words of an account become zero, of one that a device writes otherwise.
    pub fn clear(&self, account: usize) -> Result<(), BenchError> {
        self.write(account, 0, 0)?;
        self.write(account, 8, 0)
    }

    /// Hands a ticket in: its interrupt is on its way.
    pub fn hand_in(&self, account: usize, ticket: u64) -> Result<(), BenchError> {
        self.write(account, 8, ticket)
    }

    fn write(&self, account: usize, offset: u64, ticket: u64) -> Result<(), BenchError> {
        let place = (account as u64 * ACCOUNT + offset).checked_add(self.at);
        let place = place.map(GuestAddress).ok_or(BenchError::Ledger { at: self.at })?;
        let stored = self.ram.memory().store(ticket, place, Ordering::SeqCst);
        stored.map_err(|_| BenchError::Ledger { at: self.at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::empty_image;

    #[test]
    fn tickets_are_in_the_guests_memory_and_nowhere_else() {
        let image = empty_image(1 << 16).expect("a small image");
        let ram = Ram::of_image(&image).expect("its memory");
        let mut tickets = Tickets::new(ram.clone(), 0x1000, 3);
        assert_eq!(tickets.take(2).expect("an account"), 1);
        let ticket = tickets.take(2).expect("an account");
        tickets.hand_in(2, ticket).expect("an account");
        let word = |at| ram.memory().load::<u64>(GuestAddress(at), Ordering::SeqCst).expect("RAM");
        assert_eq!((word(0x1020), word(0x1028), word(0x1010)), (2, 2, 0));
        tickets.clear(2).expect("an account");
        assert_eq!((word(tickets.address(2)), word(0x1028)), (0, 0));
        assert!(tickets.take(3).is_err(), "no such account");
        for at in [1 << 16, u64::MAX] {
            assert!(Tickets::new(ram.clone(), at, 1).take(0).is_err(), "{at:#x}");
        }
    }
}
