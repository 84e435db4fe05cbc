//! A guest of the benchmark's mix, in whose surroundings the host changes things while interrupts
//! flow. Nobody chooses it: it is what is explored.
//!
//! A thread on the processor that no vCPU has switches AVIC or APICv off and on, moves vCPUs to
//! that processor, sends them messages, has a function interrupt one after the other, and has all
//! of them saved and restored, at times that its numbers choose. A processor never has two vCPUs.

use super::device;
use super::kind::{Attendant, Conditions, Workload};
use crate::protocol::Step;
use anyhow::Context;
use arch::identity::Vector;
use bench::{Inhibitor, Messenger, Pulse, Saver, Target, VirtualMachine, thread_name};
use bus::Random;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Pauses are at least and at most so many microseconds, short ones as likely as long ones.
const PAUSES: (u32, u32) = (4, 10);

/// A page that the guest has no use for: its image is far below.
const PAGE: u64 = 128 << 20;
/// Nanoseconds between two interrupts of a function, and how many it sends: so few that it is
/// silent now and then as well.
const PERIODS: [u32; 4] = [2_000, 10_000, 50_000, 200_000];
const COUNTS: [u32; 4] = [1, 2, 8, 64];

/// Vectors that the guest of the mix handles.
const VECTORS: [Vector; 4] = [Vector(0xE1), Vector(0xE4), Vector(0xEB), Vector(0x75)];

/// What the host changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changes {
    /// What AVIC and APICv are inhibited for, off and on.
    pub flip: Option<Flip>,
    /// Whether vCPUs are moved from processor to processor.
    pub moves: bool,
    /// Whether messages come from the host, as from an emulated device.
    #[serde(default)]
    pub sends: bool,
    /// Whether vCPUs are stopped, saved and restored.
    #[serde(default)]
    pub saves: bool,
    /// Whether a function that the guest was given interrupts it, which the IOMMU posts.
    #[serde(default)]
    pub posts: bool,
}

/// What is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Flip {
    /// Hyper-V's synthetic interrupts with AutoEOI.
    AutoEoi,
    /// A debugger that blocks interrupts.
    BlockIrq,
    /// An APIC with another ID.
    ApicId,
    /// Late ticks of KVM's timer: AVIC alone.
    Pit,
}

impl Flip {
    /// All.
    pub const ALL: [Self; 4] = [Self::AutoEoi, Self::BlockIrq, Self::ApicId, Self::Pit];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AutoEoi => "auto-eoi",
            Self::BlockIrq => "block-irq",
            Self::ApicId => "apic-id",
            Self::Pit => "pit",
        }
    }

    /// None for KVM's timer.
    const fn inhibit(self) -> Option<bench::Inhibit> {
        match self {
            Self::AutoEoi => Some(bench::Inhibit::AutoEoi),
            Self::BlockIrq => Some(bench::Inhibit::BlockIrq),
            Self::ApicId => Some(bench::Inhibit::ApicId),
            Self::Pit => None,
        }
    }
}

/// How often vCPUs were saved and restored since that was last said, as a line among the guest's.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    record: String,
    pub count: u64,
}

impl Saved {
    const RECORD: &str = "saved";

    fn of(count: u64) -> Self {
        Self { record: Self::RECORD.into(), count }
    }

    /// What a line says.
    pub fn in_line(line: &str) -> Option<u64> {
        let saved: Self = serde_json::from_str(line).ok()?;
        (saved.record == Self::RECORD).then_some(saved.count)
    }
}

impl Changes {
    /// Whether nothing changes.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The name of a step with these.
    pub(crate) fn step(self, seed: u64) -> anyhow::Result<String> {
        Ok(serde_json::to_string(&(self, seed))?)
    }
}

pub(super) struct Mix;

impl Workload for Mix {
    fn name(&self) -> &'static str {
        "mix"
    }

    fn summary(&self) -> &'static str {
        "a mix of interrupts without an end, and a host that changes things"
    }

    fn steps(&self, _: &Conditions<'_>) -> Vec<Step> {
        Vec::new()
    }

    fn attend(&self, step: &Step) -> anyhow::Result<Option<Box<dyn Attendant>>> {
        let (changes, seed): (Changes, u64) = serde_json::from_str(&step.name)
            .with_context(|| format!("{} says not what changes", step.name))?;
        if changes.is_none() {
            return Ok(None);
        }
        let (vcpus, random) = (step.configuration.vcpus, Random(seed));
        Ok(Some(Box::new(Host {
            changes,
            vcpus,
            random,
            inhibitor: None,
            messenger: None,
            saver: None,
            pulse: None,
            saved: Arc::default(),
            thread: None,
        })))
    }
}

