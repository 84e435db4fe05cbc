//! Wake-ups: IPIs to a vCPU that has halted.

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
}
