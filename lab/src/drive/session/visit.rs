//! A debugger's visit to the emulated host while a program or a workload runs there.
//!
//! Meanwhile it is the debugger who runs the machine, forwards and backwards; what the agent says
//! is heard as it comes, and what it says again since the machine went back is not.

use super::Session;
use crate::protocol::FromAgent;
use crate::watch::{Halt, Watch};
use anyhow::Context;
use arch::time::Picoseconds;
use board::channel::Channel;
use board::{Limits, Machine, Outcome};

/// Virtual time between two looks whether the moment has come.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);

/// Is asked between stretches of a visit: the exit status of a program that has ended.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&mut Machine) -> Option<u8>;

/// A debugger that is going to come.
pub trait Visitor: Send {
    /// Runs at most to the limits; the second is whether the moment of the visit has come.
    fn approach(&mut self, machine: &mut Machine, limits: Limits) -> (Option<Outcome>, bool);

    /// The visit, from the debugger's coming to its leaving; false if the run is to end with it.
    fn visit(&mut self, machine: &mut Machine, meanwhile: Meanwhile<'_>) -> anyhow::Result<bool>;
}

/// Who is to come, and how much of its time was theirs.
#[derive(Default)]
pub(super) struct Visits {
    /// From the next program or workload on.
    awaited: Option<Box<dyn Visitor>>,
    /// It has begun.
    armed: Option<Box<dyn Visitor>>,
    /// Virtual time of visits, which no limit counts.
    time: Picoseconds,
    /// Bytes of the agent's that were heard.
    heard: u64,
}

impl Visits {
    /// What the agent said for the first time.
    fn hear(heard: &mut u64, machine: &mut Machine, channel: Channel) -> Vec<u8> {
        let mut bytes = machine.take_channel(channel);
        let said = machine.channel_written(channel);
        let known = (bytes.len() as u64).saturating_sub(said.saturating_sub(*heard));
        *heard = said.max(*heard);
        bytes.split_off(known as usize)
    }
}

impl Session {
    /// A debugger comes when the next program or workload has begun.
    pub fn debug(&mut self, visitor: Option<Box<dyn Visitor>>) {
        self.visits.awaited = visitor;
    }

    /// Who was to come and has not come yet.
    pub(crate) fn take_visitor(&mut self) -> Option<Box<dyn Visitor>> {
        self.visits.armed.take().or(self.visits.awaited.take())
    }

    /// It begins now; whether a debugger is to see it.
    pub(super) fn arm(&mut self) -> bool {
        let awaited = self.visits.awaited.take();
        let is_awaited = awaited.is_some();
        self.visits.armed = awaited.or(self.visits.armed.take());
        is_awaited
    }

    /// The machine has gone back, and what the agent says from here on is new.
    pub(super) fn forget_heard(&mut self) {
        self.visits.heard = self.drive.machine.channel_written(self.channel);
    }

    /// What the agent said since this was asked last.
    pub(super) fn hear(&mut self) -> Vec<u8> {
        Visits::hear(&mut self.visits.heard, &mut self.drive.machine, self.channel)
    }

    /// Runs on for a slice, or for as long as a debugger wants.
    pub(super) fn slice(
        &mut self,
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Result<Option<Outcome>, Halt>> {
        let limit = limit.saturating_add(self.visits.time);
        let Some(mut visitor) = self.visits.armed.take() else {
            return Ok(self.drive.slice(limit, watch));
        };
        if let Err(halt) = watch.check() {
            return Ok(Err(halt));
        }
        let now = self.virtual_time();
        if now >= limit {
            return Ok(Err(Halt::VirtualTime(limit)));
        }
        let limits = Limits { until: now.saturating_add(SLICE), instructions: u64::MAX };
        let (outcome, is_met) = visitor.approach(&mut self.drive.machine, limits);
        if !is_met || outcome.is_some() {
            self.visits.armed = Some(visitor);
            self.drive.drain();
            return Ok(Ok(outcome));
        }
        let began = self.virtual_time();
        let goes_on = self.receive_visit(&mut *visitor, watch)?;
        let time = self.virtual_time().0.saturating_sub(began.0);
        self.visits.time = self.visits.time.saturating_add(Picoseconds(time));
        self.drive.drain();
        watch.renew();
        Ok(if goes_on { Ok(self.drive.machine.outcome()) } else { Err(Halt::Interrupted) })
    }

    fn receive_visit(
        &mut self,
        visitor: &mut dyn Visitor,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<bool> {
        let Self { drive, inbox, channel, visits, .. } = self;
        let mut failed = None;
        let mut meanwhile = |machine: &mut Machine| {
            let bytes = Visits::hear(&mut visits.heard, machine, *channel);
            if let Err(error) = inbox.take(bytes) {
                failed = Some(error);
                return Some(1);
            }
            while let Some(said) = inbox.next_words() {
                match said {
                    FromAgent::Wrote(stream, text) => watch.wrote(stream, &text),
                    FromAgent::Progress(text) => watch.line(&text),
                    _ => {}
                }
            }
            inbox.ending()
        };
        let goes_on = visitor.visit(&mut drive.machine, &mut meanwhile)?;
        match failed {
            Some(error) => Err(error).context("while the debugger was there"),
            None => Ok(goes_on),
        }
    }
}
