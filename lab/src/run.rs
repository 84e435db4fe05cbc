//! One call of the lab: a workload in virtual machines, in each arm of an experiment.

mod builtin;
mod effort;
mod jobs;
mod modes;
mod origin;
mod part;
mod seeds;

pub use jobs::usual as usual_jobs;
pub use modes::Modes;

use crate::comparison::Comparison;
use crate::drive::example::Choice;
use crate::drive::recording::Recording;
use crate::drive::session::Visitor;
use crate::evidence::{Prediction, Scale, Subject, predict};
use crate::host::Host;
use crate::host::booted::Store;
use crate::host::image::{Additions, initramfs};
use crate::host::kernel::Kernel;
use crate::plan::{Arm, Experiment};
use crate::protocol::Step;
use crate::result::{HostFacts, LabResult, RunFacts};
use crate::verdict;
use crate::verdict::expect::Expectation;
use crate::watch::Watch;
use crate::workload::{self, Conditions, Workload, device};
use bench::Configuration;
use board::cost::Provenance;
use builtin::Guests;
use effort::Effort;
use origin::{Boot, Origin, Own};
use part::{Part, Way};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

/// What to run.
pub struct Plan<'a> {
    /// The emulated host.
    pub host: Host,
    /// The CPU model as it was asked for.
    pub cpu: String,
    /// None for the built-in hypervisor.
    pub kernel: Option<Kernel>,
    /// Why there is no kernel, if one was meant.
    pub instead: Option<String>,
    /// What virtual machines have.
    pub configuration: Configuration,
    /// How many of them at once, whose vCPUs share the same processors of the host.
    pub guests: u16,
    /// What they do.
    pub workload: &'a dyn Workload,
    /// What is compared.
    pub experiment: &'a Experiment,
    /// What the host is given besides.
    pub additions: Additions<'a>,
    /// More words for a Linux guest's kernel.
    pub guest_append: &'a str,
    /// Seconds of virtual time after which a virtual machine is stopped.
    pub limit: u64,
    /// Where booted hosts are kept; None to boot from scratch.
    pub store: Option<Store>,
    /// What a reader who is not a person relies on.
    pub expectations: &'a [Expectation],
    /// Whether to find what times are made of.
    pub is_broken_down: bool,
    /// In how many lives of a guest times are measured, each from another seed; of one life, from
    /// some seeds in it.
    pub seeds: u16,
    /// Under how many draws of the costs that is measured besides which has no seeds, each in a
    /// life of its own.
    pub draws: u16,
    /// The APIC modes of guests; those of the workload if nothing was said.
    pub modes: Option<Modes>,
    /// Which interrupt of each arm is shown.
    pub example: Choice,
    /// Whether to find what the host's functions take of an interrupt; it changes nothing else.
    pub is_looked_at: bool,
    /// Parts at once, a thread and at most the host's memory each. It changes nothing else. With a
    /// trace or a debugger it is one.
    pub jobs: usize,
    /// Where to write the machine's own trace.
    pub trace: Option<PathBuf>,
    /// A debugger that comes when the first workload begins.
    pub visitor: RefCell<Option<Box<dyn Visitor>>>,
    /// Called when all that is needed of this machine is read or open, before a guest runs.
    pub before_guests: &'a dyn Fn(),
}

