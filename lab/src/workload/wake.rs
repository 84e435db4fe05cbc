//! Wake-ups: IPIs to a vCPU that has halted.

use super::found::{Found, Run};
use super::kind::Workload;
use crate::plan::Needs;

pub(super) struct Wake;

impl Workload for Wake {
    fn name(&self) -> &'static str {
        "wake"
    }

    fn summary(&self) -> &'static str {
        "IPIs to a processor that has halted, or is about to"
    }

    /// A vCPU that polls before it sleeps counts as running, and nothing has to wake
    /// it.
    fn needs(&self) -> Needs {
        Needs { parameters: &["kvm.halt_poll_ns=0"], ..Needs::default() }
    }

    fn benchmark(&self) -> Option<&'static str> {
        Some("tests=ipi targets=halted gap=500 samples=300 warmup=5 patience=20000000")
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("ipi_acknowledged physical", "a wake-up by IPI")
    }

    /// The benchmark says when it waited in vain.
    fn find(&self, run: &Run<'_>) -> Option<Found> {
        let record = run.record("lost")?;
        let side = run.observed.step.arm.side();
        let lost = format!(
            "{side}: a wake-up was lost ({} {})",
            record["test"].as_str().unwrap_or("ipi"),
            record["destination"].as_str().unwrap_or_default()
        );
        Some(Found { is_on: run.is_on(), lost: vec![lost], ..Found::default() })
    }
}
