//! CPUID, derived from the model's capability value. [APM3 "CPUID"] [SDM2 "CPUID"]

use super::table::{Entry, Tables};
use crate::Cpu;
use crate::model::{CpuModel, RawLeaf};
use crate::state::Control;
use crate::state::component::{self, AVX, PKRU, SSE, UINTR, X87};
use crate::state::msr::misc_enable;
use arch::control::Cr4;
use arch::cpuid::Feature;

/// The four result registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

impl Leaf {
    pub(super) const fn new(eax: u32, ebx: u32, ecx: u32, edx: u32) -> Self {
        Self { eax, ebx, ecx, edx }
    }
}

/// What leaf 0 answers under IA32_MISC_ENABLE's limit, for systems that know no later leaves.
const LIMITED_STANDARD: u32 = 2;

const MEGAHERTZ: u64 = 1_000_000;
const BUS_HERTZ: u64 = 100 * MEGAHERTZ;

const FIRST_EXTENDED: u32 = 0x8000_0000;

/// Types of levels. [SDM2 "CPUID" "V2 Extended Topology Enumeration Leaf"]
const THREADS: u32 = 1;
const CORES: u32 = 2;

/// What a row says.
pub(super) struct Kind {
    /// ECX selects a part of the leaf.
    has_parts: bool,
    make: Make,
}

/// Of the model, the leaf, its part, and the features that are announced there.
pub(super) type Make = fn(&CpuModel, u32, u32, Leaf) -> Leaf;

pub(super) type Row = Entry<Kind>;

const fn several(first: u32, last: u32, make: Make) -> Row {
    Entry { first, last, needs: None, what: Kind { has_parts: false, make } }
}

pub(super) const fn leaf(number: u32, make: Make) -> Row {
    several(number, number, make)
}

/// A leaf of several parts.
pub(super) const fn parted(number: u32, make: Make) -> Row {
    Entry { what: Kind { has_parts: true, make }, ..leaf(number, make) }
}

/// A leaf that parts with a feature have.
pub(super) const fn only(feature: Feature, row: Row) -> Row {
    Entry { needs: Some(feature), ..row }
}

/// What the features say and nothing else.
pub(super) fn plain(_: &CpuModel, _: u32, _: u32, features: Leaf) -> Leaf {
    features
}

static TABLES: Tables<Kind> =
    Tables { all: ALL, own: [super::amd::cpuid::TABLE, super::intel::cpuid::TABLE] };

/// What both vendors' parts have, in the order of numbers. Standard leaves beyond the last that
/// leaf 0 says are not there.
const ALL: &[Row] = &[
    leaf(0, |model, _, _, _| model.first_leaf(model.last_leaf())),
    leaf(1, |model, _, _, features| model.signature_leaf(features)),
    leaf(5, |_, _, _, _| Leaf::new(64, 64, 3, 0x11)),
    leaf(6, plain),
    parted(7, |model, _, part, features| model.structured_leaf(part, features)),
    parted(0xB, |model, _, part, _| model.topology(part)),
    only(Feature::Xsave, parted(0xD, |model, _, part, features| model.xsave_leaf(part, features))),
    leaf(0x15, |model, _, _, _| model.crystal_leaf()),
    leaf(0x16, |model, _, _, _| model.frequency_leaf()),
    parted(0x1F, |model, _, part, _| model.topology_with_dies(part)),
    several(0x8000_0002, 0x8000_0004, |model, number, _, _| model.brand_leaf(number)),
    leaf(0x8000_0007, plain),
    leaf(0x8000_0021, plain),
];

fn text(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | *byte as u32)
}

pub(crate) fn cpuid(cpu: &Cpu, leaf: u32, subleaf: u32) -> Leaf {
    let mut result = cpu.model.cpuid(leaf, subleaf);
    match leaf {
        1 => {
            if cpu.control.cr4().contains(Cr4::OSXSAVE) {
                result.ecx |= 1 << 27;
            }
            if !cpu.apic.is_enabled() {
                result.edx &= !(1 << 9);
            }
        }
        7 if subleaf == 0 && cpu.control.cr4().contains(Cr4::PKE) => result.ecx |= 1 << 4,
        0xD if cpu.model.has(Feature::Xsave) => match subleaf {
            0 => result.ebx = component::area_size(cpu.control.xcr0, false) as u32,
            1 if cpu.model.has(Feature::Xsavec) => {
                let components = cpu.control.xcr0 | cpu.control.msr.xss;
                result.ebx = component::area_size(components, true) as u32;
            }
            _ => {}
        },
        0x8000_0001 if !cpu.apic.is_enabled() => result.edx &= !(1 << 9),
        _ => {}
    }
    cpu.control.limit_leaf(leaf, &mut result);
    result
}

