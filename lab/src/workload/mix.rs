//! A guest of the benchmark's mix, in whose surroundings the host changes things while interrupts
//! flow. Nobody chooses it: it is what is explored.
//!
//! A thread on the processor that no vCPU has switches AVIC or APICv off and on, moves vCPUs to
//! that processor, sends them messages, has a function interrupt one after the other, raises lines
//! of their I/O APIC, and has all of them saved and restored, at times that its numbers choose. A
//! processor never has two vCPUs.

mod changing;
mod places;
mod posting;

use self::changing::{Changing, Means};
use self::places::Places;
use super::kind::{Attendant, Conditions, Workload};
use crate::protocol::Step;
use anyhow::Context;
use arch::identity::Vector;
use bench::VirtualMachine;
use bus::Random;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

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
    /// Whether lines of the guest's I/O APIC are raised, most of them level-triggered.
    #[serde(default)]
    pub raises: bool,
    /// Whether the guest's processors are started again, by INIT and startup IPIs.
    #[serde(default)]
    pub starts: bool,
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

/// What the host has done since that was last said, as a line among the guest's.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    record: String,
    /// How often vCPUs were saved and restored.
    pub saved: u64,
    /// How often lines were raised.
    pub raised: u64,
}

impl Said {
    const RECORD: &str = "host";

    /// What a line says.
    pub fn in_line(line: &str) -> Option<Self> {
        let said: Self = serde_json::from_str(line).ok()?;
        (said.record == Self::RECORD).then_some(said)
    }
}

/// The same while it is counted.
#[derive(Default)]
struct Done {
    saved: AtomicU64,
    raised: AtomicU64,
}

impl Done {
    /// What there is to say, if there is anything.
    fn say(&self) -> Option<Said> {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let (saved, raised) = (take(&self.saved), take(&self.raised));
        (saved > 0 || raised > 0).then(|| Said { record: Said::RECORD.into(), saved, raised })
    }
}

/// The guest's word that all take part.
#[derive(Deserialize)]
struct Begins {
    record: String,
    /// Where it looks for tickets.
    ledger: u64,
}

impl Begins {
    fn in_line(line: &str) -> Option<Self> {
        let begins: Self = serde_json::from_str(line).ok()?;
        (begins.record == "mix").then_some(begins)
    }
}

impl Changes {
    /// Whether nothing changes.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Whether the host changes something, which needs a processor; what the guest does by itself
    /// needs none.
    pub fn are_of_host(self) -> bool {
        !Self { starts: false, ..self }.is_none()
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
        if !changes.are_of_host() {
            return Ok(None);
        }
        let (vcpus, random) = (step.configuration.vcpus, Random(seed));
        let (done, thread) = (Arc::default(), None);
        Ok(Some(Box::new(Host { changes, vcpus, random, means: None, done, thread })))
    }
}

struct Host {
    changes: Changes,
    vcpus: u16,
    random: Random,
    means: Option<Means>,
    done: Arc<Done>,
    thread: Option<(JoinHandle<anyhow::Result<()>>, Arc<AtomicBool>)>,
}

impl Attendant for Host {
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()> {
        self.means = Some(Means::of(self.changes, vm)?);
        Ok(())
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let Some(Begins { ledger, .. }) = Begins::in_line(line) else { return Ok(()) };
        let Some(means) = self.means.take() else { return Ok(()) };
        // A guest that has ended already has no threads.
        let Some(places) = Places::find(self.vcpus)? else { return Ok(()) };
        let (moves, random, done) = (self.changes.moves, self.random.clone(), self.done.clone());
        let changing = Changing::new(means, moves, ledger, places, random, done);
        let stop = changing.stop();
        self.thread = Some((Builder::new().spawn(move || changing.run())?, stop));
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<Option<String>> {
        if self.thread.as_ref().is_some_and(|(thread, _)| thread.is_finished()) {
            let ended = self.thread.take().map(|(thread, _)| thread.join());
            ended.transpose().ok().flatten().context("the host's thread failed")??;
        }
        self.done.say().map(|said| Ok(serde_json::to_string(&said)?)).transpose()
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
            raises: true,
            starts: true,
        };
        let name = changes.step(7).expect("plain JSON");
        let (again, seed): (Changes, u64) = serde_json::from_str(&name).expect("the same");
        assert_eq!((again, seed), (changes, 7));
        assert!(Changes::default().is_none() && !changes.is_none());
        let alone = Changes { starts: true, ..Changes::default() };
        assert!(changes.are_of_host() && !alone.are_of_host() && !alone.is_none());
    }

    #[test]
    fn a_line_says_what_the_host_has_done_since_the_last() {
        let done = Done::default();
        assert!(done.say().is_none());
        done.saved.fetch_add(3, Ordering::Relaxed);
        done.raised.fetch_add(8, Ordering::Relaxed);
        let line = serde_json::to_string(&done.say()).expect("plain JSON");
        let said = Said::in_line(&line).expect("what was said");
        assert_eq!((said.saved, said.raised), (3, 8));
        assert!(done.say().is_none(), "once");
        for other in ["", "host", "{\"record\":\"mix\",\"saved\":3,\"raised\":0}"] {
            assert_eq!(Said::in_line(other), None, "{other}");
        }
    }

    #[test]
    fn the_guest_says_where_its_ledger_is() {
        let line = r#"{"record":"mix","apic":"xapic","cpus":3,"seed":1,"ledger":1052672}"#;
        assert_eq!(Begins::in_line(line).map(|begins| begins.ledger), Some(0x10_1000));
        assert!(Begins::in_line(r#"{"record":"end","ledger":1}"#).is_none());
    }

    #[test]
    fn flips_are_called_as_files_have_them() {
        for flip in Flip::ALL {
            let name = serde_json::to_value(flip).expect("a word");
            assert_eq!(name, flip.name());
        }
    }
}
