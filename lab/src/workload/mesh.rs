//! IPIs from everyone to random others.

use super::kind::Workload;

pub(super) struct Mesh;

impl Workload for Mesh {
    fn name(&self) -> &'static str {
        "mesh"
    }

    fn summary(&self) -> &'static str {
        "IPIs from everyone to random others"
    }

    fn benchmark(&self) -> Option<&'static str> {
        Some("tests=throughput messages=1000")
    }

    fn is_measured_from_seeds(&self) -> bool {
        false
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("ipi_pairs physical", "IPIs of pairs")
    }
}
