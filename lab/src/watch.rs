//! The user who waits for a run: may stop it, loses patience, and is told how it goes.

use crate::protocol::Stream;
use arch::time::Picoseconds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why a machine is not run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error("interrupted")]
    /// The user has asked for it.
    Interrupted,
    #[error("not finished after {} s of virtual time", .0.0 / 1_000_000_000_000)]
    /// The limit of virtual time was reached.
    VirtualTime(Picoseconds),
    #[error("not finished after {} s of this machine's time; --host-limit allows more", .0.as_secs())]
    /// The host took longer than the user's limit allows.
    HostTime(Duration),
}

/// What a run tells the user who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Something happens in it.
    Line(&'a str),
    /// A command on the emulated host writes.
    Wrote(Stream, &'a str),
    /// Time passes.
    Tick,
}

/// What ends a run before its time.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    stop: &'a AtomicBool,
    /// Raised when what runs beside this has ended, and nobody waits for it any more.
    is_over: Option<&'a AtomicBool>,
    /// Host time that a stage may take.
    patience: Duration,
}

/// The user who waits for a run: may stop it, loses patience, and is told how it goes.
pub struct Watch<'a> {
    terms: Terms<'a>,
    tell: &'a mut dyn FnMut(Told<'_>),
    began: Instant,
}

impl<'a> Terms<'a> {
    /// Patience begins now.
    pub fn watch(self, tell: &'a mut dyn FnMut(Told<'_>)) -> Watch<'a> {
        Watch { terms: self, tell, began: Instant::now() }
    }

    fn is_stopped(&self) -> bool {
        let is_raised = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_raised(self.stop) || self.is_over.is_some_and(is_raised)
    }
}

impl<'a> Watch<'a> {
    /// Patience begins now.
    pub fn new(
        stop: &'a AtomicBool,
        patience: Duration,
        tell: &'a mut dyn FnMut(Told<'_>),
    ) -> Self {
        Terms { stop, is_over: None, patience }.watch(tell)
    }

    /// The same, for what runs beside this on threads of its own until `is_over` is raised.
    pub(crate) fn beside<'b>(&self, is_over: &'b AtomicBool) -> Terms<'b>
    where
        'a: 'b,
    {
        Terms { is_over: Some(is_over), ..self.terms }
    }

    /// The next stage begins, and with it patience.
    pub fn stage(&mut self, name: &str) {
        self.began = Instant::now();
        (self.tell)(Told::Stage(name));
    }

    /// Something happens in the stage.
    pub fn line(&mut self, text: &str) {
        (self.tell)(Told::Line(text));
    }

    /// A command on the emulated host writes.
    pub fn wrote(&mut self, stream: Stream, text: &str) {
        (self.tell)(Told::Wrote(stream, text));
    }

    /// Does something, and keeps what commands write to their standard output meanwhile instead of
    /// telling it.
    pub(crate) fn hearing<R>(
        &mut self,
        heard: &mut String,
        act: impl FnOnce(&mut Watch<'_>) -> R,
    ) -> R {
        let Self { terms, tell, began } = self;
        let mut tell = |told: Told<'_>| match told {
            Told::Wrote(Stream::Output, text) => heard.push_str(text),
            other => tell(other),
        };
        act(&mut Watch { terms: *terms, tell: &mut tell, began: *began })
    }

    /// Patience begins again.
    pub fn renew(&mut self) {
        self.began = Instant::now();
    }

    /// Time passes that others have limits for; whether to go on.
    pub fn tick(&mut self) -> Result<(), Halt> {
        self.renew();
        self.check()
    }

    /// Whether to go on.
    pub fn check(&mut self) -> Result<(), Halt> {
        (self.tell)(Told::Tick);
        if self.terms.is_stopped() {
            return Err(Halt::Interrupted);
        }
        let patience = self.terms.patience;
        if self.began.elapsed() > patience {
            return Err(Halt::HostTime(patience));
        }
        Ok(())
    }
}
