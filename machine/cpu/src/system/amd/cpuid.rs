//! Leaves of AMD's parts. [APM3 "CPUID"]

use crate::model::CpuModel;
use crate::system::cpuid::{Leaf, Row, leaf, only, parted};
use arch::cpuid::Feature;

const LAST: u32 = 0x8000_0021;
const LEVELS: u32 = 0x8000_0026;
/// Bits of leaf 1 EDX that leaf 8000_0001H has as well.
const REPEATED: u32 = 0x0183_F3FF;

/// Genoa's signature, of family 19h, model 10h.
const FIRST_WITH_LEVELS: u32 = 0x00A1_0F00;
/// Identifiers of address spaces.
const ASIDS: u32 = 0x8000;

/// In the order of numbers.
pub const TABLE: &[Row] = &[
    leaf(0x8000_0000, |model, _, _, _| {
        let last = if model.names_levels() { LEVELS } else { LAST };
        model.first_leaf(model.last_extended_leaf(last))
    }),
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
    parted(LEVELS, |model, _, part, _| model.levels_leaf(part)),
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

    /// Whether there is a leaf for the levels of a package, which has several complexes. Parts have
    /// it from Zen 4 on. [APM3 "Extended Topology Enumeration"]
    fn names_levels(&self) -> bool {
        let place = self.placement;
        let is_recent = self.signature() >= FIRST_WITH_LEVELS;
        is_recent && u32::from(place.complex_cpus) < place.package_cpus
    }

    /// Cores, complexes, dies, and the package.
    fn levels_leaf(&self, part: u32) -> Leaf {
        if !self.names_levels() {
            return Leaf::default();
        }
        let place = self.placement;
        let levels = [
            (1, place.thread_bits, place.core_cpus.into()),
            (2, place.complex_bits, place.complex_cpus.into()),
            (3, place.die_bits, place.die_cpus.into()),
            (4, place.package_bits, place.package_cpus),
        ];
        self.level_leaf(&levels, part)
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
