//! A host of a run, at the moment at which it had booted, where every part of the run begins: it
//! boots once, and each job has a machine of its own that goes on from there, and goes back there
//! for its next part if it is likely to have one.

use crate::drive::session::{Beginning, Kept, Session};
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::watch::Watch;
use anyhow::Context;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all hosts of a run boot.
#[derive(Clone, Copy)]
pub(super) struct Boot<'a> {
    pub kernel: &'a Kernel,
    pub initramfs: &'a Initramfs,
    /// Where booted hosts are kept.
    pub store: Option<&'a Store>,
}

/// The host.
pub(super) struct Origin<'a> {
    host: Host,
    boot: Boot<'a>,
    /// Machines that may be wanted at once.
    machines: usize,
    state: Mutex<State>,
}

/// None of it is there until the host has booted.
#[derive(Default)]
struct State {
    is_restored: Option<bool>,
    /// The one that booted, until a job wants a machine.
    first: Option<Session>,
    /// For the machines of further jobs.
    kept: Option<Arc<Kept>>,
}

/// The machine of a job.
pub(super) struct Own {
    /// The number of its host.
    host: usize,
    session: Session,
    /// Where it goes back to for another part, if it is to.
    beginning: Option<Beginning>,
}

impl<'a> Origin<'a> {
    /// For so many machines at most.
    pub fn new(host: Host, boot: Boot<'a>, machines: usize) -> Self {
        Self { host, boot, machines, state: Mutex::default() }
    }

    /// A thread that panicked ends the run anyway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its boot was spared.
    pub fn is_restored(&self) -> bool {
        self.state().is_restored.unwrap_or(false)
    }

    /// Has booted then.
    pub fn be_ready(&self, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        self.ready(watch).map(drop)
    }

    fn ready(&self, watch: &mut Watch<'_>) -> anyhow::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.is_restored.is_none() {
            let Boot { kernel, initramfs, store } = self.boot;
            let session = if self.machines > 1 {
                let (session, kept) =
                    Session::start_kept(&self.host, kernel, initramfs, store, watch)?;
                state.kept = Some(Arc::new(kept));
                session
            } else {
                Session::start(&self.host, kernel, initramfs, store, watch)?
            };
            state.is_restored = Some(session.is_restored);
            state.first = Some(session);
        }
        Ok(state)
    }

    /// A part begins: the job's own machine is one of this host, of this number, and where that had
    /// booted. To go back later for another part has its price.
    pub fn begin<'o>(
        &self,
        number: usize,
        own: &'o mut Option<Own>,
        goes_back: bool,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<&'o mut Session> {
        // Before another machine there has to be room for it.
        let (mut session, known) = match own.take() {
            Some(Own { host, mut session, beginning: Some(beginning) }) if host == number => {
                session.begin_again(&beginning);
                (session, Some(beginning))
            }
            other => {
                drop(other);
                (self.machine(watch)?, None)
            }
        };
        let beginning = match (goes_back, known) {
            (true, None) => Some(session.beginning()),
            (true, known) => known,
            (false, known) => {
                known.into_iter().for_each(|beginning| session.leave(beginning));
                None
            }
        };
        let own = own.insert(Own { host: number, session, beginning });
        Ok(&mut own.session)
    }

    /// One more machine: that which booted, or one that is unpacked while other jobs go on.
    fn machine(&self, watch: &mut Watch<'_>) -> anyhow::Result<Session> {
        let mut state = self.ready(watch)?;
        if let Some(first) = state.first.take() {
            return Ok(first);
        }
        let kept = state.kept.clone().context("a host of which one machine was wanted")?;
        drop(state);
        kept.session()
    }
}
