//! The rungs that only count: how often something happened while they were watched.

use capture::live::counting::Counting;
use capture::live::qmp::Monitor;
use capture::live::{Rung, interrupts, statistics};
use std::collections::BTreeMap;
use std::path::Path;

/// One that counts.
pub enum Counters {
    Events(Counting),
    Monitor(Monitor),
    Statistics(Option<u32>),
    Interrupts,
}

type Counts = BTreeMap<&'static str, u64>;

impl Counters {
    /// Starts on a rung, or says why not.
    pub fn start(rung: Rung, process: Option<u32>, socket: Option<&Path>) -> anyhow::Result<Self> {
        let counters = match (rung, socket) {
            (Rung::Monitor, Some(socket)) => Self::Monitor(Monitor::connect(socket)?),
            (Rung::Monitor, None) => anyhow::bail!("no monitor is given"),
            (Rung::Counting, _) => Self::Events(Counting::start(process)?),
            (Rung::Statistics, _) => Self::Statistics(process),
            _ => Self::Interrupts,
        };
        let mut counters = counters;
        anyhow::ensure!(!counters.read()?.is_empty(), "nothing is counted");
        Ok(counters)
    }

    /// Counts as they stand.
    pub fn read(&mut self) -> anyhow::Result<Counts> {
        Ok(match self {
            Self::Events(events) => events.read()?,
            Self::Monitor(monitor) => monitor.read()?,
            Self::Statistics(process) => statistics::read(Path::new(statistics::FOLDER), *process),
            Self::Interrupts => {
                interrupts::parse(&std::fs::read_to_string("/proc/interrupts").unwrap_or_default())
            }
        })
    }
}

/// What was added between two readings; counters of machines that have gone may have shrunk.
pub fn since(before: &Counts, after: &Counts) -> Vec<(&'static str, u64)> {
    let added = |(name, count): (&&'static str, &u64)| {
        (*name, count.saturating_sub(before.get(name).copied().unwrap_or(0)))
    };
    after.iter().map(added).collect()
}
