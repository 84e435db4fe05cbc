//! What guests do, and what is made of it: a file for each workload, and a row in [`ALL`].

mod call;
pub mod command;
pub mod device;
pub mod figure;
mod file;
pub mod found;
pub(crate) mod inhibited;
mod ipi;
mod kernel;
mod kind;
mod mesh;
pub mod mix;
mod nested;
mod network;
mod threads;
mod timer;
mod wake;

pub use kind::{Attendant, Conditions, Workload};

use crate::drive::observed::Observed;
use command::Command;
use figure::Figure;
use found::Run;
use kernel::Kernel;
use serde_json::Value as Json;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::str::FromStr;

/// All that have a name of their own; anything else is a command.
#[rustfmt::skip]
static ALL: &[&dyn Workload] = &[
    &ipi::Ipi,
    &threads::Threads,
    &mesh::Mesh,
    &timer::Timer,
    &device::Device,
    &network::Network,
    &wake::Wake,
    &nested::Nested,
    &file::FileWork,
    &call::Call,
];

/// The workload that users chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen(Which);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    /// By its place in [`ALL`].
    Named(usize),
    Command(Command),
    Kernel(Kernel),
}

impl Chosen {
    /// A command in a folder that is its guest's root.
    pub fn in_root(words: &str, root: &Path) -> anyhow::Result<Self> {
        Command::in_root(words, root).map(|command| Self(Which::Command(command)))
    }
}

impl Deref for Chosen {
    type Target = dyn Workload;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Which::Named(place) => ALL[*place],
            Which::Command(command) => command,
            Which::Kernel(kernel) => kernel,
        }
    }
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix(kernel::WORD).and_then(|rest| rest.strip_prefix(' '))
        {
            return Kernel::parse(rest).map(|kernel| Self(Which::Kernel(kernel)));
        }
        match ALL.iter().position(|one| one.name() == text) {
            Some(place) => Ok(Self(Which::Named(place))),
            None => text.parse().map(|command| Self(Which::Command(command))).map_err(
                |program: String| {
                    format!(
                        "{program:?} is neither {} nor a program of this machine",
                        names(|_| true).join(", ")
                    )
                },
            ),
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())
    }
}

/// The workload of a step, by the name that it has there.
pub(crate) fn named(name: &str) -> Option<&'static dyn Workload> {
    static COMMAND: Command = Command::NONE;
    static KERNEL: Kernel = Kernel::none();
    let others = [&COMMAND as &dyn Workload, &KERNEL, &inhibited::Inhibited, &mix::Mix];
    ALL.iter().copied().chain(others).find(|one| one.name() == name)
}

/// The workload of a result, by what users wrote.
pub(crate) fn of_title(title: &str) -> &'static dyn Workload {
    static COMMAND: Command = Command::NONE;
    ALL.iter().copied().find(|one| one.name() == title).unwrap_or(&COMMAND)
}

/// Names of those that are so.
pub fn names(is_so: impl Fn(&dyn Workload) -> bool) -> Vec<&'static str> {
    ALL.iter().filter(|one| is_so(**one)).map(|one| one.name()).collect()
}

/// All with what they do, for the help.
pub fn summaries() -> String {
    let each = ALL.iter().map(|one| format!("{} ({})", one.name(), one.summary()));
    format!(
        "{}, kernel FILE WORDS (a kernel for bare metal, such as a test of kvm-unit-tests), or a \
         command of this machine to run in a Linux guest",
        each.collect::<Vec<_>>().join(", ")
    )
}

/// The words of all.
pub(crate) fn gloss() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().flat_map(|one| one.gloss().iter().copied())
}

/// The figures that a guest printed, but for those from seeds.
pub(crate) fn figures(one: &Observed) -> Vec<Figure> {
    by_seed(one).into_iter().next().unwrap_or_default()
}

/// All figures of a life: those that a guest printed, and what the workload finds in it.
pub(crate) fn of_life(one: &Observed) -> Vec<Figure> {
    let run = Run { observed: one, tally: one.workload(), is_inhibited: false };
    let found = named(&one.step.workload).and_then(|workload| workload.find(&run));
    figures(one).into_iter().chain(found.into_iter().flat_map(|found| found.figures)).collect()
}

/// The figures that a guest printed of each seed that it measured from once more.
pub(crate) fn seeded(one: &Observed) -> Vec<Vec<Figure>> {
    by_seed(one).split_off(1)
}

/// The figures in lines of a workload's guest.
pub(crate) fn figures_in<'a>(workload: &str, lines: impl Iterator<Item = &'a str>) -> Vec<Figure> {
    let Some(workload) = named(workload) else { return Vec::new() };
    records(lines).filter_map(|record| workload.figure(&record)).collect()
}

fn records<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Json> {
    lines.filter_map(|line| {
        line.starts_with('{').then(|| serde_json::from_str::<Json>(line).ok()).flatten()
    })
}

/// Those before the first seed, then those of each.
fn by_seed(one: &Observed) -> Vec<Vec<Figure>> {
    let mut all = vec![Vec::new()];
    let Some(workload) = named(&one.step.workload) else { return all };
    for record in records(one.result.console.iter().map(String::as_str)) {
        if record["record"].as_str() == Some("seed") {
            all.push(Vec::new());
        }
        all.last_mut().into_iter().for_each(|own| own.extend(workload.figure(&record)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Experiment, Setting};
    use bench::Configuration;

    #[test]
    fn what_takes_time_is_measured_apart_from_what_is_traced() {
        let arm = Experiment::default().arm(Setting::On);
        let configuration = Configuration::default();
        let conditions = Conditions::plain(&arm, &configuration);
        let steps = ipi::Ipi.steps(&conditions);
        let places: Vec<_> = steps.iter().map(|one| (one.name.as_str(), one.is_traced)).collect();
        assert_eq!(
            places,
            [("xAPIC", false), ("xAPIC", true), ("x2APIC", false), ("x2APIC", true)]
        );
        assert!(steps.iter().all(|step| step.arm == arm));
    }

    #[test]
    fn what_is_no_command_of_this_machine_is_no_workload() {
        let chosen: Chosen = "ls -l".parse().expect("a command");
        assert_eq!((chosen.name(), chosen.title().as_str()), ("command", "ls -l"));
        for text in ["", "   ", "nosuch", "nosuch --with arguments"] {
            let error = text.parse::<Chosen>().expect_err(text);
            assert!(error.contains("ipi, threads, mesh, timer"), "{error}");
        }
    }

    #[test]
    fn every_workload_is_found_by_the_name_that_its_steps_have() {
        let arm = Experiment::default().arm(Setting::Off);
        let configuration = Configuration::default();
        let conditions = Conditions::plain(&arm, &configuration);
        for workload in ALL {
            let chosen: Chosen = workload.name().parse().expect("a name of its own");
            let steps = chosen.steps(&conditions);
            assert!(!steps.is_empty() && steps.iter().any(|step| step.is_traced));
            for step in steps {
                let found = named(&step.workload).expect("a workload");
                assert_eq!(found.name(), workload.name());
            }
        }
    }
}
