//! One IPI at a time to a processor that spins.

use super::kind::Workload;

pub(super) struct Ipi;

impl Workload for Ipi {
    fn name(&self) -> &'static str {
        "ipi"
    }

    fn summary(&self) -> &'static str {
        "one at a time to a processor that spins"
    }

    fn benchmark(&self) -> Option<&'static str> {
        Some("tests=ipi targets=spinning samples=500 warmup=50")
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("ipi_acknowledged physical", "an acknowledged IPI")
    }
}
