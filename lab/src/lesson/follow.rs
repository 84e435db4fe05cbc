//! The machine, taken forward an instruction at a time.

mod device;
mod inhibit;

use super::extent::{Begun, Extent, vcpu_of};
use super::kind::Kind;
use super::route::Entry;
use super::shared::{Places, Shared};
use super::words::{self, Words};
use super::{Doing, Lesson, Step};
use crate::silicon::remapping::Route;
use crate::watch::{Halt, Watch};
use arch::identity::{CpuIndex, Vector};
use arch::time::Picoseconds;
use board::{Limits, Machine};
use std::collections::{BTreeMap, BTreeSet};
use trace::exit_reason::Isa;
use trace::symbol::Symbols;
use trace::{Event, Record, VirtualCpu};

/// One that has not begun by then, or not ended, is not waited for.
const MOST_TIME: Picoseconds = Picoseconds::from_milliseconds(20);
/// Instructions between two looks whether the user wants an end.
const LOOKS: u64 = 4096;
/// Steps of one interrupt at most.
const MOST_STEPS: usize = 400;
/// Functions of one step at most.
const MOST_FUNCTIONS: usize = 64;

/// A machine on which the workload runs, and what is known of it.
pub struct Follower {
    machine: Machine,
    extent: Extent,
    is_x2apic: bool,
    /// Names of the code that is told; all other code has none there.
    symbols: Symbols,
    vcpus: BTreeMap<VirtualCpu, Vcpu>,
    /// By processor: the last record.
    last: BTreeMap<CpuIndex, Record>,
    steps: Vec<Step>,
    /// By processor: its last step, and the function that it was last seen in.
    open: BTreeMap<CpuIndex, (usize, String)>,
    /// Changes that no step has been found for: whose, and what.
    unclaimed: Vec<(String, String)>,
    /// Where the IOMMU looks for a device's interrupt, with what is there.
    route: Option<(Route, Entry)>,
    /// The IOMMU has put an interrupt into memory, and has not told anybody.
    is_posting: bool,
    /// By processor without a vCPU: the vector that its APIC took in last, on the way of a device's
    /// interrupt.
    taken: BTreeMap<CpuIndex, Vector>,
    /// Requests of the VMM's that KVM inhibits for, or no longer, and where the last was made.
    requests: usize,
    vmm: Option<CpuIndex>,
    /// vCPUs that have not entered their guest since, as the request has it.
    waiting: BTreeSet<VirtualCpu>,
    /// The step with which the next interrupt begins, if it was told.
    next: Option<usize>,
}

/// What is known of a vCPU.
struct Vcpu {
    cpu: CpuIndex,
    places: Places,
    shared: Shared,
}

impl Follower {
    /// `symbols` name the hypervisor's functions.
    pub fn new(mut machine: Machine, kind: Kind, is_x2apic: bool, symbols: Symbols) -> Self {
        machine.state.wiring.recorder.records = Some(Vec::new());
        // Compiled blocks would be taken whole.
        machine.interpret();
        Self {
            machine,
            extent: Extent::new(kind),
            is_x2apic,
            symbols,
            vcpus: BTreeMap::new(),
            last: BTreeMap::new(),
            steps: Vec::new(),
            open: BTreeMap::new(),
            unclaimed: Vec::new(),
            route: None,
            is_posting: false,
            taken: BTreeMap::new(),
            requests: 0,
            vmm: None,
            waiting: BTreeSet::new(),
            next: None,
        }
    }

    /// Lets time pass, and learns who runs where.
    pub fn advance(&mut self, time: Picoseconds) {
        self.advance_by(time);
        for record in self.take() {
            self.learn(&record);
        }
    }

    fn advance_by(&mut self, time: Picoseconds) {
        let until = self.machine.state.now.saturating_add(time);
        self.machine.run(Limits { until, instructions: u64::MAX });
    }

