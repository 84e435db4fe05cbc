//! Where windows begin: a booted host on which the mix of interrupts runs.

use super::conflict::{self, Study};
use super::oracle::{Alarm, End, Oracle, SILENCE};
use super::window::{self, Seen};
use crate::drive::session::Visitor;
use crate::ground::{Begin, Ground, symbols};
use crate::host::Host;
use crate::host::initramfs::Initramfs;
use crate::plan::{Function, Needs, Setting};
use crate::watch::Watch;
use crate::workload::device;
use crate::workload::mix::{Changes, Flip};
use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use bench::{Configuration, InterruptChip, Timer};
use board::perturb::{Decision, Source};
use board::{Configuration as Board, Limits, Machine, Mark};
use cpu::{Interest, Touch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use trace::symbol::Symbols;
use trace::{Event, Record};

/// What the guest prints when all its processors take part.
const BEGINS: &str = "\"record\":\"mix\"";

/// What is waited for the agent's word at a time, and how often.
const SLICE: Picoseconds = Picoseconds::from_milliseconds(10);
const LAST_WORDS: u32 = 100;

/// The modules of the hypervisor.
const KVM: [&str; 3] = ["[kvm]", "[kvm_amd]", "[kvm_intel]"];
/// Linear addresses of Linux's.
const UPPER_HALF: u64 = 0xFFFF_8000_0000_0000;

/// What runs in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Mix {
    /// `xapic` or `x2apic`.
    pub apic: String,
    /// vCPUs, each on a processor of its own as far as there are such.
    pub vcpus: u16,
    /// Of the guest's own choices, and the host's.
    pub seed: u64,
    /// What the host changes meanwhile.
    #[serde(flatten)]
    pub changes: Changes,
    /// Whether vCPUs poll before they sleep, as KVM has it by itself.
    pub polls: bool,
    /// The guest's interval timer.
    #[cfg_attr(test, schemars(with = "String"))]
    pub timer: Timer,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            apic: "x2apic".into(),
            vcpus: 3,
            seed: 1,
            changes: Changes::default(),
            polls: false,
            timer: Timer::Process,
        }
    }
}

/// What is explored.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The emulated host.
    pub ground: Ground<'a>,
    /// What runs in its guest.
    pub mix: &'a Mix,
}

impl<'a> Subject<'a> {
    /// Reads what is needed of this machine.
    pub fn prepare(self) -> anyhow::Result<Prepared<'a>> {
        let files = self.ground.files(&self.mix.needs_on(self.ground.host))?;
        Ok(Prepared { subject: self, files: files.into() })
    }
}

/// All that a stage needs of this machine.
pub struct Prepared<'a> {
    subject: Subject<'a>,
    files: Rc<Initramfs>,
}

impl<'a> Prepared<'a> {
    /// The same for another guest, which needs the same of the host.
    pub fn with(&self, mix: &'a Mix) -> Self {
        let subject = Subject { mix, ..self.subject };
        Self { subject, files: self.files.clone() }
    }

    /// Boots the host, or takes one that was kept, and starts the guest.
    pub fn open(&self, watch: &mut Watch<'_>) -> anyhow::Result<Stage> {
        let Subject { ground, mix } = self.subject;
        let board = ground.host.configuration()?;
        let begun = ground.begin_with(
            &self.files,
            &mix.begin(&mix.step()?, mix.needs_on(ground.host)),
            watch,
        )?;
        let mut names = Symbols::default();
        names.extend(symbols(&begun.symbols).map(|(address, name, _)| (address, name.to_owned())));
        let hypervisor = hypervisor(&begun.symbols);
        Ok(Stage { symbols: names, hypervisor, ..Stage::of(begun.machine, board, &begun.release) })
    }
}

/// Where KVM's code lies, by its modules, and the kernel's data.
fn hypervisor(kallsyms: &str) -> Interest {
    let mut modules: BTreeMap<&str, Range<u64>> = BTreeMap::new();
    let is_code =
        |line: &&str| line.split(' ').nth(1).is_some_and(|kind| kind == "t" || kind == "T");
    for (at, _, module) in kallsyms.lines().filter(is_code).flat_map(symbols) {
        let Some(module) = module.filter(|name| KVM.contains(name)) else { continue };
        let range = modules.entry(module).or_insert(at..at);
        *range = range.start.min(at)..range.end.max(at);
    }
    let whole = |range: Range<u64>| range.start & !0xFFF..(range.end | 0xFFF) + 1;
    let upper = UPPER_HALF..u64::MAX;
    Interest { code: modules.into_values().map(whole).collect(), data: vec![upper] }
}

