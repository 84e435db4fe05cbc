//! What one call of the lab found, for people and programs.

use crate::comparison::Comparison;
use crate::prediction::Prediction;
use crate::{grids, remarks};
use serde::Serialize;

/// Everything that one call of the lab found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabResult {
    /// Version of the form of the output: docs/schema/lab-1.json.
    pub schema: u32,
    pub host: HostFacts,
    pub workload: String,
    pub comparisons: Vec<Comparison>,
    pub predictions: Vec<Prediction>,
    pub run: RunFacts,
}

/// The emulated host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    pub cpu: String,
    pub cpus: u16,
    /// Distribution and release, or what else ran.
    pub kernel: String,
    pub guest_cpus: u16,
    /// Where the guest's I/O APIC and 8254 are; the reference hypervisor's guest has neither.
    pub interrupt_chip: Option<String>,
    pub timer: Option<String>,
}

/// What the run took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFacts {
    /// Whether the emulated host was restored from a snapshot instead of booted.
    pub is_restored: bool,
    pub instructions: u64,
    pub virtual_seconds: f64,
    pub host_seconds: f64,
    pub trace_hash: String,
}

impl RunFacts {
    pub fn mips(&self) -> f64 {
        self.instructions as f64 / self.host_seconds.max(1e-9) / 1e6
    }
}

impl LabResult {
    /// The version of the JSON form.
    pub const SCHEMA: u32 = 1;

    pub(crate) fn title(&self) -> String {
        let devices = match (&self.host.interrupt_chip, &self.host.timer) {
            (Some(chip), Some(timer)) => format!(" (I/O APIC {chip}, timer {timer})"),
            _ => String::new(),
        };
        format!(
            "{} on {} emulated {} processors, guest with {}{devices}",
            self.host.kernel, self.host.cpus, self.host.cpu, self.host.guest_cpus,
        )
    }

    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("{}\nworkload {}\n\n", self.title(), self.workload);
        for comparison in &self.comparisons {
            grids::of_comparison(comparison)
                .iter()
                .for_each(|grid| text += &format!("{}\n", grid.to_text()));
            remarks::of_comparison(comparison)
                .iter()
                .for_each(|remark| text += &format!("{remark}\n"));
            let troubles = comparison.troubles.iter();
            troubles.for_each(|trouble| text += &format!("TROUBLE: {trouble}\n"));
            text.push('\n');
        }
        if let Some(grid) = grids::predictions(&self.predictions) {
            text += &format!("{}\n", grid.to_text());
        }
        for reason in remarks::not_predicted(&self.predictions) {
            text += &format!("{reason}\n");
        }
        text + &self.run_line()
    }

    pub(crate) fn run_line(&self) -> String {
        format!(
            "host {}, {} instructions, {:.3} s virtual, {:.1} s host, {:.0} MIPS, trace hash {}\n",
            if self.run.is_restored { "restored from a snapshot" } else { "booted" },
            report::grid::grouped(self.run.instructions),
            self.run.virtual_seconds,
            self.run.host_seconds,
            self.run.mips(),
            self.run.trace_hash
        )
    }
}
