//! Lines of the guest's I/O APIC that a thread of the host raises, as a device of this process does
//! whose driver tells it by a port up to which ticket it has served it.

use crate::devices::Devices;
use crate::error::BenchError;
use crate::tickets::Tickets;
use std::sync::{Arc, Mutex, PoisonError};

// The guest has the same numbers: guest/benchmark/src/mix/lines.rs.

/// How many there are, which is also how many accounts of a ledger come first.
pub const LINES: usize = 4;
/// The pins, of which the edge-triggered one is [`EDGE`].
const FIRST_PIN: u8 = 20;
const EDGE: usize = 2;

/// The port of the first line's device; a double word each.
const PORT: u16 = 0x0E00;

/// The devices, as far as they are known to the virtual machine's.
#[derive(Default)]
pub(crate) struct Lines {
    /// By line: the last ticket for which it was raised.
    raised: [u64; LINES],
}

/// What is done to a line.
pub(crate) struct Change {
    pub pin: u8,
    pub is_asserted: bool,
}

impl Lines {
    /// The device's line, of a port.
    pub fn of_port(port: u16) -> Option<usize> {
        let offset = usize::from(port.checked_sub(PORT)?);
        (offset % 4 == 0 && offset / 4 < LINES).then_some(offset / 4)
    }

    fn raise(&mut self, line: usize, ticket: u64) -> Vec<Change> {
        self.raised[line] = ticket;
        let change = |is_asserted| Change { pin: FIRST_PIN + line as u8, is_asserted };
        match line {
            EDGE => vec![change(true), change(false)],
            _ => vec![change(true)],
        }
    }

    /// The driver has served it up to this ticket, as far as the port's width goes: the line falls
    /// if there is none behind it.
    pub fn serve(&self, line: usize, ticket: u32) -> Option<Change> {
        let is_last = self.raised[line] as u32 == ticket;
        is_last.then_some(Change { pin: FIRST_PIN + line as u8, is_asserted: false })
    }
}

/// Who raises them.
pub struct Raiser(Arc<Mutex<Devices>>);

impl Raiser {
    pub(crate) fn new(devices: &Arc<Mutex<Devices>>) -> Self {
        devices.lock().unwrap_or_else(PoisonError::into_inner).lines = Some(Lines::default());
        Self(devices.clone())
    }

    /// Raises a line below [`LINES`], by the ledger's account of that number. Fails as
    /// [`Tickets`] do.
    pub fn raise(&self, line: usize, tickets: &mut Tickets) -> Result<(), BenchError> {
        // The ticket and the line at once: who serves it lowers the line only afterwards.
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = tickets.take(line)?;
        let changes = devices.lines.get_or_insert_default().raise(line, ticket);
        for Change { pin, is_asserted } in changes {
            devices.set_line(pin, is_asserted);
        }
        drop(devices);
        tickets.hand_in(line, ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_falls_when_its_last_ticket_is_served() {
        let mut lines = Lines::default();
        let levels = |changes: Vec<Change>| {
            changes.iter().map(|one| (one.pin, one.is_asserted)).collect::<Vec<_>>()
        };
        assert_eq!(levels(lines.raise(3, 1)), [(23, true)]);
        assert_eq!(levels(lines.raise(3, 2)), [(23, true)]);
        assert!(lines.serve(3, 1).is_none(), "another came after it");
        let lowered = lines.serve(3, 2).expect("the last");
        assert_eq!((lowered.pin, lowered.is_asserted), (23, false));
        assert_eq!(levels(lines.raise(EDGE, 1)), [(22, true), (22, false)]);
        assert!(lines.serve(0, 7).is_none(), "a line of its own");
    }

    #[test]
    fn each_line_has_a_port() {
        let ports = [0xDFC, 0xE00, 0xE02, 0xE04, 0xE0C, 0xE10];
        let lines = ports.map(Lines::of_port);
        assert_eq!(lines, [None, Some(0), None, Some(1), Some(3), None]);
    }
}