impl CpuModel {
    /// The components that XCR0 may enable.
    pub fn xcr0_permitted(&self) -> u64 {
        let with = |feature, component| if self.has(feature) { component } else { 0 };
        X87 | SSE | with(Feature::Avx, AVX) | with(Feature::Pku, PKRU)
    }

    /// The components that IA32_XSS may enable.
    pub(crate) fn xss_permitted(&self) -> u64 {
        if self.has(Feature::Xsaves) && self.has(Feature::Uintr) { UINTR } else { 0 }
    }

    /// CPUID as the model alone decides it.
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> Leaf {
        let is_beyond = leaf < FIRST_EXTENDED && leaf > self.last_leaf();
        let Some(row) = TABLES.find(self, leaf).filter(|_| !is_beyond) else {
            return self.raw_leaf(leaf, subleaf);
        };
        // Most leaves do not look at ECX, which then holds anything.
        let subleaf = if row.what.has_parts { subleaf } else { 0 };
        let [eax, ebx, ecx, edx] = self.features().leaf(leaf, subleaf);
        (row.what.make)(self, leaf, subleaf, Leaf::new(eax, ebx, ecx, edx))
    }

    /// Whether the leaf follows from the model's other values.
    pub(crate) fn makes_leaf(&self, leaf: u32) -> bool {
        TABLES.find(self, leaf).is_some()
    }

    /// A leaf that the model's file has as it is.
    fn raw_leaf(&self, leaf: u32, subleaf: u32) -> Leaf {
        let is_it = |raw: &&RawLeaf| {
            raw.leaf == leaf && raw.subleaf.is_none_or(|selected| selected == subleaf)
        };
        let found = self.raw_leaves().iter().find(is_it);
        found.map_or(Leaf::default(), |raw| Leaf::new(raw.eax, raw.ebx, raw.ecx, raw.edx))
    }

    /// The highest extended leaf, if those of the vendor's parts end with `last`.
    pub(super) fn last_extended_leaf(&self, last: u32) -> u32 {
        let raw = self.raw_leaves().iter().map(|raw| raw.leaf);
        raw.filter(|leaf| *leaf >= FIRST_EXTENDED).fold(last, u32::max)
    }

    pub(super) fn first_leaf(&self, last: u32) -> Leaf {
        let vendor = self.vendor().as_bytes();
        Leaf::new(last, text(&vendor[0..4]), text(&vendor[8..12]), text(&vendor[4..8]))
    }

    fn signature_leaf(&self, features: Leaf) -> Leaf {
        let place = self.placement;
        let ebx = place.apic_id << 24 | place.package_cpus.clamp(1, 255) << 16 | 8 << 8;
        Leaf { eax: self.signature(), ebx, ..features }
    }

    /// EAX of the first part says which is the last.
    fn structured_leaf(&self, part: u32, features: Leaf) -> Leaf {
        const LAST_WITH_FEATURES: u32 = 2;
        let is_there = self.features().leaf(7, LAST_WITH_FEATURES) != [0; 4];
        match part {
            0 if is_there => Leaf { eax: LAST_WITH_FEATURES, ..features },
            _ => features,
        }
    }

    pub(super) fn width_leaf(&self, features: Leaf) -> Leaf {
        Leaf { eax: self.physical_bits() as u32 | (self.linear_bits() as u32) << 8, ..features }
    }

    fn topology(&self, subleaf: u32) -> Leaf {
        let place = self.placement;
        let threads = (THREADS, place.thread_bits, 1 << place.thread_bits);
        let cores = (CORES, place.package_bits, place.package_cpus.max(1));
        self.level_leaf(&[threads, cores], subleaf)
    }

    /// Leaf 1FH names dies where a package has several.
    fn topology_with_dies(&self, subleaf: u32) -> Leaf {
        const DIES: u32 = 5;
        let place = self.placement;
        if u32::from(place.die_cpus) >= place.package_cpus {
            return self.topology(subleaf);
        }
        let threads = (THREADS, place.thread_bits, 1 << place.thread_bits);
        let cores = (CORES, place.die_bits, place.die_cpus.into());
        let dies = (DIES, place.package_bits, place.package_cpus);
        self.level_leaf(&[threads, cores, dies], subleaf)
    }

    /// One of several levels: its type, the bits below the next, and the processors in it.
    pub(super) fn level_leaf(&self, levels: &[(u32, u8, u32)], subleaf: u32) -> Leaf {
        let level = levels.get(subleaf as usize).map_or(Leaf::default(), |(kind, bits, cpus)| {
            Leaf::new(u32::from(*bits), *cpus, kind << 8, 0)
        });
        Leaf { ecx: level.ecx | subleaf & 0xFF, edx: self.placement.apic_id, ..level }
    }

