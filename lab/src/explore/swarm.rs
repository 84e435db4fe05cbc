//! A swarm: batches of windows, each on a host and a guest of its own configuration, whose features
//! are drawn from the seed. What one configuration hides another may show.
//! [Groce, Zhang, Eide, Chen, Regehr: "Swarm Testing"]

mod forms;

use super::choice::Strategy;
use super::oracle::{Changes as Seen, End};
use super::report::{First, Found, Report, Row, seconds};
use super::stage::Mix;
use crate::workload::mix::{Changes, Flip};
use bench::Timer;
use bus::Random;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// vCPUs at least and at most.
const VCPUS: (u16, u16) = (2, 8);

/// Windows of a batch where their number is not said: what is drawn decides more than how long it
/// runs, and a new guest costs about as much as thirty windows.
pub const WINDOWS: u64 = 105;

/// What runs in a batch of the swarm from a seed, on a host of so many processors, which may have a
/// function to give. The first is the usual one.
pub fn draw(seed: u64, batch: u64, cpus: u16, has_function: bool) -> Mix {
    if batch == 0 {
        return Mix { seed, ..Mix::default() };
    }
    let mut random = Random(seed ^ batch.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (least, most) = VCPUS;
    let apic = random.pick(&["xapic", "x2apic"]).to_owned();
    // Half of the batches leave a processor free, which who changes things needs.
    let below = cpus.saturating_sub(1).clamp(least, most);
    let most = if random.one_in(2) { most } else { below };
    let vcpus = least + random.below(u64::from(most - least) + 1) as u16;
    let has_free = vcpus < cpus;
    let flip = (has_free && !random.one_in(3)).then(|| random.pick(&Flip::ALL));
    let moves = has_free && random.one_in(2);
    let sends = has_free && random.one_in(2);
    let timer = match flip {
        // Late ticks inhibit AVIC for good, and nothing would be flipped.
        Some(Flip::AutoEoi | Flip::BlockIrq | Flip::ApicId) => {
            random.pick(&[Timer::Process, Timer::KernelDiscard])
        }
        Some(Flip::Pit) => random.pick(&[Timer::KernelDiscard, Timer::KernelReinject]),
        None => random.pick(&[
            Timer::Process,
            Timer::Process,
            Timer::KernelDiscard,
            Timer::KernelReinject,
        ]),
    };
    let (polls, seed) = (random.one_in(3), random.below(1 << 32));
    let saves = has_free && random.one_in(3);
    let posts = random.one_in(2) && has_free && has_function;
    let raises = random.one_in(2) && has_free;
    // A pin of one that is away would be nobody's.
    let starts = random.one_in(3) && has_free && !raises;
    let changes = Changes { flip, moves, sends, saves, posts, raises, starts };
    Mix { apic, vcpus, seed, changes, polls, timer }
}

/// What came of a swarm, as data: docs/schema/lab-explore-swarm-1.json.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Swarm {
    /// [`Self::SCHEMA`].
    pub schema: u32,
    /// Of the program.
    pub version: String,
    /// Of the host's kernel.
    pub release: String,
    /// Where all numbers came from.
    pub seed: u64,
    /// By strategy, over all batches.
    pub strategies: Vec<Total>,
    /// In order.
    pub batches: Vec<Batch>,
}

/// What one strategy did in all batches.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Total {
    /// Which.
    pub strategy: Strategy,
    /// How many windows it ran.
    pub windows: u64,
    /// What they took of this machine's processors.
    #[serde(rename = "cpu_seconds", serialize_with = "seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub spent: Duration,
    /// What it saw, by name: after how many of its windows, and after how much of its time.
    pub causes: BTreeMap<String, First>,
}

impl Total {
    fn take(&mut self, row: &Row) {
        for (cause, first) in &row.causes {
            let windows = self.windows + first.windows;
            let spent = self.spent.saturating_add(first.spent);
            self.causes.entry(cause.clone()).or_insert(First { windows, spent });
        }
        self.windows += row.windows;
        self.spent = self.spent.saturating_add(row.spent);
    }
}

/// What came of a batch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Batch {
    /// Its number.
    pub batch: u64,
    /// What was drawn.
    pub configuration: Mix,
    /// So many windows.
    pub windows: u64,
    /// The orders of two events that they showed.
    pub pairs: u64,
    /// What the host changed in them.
    pub changes: Seen,
    /// By name: in how many windows each cause was seen.
    pub alarms: BTreeMap<String, u64>,
    /// What they took of this machine's processors, without the boot.
    pub cpu_seconds: f64,
    /// How the guest ended: no window follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Each cause once.
    pub findings: Vec<Found>,
}

impl Batch {
    fn of(batch: u64, mix: Mix, report: Report) -> Self {
        let mut alarms = BTreeMap::new();
        for cause in report.windows.iter().flat_map(|window| &window.causes) {
            *alarms.entry(cause.clone()).or_default() += 1;
        }
        let mut changes = Seen::default();
        report.rows.iter().for_each(|row| changes.add(row.changes));
        let named = |found: Found| Found { cause: Self::name(batch, &found.cause), ..found };
        Self {
            batch,
            configuration: mix,
            windows: report.windows.len() as u64,
            pairs: report.coverage.pairs,
            changes,
            alarms,
            cpu_seconds: report.spent.as_secs_f64(),
            end: report.end,
            findings: report.findings.into_iter().map(named).collect(),
        }
    }

    /// The name of a finding of a batch, and of its file.
    pub fn name(batch: u64, cause: &str) -> String {
        format!("{cause}-batch-{batch}")
    }
}

