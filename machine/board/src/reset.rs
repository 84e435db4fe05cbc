//! Reset: all except RAM, what disks and flash hold, and time is as after power-on.
//!
//! Firmware begins then, so the caller powers on once more. What was made of RAM's code stays, and
//! so does what looks at the machine: records, the watched port, what the host has not taken yet.

use crate::machine::{Configuration, Machine, MachineError, State};
use arch::time::Picoseconds;

impl Machine {
    /// Resets a machine that was built from this configuration.
    pub fn reset(&mut self, configuration: &Configuration) -> Result<(), MachineError> {
        let fresh = Self::new(configuration)?.state;
        let before = std::mem::replace(&mut self.state, fresh);
        self.state.go_on_after(before);
        self.clocked.clear();
        self.outcome = None;
        self.at_point = None;
        Ok(())
    }

    /// What firmware's flash holds, on a board that has one.
    pub fn flash(&self) -> Option<&[u8]> {
        self.state.wiring.chipset.flash().map(device::flash::Flash::bytes)
    }
}

impl State {
    fn go_on_after(&mut self, before: State) {
        let clocks = before.cpus.iter().map(|cpu| cpu.clock.now());
        let at = clocks.max().unwrap_or(Picoseconds::ZERO).max(before.now);
        for (cpu, before) in self.cpus.iter_mut().zip(&before.cpus) {
            cpu.clock.go_on_after(&before.clock, at);
        }
        self.now = at;
        self.wiring.go_on_after(before.wiring);
    }
}
