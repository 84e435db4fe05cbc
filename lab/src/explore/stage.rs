//! Where windows begin: a booted host on which the mix of interrupts runs.

use super::oracle::{Alarm, Oracle};
use super::window::{self, Seen};
use crate::ground::{Begin, Ground, symbols};
use crate::plan::{Needs, Setting};
use crate::watch::Watch;
use arch::time::Picoseconds;
use bench::Configuration;
use board::perturb::Source;
use board::{Configuration as Board, Machine, Mark};
use serde::{Deserialize, Serialize};
use trace::Record;
use trace::symbol::Symbols;

/// What the guest prints when all its processors take part.
const BEGINS: &str = "\"record\":\"mix\"";

/// What runs in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// `xapic` or `x2apic`.
    pub apic: String,
    /// vCPUs, each on a processor of its own.
    pub vcpus: u16,
    /// Of the guest's own choices.
    pub seed: u64,
}

/// What is explored.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The emulated host.
    pub ground: Ground<'a>,
    /// What runs in its guest.
    pub mix: &'a Mix,
}

/// A machine at the beginning of a window.
pub struct Stage {
    /// What the machine was made of.
    board: Board,
    machine: Machine,
    oracle: Oracle,
    mark: Option<(Mark, Oracle)>,
    /// Names of the kernel's code.
    pub symbols: Symbols,
    /// Of the kernel.
    pub release: String,
}

impl Stage {
    /// Boots the host, or takes one that was kept, and starts the guest.
    /// `before_guests` is called when all that is needed of this machine is read or open.
    pub fn open(
        subject: &Subject<'_>,
        before_guests: impl FnOnce(),
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Self> {
        let mix = subject.mix;
        let guest = Begin {
            workload: "wake",
            name: "wake",
            // A vCPU that polls before it sleeps counts as running, and nothing has to wake it.
            needs: Needs { parameters: &["kvm.halt_poll_ns=0"], ..Needs::default() },
            setting: Setting::On,
            configuration: Configuration { vcpus: mix.vcpus, ..Configuration::default() },
            options: format!("tests=mix apic={} seed={}", mix.apic, mix.seed),
            word: BEGINS,
        };
        let board = subject.ground.host.configuration()?;
        let begun = subject.ground.begin(&guest, before_guests, watch)?;
        let mut names = Symbols::default();
        names.extend(symbols(&begun.symbols).map(|(address, name, _)| (address, name.to_owned())));
        Ok(Self { symbols: names, ..Self::of(begun.machine, board, &begun.release) })
    }

    /// A machine on which guests run, and what it was made of.
    pub fn of(mut machine: Machine, board: Board, release: &str) -> Self {
        machine.state.wiring.recorder.records = Some(Vec::new());
        Self {
            board,
            machine,
            oracle: Oracle::default(),
            mark: None,
            symbols: Symbols::default(),
            release: release.into(),
        }
    }

    /// Keeps it as it is, before any time has passed on it.
    pub fn keep(&self) -> anyhow::Result<Kept> {
        let mut snapshot = Vec::new();
        self.machine.save("memory", &mut snapshot, self.board.digest())?;
        Ok(Kept {
            board: self.board.clone(),
            snapshot,
            symbols: self.symbols.clone(),
            release: self.release.clone(),
        })
    }

    /// Lets time pass plainly: the alarms of that. Windows begin somewhere else afterwards.
    pub fn advance(&mut self, time: Picoseconds) -> Vec<Alarm> {
        self.leave_mark();
        window::run_on(&mut self.machine, &mut self.oracle, time)
    }

    /// Runs plainly to a moment.
    pub fn advance_to(&mut self, moment: Picoseconds) {
        let left = moment.0.saturating_sub(self.now().0);
        self.advance(Picoseconds(left));
    }

    /// Runs a window from here, and goes back.
    pub fn window(&mut self, source: Source) -> Seen {
        self.run(source, None).0
    }

    /// The same; all that happened in it as well.
    pub fn record(&mut self, source: Source) -> (Seen, Vec<Record>) {
        self.run(source, Some(Vec::new()))
    }

    fn run(&mut self, source: Source, records: Option<Vec<Record>>) -> (Seen, Vec<Record>) {
        let machine = &mut self.machine;
        let (mark, oracle) = self.mark.get_or_insert_with(|| (machine.mark(), self.oracle.clone()));
        let mut own = oracle.clone();
        own.records = records;
        let seen = window::run(machine, &mut own, source);
        machine.return_to(mark);
        (seen, own.records.unwrap_or_default())
    }

    fn leave_mark(&mut self) {
        if self.mark.take().is_some() {
            self.machine.forget_mark();
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Picoseconds {
        self.machine.state.now
    }

    /// The hash of all that has happened.
    pub fn hash(&self) -> u64 {
        self.machine.state.wiring.recorder.hash.value()
    }
}

/// A stage in memory, from which others are made.
pub struct Kept {
    board: Board,
    snapshot: Vec<u8>,
    symbols: Symbols,
    release: String,
}

impl Kept {
    /// Another stage that goes on from there.
    pub fn stage(&self) -> anyhow::Result<Stage> {
        let machine = Machine::restore(&self.board, "memory", self.snapshot.as_slice())?;
        let stage = Stage::of(machine, self.board.clone(), &self.release);
        Ok(Stage { symbols: self.symbols.clone(), ..stage })
    }
}
