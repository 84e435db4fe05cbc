//! What measures times, again and again, each time from another seed.
//!
//! What is counted does not depend on it; times do, and a single run shows one of many values as if
//! it were the only one. In one life of a guest seeds say how far samples are apart, and so where
//! the host's timers stand at each. In lives of their own, which all go on from the host that has
//! booted already, they say besides when the step begins, and by how much everything but
//! instructions takes longer or shorter than the cost profile says. The same seed does the same.

use super::{Plan, steps};
use crate::comparison::spread::Repeated;
use crate::drive::observed::Observed;
use crate::drive::session::{Draws, Session};
use crate::plan::Arm;
use crate::protocol::{Guest, Step};
use crate::watch::Watch;
use crate::workload::{self, Workload};
use arch::time::Picoseconds;

/// Steps begin within so much time after each other: some periods of a timer tick.
const MOST_IDLE: u64 = 16_000_000_000;
/// The share by which a step's cost is off at a time.
const JITTER: f64 = 0.02;
/// Samples of each figure from one seed. Fewer than of a single run: it is the seeds that differ.
const SAMPLES: &str = "samples=60 warmup=20";
/// Spreads seeds.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// In one life: as many samples from seeds as there are before.
const WITHIN: &str = "samples=200 seeds=10";

/// Draws of the costs under which one of these seeds is measured.
const DRAWS: u64 = 10;

/// Has the benchmark guest measure times once more from some seeds, before its life ends.
pub(super) fn within(step: &mut Step) {
    if let Guest::Benchmark(options) = &mut step.guest
        && !step.is_traced
        && workload::named(&step.workload).is_some_and(Workload::is_measured_from_seeds)
    {
        options.push(' ');
        options.push_str(WITHIN);
    }
}

/// Under how many draws of the costs a step's times are measured besides.
pub(super) fn draws(plan: &Plan<'_>, step: &Step) -> Draws {
    let has_seeds = matches!(&step.guest, Guest::Benchmark(options) if options.ends_with(WITHIN));
    // Where tracepoints would take time, a step without them measures.
    let has_another = workload::named(&step.workload).is_some_and(|of| of.benchmark().is_some());
    let measures = !step.is_traced || !has_another;
    Draws {
        of_seeds: if has_seeds { DRAWS } else { 0 },
        of_lives: if measures { plan.draws.into() } else { 0 },
    }
}

/// What it measured from them.
pub(super) fn seen(observed: &Observed) -> Option<Repeated> {
    let runs = workload::seeded(observed);
    let (name, setting) = (observed.step.name.clone(), observed.step.arm.setting);
    (!runs.is_empty()).then_some(Repeated { name, setting, runs })
}

/// Runs an arm's steps that measure times from each of the plan's seeds.
pub(super) fn repeat(
    plan: &Plan<'_>,
    arm: &Arm,
    session: &mut Session,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<Repeated>> {
    if plan.seeds < 2 {
        return Ok(Vec::new());
    }
    let profile = session.costs().clone();
    let mut repeated = Vec::new();
    for step in steps(plan, arm).iter().filter(|step| !step.is_traced) {
        let mut runs = Vec::new();
        for seed in 1..=u64::from(plan.seeds) {
            let Some(seeded) = seeded(step, seed) else { break };
            watch.stage(&format!("{}, {}: seed {seed}", step.name, arm.label));
            session.idle(Picoseconds(seed.wrapping_mul(GOLDEN) % MOST_IDLE), watch)?;
            session.set_costs(profile.jittered(seed, JITTER));
            runs.push(workload::figures(&session.perform(&seeded, watch)?));
        }
        session.set_costs(profile.clone());
        repeated.push(Repeated { name: step.name.clone(), setting: arm.setting, runs });
    }
    Ok(repeated)
}

/// The step as it is from a seed; only the benchmark guest takes one.
fn seeded(step: &Step, seed: u64) -> Option<Step> {
    let Guest::Benchmark(options) = &step.guest else { return None };
    // Of an option that is given twice the last counts.
    let guest = Guest::Benchmark(format!("{options} {SAMPLES} seed={seed}"));
    Some(Step { guest, ..step.clone() })
}
