//! The lab as a place for trials: each begins from a host that is kept in memory with KVM's modules
//! loaded as the arm has them, on a machine of its own or on one that another trial left there.

use super::host::reach::locally;
use super::known;
use super::ready::Ready;
use crate::verb::lab::{Chip, Inhibit, Pit, interrupts};
use crate::verb::machine::size::parse_bytes;
use ::experiment::place::{
    COMMAND, Change, Evidence, Failure, Order, Place, Remark, Seen, Teller, Weight,
};
use ::experiment::plan::{LabSetup, Plan, Setting};
use ::lab::comparison::inhibition;
use ::lab::drive::observed::Observed;
use ::lab::drive::session::{Kept, Session};
use ::lab::host::Host;
use ::lab::host::booted::Store;
use ::lab::host::distribution::USUAL;
use ::lab::host::image::{Additions, initramfs};
use ::lab::host::kernel::{Kernel, Needs};
use ::lab::plan::{Arm, Experiment, Function, Request, vendor};
use ::lab::protocol::Step;
use ::lab::watch::{Halt, Told, Watch};
use ::lab::workload::{Chosen, Conditions};
use anyhow::{Context, anyhow, bail};
use arch::time::Picoseconds;
use bench::{Configuration, Outcome};
use board::cost::CostProfile;
use board::server_iommu;
use board::topology::{Topology, TopologyError};
use cpu::{CoreClock, CpuModel};
use device::intel_82599::Wire;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Hosts that are kept in memory at once; the one made first goes first.
const MOST_KEPT: usize = 8;
/// Trials begin within so much time after each other's: many periods of a timer tick.
const MOST_IDLE: u64 = 50_000_000_000;
/// Guests of one emulated host at once.
const MOST_GUESTS: u16 = 64;
/// Real time that a stage of a trial may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How a guest says that all went well.
const PASSED: [Outcome; 2] = [Outcome::PowerOff, Outcome::DebugExit(0)];

type Hosts = Vec<(String, Arc<Kept>)>;

/// The lab.
pub struct Lab<'s> {
    stop: &'s AtomicBool,
    hosts: Mutex<Hosts>,
    ready: Ready,
}

/// What one trial is made of.
struct Trial {
    /// What the host is, in words: hosts that are alike are booted once.
    name: String,
    host: Host,
    kernel: String,
    parameters: Vec<String>,
    files: Vec<String>,
    arm: Arm,
    configuration: Configuration,
    workload: Chosen,
    /// None for all that the workload runs.
    apic: Option<String>,
    append: String,
    limit: u64,
    is_timed: bool,
    guests: u16,
}

impl<'s> Lab<'s> {
    pub fn new(stop: &'s AtomicBool) -> Self {
        Self { stop, hosts: Mutex::default(), ready: Ready::default() }
    }

