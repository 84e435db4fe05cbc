//! The parts of a run. Each begins on a machine of its own, where its host had booted, and knows
//! nothing of the others: at once or one after the other they come to the same.

use super::effort::Effort;
use super::origin::{Origin, Own};
use super::{Plan, seeds, steps};
use crate::comparison::spread::Repeated;
use crate::comparison::{self, Comparison};
use crate::drive::example::Choice;
use crate::drive::observed::Observed;
use crate::drive::recording::Recording;
use crate::drive::session::{Session, Visitor};
use crate::host::Host;
use crate::plan::Arm;
use crate::protocol::Step;
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is done with the steps of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// They are performed and looked at.
    Observe,
    /// They are performed from these seeds.
    Repeat(Range<u64>),
}

/// Virtual machines of one arm that have one name, such as a mode of the APIC, one after the other
/// on the same host.
pub(super) struct Part {
    /// The number of the host.
    pub host: usize,
    pub arm: Arm,
    pub steps: Vec<Step>,
    pub task: Task,
    /// Whether no other follows, after which the host is asked for its symbols.
    pub is_last: bool,
}

/// How all parts are run.
pub(super) struct Way<'a> {
    pub hosts: &'a [Origin<'a>],
    /// Parts at once.
    pub jobs: usize,
    /// Parts that nobody has begun.
    pub left: AtomicUsize,
    /// Seeds of what measures times, and draws of the costs of what has no seeds.
    pub seeds: u16,
    pub draws: u16,
    pub is_broken_down: bool,
    pub is_looked_at: bool,
    /// The machine's own trace, of all parts in order.
    pub recording: Mutex<Option<Recording>>,
    /// A debugger that comes when the first workload begins.
    pub visitor: Mutex<Option<Box<dyn Visitor>>>,
}

/// What a part came to.
pub(super) struct Done {
    host: usize,
    pub observed: Vec<Observed>,
    pub repeated: Vec<Repeated>,
    /// What the host had taken when the part began.
    pub boot: Effort,
    /// What the part took, in the order in which it did it.
    pub efforts: Vec<Effort>,
    /// Of the kernel.
    pub release: String,
}

/// The hosts that the arms of a plan need, and the parts.
pub(super) fn of(plan: &Plan<'_>, arms: &[Arm]) -> anyhow::Result<(Vec<Host>, Vec<Part>)> {
    let (mut hosts, mut parts) = (Vec::new(), Vec::new());
    for sharing in arms.chunk_by(Arm::shares_host) {
        for arm in sharing {
            parts.extend(of_arm(plan, arm, hosts.len()));
        }
        hosts.push(plan.host.of_arm(&sharing[0])?);
    }
    if let Some(last) = parts.last_mut() {
        last.is_last = true;
    }
    Ok((hosts, parts))
}

fn of_arm(plan: &Plan<'_>, arm: &Arm, host: usize) -> Vec<Part> {
    let mut names: Vec<(String, Vec<Step>)> = Vec::new();
    for step in steps(plan, arm) {
        match names.iter_mut().find(|(name, _)| *name == step.name) {
            Some((_, steps)) => steps.push(step),
            None => names.push((step.name.clone(), vec![step])),
        }
    }
    let part = |steps: &[Step], task| {
        let (arm, steps) = (arm.clone(), steps.to_vec());
        Part { host, arm, steps, task, is_last: false }
    };
    let observed = names.iter().map(|(_, steps)| part(steps, Task::Observe));
    let repeated = names.iter().filter(|(_, steps)| seeds::can_repeat(steps));
    let repeated = repeated.flat_map(|(_, steps)| {
        seeds::in_parts(plan.seeds).map(|seeds| part(steps, Task::Repeat(seeds)))
    });
    observed.chain(repeated).collect()
}

/// What all parts of a run came to.
pub(super) fn together(done: Vec<Done>, example: Choice) -> (Vec<Comparison>, Effort) {
    let release = done.last().map(|one| one.release.clone()).unwrap_or_default();
    let (mut observed, mut repeated) = (Vec::new(), Vec::<Repeated>::new());
    let (mut boots, mut efforts) = (BTreeMap::new(), Vec::new());
    for one in done {
        boots.entry(one.host).or_insert(one.boot);
        efforts.extend(one.efforts);
        observed.extend(one.observed);
        for more in one.repeated {
            let known = repeated
                .iter_mut()
                .find(|known| known.name == more.name && known.setting == more.setting);
            match known {
                Some(known) => known.runs.extend(more.runs),
                None => repeated.push(more),
            }
        }
    }
    let mut comparisons = comparison::compare(&observed, &release, example);
    comparison::spread::take(&mut comparisons, &repeated);
    comparison::prices::take(&mut comparisons, &observed);
    comparison::breakdown::take(&mut comparisons, &observed);
    let effort = Effort::together(efforts);
    (comparisons, effort.and(boots.into_values()))
}

fn take<T>(from: &Mutex<Option<T>>) -> Option<T> {
    from.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<T>(to: &Mutex<Option<T>>, what: Option<T>) {
    *to.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

impl Way<'_> {
    /// The trace is whole.
    pub fn finish(&self) -> anyhow::Result<()> {
        take(&self.recording).map(Recording::finish).transpose().map(drop)
    }

    /// Runs a part on the machine of a job.
    pub fn run(
        &self,
        own: &mut Option<Own>,
        part: &Part,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Done> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed).saturating_sub(1);
        let visitor = take(&self.visitor);
        // A debugger goes back by marks of its own, with which the machine loses its beginning.
        let goes_back = left >= self.jobs && visitor.is_none();
        let session = self.hosts[part.host].begin(part.host, own, goes_back, watch)?;
        session.record(take(&self.recording));
        session.debug(visitor);
        let done = self.perform(part, session, watch)?;
        let mut recording = session.take_recording();
        if let Some(recording) = recording.as_mut().filter(|_| part.is_last) {
            session.name_code(recording, watch)?;
        }
        put(&self.recording, recording);
        put(&self.visitor, session.take_visitor());
        Ok(done)
    }

    fn perform(
        &self,
        part: &Part,
        session: &mut Session,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Done> {
        let boot = Effort::of(session);
        let mut done = Done {
            host: part.host,
            observed: Vec::new(),
            repeated: Vec::new(),
            boot,
            efforts: Vec::new(),
            release: session.release.clone(),
        };
        match &part.task {
            Task::Observe => {
                done.observed = self.observe(part, session, watch)?;
                done.repeated = done.observed.iter().filter_map(seeds::seen).collect();
                done.efforts.push(Effort::of(session).since(boot));
            }
            Task::Repeat(seeds) => {
                (done.repeated, done.efforts) = seeds::repeat(part, seeds.clone(), session, watch)?;
            }
        }
        Ok(done)
    }

    /// Performs the steps, and looks at them as the way says.
    fn observe(
        &self,
        part: &Part,
        session: &mut Session,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<Observed>> {
        let mut observed = Vec::new();
        for step in &part.steps {
            let purpose = if step.is_traced { "counting" } else { "timing" };
            watch.stage(&format!("{}, {}: {purpose}", step.name, part.arm.label));
            let wanted = (self.seeds, self.draws, self.is_broken_down);
            let draws = seeds::draws(wanted, step, &part.steps);
            observed.push(session.observe(step, self.is_looked_at, draws, watch)?);
        }
        if self.is_looked_at {
            session.name_functions(&mut observed, watch)?;
        }
        Ok(observed)
    }
}
