//! A session kept in memory, from which any number of others begin: each trial of an experiment is
//! a machine of its own, or one that has gone back to where it began, and none pays for the boot.

use super::Session;
use super::inbox::Inbox;
use super::point::Point;
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::watch::Watch;
use arch::time::Picoseconds;
use board::{Configuration, Limits, Machine};

/// A session as it was at one moment.
pub struct Kept {
    configuration: Configuration,
    snapshot: Vec<u8>,
    release: String,
}

/// A moment with all that is kept of it outside of the machine.
pub(crate) struct Beginning {
    point: Point,
    inbox: Inbox,
}

/// A session that goes back to its beginning, which takes less than to begin another: what it
/// changed is undone, and its code is translated already.
pub struct Again {
    session: Session,
    beginning: Beginning,
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

    /// Starts as [`Session::start`] does, and keeps what has booted besides: as it is in the store,
    /// if it is there, which spares packing it.
    pub fn start_kept(
        host: &Host,
        kernel: &Kernel,
        initramfs: &Initramfs,
        store: Option<&Store>,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<(Self, Kept)> {
        let (session, key) = Self::start_by_key(host, kernel, initramfs, store, watch)?;
        let packed = store.zip(key).and_then(|(store, key)| store.packed(key));
        let kept = match packed {
            Some((snapshot, release)) => {
                Kept { configuration: host.configuration()?, snapshot, release }
            }
            None => session.keep(host)?,
        };
        Ok((session, kept))
    }

    /// With the machine as it was at some moment.
    pub(super) fn restored(machine: Machine, release: &str) -> anyhow::Result<Self> {
        let mut session = Self::new(machine)?;
        release.clone_into(&mut session.release);
        session.is_restored = true;
        session.drive.count();
        Ok(session)
    }

    /// This moment, to begin there again.
    pub(crate) fn beginning(&mut self) -> Beginning {
        Beginning { point: self.mark(), inbox: self.inbox.clone() }
    }

    /// To where it began: nothing tells it from another that begins there. It is not recorded any
    /// more.
    pub(crate) fn begin_again(&mut self, beginning: &Beginning) {
        self.return_to(beginning.point);
        self.inbox.clone_from(&beginning.inbox);
        self.places = None;
        self.drive.begin_again();
    }

    /// It does not go back there any more.
    pub(crate) fn leave(&mut self, beginning: Beginning) {
        self.forget(beginning.point);
    }

    /// From now on it goes back to this moment.
    fn again(mut self) -> Again {
        let beginning = self.beginning();
        let memory = self.drive.machine.memory.layout().ram();
        Again { session: self, beginning, memory }
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
        Session::restored(machine, &self.release)
    }

    /// A session that goes on from there, and comes back.
    pub fn again(&self) -> anyhow::Result<Again> {
        Ok(self.session()?.again())
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
        self.session.begin_again(&self.beginning);
    }

    /// Bytes of memory that its machine has, and so may take.
    pub fn memory(&self) -> u64 {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::SystemPhysical;
    use cpu::CpuModel;

    fn host() -> Host {
        Host {
            model: CpuModel::named("zen4").expect("a model that comes with the machine"),
            costs: None,
            iommu: None,
            has_pulse: false,
            wires: Vec::new(),
            devices: Vec::new(),
            folders: Vec::new(),
            topology: board::topology::Topology::of_cores(1).expect("one core"),
            memory: 64 << 20,
            append: String::new(),
        }
    }

    fn write(session: &mut Session, page: u64, byte: u8) {
        let at = SystemPhysical(page << 12);
        session.drive.machine.memory.write(at, &[byte]).expect("RAM");
    }

    fn bytes(session: &Session) -> [u8; 3] {
        [1, 2, 3].map(|page| session.drive.machine.memory.ram[page << 12])
    }

    #[test]
    fn a_session_goes_back_to_its_beginning_over_moments_within() {
        let mut session = Session::new(host().power_on().expect("a machine")).expect("a port");
        write(&mut session, 1, 1);
        let kept = session.keep(&host()).expect("memory");
        let mut again = session.again();
        for round in 2..5 {
            let session = again.session();
            write(session, 1, round);
            let within = session.mark();
            for draw in [7, 8] {
                write(session, 2, draw);
                session.return_to(within);
                assert_eq!(bytes(session), [round, 0, 0]);
            }
            session.forget(within);
            write(session, 3, round);
            assert_eq!(bytes(session), [round, 0, round]);
            let later = session.beginning();
            write(session, 2, round);
            session.begin_again(&later);
            assert_eq!(bytes(session), [round, 0, round]);
            again.go_back();
            assert_eq!(bytes(again.session()), [1, 0, 0]);
        }
        let another = kept.session().expect("a machine");
        assert_eq!(bytes(&another), [1, 0, 0], "nothing is shared with the other");
    }
}
