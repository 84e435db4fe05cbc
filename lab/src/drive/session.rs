//! The outside: a machine with the agent in it, driven step by step.

mod command;
mod draws;
mod inbox;
mod kept;
mod place;
mod point;
mod visit;

pub use command::{Keyboard, Typed};
pub(crate) use draws::Draws;
pub(crate) use kept::Beginning;
pub use kept::{Again, Kept};
pub(crate) use point::Point;
pub use visit::{Meanwhile, Visitor};

use crate::drive::Drive;
use crate::drive::counters::Counters;
use crate::drive::example::{self, Examples};
use crate::drive::observed::Observed;
use crate::drive::recording::Recording;
use crate::drive::sampling::Sampling;
use crate::host::booted::{Key, Store};
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::host::{self, Host};
use crate::plan::ModuleParameter;
use crate::protocol::{FromAgent, PORT, Step, StepResult, ToAgent};
use crate::watch::{Halt, Watch};
use anyhow::{Context, bail};
use arch::time::Picoseconds;
use board::channel::Channel;
use board::cost::CostProfile;
use board::{Machine, Marks, Outcome};
use inbox::Inbox;
use std::collections::BTreeMap;

/// Virtual time in which a host must have booted, or have loaded modules.
const BOOT_LIMIT: Picoseconds = Picoseconds::from_milliseconds(60_000);
/// Virtual time after which a host that has booted has calibrated its clocks, as any has that is
/// used: until then Linux on AMD's processors reads `tsc-early` and has no timers finer than ticks.
const SETTLED: Picoseconds = Picoseconds::from_milliseconds(3000);

/// An emulated host that waits for steps.
pub struct Session {
    drive: Drive,
    channel: Channel,
    inbox: Inbox,
    visits: visit::Visits,
    /// Moments to which the machine goes back.
    points: Marks,
    /// Where processors were when a command was stopped.
    places: Option<Vec<place::Place>>,
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
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Self> {
        Ok(Self::start_by_key(host, kernel, initramfs, store, watch)?.0)
    }

    /// The same, with what the host is found by in the store.
    fn start_by_key(
        host: &Host,
        kernel: &Kernel,
        initramfs: &Initramfs,
        store: Option<&Store>,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<(Self, Option<Key>)> {
        let configuration = host.configuration()?;
        let mut machine = host.power_on()?;
        let cpio = initramfs.to_cpio();
        let command_line = host.command_line();
        let key = store
            .map(|_| Key::new(&machine, &configuration, kernel, &cpio, &command_line))
            .transpose()?;
        let kept = store.zip(key).and_then(|(store, key)| store.find(key, &configuration));
        if let Some((machine, release)) = kept {
            watch.stage("restoring the emulated host from its snapshot");
            return Ok((Self::restored(machine, &release)?, key));
        }
        watch.stage("booting the emulated host");
        host::load(&mut machine, kernel, &cpio, &command_line)?;
        let mut session = Self::new(machine)?;
        session.boot(watch)?;
        if let Some((store, key)) = store.zip(key) {
            store.keep(key, &session.drive.machine, &configuration, &session.release);
        }
        session.drive.count();
        Ok((session, key))
    }

    fn new(mut machine: Machine) -> anyhow::Result<Self> {
        let channel = machine.channel(PORT).context("the machine has no console port")?;
        Ok(Self {
            drive: Drive::new(machine),
            channel,
            inbox: Inbox::default(),
            visits: visit::Visits::default(),
            points: Marks::default(),
            places: None,
            release: String::new(),
            is_restored: false,
        })
    }

    /// Runs to the agent's first word, and until the kernel's clocks are those that it keeps.
    fn boot(&mut self, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::Ready(release) => self.release = release,
            other => bail!("the agent began with {other:?}"),
        }
        self.idle(SETTLED, watch)
    }

    /// A moment from now.
    fn after(&self, time: Picoseconds) -> Picoseconds {
        self.virtual_time().saturating_add(time)
    }