    /// The next interrupt of the kind, to its end and to the one behind it.
    pub fn follow(mut self, title: String, watch: &mut Watch<'_>) -> Result<Lesson, Halt> {
        let until = self.machine.state.now.saturating_add(MOST_TIME);
        let mut looks = 0_u64;
        while self.machine.state.now < until && self.steps.len() < MOST_STEPS {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                watch.check()?;
            }
            let before: Vec<u64> = self.executed();
            let instructions = self.machine.instructions() + 1;
            let outcome = self.machine.run(Limits { until, instructions });
            let told = self.steps.len();
            for record in self.take() {
                self.take_in(&record);
            }
            // What a device's next interrupt changes is not this one's.
            if self.extent.kind().function().is_none() || !self.extent.is_over() {
                self.look(&before, told);
            }
            if self.is_over() {
                return Ok(self.lesson(title, true));
            }
            if outcome.is_some() {
                break;
            }
        }
        Ok(self.lesson(title, false))
    }

    fn is_over(&self) -> bool {
        match self.extent.kind().cause() {
            Some(cause) => self.requests >= cause.requests() && self.waiting.is_empty(),
            None => self.extent.is_over(),
        }
    }

    fn lesson(mut self, title: String, is_whole: bool) -> Lesson {
        self.next.into_iter().for_each(|step| drop(self.steps.remove(step)));
        self.steps.sort_by_key(|step| step.at_ps);
        Lesson { title, steps: self.steps, is_whole }
    }

    fn take(&mut self) -> Vec<Record> {
        let recorder = &mut self.machine.state.wiring.recorder;
        recorder.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Instructions of each processor so far.
    fn executed(&self) -> Vec<u64> {
        self.machine.state.cpus.iter().map(|cpu| cpu.clock.instructions()).collect()
    }

    fn learn(&mut self, record: &Record) {
        if let Some(vcpu) = vcpu_of(record) {
            let is_known = self.vcpus.contains_key(&vcpu);
            // Tables are made, and moved, between exits and entries.
            if !is_known || matches!(record.event, Event::Entry { .. }) {
                let places = Places::of(&self.machine, vcpu.0);
                let shared = Shared::read(&self.machine, &places);
                let new = Vcpu { cpu: record.cpu, places, shared };
                self.vcpus.entry(vcpu).or_insert(new).places = places;
            }
            self.vcpus.entry(vcpu).and_modify(|known| known.cpu = record.cpu);
            let is_on = self.vcpus.get(&vcpu).is_some_and(|known| known.shared.is_virtualized());
            if matches!(record.event, Event::Entry { .. }) && is_on == (self.requests != 1) {
                self.waiting.remove(&vcpu);
            }
        }
        self.last.insert(record.cpu, *record);
    }

    fn take_in(&mut self, record: &Record) {
        if self.is_of_board(record) {
            self.take_in_of_board(record);
            return;
        }
        let before = self.last.get(&record.cpu).copied();
        // What a guest left for is told behind its exit, which then begins it.
        let exit = before.filter(|_| vcpu_of(record).is_none());
        match self.extent.begin(record, exit.as_ref()) {
            Some(Begun::This) => exit.iter().for_each(|exit| self.tell(exit)),
            // Its exit was told before it was known to be the next one's.
            Some(Begun::Next) => {
                self.next = exit.and_then(|_| self.open.get(&record.cpu)).map(|(step, _)| *step);
            }
            None => {}
        }
        let vcpu = vcpu_of(record).or_else(|| self.running(record.cpu));
        if (vcpu.is_some() || self.is_on_the_way(record)) && self.extent.has(vcpu) {
            self.tell(record);
            self.extent.progress(record, exit.as_ref());
        }
        self.learn(record);
    }

    /// What runs on a processor, or ran there last.
    fn running(&self, cpu: CpuIndex) -> Option<VirtualCpu> {
        self.vcpus.iter().find(|(_, one)| one.cpu == cpu).map(|(vcpu, _)| *vcpu)
    }

    fn isa(&self) -> Isa {
        let is_vmx = |cpu: &cpu::Cpu| cpu.guest.vmx.capabilities.is_some();
        if self.machine.state.cpus.iter().any(is_vmx) { Isa::Vmx } else { Isa::Svm }
    }

    fn tell(&mut self, record: &Record) {
        if let Some(text) = words::of_access(record, self.is_x2apic) {
            // What a guest left for stands behind its exit.
            let exit = self.open.get(&record.cpu).and_then(|(step, _)| self.steps.get_mut(*step));
            exit.into_iter().for_each(|step| step.details.push(text.clone()));
            return;
        }
        self.tell_as(self.who(record), Some(record.cpu), record);
    }

    /// What a processor did, or the board.
    fn tell_as(&mut self, who: String, cpu: Option<CpuIndex>, record: &Record) {
        let Some(words) = words::of(record, self.isa(), self.is_x2apic) else { return };
        let Words { doing, text, rule, makes } = words;
        let of_iommu = words::rule_of_iommu(&record.event, self.isa()).filter(|_| cpu.is_none());
        let rule = of_iommu.unwrap_or(rule);
        let found = matches!(record.event, Event::VirtualIpiSent { .. }).then(|| self.found());
        let step = Step {
            at_ps: 0,
            who,
            doing,
            text,
            details: found.flatten().into_iter().collect(),
            rule,
            functions: Vec::new(),
            makes,
        };
        self.push(cpu, record.at, step);
    }

    /// A step; of one on a processor the hypervisor's functions are noted until the next.
    fn push(&mut self, cpu: Option<CpuIndex>, at: Picoseconds, step: Step) {
        let at_ps = at.0.saturating_sub(self.extent.began().0);
        self.steps.push(Step { at_ps, ..step });
        if let Some(cpu) = cpu {
            self.open.insert(cpu, (self.steps.len() - 1, String::new()));
        }
    }

    /// How the sender's processor found the target.
    fn found(&self) -> Option<String> {
        let target = self.vcpus.iter().find(|(vcpu, _)| !self.extent.is_first(**vcpu));
        target.and_then(|(_, one)| one.shared.as_found(&one.places))
    }

    /// Who a record is of: what runs on its processor, or ran there last.
    fn who(&self, record: &Record) -> String {
        self.role(vcpu_of(record).or_else(|| self.running(record.cpu)), record.cpu)
    }

    fn role(&self, vcpu: Option<VirtualCpu>, cpu: CpuIndex) -> String {
        match vcpu {
            Some(vcpu) if self.extent.is_first(vcpu) => self.extent.kind().first().into(),
            Some(_) if self.extent.kind().cause().is_some() => self.extent.kind().first().into(),
            Some(_) => "target".into(),
            None if self.vmm == Some(cpu) => "VMM".into(),
            None => format!("CPU {}", cpu.0),
        }
    }

    /// What has changed in memory, and where the processors are. `told` is the first step that was
    /// told since this was asked last.
    fn look(&mut self, before: &[u64], told: usize) {
        let cpus = self.machine.state.cpus.iter().zip(before);
        let moved: Vec<usize> = cpus
            .enumerate()
            .filter(|(_, (cpu, before))| cpu.clock.instructions() != **before)
            .map(|(index, _)| index)
            .collect();
        let changes = self.changes();
        moved.iter().for_each(|cpu| self.tell_request(*cpu));
        if !self.extent.has_begun() {
            return;
        }
        self.unclaimed.extend(changes);
        self.claim(told);
        if let [one] = moved.as_slice() {
            self.tell_writer(*one);
        }
        moved.iter().for_each(|cpu| self.name_code(*cpu));
    }

    /// What has changed since this was asked last: whose, and what.
    fn changes(&mut self) -> Vec<(String, String)> {
        let mut changes = Vec::new();
        for (vcpu, known) in &mut self.vcpus {
            let shared = Shared::read(&self.machine, &known.places);
            let texts = known.shared.changes(&shared);
            known.shared = shared;
            changes.extend(texts.into_iter().map(|text| (*vcpu, known.cpu, text)));
        }
        let changes = changes.into_iter();
        let mut changes: Vec<_> =
            changes.map(|(vcpu, cpu, text)| (self.role(Some(vcpu), cpu), text)).collect();
        if let Some((route, entry)) = &mut self.route {
            let new = Entry::of(route, &self.machine);
            changes.extend(entry.changes(&new).into_iter().map(|text| ("IOMMU".into(), text)));
            *entry = new;
        }
        changes
    }

    /// Gives changes to the steps that have just been told and say that they make them.
    fn claim(&mut self, told: usize) {
        for (whose, text) in std::mem::take(&mut self.unclaimed) {
            let mut steps = self.steps.iter_mut().skip(told);
            match steps.find(|step| step.makes.is_some_and(|makes| makes.fits(&text))) {
                Some(step) => step.details.push(format!("{whose}: {text}")),
                None => self.unclaimed.push((whose, text)),
            }
        }
    }

    /// Changes that no step of the silicon makes were made by the hypervisor on the processor that
    /// has just moved, if that is in the hypervisor.
    fn tell_writer(&mut self, index: usize) {
        if self.unclaimed.is_empty() || self.machine.state.cpus[index].is_guest() {
            return;
        }
        let cpu = CpuIndex(index as u16);
        let unclaimed = std::mem::take(&mut self.unclaimed);
        let rule =
            unclaimed.first().map_or("", |(_, text)| words::rule_of_change(text, self.isa()));
        let step = Step {
            at_ps: 0,
            who: self.role(self.running(cpu), cpu),
            doing: Doing::Host,
            text: "the hypervisor writes".into(),
            details: unclaimed
                .into_iter()
                .map(|(whose, text)| format!("{whose}: {text}"))
                .collect(),
            rule,
            functions: Vec::new(),
            makes: None,
        };
        self.push(Some(cpu), self.machine.state.cpus[index].clock.now(), step);
    }

    /// Notes the function that a processor is in, if it has just come there.
    fn name_code(&mut self, index: usize) {
        let cpu = &self.machine.state.cpus[index];
        if cpu.is_guest() {
            return;
        }
        let Some(name) = self.symbols.name(arch::address::Linear(cpu.registers.ip)) else { return };
        let name = name.split('+').next().unwrap_or_default().to_owned();
        let Some((step, last)) = self.open.get_mut(&CpuIndex(index as u16)) else { return };
        if *last == name {
            return;
        }
        last.clone_from(&name);
        let functions = &mut self.steps[*step].functions;
        if !name.is_empty() && functions.len() < MOST_FUNCTIONS && !functions.contains(&name) {
            functions.push(name);
        }
    }
}
