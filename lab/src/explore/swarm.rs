//! A swarm: batches of windows, each on a host and a guest of its own configuration, whose features
//! are drawn from the seed. What one configuration hides another may show.
//! [Groce, Zhang, Eide, Chen, Regehr: "Swarm Testing"]

use super::oracle::{Changes as Seen, End};
use super::report::{Found, Report};
use super::stage::Mix;
use crate::workload::mix::{Changes, Flip};
use bench::Timer;
use bus::Random;
use report::grid::{Grid, Value, folded};
use serde::Serialize;
use std::collections::BTreeMap;

/// vCPUs at least and at most.
const VCPUS: (u16, u16) = (2, 8);

/// What runs in a batch of the swarm from a seed, on a host of so many processors.
pub fn draw(seed: u64, batch: u64, cpus: u16) -> Mix {
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
    let polls = random.one_in(3);
    Mix { apic, vcpus, seed: random.below(1 << 32), changes: Changes { flip, moves }, polls, timer }
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
    /// In order.
    pub batches: Vec<Batch>,
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
    /// What a search was of.
    pub fn of(batch: u64, mix: Mix, report: Report) -> Self {
        let mut alarms = BTreeMap::new();
        for cause in report.windows.iter().flat_map(|window| &window.causes) {
            *alarms.entry(cause.clone()).or_default() += 1;
        }
        let mut changes = Seen::default();
        report.rows.iter().for_each(|row| changes.add(row.changes));
        Self {
            batch,
            configuration: mix,
            windows: report.windows.len() as u64,
            pairs: report.coverage.pairs,
            changes,
            alarms,
            cpu_seconds: report.spent.as_secs_f64(),
            end: report.end,
            findings: report.findings,
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

    /// Of these batches.
    pub fn new(release: String, seed: u64, batches: Vec<Batch>) -> Self {
        let version = env!("CARGO_PKG_VERSION").into();
        Self { schema: Self::SCHEMA, version, release, seed, batches }
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

    /// For programs.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For a terminal.
    pub fn to_text(&self, columns: usize) -> String {
        let windows: u64 = self.batches.iter().map(|batch| batch.windows).sum();
        let (release, count) = (&self.release, self.batches.len());
        let ended = self.batches.iter().filter(|batch| batch.end.is_some()).count();
        let alarmed = self.batches.iter().filter(|batch| !batch.alarms.is_empty()).count();
        let mut text =
            format!("{release}: {count} batches, {windows} windows; alarms in {alarmed} batches");
        if ended > 0 {
            text += &format!("; THE GUEST ENDED in {ended} batches");
        }
        text += "\n\n";
        let grid = self.grid().without_empty_columns();
        text += &format!("{}\n", grid.to_text_within(columns));
        text += &folded(
            "switched: how often AVIC or APICv was on for a vCPU at one look and off at the next, \
             or the other way round; moved: how often a vCPU entered its guest on another CPU.\n",
            columns,
            0,
        );
        for batch in &self.batches {
            for found in &batch.findings {
                let name = Batch::name(batch.batch, &found.cause);
                text += &format!("\n{} ({name}.json)\n", found.story.join("\n   "));
                found.lanes.iter().for_each(|row| text += &format!("   {row}\n"));
            }
        }
        text
    }

    fn grid(&self) -> Grid {
        const COLUMNS: [&str; 13] = [
            "batch", "apic", "vCPUs", "polls", "timer", "flip", "moves", "windows", "pairs",
            "switched", "moved", "CPU_s", "alarms",
        ];
        let mut grid = Grid::new("By batch", &COLUMNS);
        for batch in &self.batches {
            let Mix { apic, vcpus, changes, polls, timer, .. } = &batch.configuration;
            let timer = match timer {
                Timer::Process => "process",
                Timer::KernelReinject => "reinject",
                Timer::KernelDiscard => "discard",
            };
            let yes = |is_so: bool| Value::text(if is_so { "yes" } else { "no" });
            let alarms = batch.alarms.iter().map(|(cause, count)| format!("{cause}: {count}"));
            let end = batch.end.iter().map(|end| format!("THE GUEST ENDED ({})", end.text));
            let alarms = end.chain(alarms);
            grid.rows.push(vec![
                Value::Count(batch.batch),
                Value::text(apic.clone()),
                Value::Count((*vcpus).into()),
                yes(*polls),
                Value::text(timer),
                Value::text(changes.flip.map_or("no", Flip::name)),
                yes(changes.moves),
                Value::Count(batch.windows),
                Value::Count(batch.pairs),
                Value::Count(batch.changes.switches),
                Value::Count(batch.changes.moves),
                Value::Number(batch.cpu_seconds, 1),
                Value::text(alarms.collect::<Vec<_>>().join("; ")),
            ]);
        }
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn who_changes_things_has_a_processor_and_every_feature_is_drawn() {
        let all: Vec<Mix> = (0..200).map(|batch| draw(1, batch, 4)).collect();
        for mix in &all {
            assert!((2..=8).contains(&mix.vcpus), "{mix:?}");
            assert!(mix.changes.is_none() || mix.vcpus < 4, "{mix:?}");
        }
        let flips: BTreeSet<_> = all.iter().map(|mix| mix.changes.flip.map(Flip::name)).collect();
        assert_eq!(flips.len(), 1 + Flip::ALL.len());
        for has in [
            |mix: &Mix| mix.apic == "xapic",
            |mix: &Mix| mix.polls,
            |mix: &Mix| mix.changes.moves,
            |mix: &Mix| mix.vcpus > 4,
            |mix: &Mix| mix.timer == Timer::KernelReinject,
        ] {
            assert!(all.iter().any(has) && !all.iter().all(has));
        }
        assert_eq!(draw(1, 7, 4), all[7], "it follows from its number");
        assert_eq!(draw(1, 0, 1).vcpus.min(2), 2, "on a small host as well");
    }

    #[test]
    fn the_published_schema_is_that_of_the_report() {
        let schema = schema::of::<Swarm>("avicenna lab explore --swarm --format json", 1);
        schema::assert_published("lab-explore-swarm-1.json", &schema);
        let batch = Batch {
            batch: 0,
            configuration: draw(1, 0, 4),
            windows: 13,
            pairs: 9,
            changes: Seen::default(),
            alarms: BTreeMap::from([("asleep-logical".into(), 2)]),
            cpu_seconds: 0.5,
            end: None,
            findings: Vec::new(),
        };
        let swarm = Swarm::new("6.12".into(), 1, vec![batch]);
        let value = serde_json::to_value(&swarm).expect("plain JSON");
        schema::assert_follows(&value, &schema, "a swarm");
        assert!(swarm.to_text(200).contains("asleep-logical: 2"), "{}", swarm.to_text(200));
    }
}
