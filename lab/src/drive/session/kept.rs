//! A session kept in memory, from which any number of others begin: each trial of an experiment is
//! a machine of its own, and none pays for the boot.

use super::Session;
use crate::host::Host;
use crate::watch::Watch;
use arch::time::Picoseconds;
use board::{Configuration, Limits, Machine};

/// A session as it was at one moment.
pub struct Kept {
    configuration: Configuration,
    snapshot: Vec<u8>,
    release: String,
}

impl Session {
    /// Keeps it as it is now; `host` is what it was started with.
    pub fn keep(&self, host: &Host) -> anyhow::Result<Kept> {
        let configuration = host.configuration()?;
        let mut snapshot = Vec::new();
        self.drive.machine.save("memory", &mut snapshot, configuration.digest())?;
        Ok(Kept { configuration, snapshot, release: self.release.clone() })
    }

    /// Lets time pass on the host, whose processors have nothing to do: what follows begins at
    /// another moment of its timers' periods.
    pub fn idle(&mut self, time: Picoseconds, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        let until = self.after(time);
        while self.virtual_time() < until {
            watch.check()?;
            let limits = Limits { until, instructions: u64::MAX };
            if let Some(outcome) = self.drive.machine.run(limits) {
                return Err(self.ended(outcome));
            }
            self.drive.drain();
        }
        Ok(())
    }
}

impl Kept {
    /// A session that goes on from there.
    pub fn session(&self) -> anyhow::Result<Session> {
        let machine = Machine::restore(&self.configuration, "memory", self.snapshot.as_slice())?;
        let mut session = Session::new(machine)?;
        session.release.clone_from(&self.release);
        session.is_restored = true;
        session.drive.count();
        Ok(session)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.snapshot.len()
    }
}
