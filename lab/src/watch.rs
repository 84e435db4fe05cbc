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

/// The user who waits for a run: may stop it, loses patience, and is told how it goes.
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    /// Host time that a stage may take.
    patience: Duration,
    tell: &'a mut dyn FnMut(Told<'_>),
    began: Instant,
}

impl<'a> Watch<'a> {
    /// Patience begins now.
    pub fn new(
        stop: &'a AtomicBool,
        patience: Duration,
        tell: &'a mut dyn FnMut(Told<'_>),
    ) -> Self {
        Self { stop, patience, tell, began: Instant::now() }
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
        let Self { stop, patience, tell, began } = self;
        let mut tell = |told: Told<'_>| match told {
            Told::Wrote(Stream::Output, text) => heard.push_str(text),
            other => tell(other),
        };
        act(&mut Watch { stop, patience: *patience, tell: &mut tell, began: *began })
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
        if self.stop.load(Ordering::Relaxed) {
            return Err(Halt::Interrupted);
        }
        if self.began.elapsed() > self.patience {
            return Err(Halt::HostTime(self.patience));
        }
        Ok(())
    }
}
