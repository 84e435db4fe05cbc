//! What measures times, again and again, each time from another seed.
//!
//! What is counted does not depend on it; times do, and a single run shows one of many values as if
//! it were the only one. In one life of a guest seeds say how far samples are apart, and so where
//! the host's timers stand at each. In lives of their own, which all go on from the host that has
//! booted already, they say besides when the step begins, and by how much everything but
//! instructions takes longer or shorter than the cost profile says. The same seed does the same.

use super::effort::Effort;
use super::part::Part;
use crate::comparison::spread::Repeated;
use crate::drive::observed::Observed;
use crate::drive::session::{Draws, Session};
use crate::drive::under::{Kind, Under};
use crate::protocol::{Guest, Step};
use crate::watch::Watch;
use crate::workload::{self, Workload};
use arch::time::Picoseconds;
use std::ops::Range;

/// Steps begin within so much time after each other: some periods of a timer tick.
const MOST_IDLE: u64 = 16_000_000_000;
/// The share by which a step's cost is off at a time.
const JITTER: f64 = 0.02;
/// Samples of each figure from one seed. Fewer than of a single run: it is the seeds that differ.
const SAMPLES: &str = "samples=60 warmup=20";
/// Seeds that run one after the other on one machine.
const TOGETHER: usize = 5;
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

/// Whether any of these steps can be measured from seeds in lives of their own.
pub(super) fn can_repeat(steps: &[Step]) -> bool {
    steps.iter().any(|step| !step.is_traced && seeded(step, 1).is_some())
}

/// The parts in which so many seeds run: what of them can run at once. Each part loads KVM, which
/// takes as long as half a life.
pub(super) fn in_parts(seeds: u16) -> impl Iterator<Item = Range<u64>> {
    let end = if seeds < 2 { 1 } else { u64::from(seeds) + 1 };
    (1..end).step_by(TOGETHER).map(move |first| first..end.min(first + TOGETHER as u64))
}

/// Under which other costs the times of one of these steps are measured besides: draws, and, where
/// times are to be broken down, without one kind after the other. In so many lives of its own what
/// has no seeds, within one life or in many.
pub(super) fn draws(plan: (u16, u16, bool), step: &Step, steps: &[Step]) -> Draws {
    let (seeds, lives, is_broken_down) = plan;
    let has_seeds = matches!(&step.guest, Guest::Benchmark(options) if options.ends_with(WITHIN));
    let is_repeated = seeds > 1 && !step.is_traced && seeded(step, 1).is_some();
    // Where tracepoints would take time, a step without them measures.
    let has_another = steps.iter().any(|one| one.name == step.name && !one.is_traced);
    if step.is_traced && has_another {
        return Draws::default();
    }
    let drawn = match (has_seeds, is_repeated) {
        (true, _) => DRAWS,
        (false, true) => 0,
        (false, false) => lives.into(),
    };
    let kinds = if is_broken_down { Kind::ALL.len() } else { 0 };
    let costs = (1..=drawn).map(Under::Draw).chain((1..=kinds).map(Under::Without)).collect();
    match has_seeds {
        true => Draws { of_seeds: costs, of_lives: Vec::new() },
        false => Draws { of_seeds: Vec::new(), of_lives: costs },
    }
}

/// What it measured from them.
pub(super) fn seen(observed: &Observed) -> Option<Repeated> {
    let runs = workload::seeded(observed);
    let (name, setting) = (observed.step.name.clone(), observed.step.arm.setting);
    (!runs.is_empty()).then_some(Repeated { name, setting, runs })
}

/// Runs a part's steps that measure times from each of some seeds, and what each life took. All
/// begin where KVM has been loaded, so that none knows which others there are.
pub(super) fn repeat(
    part: &Part,
    seeds: Range<u64>,
    session: &mut Session,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Vec<Repeated>, Vec<Effort>)> {
    let (mut from, mut efforts, mut repeated) = (Effort::of(session), Vec::new(), Vec::new());
    session.load(&part.arm.parameters, watch)?;
    let (loaded, beginning) = (Effort::of(session), session.beginning());
    let profile = session.costs().clone();
    for step in part.steps.iter().filter(|step| !step.is_traced) {
        let mut runs = Vec::new();
        for seed in seeds.clone() {
            let Some(seeded) = seeded(step, seed) else { break };
            watch.stage(&format!("{}, {}: seed {seed}", step.name, part.arm.label));
            let recording = session.take_recording();
            session.begin_again(&beginning);
            session.record(recording);
            session.idle(Picoseconds(seed.wrapping_mul(GOLDEN) % MOST_IDLE), watch)?;
            session.set_costs(profile.jittered(seed, JITTER));
            runs.push(workload::figures(&session.perform(&seeded, watch)?));
            session.set_costs(profile.clone());
            // The first is charged with what it took to load KVM.
            efforts.push(Effort::of(session).since(std::mem::replace(&mut from, loaded)));
        }
        repeated.push(Repeated { name: step.name.clone(), setting: part.arm.setting, runs });
    }
    Ok((repeated, efforts))
}

/// The step as it is from a seed; only the benchmark guest takes one.
fn seeded(step: &Step, seed: u64) -> Option<Step> {
    let Guest::Benchmark(options) = &step.guest else { return None };
    // Of an option that is given twice the last counts.
    let guest = Guest::Benchmark(format!("{options} {SAMPLES} seed={seed}"));
    Some(Step { guest, ..step.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Experiment, Setting};
    use crate::workload::{Chosen, Conditions};
    use bench::Configuration;

    #[test]
    fn lives_are_drawn_of_what_has_no_seeds_and_once_of_each_step_that_measures() {
        let arm = Experiment::default().arm(Setting::On);
        let configuration = Configuration::default();
        for (workload, of_seeds, of_lives) in
            [("ipi", 20, 0), ("timer", 20, 0), ("mesh", 0, 8), ("device", 0, 12), ("call", 0, 4)]
        {
            let chosen: Chosen = workload.parse().expect("a workload");
            let mut steps = chosen.steps(&Conditions::plain(&arm, &configuration));
            steps.iter_mut().for_each(within);
            let count = |kinds: bool| {
                let all = steps.iter().map(|step| draws((1, 4, kinds), step, &steps));
                let sum = |(seeds, lives): (usize, usize), one: Draws| {
                    (seeds + one.of_seeds.len(), lives + one.of_lives.len())
                };
                all.fold((0, 0), sum)
            };
            assert_eq!(count(false), (of_seeds, of_lives), "{workload}");
            let broken_down = (of_seeds / 10 * 14, of_lives * 2);
            assert_eq!(count(true), broken_down, "{workload}, broken down");
            let steps = chosen.steps(&Conditions::plain(&arm, &configuration));
            let all = steps.iter().map(|step| draws((10, 4, false), step, &steps).of_lives.len());
            let of_linux = steps.iter().any(|step| matches!(step.guest, Guest::Linux(_)));
            let is_repeated = steps.iter().any(|step| !step.is_traced) && !of_linux;
            assert_eq!(all.sum::<usize>() == 0, is_repeated, "{workload} from ten seeds");
        }
    }
}