    /// A host with the arm's modules, as it is kept, or else booted now.
    fn host(&self, trial: &Trial, watch: &mut Watch<'_>) -> anyhow::Result<Arc<Kept>> {
        // Held while it boots: who needs the same host waits for it.
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kept)) = hosts.iter().find(|(name, _)| *name == trial.name) {
            return Ok(kept.clone());
        }
        let needs = trial.workload.needs();
        let modules = modules(&needs, &trial.host);
        let of_kernel = Needs { vendor: vendor(&trial.host.model), modules: &modules, named: &[] };
        let kernel = Kernel::find(&trial.kernel, of_kernel, watch)?;
        let additions = Additions { parameters: &trial.parameters, files: &trial.files };
        let initramfs = initramfs(&kernel, &trial.host, &additions, &needs)?;
        let host = trial.host.of_arm(&trial.arm)?;
        let store = Store::open().ok();
        let mut session = Session::start(&host, &kernel, &initramfs, store.as_ref(), watch)?;
        session.load(&trial.arm.parameters, watch)?;
        let kept = Arc::new(session.keep(&host)?);
        if hosts.len() >= MOST_KEPT {
            hosts.remove(0);
        }
        hosts.push((trial.name.clone(), kept.clone()));
        Ok(kept)
    }

    fn run(&self, order: &Order<'_>, teller: &mut dyn Teller) -> anyhow::Result<Seen> {
        if let (Some(setup), Some(command)) = (&order.plan.lab, order.plan.command(true)) {
            teller.line(command);
            let limit = Duration::from_secs(setup.limit);
            let output = locally(command, &words(order), limit).map_err(|why| {
                let is_end = self.stop.load(Ordering::Relaxed);
                if is_end { Halt::Interrupted.into() } else { anyhow!(why) }
            })?;
            return Ok(Seen { output, ..Seen::default() });
        }
        let trial = trial(order.plan, order.setting)?;
        let mut tell = |told: Told<'_>| {
            if let Told::Stage(text) | Told::Line(text) = told {
                teller.line(text);
            }
        };
        let mut watch = Watch::new(self.stop, PATIENCE, &mut tell);
        let mut again = match self.ready.take(&trial.name) {
            Some(again) => again,
            None => self.host(&trial, &mut watch)?.again()?,
        };
        let session = again.session();
        session.idle(Picoseconds(order.seed % MOST_IDLE), &mut watch)?;
        let steps = steps(&trial)?;
        let mut seen = Seen::default();
        for step in &steps {
            watch.stage(&format!("{}: {}", step.name, step.arm.label));
            let observed = session.perform(step, &mut watch)?;
            take(&mut seen, &observed, &session.release)?;
        }
        again.go_back();
        self.ready.put(trial.name, again);
        Ok(seen)
    }
}

impl Place for Lab<'_> {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn is_lab(&self) -> bool {
        true
    }

    fn check(&self, plan: &Plan) -> Vec<Remark> {
        let Some(setup) = &plan.lab else {
            let remedy = "add [lab] with a workload, or run it --on host";
            return vec![Remark::new(Weight::Blocks, "the plan has no part for the lab", remedy)];
        };
        if let Some(why) = &setup.cannot {
            return vec![Remark::new(Weight::Blocks, format!("the lab cannot run it: {why}"), "")];
        }
        let missing = setup.needs.iter().filter(|name| !super::program::is_program(name));
        let mut remarks: Vec<Remark> = missing
            .map(|name| {
                let cause = format!("the program {name} is not on this machine");
                let remedy = format!("install it: the lab takes it along into the guest ({name})");
                Remark::new(Weight::Blocks, cause, remedy)
            })
            .collect();
        if !remarks.is_empty() || setup.command.is_some() {
            return remarks;
        }
        for cell in plan.cells(true) {
            for level in plan.levels(plan.compared(), true) {
                let mut setting = cell.clone();
                setting.insert(plan.design.compare.clone(), level.clone());
                match trial(plan, &setting).and_then(|trial| steps(&trial)) {
                    Ok(_) => remarks.extend(known::futile(plan, &setting)),
                    Err(error) => {
                        let cause = format!("{}: {error:#}", ::experiment::plan::words(&setting));
                        remarks.push(Remark::new(Weight::Blocks, cause, ""));
                    }
                }
            }
        }
        remarks
    }

    fn provenance(&self, plan: &Plan) -> BTreeMap<String, String> {
        let Some(setup) = &plan.lab else { return BTreeMap::new() };
        if let Some(command) = &setup.command {
            return BTreeMap::from([(COMMAND.into(), command.clone())]);
        }
        let model = CpuModel::named(&setup.cpu).ok();
        let costs = model.and_then(|model| CostProfile::named(model.costs()).ok());
        let kernel = setup.kernel.as_deref().unwrap_or(USUAL);
        let mut facts = BTreeMap::from([
            ("machine".into(), machine(setup)),
            ("host kernel".into(), kernel.to_owned()),
        ]);
        if let Some(topology) = &setup.topology {
            facts.insert("topology".into(), topology.clone());
        }
        if let Some(clock) = &setup.clock {
            facts.insert("clock".into(), clock.clone());
        }
        if let Some(costs) = costs {
            facts.insert("times".into(), format!("predicted by {}", costs.provenance()));
        }
        facts
    }

    fn perform(&self, order: &Order<'_>, teller: &mut dyn Teller) -> Result<Seen, Failure> {
        self.run(order, teller).map_err(|error| match error.downcast_ref() {
            Some(Halt::Interrupted) => Failure::Interrupted,
            _ => Failure::Failed(format!("{error:#}")),
        })
    }

    /// Nothing outside the emulated machine is changed.
    fn restore(&self, _changes: &[Change]) -> Result<(), Failure> {
        Ok(())
    }
}