impl Plan<'_> {
    /// Whether what is asked for can be had together.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(kernel) = &self.kernel else {
            let vcpus = self.configuration.vcpus;
            anyhow::ensure!(
                self.configuration == Configuration { vcpus, ..Configuration::default() },
                "the built-in hypervisor's guest has no I/O APIC, no timer chip and nothing that \
                 inhibits it: --irqchip, --pit and --inhibit need a distribution's kernel"
            );
            anyhow::ensure!(self.guests == 1, "--guests needs a distribution's kernel");
            anyhow::ensure!(
                self.modes.is_none() && self.example == Choice::default(),
                "the built-in hypervisor runs its guest in both modes and shows no interrupt: \
                 --guest-apic and --example need a distribution's kernel"
            );
            anyhow::ensure!(
                self.trace.is_none(),
                "the built-in hypervisor's trace is had by machine run: --trace needs a \
                 distribution's kernel"
            );
            anyhow::ensure!(
                self.visitor.borrow().is_none(),
                "the built-in hypervisor is debugged by machine run: --gdb needs a distribution's \
                 kernel"
            );
            anyhow::ensure!(
                !self.is_broken_down,
                "--breakdown needs a distribution's kernel: the built-in hypervisor's runs are not \
                 measured under other costs"
            );
            self.additions.ensure_none()?;
            return builtin::check(self.workload, self.experiment);
        };
        anyhow::ensure!(
            self.guests == 1 || self.workload.shares_processors(),
            "--guests {}: guests of the workload {} poll instead of halting, and keep each other \
             from the processors that they share; --workload wake halts",
            self.guests,
            self.workload.title()
        );
        anyhow::ensure!(
            !self.is_broken_down || self.workload.benchmark().is_some(),
            "--breakdown is for the workloads {}, which measure times",
            workload::names(|one| one.benchmark().is_some()).join(", ")
        );
        self.check_room()?;
        self.additions.check(kernel)
    }

    /// A guest's root is in the host's RAM four times: packed as it comes and as a file there, and
    /// packed and unpacked in the guest.
    fn check_room(&self) -> anyhow::Result<()> {
        let bytes = self.workload.needs().linux.map_or(0, |linux| linux.root_bytes);
        let needed = HOST_AND_GUEST + bytes.next_multiple_of(1 << 20) * 4 * u64::from(self.guests);
        anyhow::ensure!(
            bytes == 0 || self.host.memory >= needed,
            "the guest's root has {} MB, for which the host needs {} MB: --memory {}M",
            bytes.div_ceil(1 << 20),
            needed >> 20,
            needed >> 20
        );
        Ok(())
    }
}

/// What a host with a small Linux guest takes, in bytes.
const HOST_AND_GUEST: u64 = 640 << 20;

/// Runs it.
pub fn run(plan: &Plan<'_>, watch: &mut Watch<'_>) -> anyhow::Result<LabResult> {
    let started = Instant::now();
    let (comparisons, effort, is_restored) = match &plan.kernel {
        Some(kernel) => on_kernel(plan, kernel, watch)?,
        None => {
            let guests = Guests {
                vcpus: plan.configuration.vcpus,
                workload: plan.workload,
                limit: plan.limit,
            };
            (plan.before_guests)();
            let (comparisons, effort) =
                builtin::compare(&plan.host, guests, plan.experiment, plan.jobs, watch)?;
            (comparisons, effort, false)
        }
    };
    let costs = plan.host.costs()?.provenance();
    let workload = plan.workload.title();
    let mut verdict = verdict::of(
        plan.experiment,
        &workload,
        &comparisons,
        plan.instead.as_deref(),
        plan.expectations,
    );
    verdict.expect(plan.expectations.iter().flat_map(|one| one.failures(&comparisons)).collect());
    Ok(LabResult {
        schema: LabResult::SCHEMA,
        host: host_facts(plan)?,
        predictions: predictions(plan, &comparisons, &costs, verdict.is_active),
        arms: plan.experiment.arms(),
        verdict,
        workload,
        costs,
        comparisons,
        run: RunFacts {
            is_restored,
            instructions: effort.instructions,
            virtual_seconds: effort.time.0 as f64 / 1e12,
            host_seconds: started.elapsed().as_secs_f64(),
            trace_hash: format!("{:016x}", effort.trace_hash),
        },
    })
}

fn host_facts(plan: &Plan<'_>) -> anyhow::Result<HostFacts> {
    let is_kvm = plan.kernel.is_some();
    let kernel = plan.kernel.as_ref().map(|kernel| kernel.name.clone());
    let Configuration { interrupt_chip, timer, inhibit, vcpus, .. } = &plan.configuration;
    Ok(HostFacts {
        cpu: plan.cpu.clone(),
        core_hertz: plan.host.model.core_hertz(),
        cpus: plan.host.topology.cpu_count(),
        kernel: kernel.unwrap_or_else(|| "built-in hypervisor".into()),
        instead: plan.instead.clone(),
        guest_cpus: *vcpus,
        guests: plan.guests,
        interrupt_chip: is_kvm.then(|| name(interrupt_chip)).transpose()?,
        timer: is_kvm.then(|| name(timer)).transpose()?,
        inhibit: inhibit.filter(|_| is_kvm).map(|inhibit| name(&inhibit)).transpose()?,
    })
}