/// What processors do to memory by themselves: they put vectors where a vCPU finds them.
fn touches_of_silicon(machine: &Machine, records: &[Record]) -> Vec<(CpuIndex, Vec<Touch>)> {
    let is_svm = records.iter().any(|record| matches!(record.event, Event::SvmExit { .. }));
    let mut touches: BTreeMap<CpuIndex, Vec<Touch>> = BTreeMap::new();
    for record in records {
        let Event::Posted { place, vector } = record.event else { continue };
        let vector = u64::from(vector.0);
        // In a page each word of 32 vectors has 16 bytes; a descriptor begins with all 256.
        let at = place.offset(if is_svm { 0x200 + vector / 32 * 16 } else { vector / 64 * 8 });
        let Some(place) = machine.place(at) else { continue };
        let (rip, stack) = (Linear(0), Linear(0));
        let (linear, found, is_write) = (Linear(0), 0, true);
        let touch = Touch { at: record.at, rip, stack, linear, place, found, is_write };
        touches.entry(record.cpu).or_default().push(touch);
    }
    touches.into_iter().collect()
}

impl Mix {
    /// The step in which it runs.
    fn step(&self) -> anyhow::Result<String> {
        self.changes.step(self.seed)
    }

    /// The guest in which it runs.
    fn begin<'a>(&self, step: &'a str, needs: Needs) -> Begin<'a> {
        let has_timer = self.has_timer();
        let chip = if has_timer { InterruptChip::Full } else { InterruptChip::Split };
        let timer = match self.timer {
            Timer::Process if has_timer => Timer::KernelDiscard,
            timer => timer,
        };
        let configuration = Configuration {
            vcpus: self.vcpus,
            // Linux before 6.0 has no AVIC for a guest whose CPUID offers x2APIC.
            has_x2apic: self.apic == "x2apic",
            interrupt_chip: chip,
            timer,
            ..Configuration::default()
        };
        Begin {
            workload: "mix",
            name: step,
            needs,
            setting: Setting::On,
            configuration,
            options: self.options(),
            word: BEGINS,
        }
    }

    /// Words for the guest.
    fn options(&self) -> String {
        let lines = if self.changes.raises { " lines=1" } else { "" };
        let starts = if self.changes.starts { " starts=1" } else { "" };
        format!("tests=mix apic={} seed={}{lines}{starts}", self.apic, self.seed)
    }

    /// Whether KVM has its timer and its other interrupt controllers.
    pub(super) fn has_timer(&self) -> bool {
        self.timer != Timer::Process || self.changes.flip == Some(Flip::Pit)
    }

    /// What its host has to have.
    pub fn needs(&self) -> Needs {
        // A vCPU that polls before it sleeps counts as running, and nothing has to wake it.
        let parameters: &[&str] = if self.polls { &[] } else { &["kvm.halt_poll_ns=0"] };
        let function = self.changes.posts.then_some(Function::Pulse);
        Needs { parameters, function, ..Needs::default() }
    }

    /// The same on a host that may have the function for another guest: all boot alike.
    fn needs_on(&self, host: &Host) -> Needs {
        let modules: &[&str] = if host.has_pulse { &device::MODULES } else { &[] };
        Needs { modules, ..self.needs() }
    }
}

/// A machine at the beginning of a window.
pub struct Stage {
    /// What the machine was made of.
    board: Board,
    machine: Machine,
    oracle: Oracle,
    mark: Option<(Mark, Oracle)>,
    /// What is done to memory, by processor, where it is wanted.
    journal: Option<Vec<(CpuIndex, Vec<Touch>)>>,
    /// Names of the kernel's code.
    pub symbols: Symbols,
    /// Where the hypervisor's code and data lie: in the lower half, if nothing else is known.
    hypervisor: Interest,
    /// Whether its data are known to the page.
    has_learnt: bool,
    /// Of the kernel.
    pub release: String,
}