fn modules(needs: &::lab::plan::Needs, host: &Host) -> Vec<&'static str> {
    let has_wires = !host.wires.is_empty();
    let gives = needs.function.is_some() && host.iommu.is_some();
    let of_wires: &[&str] = if has_wires { &["ixgbevf"] } else { &[] };
    let to_give: &[&str] = if gives { &::lab::workload::device::MODULES } else { &[] };
    [needs.modules, of_wires, to_give].concat()
}

/// The emulated host in words.
fn machine(setup: &LabSetup) -> String {
    let of = setup.topology.as_ref().and_then(|text| text.parse::<Topology>().ok());
    let count = of.map_or(setup.cpus, |topology| topology.cpu_count());
    format!("{count} emulated {} processors", setup.cpu)
}

/// What a command has in its environment: the levels, and what differs between trials. Shells know
/// variables of letters, digits and underscores.
fn words(order: &Order<'_>) -> Vec<(String, String)> {
    let is_known = |letter: char| letter.is_ascii_alphanumeric();
    let name = |factor: &str| {
        format!("AVICENNA_{}", factor.to_ascii_uppercase().replace(|one| !is_known(one), "_"))
    };
    let levels = order.setting.iter().map(|(factor, level)| (name(factor), level.clone()));
    let own = [("trial", order.index as u64), ("seed", order.seed)];
    levels.chain(own.map(|(what, number)| (name(what), number.to_string()))).collect()
}

/// What the setting comes to.
fn trial(plan: &Plan, setting: &Setting) -> anyhow::Result<Trial> {
    let setup = plan.lab.as_ref().context("the plan has no part for the lab")?;
    if let Some((factor, level)) = plan.of_kind(setting, "message") {
        bail!("{} = {level}: the lab has one size of message, the network workload's", factor.name);
    }
    let level = |kind: &str| plan.of_kind(setting, kind).map(|(_, level)| level.to_owned());
    let cpu = level("cpu").unwrap_or_else(|| setup.cpu.clone());
    let mut model = CpuModel::named(&cpu)?;
    if let Some(clock) = level("clock").or_else(|| setup.clock.clone()) {
        let clock: CoreClock = clock.parse().map_err(|why| anyhow!("clock = {clock}: {why}"))?;
        model.set_clock(clock)?;
    }
    let clock = model.core_hertz();
    let mut text = setup.workload.clone();
    let mut options = setup.options.clone();
    for factor in plan.factors.iter().filter(|one| one.kind == "option") {
        let of = factor.of.as_deref().unwrap_or(&factor.name);
        options += &format!(" {of}={}", setting[&factor.name]);
    }
    if let Some(fence) = level("fence") {
        options += &format!(" fence={fence}");
    }
    if let Some(name) = text.split_ascii_whitespace().next()
        && super::program::is_program(name)
        && !options.is_empty()
    {
        text = format!("{text} {options}");
    }
    let workload: Chosen = text.parse().map_err(|why: String| anyhow!(why))?;
    let needs = workload.needs();
    let arm = Arm { guest: options, ..arm(plan, setting, &model)? };
    let mut parameters = setup.parameters.clone();
    for factor in plan.factors.iter().filter(|one| one.kind == "parameter") {
        let of = factor.of.as_deref().unwrap_or_default();
        parameters.push(format!("{of}={}", setting[&factor.name]));
    }
    let append = format!("{} {}", setup.append, level("append").unwrap_or_default());
    let topology = topology(setup, level("topology"))?;
    let host = host(setup, topology, model, &needs)?;
    let kernel = level("kernel").or(setup.kernel.clone()).unwrap_or_else(|| USUAL.to_owned());
    let name = format!(
        "{cpu} {clock} {topology:?} {} {kernel} {parameters:?} {:?} {:?} {:?} {} {:?}",
        setup.memory, needs.image, arm.parameters, arm.without, arm.host, setup.add
    );
    Ok(Trial {
        name,
        host,
        kernel,
        parameters,
        files: setup.add.clone(),
        arm,
        configuration: configuration(plan, setting, setup)?,
        workload,
        apic: level("apic"),
        append: append.trim().to_owned(),
        limit: setup.limit,
        is_timed: setup.is_timed,
        guests: guests(plan, setting)?,
    })
}

