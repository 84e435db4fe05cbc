//! What the host's processors did while interrupts were on their way, by function.

use super::choice::Stretch;
use super::{BEFORE, Doing, Span, exit_of, named_by_access, word};
use crate::drive::sampling::{Place, Samples};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::{Event, Record};

/// What a function of the host took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Function {
    /// The exit that it is for; empty of a processor that had no guest.
    pub during: String,
    /// Its name.
    pub name: String,
    /// The module that it is of; none of the kernel itself and of programs.
    pub module: Option<String>,
    /// Of an interrupt, in the mean.
    pub ps: u64,
    /// How often a processor was seen in it.
    pub samples: u64,
    /// Where it was seen; none of a program.
    #[serde(skip)]
    pub address: Option<u64>,
}

impl Function {
    /// Whether what a processor did in this stretch is told by it.
    pub fn is_for(&self, span: &Span) -> bool {
        let kind = span.what.strip_suffix(BEFORE).unwrap_or(&span.what);
        span.doing == Doing::Hypervisor && kind == self.during
    }

    /// With its module.
    pub fn words(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.name),
            None => self.name.clone(),
        }
    }
}

/// By what they are for and by address; names are to be found. Empty where nobody looked.
pub(super) fn by_function(
    records: &[Record],
    samples: &Samples,
    stretches: &[Stretch],
) -> Vec<Function> {
    let Some((first, last)) = samples.span else { return Vec::new() };
    let whole: Vec<&Stretch> =
        stretches.iter().filter(|one| one.start >= first && one.end <= last).collect();
    let mut lives: BTreeMap<CpuIndex, Vec<(Picoseconds, Option<String>)>> = BTreeMap::new();
    records.iter().for_each(|record| follow(&mut lives, record));
    let mut found: BTreeMap<(String, Where), u64> = BTreeMap::new();
    for sample in &samples.all {
        let next = whole.partition_point(|one| one.end < sample.at);
        if whole.get(next).is_none_or(|one| one.start > sample.at) {
            continue;
        }
        let life = lives.get(&sample.cpu).map_or(&[][..], Vec::as_slice);
        let last = life[..life.partition_point(|(at, _)| *at <= sample.done)].last();
        let during = last.and_then(|(_, exit)| exit.clone()).unwrap_or_default();
        let place = match sample.place {
            // The processor was about to leave its guest.
            _ if last.is_some_and(|(at, exit)| exit.is_some() && *at > sample.at) => Where::Switch,
            Place::Program => Where::Program,
            Place::Kernel(address) => Where::Kernel(address),
        };
        *found.entry((during, place)).or_default() += 1;
    }
    let each = samples.period() / whole.len().max(1) as f64;
    let function = |((during, place), samples): ((String, Where), u64)| {
        let (name, address) = place.named();
        let ps = (samples as f64 * each).round() as u64;
        Function { during, name: name.into(), module: None, ps, samples, address }
    };
    found.into_iter().map(function).collect()
}

/// What a processor of the host did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Switch,
    Program,
    Kernel(u64),
}

impl Where {
    /// A name, or the address that has one.
    fn named(self) -> (&'static str, Option<u64>) {
        match self {
            Self::Switch => ("VM exit by the processor", None),
            Self::Program => ("programs of the host", None),
            Self::Kernel(address) => ("", Some(address)),
        }
    }
}

/// What each processor left its guest for, and when; nothing from when it entered it.
fn follow(lives: &mut BTreeMap<CpuIndex, Vec<(Picoseconds, Option<String>)>>, record: &Record) {
    let life = lives.entry(record.cpu).or_default();
    match record.event {
        Event::Entry { .. } => life.push((record.at, None)),
        // The access that it exited for is told right behind the exit.
        Event::MsrWrite { index, .. } => {
            if let Some((_, Some(what))) = life.last_mut() {
                named_by_access(what, index);
            }
        }
        _ => {
            life.extend(exit_of(record).map(|(_, why)| (record.at, Some(word(record, why)))));
        }
    }
}

/// Names them by what `names` says of addresses, and puts together what has the same name.
pub(crate) fn name(functions: &mut Vec<Function>, names: &BTreeMap<u64, (String, Option<String>)>) {
    let mut named: BTreeMap<(String, String, Option<String>), (u64, u64)> = BTreeMap::new();
    for one in functions.drain(..) {
        let unnamed = || (format!("{:#x}", one.address.unwrap_or_default()), None);
        let (name, module) = match one.address {
            None => (one.name, None),
            Some(address) => names
                .get(&address)
                .filter(|(name, _)| !name.is_empty())
                .cloned()
                .unwrap_or_else(unnamed),
        };
        let sums = named.entry((one.during, name, module)).or_default();
        sums.0 += one.ps;
        sums.1 += one.samples;
    }
    let function = |((during, name, module), (ps, samples))| Function {
        during,
        name,
        module,
        ps,
        samples,
        address: None,
    };
    *functions = named.into_iter().map(function).collect();
    functions.sort_by_key(|one| std::cmp::Reverse(one.ps));
}
