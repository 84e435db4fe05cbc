//! This machine as a place for trials: what a setting needs is set, by the means that change least;
//! each trial is watched, and all that was changed is put back.

mod manager;
pub mod measure;
mod module;
mod options;
mod prepare;
pub mod reach;
mod said;
mod undo;

pub use options::Options;

use super::known;
use ::experiment::place::{Change, Evidence, Failure, Order, Place, Remark, Seen, Teller, Weight};
use ::experiment::plan::{HostSetup, Plan, Setting};
use manager::Hardware;
use measure::Window;
use reading::Vendor;
use rules::Answer;
use said::Said;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use undo::Undo;

/// How long a virtual machine may take to answer after its start.
const READY: Duration = Duration::from_secs(180);
/// How long one try to reach it may take: what is written to a serial line before a shell reads it
/// is lost.
const TRY: Duration = Duration::from_secs(6);
/// Between two looks while waiting.
const LOOK: Duration = Duration::from_millis(200);

/// This machine.
pub struct Host {
    options: Options,
    stop: &'static AtomicBool,
    state: Mutex<State>,
}

/// What has been done in this process.
#[derive(Debug, Default)]
struct State {
    is_prepared: bool,
    /// Whether the journal has what machines were.
    is_kept: bool,
    /// Modules of which the journal has what they were loaded with.
    kept_modules: BTreeSet<String>,
    /// What virtual machines were last started with.
    hardware: Option<Hardware>,
}

impl Host {
    pub fn new(options: &Options, stop: &'static AtomicBool) -> anyhow::Result<Self> {
        Ok(Self { options: options.clone(), stop, state: Mutex::default() })
    }

    fn trial(&self, order: &Order<'_>, teller: &mut dyn Teller) -> Result<Seen, Failure> {
        let setup = order.plan.host.as_ref();
        let setup =
            setup.ok_or_else(|| Failure::Failed("the plan has no part for a host".into()))?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut state.is_prepared, true) {
            prepare::prepare(&self.options, setup, teller)?;
        }
        self.set(order.plan, order.setting, &mut state, teller)?;
        self.rest(Duration::from_secs(setup.settle))?;
        let machines = self.machines(order.plan, order.setting);
        if let Some(busy) = self.busy(setup)? {
            return Ok(disturbed(format!(
                "the host was {busy:.0} % busy before the trial, more than {} %",
                setup.most_load
            )));
        }
        teller.line(&setup.command);
        let window = Window::open(&self.options)?;
        let output = self.work(setup, &machines)?;
        let mut seen = window.close(&self.options)?;
        seen.output = output;
        self.prove(&mut seen, order.plan, order.setting, &machines);
        let steal = seen.cpu.get("steal").copied().unwrap_or(0.0);
        if steal > setup.most_steal {
            seen.disturbed = Some(format!(
                "{steal:.1} % of the time was stolen, more than {} %",
                setup.most_steal
            ));
        }
        Ok(seen)
    }

    /// How busy the host is, if that is too much; without a limit nobody looks.
    fn busy(&self, setup: &HostSetup) -> Result<Option<f64>, Failure> {
        if setup.most_load >= 100.0 {
            return Ok(None);
        }
        Ok(Some(measure::load(&self.options)?).filter(|busy| *busy > setup.most_load))
    }

    /// The virtual machines of a trial: as many as a factor says, or all.
    fn machines(&self, plan: &Plan, setting: &Setting) -> Vec<String> {
        let count = plan.of_kind(setting, "guests").and_then(|(_, level)| level.parse().ok());
        let most = count.unwrap_or(self.options.vms.len());
        self.options.vms.iter().take(most).cloned().collect()
    }

    /// Brings the host to a setting, by what it differs in alone.
    fn set(
        &self,
        plan: &Plan,
        setting: &Setting,
        state: &mut State,
        teller: &mut dyn Teller,
    ) -> Result<(), Failure> {
        let manager = manager::of(&self.options);
        let modules = module::wanted(plan, setting);
        let wanted = Hardware::of(plan, setting, self.machines(plan, setting));
        let differs = module::differing(&self.options, &modules)?;
        let is_started = state.hardware.as_ref() == Some(&wanted);
        if is_started && differs.is_empty() {
            return Ok(());
        }
        state.hardware = None;
        if !std::mem::replace(&mut state.is_kept, true) {
            manager.keep(&self.options, teller)?;
        }
        manager.stop(&self.options, &self.options.vms)?;
        if !differs.is_empty() {
            module::load(&self.options, &modules, &mut state.kept_modules, teller)?;
        }
        manager.configure(&self.options, &wanted)?;
        manager.start(&self.options, &wanted)?;
        for machine in &wanted.machines {
            self.wait_for(machine, plan)?;
        }
        state.hardware = Some(wanted);
        Ok(())
    }

    /// Until the guest answers.
    fn wait_for(&self, machine: &str, plan: &Plan) -> Result<(), Failure> {
        if plan.host.as_ref().is_some_and(|setup| !setup.is_in_guest) {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            match reach::run(&self.options, machine, "true", TRY) {
                Ok(_) => return Ok(()),
                Err(why) if began.elapsed() > READY => {
                    return Err(Failure::Failed(format!("{machine} does not answer: {why}")));
                }
                Err(_) => self.rest(LOOK)?,
            }
        }
    }

    /// The work, in all machines at once.
    fn work(&self, setup: &HostSetup, machines: &[String]) -> Result<String, Failure> {
        let limit = Duration::from_secs(setup.limit);
        if !setup.is_in_guest {
            return reach::locally(&setup.command, &[], limit).map_err(Failure::Failed);
        }
        let outputs: Vec<Said<String>> = std::thread::scope(|scope| {
            let run = |machine: &'_ String| {
                let machine = machine.clone();
                let work = move || reach::run(&self.options, &machine, &setup.command, limit);
                std::thread::Builder::new().spawn_scoped(scope, work)
            };
            let running: Vec<_> = machines.iter().map(run).collect();
            let ended = running.into_iter().map(|one| match one {
                Ok(one) => one.join().unwrap_or_else(|_| Err("a thread failed".into())),
                Err(error) => Err(format!("no thread for a machine's work: {error}")),
            });
            ended.collect()
        });
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let all: Said<Vec<String>> = outputs.into_iter().collect();
        all.map(|outputs| outputs.join("\n")).map_err(Failure::Failed)
    }

    /// What the trial was: parameters as the kernel shows them, and what `why` says of machines.
    fn prove(&self, seen: &mut Seen, plan: &Plan, setting: &Setting, machines: &[String]) {
        for (module, name, _) in module::shown(&self.options, plan, setting) {
            let value = module::value(&self.options, &module, &name);
            let value = value.unwrap_or_else(|| "not there".into());
            seen.evidence.insert(format!("parameter:{module}.{name}"), Evidence::Text(value));
        }
        let Ok(answers) = measure::why(&self.options, machines) else { return };
        let mut worst: f64 = 0.0;
        for (machine, answer, reason) in answers {
            let text = format!("{answer}: {reason}");
            seen.evidence.insert(format!("why:{machine}"), Evidence::Text(text));
            match answer {
                Answer::Yes => {}
                Answer::No => worst = 1.0,
                Answer::Unknown => return,
            }
        }
        seen.evidence.entry("inhibited".into()).or_insert(Evidence::Number(worst));
    }

    /// Waits, unless the user asks for the end.
    fn rest(&self, time: Duration) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < time {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(LOOK.min(time));
        }
        Ok(())
    }
}