    /// EBX / EAX is the ratio of the time-stamp counter to the crystal.
    fn crystal_leaf(&self) -> Leaf {
        let Some(crystal) = self.crystal() else { return Leaf::default() };
        let ratio = 2 * self.tsc_hertz() / crystal.hertz.max(1);
        let hertz = if crystal.is_shown { crystal.hertz as u32 } else { 0 };
        Leaf::new(2, ratio as u32, hertz, 0)
    }

    /// Base frequency to the next 100 MHz, highest frequency, bus; in MHz.
    fn frequency_leaf(&self) -> Leaf {
        if self.crystal().is_none() {
            return Leaf::default();
        }
        let base = self.clocks().base.hertz + BUS_HERTZ / 2;
        let base = base / BUS_HERTZ * (BUS_HERTZ / MEGAHERTZ);
        let highest = self.clocks().boost.hertz / MEGAHERTZ;
        Leaf::new(base as u32, highest as u32, (BUS_HERTZ / MEGAHERTZ) as u32, 0)
    }

    fn xsave_leaf(&self, subleaf: u32, features: Leaf) -> Leaf {
        let permitted = self.xcr0_permitted();
        match subleaf {
            0 => Leaf::new(
                permitted as u32,
                component::EXTENDED_REGION as u32,
                component::area_size(permitted, false) as u32,
                (permitted >> 32) as u32,
            ),
            1 => Leaf { ecx: self.xss_permitted() as u32, ..features },
            _ => self.component_leaf(1u64.checked_shl(subleaf).unwrap_or(0)),
        }
    }

    /// Size and place of an extended component. A supervisor's has no place in the standard format.
    fn component_leaf(&self, component: u64) -> Leaf {
        let is_there = component & (self.xcr0_permitted() | self.xss_permitted()) != 0;
        let Some((size, place)) = component::standard(component).filter(|_| is_there) else {
            return Leaf::default();
        };
        Leaf::new(size as u32, place.unwrap_or(0) as u32, u32::from(place.is_none()), 0)
    }

    fn brand_leaf(&self, leaf: u32) -> Leaf {
        let mut name = [0; 48];
        let brand = self.brand().as_bytes();
        let length = brand.len().min(47);
        name[..length].copy_from_slice(&brand[..length]);
        let at = (leaf - 0x8000_0002) as usize * 16;
        let word = |i: usize| text(&name[at + 4 * i..at + 4 * i + 4]);
        Leaf::new(word(0), word(1), word(2), word(3))
    }

    pub(super) fn other_caches(&self) -> Leaf {
        let caches = self.caches();
        Leaf::new(
            0x4800_6400,
            0x6800_6400,
            (caches.l2 >> 10) << 16 | 6 << 12 | 1 << 8 | 64,
            (caches.l3 >> 19) << 18 | 9 << 12 | 1 << 8 | 64,
        )
    }

    pub(super) fn cache_leaf(&self, subleaf: u32) -> Leaf {
        let caches = self.caches();
        let core = (1u32 << self.placement.thread_bits) - 1;
        let complex = (1u32 << self.placement.complex_bits.max(self.placement.thread_bits)) - 1;
        let (kind, level, sharing, bytes, ways) = match subleaf {
            0 => (1, 1, core, caches.l1_data, 8),
            1 => (2, 1, core, caches.l1_code, 8),
            2 => (3, 2, core, caches.l2, 8),
            3 => (3, 3, complex, caches.l3, 16),
            _ => return Leaf::default(),
        };
        let sets = bytes / 64 / ways;
        Leaf::new(
            kind | level << 5 | 1 << 8 | sharing << 14,
            63 | (ways - 1) << 22,
            sets.saturating_sub(1),
            0,
        )
    }
}