impl Stage {
    /// A machine on which guests run, and what it was made of.
    pub fn of(mut machine: Machine, board: Board, release: &str) -> Self {
        machine.state.wiring.recorder.records = Some(Vec::new());
        let lower = 0..UPPER_HALF;
        Self {
            board,
            machine,
            oracle: Oracle::default(),
            mark: None,
            journal: None,
            symbols: Symbols::default(),
            hypervisor: Interest { code: vec![lower.clone()], data: vec![lower] },
            has_learnt: false,
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
            hypervisor: self.hypervisor.clone(),
            has_learnt: self.has_learnt,
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

    /// How the guest ended, if it did in the plain run. Who has been silent for long is given time
    /// to be told of.
    pub fn end(&mut self) -> Option<End> {
        if self.oracle.end().is_none() && !self.is_deserted() {
            return None;
        }
        for _ in 0..LAST_WORDS {
            if self.oracle.end().is_some() {
                break;
            }
            self.advance(SLICE);
        }
        let silent = || End { text: "no vCPU enters its guest any more".into(), is_fault: true };
        Some(self.oracle.end().cloned().unwrap_or_else(silent))
    }

    /// As if no vCPU had been in its guest for a while.
    #[cfg(test)]
    pub fn fall_silent(&mut self) {
        let now = self.now();
        self.oracle.fall_silent(now);
    }

    /// Whether no vCPU enters its guest any more. Where none has for a while, that is seen ahead:
    /// all windows of a configuration may begin within what it takes to be sure.
    fn is_deserted(&mut self) -> bool {
        let now = self.now();
        if self.oracle.is_deserted(now) || !self.oracle.is_silent(now) {
            return self.oracle.is_deserted(now);
        }
        let is_entry = |record: &Record| matches!(record.event, Event::Entry { .. });
        let ahead = self.beyond(Source::Plan(Vec::new()), SILENCE, is_entry);
        !ahead.iter().any(is_entry)
    }

    /// Runs a window from here, and goes back.
    pub fn window(&mut self, source: Source) -> Seen {
        self.run(source, None).0
    }

    /// The same; all that happened in it as well.
    pub fn record(&mut self, source: Source) -> (Seen, Vec<Record>) {
        self.run(source, Some(Vec::new()))
    }

    /// Finds the pages that the hypervisor uses, so that no others are looked at from here on. It
    /// has them from when its guest was made.
    pub(super) fn learn(&mut self) {
        if std::mem::replace(&mut self.has_learnt, true) {
            return;
        }
        let data = conflict::data(&self.study());
        if !data.is_empty() {
            self.hypervisor.data = data;
        }
    }

    /// Runs the window in which nobody is held up, and sees what the hypervisor and the silicon do
    /// to memory.
    pub(super) fn study(&mut self) -> Study {
        let begins = self.now();
        self.journal = Some(Vec::new());
        let (_, records) = self.record(Source::Plan(Vec::new()));
        let touches = self.journal.take().unwrap_or_default();
        let silicon = touches_of_silicon(&self.machine, &records);
        Study { begins, records, touches: touches.into_iter().chain(silicon).collect() }
    }

    /// Runs a window, and beyond it until a record is what is wanted, for so long at most, and goes
    /// back; all that happened, up to that record.
    pub(super) fn beyond(
        &mut self,
        source: Source,
        time: Picoseconds,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Vec<Record> {
        let machine = &mut self.machine;
        let (mark, oracle) = self.mark.get_or_insert_with(|| (machine.mark(), self.oracle.clone()));
        let mut own = oracle.clone();
        own.records = Some(Vec::new());
        window::run(machine, &mut own, source);
        let end = machine.state.now.saturating_add(time);
        let mut all = Vec::new();
        loop {
            let records = own.records.replace(Vec::new()).unwrap_or_default();
            let wanted = records.iter().position(&is_wanted);
            all.extend(records.into_iter().take(wanted.map_or(usize::MAX, |at| at + 1)));
            if wanted.is_some() || machine.state.now >= end {
                break;
            }
            window::run_on(machine, &mut own, window::TAIL);
        }
        machine.return_to(mark);
        all
    }

    /// A debugger's visit to the window with these decisions, from its beginning or from what the
    /// debugger waits for; the hash at the window's end, if the visit was over by then. Nothing
    /// goes back.
    pub fn visit(
        &mut self,
        decisions: Vec<Decision>,
        visitor: &mut dyn Visitor,
    ) -> anyhow::Result<Option<u64>> {
        self.leave_mark();
        let machine = &mut self.machine;
        let end = machine.state.now.saturating_add(window::WHOLE);
        machine.perturb(Source::Plan(decisions));
        let (_, is_met) = visitor.approach(machine, Limits { until: end, instructions: u64::MAX });
        anyhow::ensure!(is_met, "what the debugger waits for does not happen in the window");
        visitor.visit(machine, &mut |machine| {
            machine.take_console();
            machine.state.wiring.recorder.records = Some(Vec::new());
            None
        })?;
        let is_before = machine.state.now <= end;
        window::run_to(machine, &mut self.oracle, end);
        machine.settle();
        Ok(is_before.then(|| machine.state.wiring.recorder.hash.value()))
    }

    fn run(&mut self, source: Source, records: Option<Vec<Record>>) -> (Seen, Vec<Record>) {
        let machine = &mut self.machine;
        let (mark, oracle) = self.mark.get_or_insert_with(|| (machine.mark(), self.oracle.clone()));
        let mut own = oracle.clone();
        own.records = records;
        if self.journal.is_some() {
            machine.keep_journal(&self.hypervisor);
        }
        let seen = window::run(machine, &mut own, source);
        if let Some(journal) = &mut self.journal {
            *journal = machine.take_journal();
        }
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
    hypervisor: Interest,
    has_learnt: bool,
    release: String,
}

impl Kept {
    /// Another stage that goes on from there.
    pub fn stage(&self) -> anyhow::Result<Stage> {
        let machine = Machine::restore(&self.board, "memory", self.snapshot.as_slice())?;
        let stage = Stage::of(machine, self.board.clone(), &self.release);
        let (symbols, hypervisor) = (self.symbols.clone(), self.hypervisor.clone());
        Ok(Stage { symbols, hypervisor, has_learnt: self.has_learnt, ..stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_in_xapic_mode_is_offered_no_other() {
        for (apic, has_x2apic) in [("xapic", false), ("x2apic", true)] {
            let mix = Mix { apic: apic.into(), ..Mix::default() };
            assert_eq!(
                mix.begin("", Needs::default()).configuration.has_x2apic,
                has_x2apic,
                "{apic}"
            );
        }
    }
}