/// How many virtual machines run at once.
fn guests(plan: &Plan, setting: &Setting) -> anyhow::Result<u16> {
    let Some((factor, level)) = plan.of_kind(setting, "guests") else { return Ok(1) };
    let count = level.parse().ok().filter(|count| (1..=MOST_GUESTS).contains(count));
    count.with_context(|| {
        format!("{} = {level}: the lab runs 1 to {MOST_GUESTS} guests at once", factor.name)
    })
}

fn arm(plan: &Plan, setting: &Setting, model: &CpuModel) -> anyhow::Result<Arm> {
    let text = match plan.of_kind(setting, "feature") {
        Some((factor, level)) => format!("{}={level}", factor.of.as_deref().unwrap_or_default()),
        None => "on".to_owned(),
    };
    let request: Request = text.parse().map_err(|why: String| anyhow!("{text}: {why}"))?;
    let experiment: Experiment = request.on(model).map_err(|why| anyhow!(why))?;
    experiment.arms().into_iter().next().context("no arm")
}

/// By what the emulated host's processors share, as the setting or the plan has it.
fn topology(setup: &LabSetup, level: Option<String>) -> anyhow::Result<Topology> {
    let Some(text) = level.as_ref().or(setup.topology.as_ref()) else {
        return Ok(Topology::of_cores(setup.cpus)?);
    };
    text.parse().map_err(|why: TopologyError| anyhow!("topology = {text}: {why}"))
}

fn host(
    setup: &LabSetup,
    topology: Topology,
    model: CpuModel,
    needs: &::lab::plan::Needs,
) -> anyhow::Result<Host> {
    let wires = match needs.function {
        Some(Function::Wire) => vec![Wire::Pair],
        _ => Vec::new(),
    };
    let iommu = server_iommu(&model);
    if needs.function.is_some() && iommu.is_none() {
        bail!(
            "{}: a function is given to a guest through an IOMMU, which it has not",
            model.name()
        );
    }
    Ok(Host {
        iommu,
        has_pulse: needs.function == Some(Function::Pulse),
        wires,
        devices: Vec::new(),
        folders: Vec::new(),
        topology,
        memory: parse_bytes(&setup.memory).map_err(|why| anyhow!(why))?,
        append: String::new(),
        model,
        costs: None,
    })
}

fn configuration(
    plan: &Plan,
    setting: &Setting,
    setup: &LabSetup,
) -> anyhow::Result<Configuration> {
    let level = |kind: &str| plan.of_kind(setting, kind).map(|(_, level)| level);
    let chip = if level("irqchip") == Some("full") { Chip::Full } else { Chip::Split };
    let pit = match level("pit") {
        Some("reinject") => Pit::Reinject,
        Some("discard") => Pit::Discard,
        _ => Pit::Off,
    };
    let inhibit = match level("inhibit") {
        Some("auto-eoi") => Some(Inhibit::AutoEoi),
        Some("block-irq") => Some(Inhibit::BlockIrq),
        Some("apic-id") => Some(Inhibit::ApicId),
        Some("apic-base") => Some(Inhibit::ApicBase),
        _ => None,
    };
    let vcpus = match level("vcpus") {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number of vCPUs"))?,
        None => setup.vcpus,
    };
    let (interrupt_chip, timer) = interrupts(chip, pit);
    Ok(Configuration {
        vcpus,
        interrupt_chip,
        timer,
        inhibit: inhibit.map(Into::into),
        // Each would begin with the first processor.
        is_pinned: guests(plan, setting)? == 1,
        ..Configuration::default()
    })
}

