//! Leaves of AMD's parts. [APM3 "CPUID"]

use crate::model::CpuModel;
use crate::system::cpuid::{Leaf, Row, leaf, only, parted};
use arch::cpuid::Feature;

const LAST: u32 = 0x8000_0021;
/// Bits of leaf 1 EDX that leaf 8000_0001H has as well.
const REPEATED: u32 = 0x0183_F3FF;

/// Identifiers of address spaces.
const ASIDS: u32 = 0x8000;

/// In the order of numbers.
pub const TABLE: &[Row] = &[
    leaf(0x8000_0000, |model, _, _, _| model.first_leaf(model.last_extended_leaf(LAST))),
    leaf(0x8000_0001, |model, _, _, features| model.extended_signature_leaf(features)),
    leaf(0x8000_0005, |model, _, _, _| model.first_level_caches()),
    leaf(0x8000_0006, |model, _, _, _| model.other_caches()),
    leaf(0x8000_0008, |model, _, _, features| model.width_and_threads_leaf(features)),
    only(
        Feature::Svm,
        leaf(0x8000_000A, |_, _, _, features| Leaf { eax: 1, ebx: ASIDS, ..features }),
    ),
    parted(0x8000_001D, |model, _, part, _| model.cache_leaf(part)),
    leaf(0x8000_001E, |model, _, _, _| model.extended_topology_leaf()),
];

impl CpuModel {
    /// AMD parts repeat the bits of Fn0000_0001 EDX that are the same.
    fn extended_signature_leaf(&self, features: Leaf) -> Leaf {
        let [.., repeated] = self.features().leaf(1, 0);
        Leaf { eax: self.signature(), edx: features.edx | repeated & REPEATED, ..features }
    }

    fn width_and_threads_leaf(&self, features: Leaf) -> Leaf {
        let threads = self.placement.package_cpus.max(1);
        let ecx = (threads - 1) & 0xFF | (self.placement.package_bits as u32) << 12;
        Leaf { ecx, ..self.width_leaf(features) }
    }

    fn extended_topology_leaf(&self) -> Leaf {
        let place = self.placement;
        Leaf::new(
            place.apic_id,
            place.apic_id >> place.thread_bits & 0xFF | ((1u32 << place.thread_bits) - 1) << 8,
            place.apic_id >> place.package_bits & 0xFF,
            0,
        )
    }

    /// Line size 64, one line per tag, associativity, KiB.
    fn first_level_caches(&self) -> Leaf {
        let cache = |bytes: u32| (bytes >> 10) << 24 | 8 << 16 | 1 << 8 | 64;
        Leaf::new(
            0xFF48_FF40,
            0xFF48_FF40,
            cache(self.caches().l1_data),
            cache(self.caches().l1_code),
        )
    }
}