fn disturbed(why: String) -> Seen {
    Seen { disturbed: Some(why), ..Seen::default() }
}

impl Place for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn is_lab(&self) -> bool {
        false
    }

    fn check(&self, plan: &Plan) -> Vec<Remark> {
        let Some(setup) = &plan.host else {
            let remedy = "add [host] with a command, or run it --on lab";
            return vec![Remark::new(Weight::Blocks, "the plan has no part for a host", remedy)];
        };
        if let Some(why) = &setup.cannot {
            return vec![Remark::new(Weight::Blocks, format!("no host can run it: {why}"), "")];
        }
        let mut remarks = self.options.check(plan, setup);
        remarks.extend(manager::of(&self.options).check(&self.options, plan));
        remarks.extend(self.vendor(plan, setup));
        remarks.extend(module::check(&self.options, plan));
        for cell in plan.cells(false) {
            for level in &plan.compared().levels {
                let mut setting = cell.clone();
                setting.insert(plan.design.compare.clone(), level.clone());
                remarks.extend(known::futile(plan, &setting));
            }
        }
        remarks
    }

    fn provenance(&self, _plan: &Plan) -> BTreeMap<String, String> {
        measure::provenance(&self.options)
    }

    fn perform(&self, order: &Order<'_>, teller: &mut dyn Teller) -> Result<Seen, Failure> {
        self.trial(order, teller)
    }

    /// The last change comes first; what cannot be put back does not keep the rest from it.
    fn restore(&self, changes: &[Change]) -> Result<(), Failure> {
        let mut failures = Vec::new();
        // Counting that a killed process left would keep the modules.
        Window::abandon(&self.options);
        let undo = |change: &Change| {
            serde_json::from_str::<Undo>(&change.undo).map_err(|error| error.to_string())
        };
        // Machines use the modules, and keep what they were started with.
        if changes.iter().any(|change| matches!(undo(change), Ok(Undo::Running { .. }))) {
            let _ = manager::of(&self.options).stop(&self.options, &self.options.vms);
        }
        for change in changes.iter().rev() {
            if let Err(why) = undo(change).and_then(|undo| undo.carry_out(&self.options)) {
                failures.push(format!("{}: {why}", change.what));
            }
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
        if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("; "))) }
    }
}

impl Host {
    fn vendor(&self, plan: &Plan, setup: &HostSetup) -> Option<Remark> {
        let wanted = setup.vendor.as_deref()?;
        let found = measure::vendor(&self.options);
        let is_it = match found {
            Some(Vendor::Amd) => wanted == "amd",
            Some(Vendor::Intel) => wanted == "intel",
            _ => false,
        };
        (!is_it).then(|| {
            let found = found.map_or("unknown".into(), |vendor| format!("{vendor:?}"));
            let cause =
                format!("{} takes processors of {wanted}; here they are {found}", plan.name);
            Remark::new(Weight::Blocks, cause, "run it --on lab, which has both")
        })
    }
}
