//! The outside: a machine with the agent in it, driven step by step.

use crate::booted::{Key, Store};
use crate::counters::{Count, Counters};
use crate::host::{self, Host};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::protocol::{FromAgent, PORT, Step, StepResult, ToAgent};
use anyhow::{Context, bail};
use arch::time::Picoseconds;
use board::channel::Channel;
use board::{Limits, Machine, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// Virtual time between two looks at the machine.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(5);
/// Virtual time in which a host must have booted.
const BOOT_LIMIT: Picoseconds = Picoseconds::from_milliseconds(60_000);

/// One step as both sides saw it.
#[derive(Clone, Debug)]
pub struct Observed {
    pub step: Step,
    pub result: StepResult,
    /// The machine's count, by exit code.
    pub exits: BTreeMap<u64, Count>,
    /// The same of the part that the guest marked, or of all.
    pub window: BTreeMap<u64, Count>,
    pub doorbells: u64,
    /// Virtual time that the step took, module loading included.
    pub time: Picoseconds,
}

/// What a verb wrote, and its exit status.
#[derive(Clone, Debug)]
pub struct Said {
    pub output: String,
    pub errors: String,
    pub status: i32,
}

/// An emulated host that waits for steps.
pub struct Session {
    machine: Machine,
    channel: Channel,
    counters: Counters,
    input: Vec<u8>,
    waiting: VecDeque<FromAgent>,
    console: Vec<u8>,
    /// The kernel that booted.
    pub release: String,
    /// Whether the host's boot was spared by a kept snapshot.
    pub is_restored: bool,
}

impl Session {
    /// A host that has booted: as it was kept, if it was, or else booted now and kept.
    pub fn start(
        host: &Host,
        kernel: &Kernel,
        initramfs: &Initramfs,
        store: Option<&Store>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let configuration = host.configuration()?;
        let mut machine = host.power_on()?;
        let cpio = initramfs.to_cpio();
        let key = store.map(|_| Key::new(&machine, &configuration, kernel, &cpio)).transpose()?;
        let kept = store.zip(key).and_then(|(store, key)| store.find(key, &configuration));
        if let Some((machine, release)) = kept {
            let mut session = Self::new(machine)?;
            session.release = release;
            session.is_restored = true;
            session.machine.state.wiring.records = Some(Vec::new());
            return Ok(session);
        }
        host::load(&mut machine, kernel, &cpio)?;
        let mut session = Self::new(machine)?;
        session.boot(stop)?;
        if let Some((store, key)) = store.zip(key) {
            store.keep(key, &session.machine, &configuration, &session.release);
        }
        session.machine.state.wiring.records = Some(Vec::new());
        Ok(session)
    }

    fn new(mut machine: Machine) -> anyhow::Result<Self> {
        let channel = machine.channel(PORT).context("the machine has no console port")?;
        Ok(Self {
            machine,
            channel,
            counters: Counters::default(),
            input: Vec::new(),
            waiting: VecDeque::new(),
            console: Vec::new(),
            release: String::new(),
            is_restored: false,
        })
    }

    /// Runs to the agent's first word.
    fn boot(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let limit = self.machine.state.now.saturating_add(BOOT_LIMIT);
        match self.receive(limit, stop)? {
            FromAgent::Ready(release) => self.release = release,
            other => bail!("the agent began with {other:?}"),
        }
        Ok(())
    }

    /// Instructions of all processors so far.
    pub fn instructions(&self) -> u64 {
        self.machine.instructions()
    }

    pub fn virtual_time(&self) -> Picoseconds {
        self.machine.state.now
    }

    /// The hash of everything that happened.
    pub fn trace_hash(&self) -> u64 {
        self.machine.state.wiring.hash.value()
    }

    /// Performs one step. `progress` is told what the guest prints.
    pub fn perform(
        &mut self,
        step: &Step,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Observed> {
        let started = self.machine.state.now;
        let limit = started
            .saturating_add(BOOT_LIMIT)
            .saturating_add(Picoseconds::from_milliseconds(step.limit * 1000));
        self.send(&ToAgent::Prepare(Box::new(step.clone())))?;
        match self.receive(limit, stop)? {
            FromAgent::Standby => {}
            FromAgent::Failed(why) => bail!("{}: {why}", step.name),
            other => bail!("{}: the agent said {other:?} instead of standing by", step.name),
        }
        self.drain_records();
        self.counters.clear();
        self.send(&ToAgent::Go)?;
        loop {
            match self.receive(limit, stop)? {
                FromAgent::Progress(text) => progress(&text),
                FromAgent::Finished(result) => {
                    self.drain_records();
                    return Ok(Observed {
                        step: step.clone(),
                        result: *result,
                        exits: self.counters.exits().clone(),
                        window: self.counters.window().clone(),
                        doorbells: self.counters.doorbells(),
                        time: Picoseconds(self.machine.state.now.0 - started.0),
                    });
                }
                FromAgent::Failed(why) => bail!("{}: {why}", step.name),
                other => bail!("{}: the agent said {other:?}", step.name),
            }
        }
    }

    /// Loads KVM's module with the feature off or on, without a virtual machine.
    pub fn load(&mut self, is_on: bool, stop: &AtomicBool) -> anyhow::Result<()> {
        self.send(&ToAgent::Load(is_on))?;
        let limit = self.machine.state.now.saturating_add(BOOT_LIMIT);
        match self.receive(limit, stop)? {
            FromAgent::Standby => Ok(()),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// Runs a verb of this program on the emulated host. [`Session::counters`] then has the exits
    /// that the machine performed meanwhile.
    pub fn say(&mut self, arguments: &[&str], stop: &AtomicBool) -> anyhow::Result<Said> {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.drain_records();
        self.counters.clear();
        self.send(&ToAgent::Say(arguments))?;
        let limit = self.machine.state.now.saturating_add(BOOT_LIMIT);
        match self.receive(limit, stop)? {
            FromAgent::Said(output, errors, status) => {
                self.drain_records();
                Ok(Said { output, errors, status })
            }
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// The machine, its console given to a shell as a terminal of so many rows and columns; what the
    /// boot printed is left out.
    pub fn into_shell(mut self, rows: u16, columns: u16) -> anyhow::Result<Machine> {
        self.send(&ToAgent::Shell(rows, columns))?;
        self.machine.state.wiring.records = None;
        Ok(self.machine)
    }

    /// The machine's own count of exits in the last step or verb.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&mut self, message: &ToAgent) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let taken = self.machine.feed_channel(self.channel, &line);
        anyhow::ensure!(
            taken == line.len(),
            "the console port took {taken} of {} bytes",
            line.len()
        );
        Ok(())
    }

    /// Runs the machine to the agent's next word.
    fn receive(&mut self, limit: Picoseconds, stop: &AtomicBool) -> anyhow::Result<FromAgent> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let until = self.machine.state.now.saturating_add(SLICE);
            let outcome = self.machine.run(Limits { until, instructions: u64::MAX });
            self.drain_records();
            let serial = self.machine.take_console();
            self.console.extend(serial.into_iter().filter(|(port, _)| *port == 0).map(|(_, b)| b));
            self.input.extend(self.machine.take_channel(self.channel));
            while let Some(length) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=length).collect();
                self.waiting.push_back(serde_json::from_slice(&line)?);
            }
            if !self.waiting.is_empty() {
                continue;
            }
            if let Some(outcome) = outcome {
                return Err(self.ended(outcome));
            }
            if self.machine.state.now >= limit {
                bail!("the emulated host says nothing any more\n{}", self.last_lines());
            }
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
        }
    }

    fn drain_records(&mut self) {
        let records = self.machine.state.wiring.records.as_mut().map(std::mem::take);
        records.unwrap_or_default().iter().for_each(|record| self.counters.take(record));
    }

    fn ended(&self, outcome: Outcome) -> anyhow::Error {
        anyhow::anyhow!("the emulated host ended ({outcome:?})\n{}", self.last_lines())
    }

    /// The end of the host's console, for error messages.
    fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.console);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}