/// The name of a setting as serde writes it.
fn name(setting: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_value(setting)?.as_str().unwrap_or_default().to_owned())
}

/// What was published was measured on KVM, with the feature active.
fn predictions(
    plan: &Plan<'_>,
    comparisons: &[Comparison],
    costs: &Provenance,
    is_active: Option<bool>,
) -> Vec<Prediction> {
    if plan.kernel.is_none() || is_active == Some(false) {
        return Vec::new();
    }
    let scale =
        Scale { tsc_hertz: plan.host.model.tsc_hertz(), guest_cpus: plan.configuration.vcpus };
    let workload = plan.workload.title();
    let subject = Subject { cpu: &plan.cpu, experiment: plan.experiment, workload: &workload };
    predict(subject, comparisons, scale, &costs.fitted_to)
}

/// Runs the steps on emulated hosts with a kernel: one host for arms that can share it.
fn on_kernel(
    plan: &Plan<'_>,
    kernel: &Kernel,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(Vec<Comparison>, Effort, bool)> {
    let initramfs = initramfs(kernel, &plan.host, &plan.additions, &plan.workload.needs())?;
    let arms = plan.experiment.arms();
    let (hosts, parts) = part::of(plan, &arms)?;
    let notes = [("cpu", plan.cpu.clone()), ("workload", plan.workload.title())];
    let notes = notes.map(|(key, value)| (key.to_owned(), value));
    let recording = plan.trace.as_ref().map(|path| Recording::create(path, &notes)).transpose()?;
    let visitor = plan.visitor.take();
    // A trace has its parts in order, and a debugger sees one machine.
    let is_alone = recording.is_some() || visitor.is_some();
    let jobs = if is_alone { 1 } else { plan.jobs.clamp(1, parts.len().max(1)) };
    (plan.before_guests)();
    let boot = Boot { kernel, initramfs: &initramfs, store: plan.store.as_ref() };
    let machines = if visitor.is_some() { parts.len() } else { jobs };
    let hosts = hosts.into_iter().map(|host| Origin::new(host, boot, machines));
    let hosts: Vec<_> = hosts.collect();
    let way = Way {
        hosts: &hosts,
        jobs,
        left: AtomicUsize::new(parts.len()),
        seeds: plan.seeds,
        draws: plan.draws,
        is_broken_down: plan.is_broken_down,
        is_looked_at: plan.is_looked_at,
        recording: Mutex::new(recording),
        visitor: Mutex::new(visitor),
    };
    // It takes longest: a stage of its own says how long.
    if let [host] = &*hosts {
        host.be_ready(watch)?;
    }
    if jobs > 1 {
        watch.stage(&format!("{}: {} parts, {jobs} at once", plan.workload.title(), parts.len()));
    }
    let work =
        |own: &mut Option<Own>, part: &Part, watch: &mut Watch<'_>| way.run(own, part, watch);
    let done = jobs::all(&parts, jobs, &work, watch)?;
    way.finish()?;
    let is_restored = hosts.iter().all(Origin::is_restored);
    let (comparisons, effort) = part::together(done, plan.example);
    Ok((comparisons, effort, is_restored))
}

/// The steps of an arm.
fn steps(plan: &Plan<'_>, arm: &Arm) -> Vec<Step> {
    let tsc_khz = plan.host.model.tsc_hertz() / 1000;
    let is_kept_off = plan.additions.parameters.iter().any(|one| device::keeps_from_posting(one));
    let posts = plan.host.iommu.is_some_and(|iommu| iommu.part.posts()) && !is_kept_off;
    let mut steps = plan.workload.steps(&Conditions {
        arm,
        configuration: &plan.configuration,
        tsc_khz,
        append: plan.guest_append,
        limit: plan.limit,
        posts,
    });
    if let Some(modes) = plan.modes {
        steps = modes.of(steps);
    }
    steps.iter_mut().for_each(|step| step.guests = plan.guests);
    if plan.seeds < 2 {
        steps.iter_mut().for_each(seeds::within);
    }
    steps
}
