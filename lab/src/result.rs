//! What one call of the lab found, for readers and programs.

pub mod compare;
mod gloss;
mod grids;
mod lane;
mod markdown;
mod page;
mod remarks;
#[cfg(test)]
mod schema;
mod screen;
mod text;

pub use screen::Ending;

use crate::comparison::Comparison;
use crate::evidence::Prediction;
use crate::plan::Arm;
use crate::verdict::Verdict;
use board::cost::Provenance;
use serde::Serialize;

/// Everything that one call of the lab found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LabResult {
    /// Version of the form of the output: docs/schema/lab-1.json.
    pub schema: u32,
    /// The answer.
    pub verdict: Verdict,
    /// What was emulated.
    pub host: HostFacts,
    /// As it was asked for.
    pub workload: String,
    /// What was compared.
    pub arms: Vec<Arm>,
    /// What the times rest on.
    #[cfg_attr(test, schemars(with = "schema::Provenance"))]
    pub costs: Provenance,
    /// One for each mode of the APIC.
    pub comparisons: Vec<Comparison>,
    /// Published figures beside those of this run.
    pub predictions: Vec<Prediction>,
    /// What it took.
    pub run: RunFacts,
}

/// The emulated host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// The CPU model as it was asked for.
    pub cpu: String,
    /// What its cores are clocked at.
    pub core_hertz: u64,
    /// Processors of the host.
    pub cpus: u16,
    /// Distribution and release, or what else ran.
    pub kernel: String,
    /// Why it is not the kernel that was meant.
    pub instead: Option<String>,
    /// vCPUs of the guest.
    pub guest_cpus: u16,
    /// Guests that ran at once, on the same processors of the host.
    pub guests: u16,
    /// Where the guest's I/O APIC and 8254 are; the reference hypervisor's guest has neither.
    pub interrupt_chip: Option<String>,
    /// Who emulates the guest's 8254.
    pub timer: Option<String>,
    /// What KVM was made to inhibit AVIC or APICv for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inhibit: Option<String>,
}

/// What the run took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunFacts {
    /// Whether the emulated host was restored from a snapshot instead of booted.
    pub is_restored: bool,
    /// Executed by all processors.
    pub instructions: u64,
    /// Of the emulated machines.
    pub virtual_seconds: f64,
    /// Of this machine.
    pub host_seconds: f64,
    /// Of everything that happened: of the hashes of all parts of the run, in order. Equal runs
    /// have equal ones.
    pub trace_hash: String,
}

impl RunFacts {
    /// Millions of instructions that were executed in a second.
    pub fn mips(&self) -> f64 {
        self.instructions as f64 / self.host_seconds.max(1e-9) / 1e6
    }
}

impl LabResult {
    /// The version of the JSON form.
    pub const SCHEMA: u32 = 1;

    pub(crate) fn title(&self) -> String {
        let inhibit = self.host.inhibit.as_ref().map(|inhibit| format!(", inhibit {inhibit}"));
        let inhibit = inhibit.unwrap_or_default();
        let guests = match self.host.guests {
            1 => "guest".to_owned(),
            count => format!("{count} guests"),
        };
        let devices = match (&self.host.interrupt_chip, &self.host.timer) {
            (Some(chip), Some(timer)) => format!(" (I/O APIC {chip}, timer {timer}{inhibit})"),
            _ => String::new(),
        };
        format!(
            "workload {}: {} on {} emulated {} processors at {} GHz, {guests} with {}{devices}",
            self.workload,
            self.host.kernel,
            self.host.cpus,
            self.host.cpu,
            self.host.core_hertz as f64 / 1e9,
            self.host.guest_cpus,
        )
    }

    /// In the form of docs/schema/lab-1.json.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Times are only as good as this.
    pub fn costs_sentence(&self) -> String {
        format!(
            "times are computed by the cost profile {}; counts of exits are measurements",
            self.costs
        )
    }

    pub(crate) fn run_line(&self) -> String {
        format!(
            "host {}, {} instructions, {:.3} s virtual, {:.1} s host, {:.0} MIPS, trace hash {}",
            if self.run.is_restored { "restored from a snapshot" } else { "booted" },
            report::grid::grouped(self.run.instructions),
            self.run.virtual_seconds,
            self.run.host_seconds,
            self.run.mips(),
            self.run.trace_hash
        )
    }
}
