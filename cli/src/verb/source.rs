//! Which host a verb is about: this one, or a recorded one.

use facts::{Facts, Inputs};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Source {
    /// Read a recorded host instead of this one: a folder, a snapshot, a sosreport, or a single CPUID listing,
    /// /proc/cpuinfo, lscpu output, kernel log, ACPI table or acpidump
    #[arg(long, value_name = "PATH")]
    pub root: Option<PathBuf>,
}

impl Source {
    pub fn inputs(&self) -> anyhow::Result<Inputs> {
        match &self.root {
            Some(path) => Ok(facts::recorded(path)?),
            None => Ok(facts::live()),
        }
    }

    pub fn facts(&self) -> anyhow::Result<Facts> {
        Ok(facts::facts(&self.inputs()?))
    }
}