struct Host {
    changes: Changes,
    vcpus: u16,
    random: Random,
    inhibitor: Option<Inhibitor>,
    messenger: Option<Messenger>,
    saver: Option<Saver>,
    pulse: Option<Posting>,
    /// How often since that was last told.
    saved: Arc<AtomicU64>,
    thread: Option<(JoinHandle<anyhow::Result<()>>, Arc<AtomicBool>)>,
}

impl Attendant for Host {
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()> {
        let flip = self.changes.flip;
        self.inhibitor = flip.map(|flip| vm.inhibitor(flip.inhibit())).transpose()?;
        self.messenger = self.changes.sends.then(|| vm.messenger()).transpose()?;
        self.saver = self.changes.saves.then(|| vm.saver());
        self.pulse = self.changes.posts.then(|| Posting::new(vm)).transpose()?;
        Ok(())
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        if line.starts_with("{\"record\":\"mix\"") && self.thread.is_none() {
            // A guest that has ended already has no threads.
            let Some(places) = Places::find(self.vcpus)? else { return Ok(()) };
            let changing = Changing {
                places,
                moves: self.changes.moves,
                inhibitor: self.inhibitor.take(),
                is_inhibited: false,
                messenger: self.messenger.take(),
                saver: self.saver.take(),
                pulse: self.pulse.take(),
                saved: self.saved.clone(),
                random: self.random.clone(),
                stop: Arc::default(),
            };
            let stop = changing.stop.clone();
            self.thread = Some((Builder::new().spawn(move || changing.run())?, stop));
        }
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<Option<String>> {
        if self.thread.as_ref().is_some_and(|(thread, _)| thread.is_finished()) {
            let ended = self.thread.take().map(|(thread, _)| thread.join());
            ended.transpose().ok().flatten().context("the host's thread failed")??;
        }
        let count = self.saved.swap(0, Ordering::Relaxed);
        (count > 0).then(|| Ok(serde_json::to_string(&Saved::of(count))?)).transpose()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some((thread, stop)) = self.thread.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

/// The thread that changes things.
struct Changing {
    inhibitor: Option<Inhibitor>,
    is_inhibited: bool,
    messenger: Option<Messenger>,
    saver: Option<Saver>,
    pulse: Option<Posting>,
    saved: Arc<AtomicU64>,
    places: Places,
    moves: bool,
    random: Random,
    stop: Arc<AtomicBool>,
}

/// What it does at a time.
#[derive(Clone, Copy)]
enum Act {
    Flip,
    Move,
    Send,
    Save,
    Post,
}

/// A function that interrupts one vCPU after the other.
struct Posting {
    pulse: Pulse,
    /// Who knows how vCPUs are addressed.
    messenger: Messenger,
}

impl Posting {
    fn new(vm: &VirtualMachine) -> anyhow::Result<Self> {
        Ok(Self { pulse: device::give(vm)?, messenger: vm.messenger()? })
    }

    /// Now and then it is taken from KVM; else another vCPU, vector and pace are chosen, which
    /// routes its interrupts otherwise while they come.
    fn change(&mut self, random: &mut Random) -> anyhow::Result<()> {
        if random.one_in(8) {
            return Ok(self.pulse.part()?);
        }
        let target = random.below(self.messenger.targets() as u64) as usize;
        let Some(apic_id) = self.messenger.id(target) else { return Ok(()) };
        let target = Target { apic_id, vector: random.pick(&VECTORS).0 };
        let (period, count) = (random.pick(&PERIODS), random.pick(&COUNTS));
        Ok(self.pulse.start(target, PAGE, period, count)?)
    }
}

impl Changing {
    fn run(mut self) -> anyhow::Result<()> {
        let mut acts = Vec::new();
        acts.extend(self.inhibitor.is_some().then_some(Act::Flip));
        acts.extend(self.moves.then_some(Act::Move));
        acts.extend(self.messenger.is_some().then_some(Act::Send));
        acts.extend(self.saver.is_some().then_some(Act::Save));
        acts.extend(self.pulse.is_some().then_some(Act::Post));
        while !self.stop.load(Ordering::Relaxed) {
            self.pause();
            match self.random.pick(&acts) {
                Act::Flip => self.flip()?,
                Act::Move if !self.places.shift(&mut self.random)? => break,
                Act::Move => {}
                Act::Send => self.send()?,
                Act::Save if !self.save()? => break,
                Act::Save => {}
                Act::Post => {
                    let Self { pulse, random, .. } = &mut self;
                    pulse.iter_mut().try_for_each(|pulse| pulse.change(random))?;
                }
            }
        }
        Ok(())
    }

    fn flip(&mut self) -> anyhow::Result<()> {
        let Some(inhibitor) = &self.inhibitor else { return Ok(()) };
        if self.is_inhibited { inhibitor.lift() } else { inhibitor.set() }?;
        self.is_inhibited = !self.is_inhibited;
        Ok(())
    }

    /// A few messages, one right behind the other.
    fn send(&mut self) -> anyhow::Result<()> {
        let Some(messenger) = &self.messenger else { return Ok(()) };
        for _ in 0..self.random.pick(&[1, 2, 8, 32]) {
            let target = self.random.below(messenger.targets() as u64) as usize;
            messenger.send(target, self.random.pick(&VECTORS))?;
        }
        Ok(())
    }

    /// As for a migration; false if the guest has ended.
    fn save(&mut self) -> anyhow::Result<bool> {
        let Some(saver) = &self.saver else { return Ok(true) };
        let is_done = saver.save_and_restore()?;
        self.saved.fetch_add(u64::from(is_done), Ordering::Relaxed);
        Ok(is_done)
    }

    /// All orders of magnitude are alike.
    fn pause(&mut self) {
        let (least, most) = PAUSES;
        let exponent = u64::from(least) + self.random.below(u64::from(most - least));
        let micros = (1 << exponent) + self.random.below(1 << exponent);
        std::thread::sleep(Duration::from_micros(micros));
    }
}

/// Where vCPUs are, and the processor that none of them has, which is this thread's.
struct Places {
    /// By vCPU: its thread and its processor.
    vcpus: Vec<(Pid, usize)>,
    free: usize,
}

impl Places {
    /// As threads were begun: each on a processor of its own, and one left. None if the guest has
    /// ended.
    fn find(vcpus: u16) -> anyhow::Result<Option<Self>> {
        let threads: Vec<(Pid, String)> = std::fs::read_dir("/proc/self/task")?
            .flatten()
            .filter_map(|entry| {
                let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                Some((pid, name.trim_end().to_owned()))
            })
            .collect();
        let place = |vcpu: u16| {
            let name = thread_name(vcpu);
            let found = threads.iter().find(|(_, own)| *own == name);
            let Some((pid, _)) = found else { return Ok(None) };
            let pid = *pid;
            let set = match sched_getaffinity(Some(pid)) {
                Err(Errno::SRCH) => return Ok(None),
                set => set?,
            };
            let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
            let cpu = cpus.next().with_context(|| format!("{name} runs nowhere"))?;
            anyhow::ensure!(cpus.next().is_none(), "{name} is not on one processor");
            Ok(Some((pid, cpu)))
        };
        let vcpus = (0..vcpus).map(place).collect::<anyhow::Result<Option<Vec<_>>>>()?;
        let Some(vcpus) = vcpus else { return Ok(None) };
        let all = sched_getaffinity(None)?;
        let is_free = |cpu: &usize| all.is_set(*cpu) && vcpus.iter().all(|(_, own)| own != cpu);
        let free = (0..CpuSet::MAX_CPU).find(is_free).context("no processor is free")?;
        put(None, free)?;
        Ok(Some(Self { vcpus, free }))
    }

    /// Moves a vCPU to the free processor, and this thread to that which it leaves; false if the
    /// guest has ended.
    fn shift(&mut self, random: &mut Random) -> anyhow::Result<bool> {
        let index = random.below(self.vcpus.len() as u64) as usize;
        let (pid, own) = &mut self.vcpus[index];
        if put(Some(*pid), self.free)? {
            std::mem::swap(own, &mut self.free);
            return put(None, self.free);
        }
        Ok(false)
    }
}

/// Keeps a thread on a processor; false if there is no such thread any more.
fn put(thread: Option<Pid>, cpu: usize) -> anyhow::Result<bool> {
    let mut set = CpuSet::new();
    set.set(cpu);
    match sched_setaffinity(thread, &set) {
        Err(Errno::SRCH) => Ok(false),
        done => done.map(|()| true).with_context(|| format!("cannot run on processor {cpu}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_in_the_steps_name_and_comes_back_from_there() {
        let changes = Changes {
            flip: Some(Flip::BlockIrq),
            moves: true,
            sends: true,
            saves: true,
            posts: true,
        };
        let name = changes.step(7).expect("plain JSON");
        let (again, seed): (Changes, u64) = serde_json::from_str(&name).expect("the same");
        assert_eq!((again, seed), (changes, 7));
        assert!(Changes::default().is_none() && !changes.is_none());
    }

    #[test]
    fn a_line_says_how_often_processors_were_saved() {
        let line = serde_json::to_string(&Saved::of(3)).expect("plain JSON");
        assert_eq!(Saved::in_line(&line), Some(3));
        for other in ["", "saved", "{\"record\":\"mix\",\"count\":3}", "{\"record\":\"saved\"}"] {
            assert_eq!(Saved::in_line(other), None, "{other}");
        }
    }

    #[test]
    fn flips_are_called_as_files_have_them() {
        for flip in Flip::ALL {
            let name = serde_json::to_value(flip).expect("a word");
            assert_eq!(name, flip.name());
        }
    }
}
