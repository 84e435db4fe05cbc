//! Leaves of Intel's parts. [SDM2 "CPUID"]

use crate::model::CpuModel;
use crate::system::cpuid::{Leaf, Row, leaf, parted, plain};

const LAST: u32 = 0x8000_0008;
/// Leaf 2: caches are described by leaf 4 alone.
const SEE_LEAF_4: u32 = 0xFF01;

/// In the order of numbers.
pub const TABLE: &[Row] = &[
    leaf(2, |_, _, _, _| Leaf::new(SEE_LEAF_4, 0, 0, 0)),
    parted(4, |model, _, part, _| model.cache_leaf_with_cores(part)),
    leaf(0x8000_0000, |model, _, _, _| model.first_leaf(model.last_extended_leaf(LAST))),
    leaf(0x8000_0001, plain),
    leaf(0x8000_0006, |model, _, _, _| Leaf { ecx: model.other_caches().ecx, ..Leaf::default() }),
    leaf(0x8000_0008, |model, _, _, features| model.width_leaf(features)),
];

impl CpuModel {
    /// As AMD's, and the number of cores in the package.
    fn cache_leaf_with_cores(&self, subleaf: u32) -> Leaf {
        let leaf = self.cache_leaf(subleaf);
        let core_bits = self.placement.package_bits.saturating_sub(self.placement.thread_bits);
        let cores = ((1u32 << core_bits) - 1).min(0x3F);
        if leaf.eax == 0 { leaf } else { Leaf { eax: leaf.eax | cores << 26, ..leaf } }
    }
}