impl Swarm {
    /// Version of this form.
    pub const SCHEMA: u32 = 1;

    /// Without any batch.
    pub fn new(seed: u64) -> Self {
        let total = |strategy| {
            let (windows, spent, causes) = (0, Duration::ZERO, BTreeMap::new());
            Total { strategy, windows, spent, causes }
        };
        Self {
            schema: Self::SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            release: String::new(),
            seed,
            strategies: Strategy::ALL.map(total).to_vec(),
            batches: Vec::new(),
        }
    }

    /// Takes in what a search was of that had this in its guest.
    pub fn take(&mut self, batch: u64, mix: Mix, report: Report) {
        self.release.clone_from(&report.release);
        self.strategies.iter_mut().zip(&report.rows).for_each(|(total, row)| total.take(row));
        self.batches.push(Batch::of(batch, mix, report));
    }

    /// How many windows there were.
    pub fn windows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.windows).sum()
    }

    /// Each cause once, in the order in which they were found.
    pub fn findings(&self) -> impl Iterator<Item = &Found> {
        self.batches.iter().flat_map(|batch| &batch.findings)
    }

    /// Whether any batch has a finding.
    pub fn is_found(&self) -> bool {
        self.batches.iter().any(|batch| {
            !batch.findings.is_empty() || batch.end.as_ref().is_some_and(|end| end.is_fault)
        })
    }

    /// Whether a guest ended and that is nobody's fault whom a finding could name.
    pub fn is_broken(&self) -> bool {
        self.batches.iter().any(|batch| batch.end.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::forms::Forms;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn who_changes_things_has_a_processor_and_every_feature_is_drawn() {
        let all: Vec<Mix> = (0..200).map(|batch| draw(1, batch, 4, true)).collect();
        for mix in &all {
            assert!((2..=8).contains(&mix.vcpus), "{mix:?}");
            assert!(mix.changes.is_none() || mix.vcpus < 4, "{mix:?}");
            assert!(!(mix.changes.raises && mix.changes.starts), "{mix:?}");
        }
        let flips: BTreeSet<_> = all.iter().map(|mix| mix.changes.flip.map(Flip::name)).collect();
        assert_eq!(flips.len(), 1 + Flip::ALL.len());
        for has in [
            |mix: &Mix| mix.apic == "xapic",
            |mix: &Mix| mix.polls,
            |mix: &Mix| mix.changes.moves,
            |mix: &Mix| mix.changes.sends,
            |mix: &Mix| mix.changes.saves,
            |mix: &Mix| mix.changes.posts,
            |mix: &Mix| mix.changes.raises,
            |mix: &Mix| mix.changes.starts,
            |mix: &Mix| mix.vcpus > 4,
            |mix: &Mix| mix.timer == Timer::KernelReinject,
        ] {
            assert!(all.iter().any(has) && !all.iter().all(has));
        }
        assert_eq!(draw(1, 7, 4, true), all[7], "it follows from its number");
        assert_eq!(draw(1, 1, 1, true).vcpus.min(2), 2, "on a small host as well");
        assert!(draw(1, 0, 4, true).changes.is_none(), "the usual");
        for (batch, mix) in all.into_iter().enumerate() {
            let changes = Changes { posts: false, ..mix.changes };
            assert_eq!(draw(1, batch as u64, 4, false), Mix { changes, ..mix }, "else the same");
        }
    }

    #[test]
    fn a_guest_that_ended_in_one_configuration_is_told_first_and_in_every_form() {
        let text = "an interrupt never came\n  kernel: hello".into();
        let end = Some(End { text, is_fault: true });
        let batch = |end| Batch {
            batch: 0,
            configuration: draw(1, 0, 4, false),
            windows: 13,
            pairs: 9,
            changes: Seen::default(),
            alarms: BTreeMap::new(),
            cpu_seconds: 0.5,
            end,
            findings: Vec::new(),
        };
        let swarm = |batches| Swarm { release: "6.12".into(), batches, ..Swarm::new(1) };
        let clean = swarm(vec![batch(None), batch(None)]);
        assert!(clean.to_text(100).starts_with("6.12: 0 findings in 26 windows of 2 conf"));
        assert!(clean.to_junit(Path::new("found")).contains("failures=\"0\""));
        let ended = swarm(vec![batch(None), batch(end)]);
        let first = "6.12: THE GUEST ENDED in 1 of 2 (an interrupt never came): 0 findings";
        for text in [ended.to_text(100), ended.to_markdown()] {
            assert!(text.starts_with(first), "{text}");
        }
        assert!(ended.to_junit(Path::new("found")).contains("failures=\"1\""));
        let log = ended.to_sarif(Path::new("found"));
        assert_eq!(log["runs"][0]["results"][0]["ruleId"], "ended");
    }

    #[test]
    fn the_published_schema_is_that_of_the_report() {
        let schema = schema::of::<Swarm>("avicenna lab explore --swarm --format json", 1);
        schema::assert_published("lab-explore-swarm-1.json", &schema);
        let batch = Batch {
            batch: 0,
            configuration: draw(1, 0, 4, false),
            windows: 13,
            pairs: 9,
            changes: Seen::default(),
            alarms: BTreeMap::from([("asleep-logical".into(), 2)]),
            cpu_seconds: 0.5,
            end: None,
            findings: Vec::new(),
        };
        let swarm = Swarm { batches: vec![batch], ..Swarm::new(1) };
        let value = serde_json::to_value(&swarm).expect("plain JSON");
        schema::assert_follows(&value, &schema, "a swarm");
        assert!(swarm.to_text(200).contains("asleep-logical: 2"), "{}", swarm.to_text(200));
    }
}
