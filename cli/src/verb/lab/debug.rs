//! `--gdb`: a debugger of the emulated host, from the beginning of a program or workload on.

use super::stages::INTERRUPT;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::machine::gdb::{Door, attend};
use board::debugger::{DebuggedMachine, Ending};
use board::{Limits, Machine, Marks, Outcome, Sought};
use lab::drive::session::{Meanwhile, Visitor};
use std::sync::atomic::Ordering;
use trace::EventGoal;

#[derive(Clone, clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub(super) struct Arguments {
    /// Wait for GDB when the program or the workload begins: at an address of this machine, such as
    /// :1234, or at a socket file for this user alone, such as ./gdb. Its threads are the host's
    /// processors
    #[arg(long, value_name = "ADDR")]
    gdb: Option<String>,
    /// Let GDB come from other machines: anyone who reaches the address can read and write the
    /// emulated host
    #[arg(long, requires = "gdb")]
    gdb_any: bool,
    /// Wait for GDB only when this happens, and stop at it again: an event as the monitor's until
    /// has it, such as 'vmexit msr vcpu=1', inhibit, 'ipi to 3', post, ga-log, 'wrmsr 0x830'
    #[arg(long = "break", value_name = "EVENT", requires = "gdb")]
    events: Vec<EventGoal>,
}

impl Arguments {
    /// Of what runs on several machines one can be debugged: `count` says how many there are,
    /// `which` how to choose.
    pub(super) fn ensure_one(&self, count: usize, which: &str) -> anyhow::Result<()> {
        if self.gdb.is_some() && count != 1 {
            return Err(Usage::of(anyhow::anyhow!(
                "--gdb: one machine can be debugged, and these are {count} {which}"
            )));
        }
        Ok(())
    }

    /// The debugger that is to come, before the wall is up.
    pub(super) fn open(&self, sandbox: &mut Sandbox) -> anyhow::Result<Option<Box<dyn Visitor>>> {
        let Some(address) = &self.gdb else { return Ok(None) };
        let door = Door::open(address, self.gdb_any, sandbox)?;
        Ok(Some(Box::new(Awaited { door, events: self.events.clone() })))
    }
}

/// A debugger that is waited for.
struct Awaited {
    door: Door,
    events: Vec<EventGoal>,
}

impl Visitor for Awaited {
    fn approach(&mut self, machine: &mut Machine, limits: Limits) -> (Option<Outcome>, bool) {
        if self.events.is_empty() {
            return (None, true);
        }
        let kept = machine.state.wiring.recorder.records.take();
        let mut records = kept.unwrap_or_default();
        let Sought { outcome, record } = Marks::default().run_to_record(
            machine,
            limits,
            &mut |record| {
                self.events.iter_mut().fold(false, |is_it, event| event.is(record) | is_it)
            },
            &mut |more| records.extend(more),
            &mut || INTERRUPT.load(Ordering::Relaxed),
        );
        machine.state.wiring.recorder.records = Some(records);
        if let Some(record) = record {
            remark!("avicenna: behind the instruction of {}", record.to_string().trim_start());
        }
        (outcome, record.is_some())
    }

    fn visit(&mut self, machine: &mut Machine, meanwhile: Meanwhile<'_>) -> anyhow::Result<bool> {
        let Some(line) = self.door.wait(&INTERRUPT)? else { return Ok(false) };
        let mut debugged = DebuggedMachine::new(machine, |_| 1);
        for event in self.events.drain(..) {
            debugged.add_event(event).map_err(anyhow::Error::msg)?;
        }
        Ok(attend(debugged, line, meanwhile)? != Ending::Killed)
    }
}