/// The virtual machines of a trial: those in its mode of the APIC; that without tracepoints, which
/// take time themselves, comes first where times are asked for.
fn steps(trial: &Trial) -> anyhow::Result<Vec<Step>> {
    let all = trial.workload.steps(&Conditions {
        arm: &trial.arm,
        configuration: &trial.configuration,
        tsc_khz: trial.host.model.tsc_hertz() / 1000,
        append: &trial.append,
        limit: trial.limit,
        posts: trial.host.iommu.is_some_and(|iommu| iommu.part.posts()),
    });
    let is_own =
        |name: &str| trial.apic.as_ref().is_none_or(|apic| name.eq_ignore_ascii_case(apic));
    let own = all.into_iter().filter(|step| is_own(&step.name));
    let own = own.filter(|step| step.is_traced || trial.is_timed);
    let own: Vec<_> = own.map(|step| Step { guests: trial.guests, ..step }).collect();
    match (&trial.apic, own.is_empty()) {
        (Some(apic), true) => bail!("{} does not run in {apic} mode", trial.workload.name()),
        _ => Ok(own),
    }
}

/// Takes one virtual machine into what the trial saw.
fn take(seen: &mut Seen, observed: &Observed, release: &str) -> anyhow::Result<()> {
    let result = &observed.result;
    anyhow::ensure!(
        PASSED.contains(&result.outcome),
        "the virtual machine ended with {:?}; its last lines: {}",
        result.outcome,
        result.console.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join(" / ")
    );
    // Times are those of the first virtual machine, which is not traced where there is a choice.
    if seen.output.is_empty() {
        seen.output = result.console.join("\n");
    }
    if seen.cpu.is_empty() {
        seen.cpu = super::host::measure::shares_of(&result.times);
    }
    for parameter in &result.parameters {
        let name = format!("parameter:{}.{}", parameter.module, parameter.name);
        let value = match parameter.value.as_str() {
            "1" => "Y",
            "0" => "N",
            other => other,
        };
        seen.evidence.insert(name, Evidence::Text(value.to_owned()));
    }
    let Some(points) = &result.tracepoints else { return Ok(()) };
    let tally = observed.workload();
    for (reason, count) in &tally.exits {
        let row = seen.exits.entry(reason.name()).or_default();
        row.count += count.exits;
        row.time_ns = Some(row.time_ns.unwrap_or(0) + count.handled.0 / 1000);
        row.is_wait = reason.is_wait();
    }
    for (name, count) in [
        ("posted", tally.posted),
        ("logged", tally.logged),
        ("doorbells", tally.doorbells),
        ("woken", points.woken.unwrap_or(0)),
    ] {
        *seen.counters.entry(name.to_owned()).or_default() += count as f64;
    }
    *seen.counters.entry("seconds".to_owned()).or_default() += result.seconds;
    let software: u64 = points.exits.values().sum();
    let agrees = software == observed.all.total();
    seen.evidence.insert("kvm-and-machine-agree".into(), Evidence::Text(agrees.to_string()));
    inhibits(seen, points, release);
    Ok(())
}

/// For how much of its time KVM kept the virtual machine from the feature, and by which reasons.
fn inhibits(seen: &mut Seen, points: &::lab::protocol::Tracepoints, release: &str) {
    if points.ran.is_none() {
        return;
    }
    let history = inhibition::history(points, release);
    let machine = history.as_ref().and_then(|history| history.machines.first());
    let share = machine.map_or(0.0, |machine| machine.inhibited_share);
    seen.evidence.insert("inhibited".into(), Evidence::Number(share));
    let longest = machine.into_iter().flat_map(|machine| &machine.reasons);
    let longest = longest.filter(|reason| reason.share > 0.005);
    let names: Vec<String> = longest.map(|reason| reason.name.clone()).collect();
    if !names.is_empty() {
        seen.evidence.insert("inhibited-by".into(), Evidence::Text(names.join(", ")));
    }
}
