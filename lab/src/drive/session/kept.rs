//! A session kept in memory, from which any number of others begin: each trial of an experiment is
//! a machine of its own, or one that has gone back to where it began, and none pays for the boot.

use super::Session;
use super::inbox::Inbox;
use crate::host::Host;
use crate::watch::Watch;
use arch::time::Picoseconds;
use board::{Configuration, Limits, Machine, Mark};

/// A session as it was at one moment.
pub struct Kept {
    configuration: Configuration,
    snapshot: Vec<u8>,
    release: String,
}

/// A session that goes back to its beginning, which takes less than to begin another: what it
/// changed is undone, and its code is translated already.
pub struct Again {
    session: Session,
    mark: Mark,
    inbox: Inbox,
    memory: u64,
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

    /// A session that goes on from there, and comes back.
    pub fn again(&self) -> anyhow::Result<Again> {
        let mut session = self.session()?;
        let (mark, inbox) = (session.mark(), session.inbox.clone());
        Ok(Again { session, mark, inbox, memory: self.configuration.memory })
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.snapshot.len()
    }
}

impl Again {
    /// As it was left.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// To where it began: nothing tells it from another that begins there.
    pub fn go_back(&mut self) {
        self.session.return_to(&self.mark);
        self.session.inbox.clone_from(&self.inbox);
        self.session.places = None;
        self.session.drive.begin_again();
    }

    /// Bytes of memory that its machine has, and so may take.
    pub fn memory(&self) -> u64 {
        self.memory
    }
}