    /// Instructions of all processors so far.
    pub fn instructions(&self) -> u64 {
        self.drive.machine.instructions()
    }

    /// Since power-on.
    pub fn virtual_time(&self) -> Picoseconds {
        self.drive.machine.state.now
    }

    /// The hash of everything that happened.
    pub fn trace_hash(&self) -> u64 {
        self.drive.machine.state.wiring.recorder.hash.value()
    }

    /// Performs one step, and looks at its interrupts and, if that is asked for, at where
    /// processors are meanwhile. Times are measured under other costs besides.
    pub(crate) fn observe(
        &mut self,
        step: &Step,
        is_looked_at: bool,
        draws: Draws,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Observed> {
        // What others count while times are measured takes time; of a device's interrupts it is
        // all that there is.
        let is_measured = !step.is_traced || step.workload == "device";
        self.drive.kept = is_measured.then(Vec::new);
        self.drive.sampling = (is_measured && is_looked_at).then(Sampling::new);
        let mut observed = self.perform_drawn(step, draws, watch)?;
        let samples = self.drive.sampling.take().map(Sampling::finish).unwrap_or_default();
        let kept = self.drive.kept.take();
        observed.examples = kept.and_then(|kept| Examples::find(&kept, &samples));
        Ok(observed)
    }

    /// Performs one step. The watch is told what the guest prints.
    pub fn perform(&mut self, step: &Step, watch: &mut Watch<'_>) -> anyhow::Result<Observed> {
        self.perform_drawn(step, Draws::default(), watch)
    }

    fn perform_drawn(
        &mut self,
        step: &Step,
        draws: Draws,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Observed> {
        let started = self.virtual_time();
        let own = Picoseconds::from_milliseconds(step.limit.saturating_mul(1000));
        let limit = self.after(BOOT_LIMIT.saturating_add(own));
        self.send(&ToAgent::Prepare(Box::new(step.clone())))?;
        match self.receive(limit, watch)? {
            FromAgent::Standby => {}
            FromAgent::Failed(why) => bail!("{}: {why}", step.name),
            other => bail!("{}: the agent said {other:?} instead of standing by", step.name),
        }
        self.begin_counting();
        self.drive.kept.iter_mut().for_each(Vec::clear);
        if self.arm() {
            let purpose = if step.is_traced { "counting" } else { "timing" };
            let (name, arm) = (&step.name, &step.arm.label);
            report::writer::remark(&format!(
                "avicenna: the debugger sees {name}, {arm}: {purpose}; what follows runs without it"
            ));
        }
        let mut drawn = match draws.of_lives.as_slice() {
            [] => Vec::new(),
            lives => self.live_drawn(step, lives, limit, watch)?,
        };
        let mut awaits_seed = !draws.of_seeds.is_empty();
        self.send(if awaits_seed { &ToAgent::GoByLine } else { &ToAgent::Go })?;
        self.drive.look_often(awaits_seed);
        loop {
            match self.receive(limit, watch)? {
                FromAgent::Progress(text) => {
                    watch.line(&text);
                    if awaits_seed && draws::seed_of(&text).is_some() {
                        awaits_seed = false;
                        let of = (step.workload.as_str(), draws.of_seeds.as_slice());
                        drawn.extend(self.measure_drawn(of, limit, watch)?);
                        self.drive.look_often(false);
                    }
                }
                FromAgent::Finished(result) => {
                    self.drive.look_often(false);
                    return Ok(Observed { drawn, ..self.observed(step, *result, started) });
                }
                FromAgent::Failed(why) => bail!("{}: {why}", step.name),
                other => bail!("{}: the agent said {other:?}", step.name),
            }
        }
    }

    /// What became of a step that began then.
    fn observed(&mut self, step: &Step, result: StepResult, started: Picoseconds) -> Observed {
        self.drive.drain();
        Observed {
            step: step.clone(),
            result,
            all: self.counters().all().clone(),
            window: self.counters().window().cloned(),
            examples: None,
            drawn: Vec::new(),
            time: Picoseconds(self.virtual_time().0 - started.0),
        }
    }

    /// Starts a step and runs until its guest prints a line with `word` in it; the machine, which
    /// nobody drives then.
    pub(crate) fn begin(
        mut self,
        step: &Step,
        word: &str,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Machine> {
        let limit = self.after(BOOT_LIMIT);
        self.send(&ToAgent::Prepare(Box::new(step.clone())))?;
        match self.receive(limit, watch)? {
            FromAgent::Standby => self.send(&ToAgent::Go)?,
            FromAgent::Failed(why) => bail!("{}: {why}", step.name),
            other => bail!("{}: the agent said {other:?} instead of standing by", step.name),
        }
        loop {
            match self.receive(limit, watch)? {
                FromAgent::Progress(text) if text.contains(word) => break,
                FromAgent::Progress(text) => watch.line(&text),
                FromAgent::Failed(why) => bail!("{}: {why}", step.name),
                other => bail!("{}: the agent said {other:?}", step.name),
            }
        }
        self.drive.drain();
        Ok(self.drive.machine)
    }

    /// Loads KVM's module with an arm's parameters, without a virtual machine.
    pub fn load(
        &mut self,
        parameters: &[ModuleParameter],
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<()> {
        self.send(&ToAgent::Load(parameters.to_vec()))?;
        self.expect_standby(watch)
    }

    /// Names and addresses of the code of the kernel and of its modules as they are loaded now, in
    /// the form of `/proc/kallsyms`.
    pub fn symbols(&mut self, watch: &mut Watch<'_>) -> anyhow::Result<String> {
        self.send(&ToAgent::Symbols)?;
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::Symbols(text) => Ok(text),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// Names the functions that a step's examples have, by the modules as they are loaded now; the
    /// machine does not know that it was asked. Those of a kernel that does not tell keep their
    /// addresses.
    pub(crate) fn name_functions(
        &mut self,
        observed: &mut [Observed],
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<()> {
        let mut functions: Vec<_> = observed
            .iter_mut()
            .filter_map(|one| Some(&mut one.examples.as_mut()?.functions))
            .collect();
        let addresses = functions.iter().flat_map(|all| all.iter().filter_map(|one| one.address));
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Ok(());
        }
        watch.stage("reading the kernel's symbols");
        self.drive.drain();
        let recording = self.drive.recording.take();
        let point = self.mark();
        let names = self.names(&addresses, watch);
        self.return_to(point);
        self.forget(point);
        self.drive.recording = recording;
        let names = match names {
            Ok(names) => names,
            Err(error) if error.downcast_ref::<Halt>().is_some() => return Err(error),
            Err(error) => {
                report::writer::remark(&format!("avicenna: functions have no names: {error:#}"));
                Vec::new()
            }
        };
        let names: BTreeMap<_, _> = addresses.into_iter().zip(names).collect();
        functions.iter_mut().for_each(|functions| example::name_functions(functions, &names));
        Ok(())
    }

    /// What the code at some addresses is called, and the module that it is of.
    fn names(
        &mut self,
        addresses: &[u64],
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<(String, Option<String>)>> {
        self.send(&ToAgent::Name(addresses.to_vec()))?;
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::Named(names) => Ok(names),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// The machine, its console given to a shell as a terminal of so many rows and columns; what
    /// the boot printed is left out.
    pub fn into_shell(
        mut self,
        rows: u16,
        columns: u16,
        parameters: &[ModuleParameter],
    ) -> anyhow::Result<Machine> {
        self.send(&ToAgent::Shell { rows, columns, parameters: parameters.to_vec() })?;
        self.drive.machine.state.wiring.recorder.records = None;
        Ok(self.drive.machine)
    }

    /// What the machine's times are computed by.
    pub(crate) fn costs(&self) -> &CostProfile {
        &self.drive.machine.costs
    }

    /// Computes them by others from here on.
    pub(crate) fn set_costs(&mut self, costs: CostProfile) {
        self.drive.machine.set_costs(costs);
    }

    /// Writes from here on what the machine does.
    pub fn record(&mut self, recording: Option<Recording>) {
        self.drive.drain();
        let now = self.virtual_time();
        self.drive.recording = recording.map(|recording| recording.going_on_at(now));
    }

    /// Writes beside a trace what the code is called that it has addresses of; a kernel that does
    /// not tell leaves addresses.
    pub fn name_code(
        &mut self,
        recording: &mut Recording,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<()> {
        watch.stage("reading the kernel's symbols");
        match self.symbols(watch) {
            Ok(symbols) => recording.name_code(symbols.as_bytes()),
            Err(error) if error.downcast_ref::<Halt>().is_some() => Err(error),
            Err(error) => {
                report::writer::remark(&format!("avicenna: the trace has no symbols: {error:#}"));
                Ok(())
            }
        }
    }

    /// The trace file, for another session or to be finished.
    pub fn take_recording(&mut self) -> Option<Recording> {
        self.drive.drain();
        self.drive.recording.take()
    }

    /// The machine's own count of exits in the last step or command.
    pub fn counters(&self) -> &Counters {
        &self.drive.counters
    }

    fn begin_counting(&mut self) {
        self.drive.drain();
        self.drive.counters.clear();
    }

    fn send(&mut self, message: &ToAgent) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.feed(&line)
    }

    fn feed(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let taken = self.drive.machine.feed_channel(self.channel, bytes);
        anyhow::ensure!(
            taken == bytes.len(),
            "the console port took {taken} of {} bytes",
            bytes.len()
        );
        Ok(())
    }

    /// Lets the agent read while more comes than the port keeps.
    fn feed_all(&mut self, mut bytes: &[u8], watch: &mut Watch<'_>) -> anyhow::Result<()> {
        let limit = self.after(BOOT_LIMIT);
        loop {
            let taken = self.drive.machine.feed_channel(self.channel, bytes);
            bytes = &bytes[taken..];
            if bytes.is_empty() {
                return Ok(());
            }
            if let Some(message) = self.step(limit, watch)? {
                anyhow::bail!("the agent said {message:?} with {} bytes to come", bytes.len());
            }
        }
    }

    /// Runs the machine to the agent's next word.
    fn receive(&mut self, limit: Picoseconds, watch: &mut Watch<'_>) -> anyhow::Result<FromAgent> {
        loop {
            if let Some(message) = self.step(limit, watch)? {
                return Ok(message);
            }
        }
    }

    /// The agent's next word, or nothing so far after a slice of time.
    fn step(
        &mut self,
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Option<FromAgent>> {
        if let Some(message) = self.inbox.next() {
            return Ok(Some(message));
        }
        let outcome = match self.slice(limit, watch)? {
            Ok(outcome) => outcome,
            Err(Halt::Interrupted) => return Err(Halt::Interrupted.into()),
            Err(halt) => {
                return Err(halt).context(format!(
                    "the emulated host says nothing any more\n{}",
                    self.drive.last_lines()
                ));
            }
        };
        let said = self.hear();
        self.inbox.take(said)?;
        match outcome {
            Some(outcome) if self.inbox.is_empty() => Err(self.ended(outcome)),
            _ => Ok(self.inbox.next()),
        }
    }

    fn ended(&self, outcome: Outcome) -> anyhow::Error {
        anyhow::anyhow!("the emulated host ended ({outcome:?})\n{}", self.drive.last_lines())
    }
}

/// The exit status of the shell that a machine from [`Session::into_shell`] ran to its end, if it
/// was said.
pub fn shell_status(machine: &mut Machine) -> anyhow::Result<Option<i32>> {
    let channel = machine.channel(PORT).context("the machine has no console port")?;
    let said = machine.take_channel(channel);
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line)? {
            FromAgent::Left(status) => return Ok(Some(status)),
            FromAgent::Failed(why) => bail!("{why}"),
            _ => {}
        }
    }
    Ok(None)
}