impl Control {
    /// What IA32_MISC_ENABLE hides; where it does not exist, nothing.
    fn limit_leaf(&self, leaf: u32, result: &mut Leaf) {
        let is_on = |bit| self.msr.misc_enable & bit != 0;
        match leaf {
            0 if is_on(misc_enable::LIMIT_CPUID) => result.eax = LIMITED_STANDARD,
            1 if !is_on(misc_enable::MONITOR) => result.ecx &= !(1 << 3),
            0x8000_0001 if is_on(misc_enable::NO_EXECUTE_DISABLE) => result.edx &= !(1 << 20),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::cpuid::Register;

    #[test]
    fn rows_are_in_the_order_of_their_numbers_and_none_has_two() {
        TABLES.check();
    }

    #[test]
    fn every_feature_of_a_model_shows_in_its_leaf() {
        for name in CpuModel::names() {
            let model = CpuModel::named(name).unwrap();
            for feature in model.features().iter() {
                let place = feature.place();
                let leaf = model.cpuid(place.leaf, place.subleaf);
                let word = match place.register {
                    Register::Eax => leaf.eax,
                    Register::Ebx => leaf.ebx,
                    Register::Ecx => leaf.ecx,
                    Register::Edx => leaf.edx,
                };
                assert!(word >> place.bit & 1 != 0, "{name} {feature:?}");
            }
        }
    }

    #[test]
    fn leaves_without_parts_ignore_the_subleaf() {
        let model = CpuModel::named("zen4").unwrap();
        for leaf in [0, 1, 0x8000_0001, 0x8000_0008] {
            assert_eq!(model.cpuid(leaf, 0xC000_0080), model.cpuid(leaf, 0), "{leaf:#x}");
        }
    }

    #[test]
    fn the_crystal_and_the_frequencies_read_as_in_dumps_of_real_parts() {
        let rows = [
            ("skylake-sp", Leaf::new(2, 0xA8, 0, 0), Leaf::new(0x834, 0xE74, 0x64, 0)),
            ("ice-lake-sp", Leaf::new(2, 0xC0, 0, 0), Leaf::new(0x960, 0xDAC, 0x64, 0)),
            (
                "sapphire-rapids",
                Leaf::new(2, 0xD8, 24_000_000, 0),
                Leaf::new(0xA28, 0x12C0, 0x64, 0),
            ),
            ("haswell-ep", Leaf::default(), Leaf::default()),
        ];
        for (name, crystal, frequency) in rows {
            let model = CpuModel::named(name).unwrap();
            assert_eq!(model.cpuid(0x15, 0), crystal, "{name}");
            assert_eq!(model.cpuid(0x16, 0), frequency, "{name}");
        }
    }

    #[test]
    fn leaf_1f_is_there_where_leaf_0_says_so() {
        let rows = [("skylake-sp", 0x16, false), ("sapphire-rapids", 0x20, true)];
        for (name, last, has_1f) in rows {
            let mut model = CpuModel::named(name).unwrap();
            (model.placement.package_cpus, model.placement.die_cpus) = (4, 4);
            assert_eq!(model.cpuid(0, 0).eax, last, "{name}");
            let expected = if has_1f { model.cpuid(0xB, 1) } else { Leaf::default() };
            assert_eq!(model.cpuid(0x1F, 1), expected, "{name}");
        }
    }

    /// Two packages of two dies of two complexes of three cores of two threads; the last processor.
    fn placed(name: &str) -> CpuModel {
        let mut model = CpuModel::named(name).unwrap();
        model.placement = crate::Placement {
            apic_id: 0b11_1101,
            thread_bits: 1,
            complex_bits: 3,
            die_bits: 4,
            package_bits: 5,
            core_cpus: 2,
            complex_cpus: 6,
            die_cpus: 12,
            package_cpus: 24,
        };
        model
    }

    #[test]
    fn levels_of_packages_with_several_dies_are_named_where_the_vendor_has_leaves_for_them() {
        let id = 0b11_1101;
        let intel = placed("sapphire-rapids");
        assert_eq!(intel.cpuid(0xB, 0), Leaf::new(1, 2, 1 << 8, id));
        assert_eq!(intel.cpuid(0xB, 1), Leaf::new(5, 24, 2 << 8 | 1, id));
        assert_eq!(intel.cpuid(0x1F, 1), Leaf::new(4, 12, 2 << 8 | 1, id));
        assert_eq!(intel.cpuid(0x1F, 2), Leaf::new(5, 24, 5 << 8 | 2, id));
        assert_eq!(intel.cpuid(0x1F, 3), Leaf::new(0, 0, 3, id));
        let amd = placed("zen4");
        assert_eq!(amd.cpuid(0x8000_0000, 0).eax, 0x8000_0026);
        let levels = [(1, 2), (3, 6), (4, 12), (5, 24)];
        for (part, (bits, cpus)) in levels.into_iter().enumerate() {
            let part = part as u32;
            let expected = Leaf::new(bits, cpus, (part + 1) << 8 | part, id);
            assert_eq!(amd.cpuid(0x8000_0026, part), expected, "{part}");
        }
        assert_eq!(amd.cpuid(0x8000_0026, 4), Leaf::new(0, 0, 4, id));
        assert_eq!(amd.cpuid(0x8000_001E, 0), Leaf::new(id, 0x100 | id >> 1, 1, 0));
        // Zen 3 has no such leaf, and a package of one complex needs none.
        assert_eq!(placed("zen3").cpuid(0x8000_0026, 0), Leaf::default());
        let one = CpuModel::named("zen4").unwrap();
        assert_eq!(one.cpuid(0x8000_0000, 0).eax, 0x8000_0021);
        assert_eq!(one.cpuid(0x8000_0026, 0), Leaf::default());
    }

    #[test]
    fn vendor_and_brand_read_back_as_text() {
        let model = CpuModel::named("zen4").unwrap();
        let leaf = model.cpuid(0, 0);
        let bytes: Vec<u8> =
            [leaf.ebx, leaf.edx, leaf.ecx].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes, b"AuthenticAMD");
    }
}
