//! A model's file as written: TOML, listing only what is implemented. Everything in it is checked,
//! for the files that come with the machine when it is built: the build script is compiled from
//! this file too, so that it names nothing of this crate.

use arch::cpuid::Feature;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Numbers of vendors' errata that a model can have.
pub const MODELLED_ERRATA: &[u32] = &[1235];

/// Hertz that a core can be clocked at.
pub const CLOCK_RANGE: RangeInclusive<u64> = 100_000_000..=10_000_000_000;

/// A model file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: String,
    pub description: String,
    /// Where the values are from.
    pub sources: Vec<String>,
    /// The cost profile's name.
    pub costs: String,
    pub vendor: String,
    pub brand: String,
    pub family: u32,
    pub model: u32,
    pub stepping: u32,
    pub physical_bits: u8,
    pub linear_bits: u8,
    pub tsc_hertz: u64,
    /// What its cores can be clocked at.
    pub clock: Clocks,
    #[serde(default)]
    pub crystal: Option<Crystal>,
    /// The highest standard leaf of CPUID.
    #[serde(default = "last_leaf")]
    pub last_leaf: u32,
    /// The update revision that IA32_BIOS_SIGN_ID shows: systems look for errata by it.
    #[serde(default)]
    pub microcode: u32,
    /// IA32_ARCH_CAPABILITIES, for parts that have it.
    #[serde(default)]
    pub arch_capabilities: Option<Word>,
    pub caches: Caches,
    pub features: Vec<String>,
    /// Leaves of CPUID that are answered as they stand here.
    #[serde(default)]
    pub leaves: Leaves,
    /// Capability MSRs, for parts with VMX.
    #[serde(default, rename = "vmx")]
    pub virtualization: Option<CapabilityFile>,
    /// That of servers with the part.
    #[serde(default)]
    pub iommu: Option<Iommu>,
    /// Numbers of the vendor's errata that the part has here, of those that are modelled.
    #[serde(default)]
    pub errata: Vec<u32>,
}

/// What the cores of a part can be clocked at, whatever the time-stamp counter's rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// What is promised with all cores busy.
    pub base: Rate,
    /// The boost of all cores at once, where it is published.
    #[serde(default)]
    pub all_core: Option<Rate>,
    /// The highest boost, of a core or two.
    pub boost: Rate,
    /// Features that announce how software chooses between them, where it is asked for.
    #[serde(default)]
    pub control: Vec<String>,
}

/// A clock's rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub hertz: u64,
    /// Where it is from, in words.
    pub source: String,
}

/// Bytes of the caches that CPUID reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// Per core.
    pub l1_data: u32,
    /// Per core.
    pub l1_code: u32,
    /// Per core.
    pub l2: u32,
    /// Per core complex.
    pub l3: u32,
}

/// The crystal from which the time-stamp counter and the local APIC's timer are derived: CPUID leaf
/// 15H. [SDM2 "CPUID"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crystal {
    /// How fast it oscillates.
    pub hertz: u64,
    /// ECX says the frequency; otherwise it follows from leaf 16H.
    pub is_shown: bool,
}

/// Leaves of CPUID beside those that are made from the rest of the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaves {
    /// As a part's dump shows them, for leaves that nothing else here has a word for.
    #[serde(default)]
    pub raw: Vec<RawLeaf>,
}

/// A leaf of a part's dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLeaf {
    /// What EAX holds before CPUID.
    pub leaf: u32,
    /// What ECX holds before CPUID; without it the leaf does not look at ECX.
    #[serde(default)]
    pub subleaf: Option<u32>,
    #[serde(default)]
    pub eax: u32,
    #[serde(default)]
    pub ebx: u32,
    #[serde(default)]
    pub ecx: u32,
    #[serde(default)]
    pub edx: u32,
}

/// The MSRs of a part's VMX capabilities. [SDM3 "VMX Capability Reporting Facility"]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapabilityFile {
    pub basic: Word,
    pub pin: Word,
    pub primary: Word,
    pub exit: Word,
    pub entry: Word,
    pub misc: Word,
    pub secondary: Word,
    pub ept_vpid: Word,
    #[serde(default)]
    pub tertiary: Word,
}

/// The IOMMU of servers with the part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "kind")]
pub enum Iommu {
    #[serde(rename = "amd-vi")]
    Vi { features: Word },
    #[serde(rename = "vt-d")]
    VtD { posts: bool },
}

/// 64 bits in text, since TOML's numbers have 63: "0x0000_00FF_0000_0016".
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Word(pub u64);

impl TryFrom<String> for Word {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").map(|digits| digits.replace('_', ""));
        let value = digits.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
        let wrong = || format!("{text:?} must be 0x and up to 16 hexadecimal digits");
        value.map(Self).ok_or_else(wrong)
    }
}

/// XSAVE's, for models that say nothing else.
const fn last_leaf() -> u32 {
    0xD
}

impl File {
    /// Reads a file; the error names the key, the value, and what would have been right.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        if file.vendor.len() != 12 {
            return Err(format!("vendor is {:?}, must be 12 characters", file.vendor));
        }
        if file.sources.is_empty() {
            return Err("sources is empty, must say where the values are from".to_owned());
        }
        file.clock.check()?;
        if let Some(number) = file.errata.iter().find(|number| !MODELLED_ERRATA.contains(number)) {
            let known: Vec<_> = MODELLED_ERRATA.iter().map(u32::to_string).collect();
            return Err(format!(
                "errata: {number} is not modelled; there are {}",
                known.join(", ")
            ));
        }
        for feature in file.features.iter().chain(&file.clock.control) {
            if Feature::from_name(feature).is_none() {
                return Err(format!("features: {feature:?} is none; {}", alike(feature)));
            }
        }
        file.check_arch_capabilities()?;
        let announces_it = file.features.iter().any(|feature| feature == Feature::Vmx.name());
        if announces_it != file.virtualization.is_some() {
            let (there, lacks) = if announces_it {
                (
                    "features have \"vmx\"",
                    "the table [vmx] with the part's capability MSRs is not there",
                )
            } else {
                ("the table [vmx] is there", "features do not have \"vmx\"")
            };
            return Err(format!("{there}, but {lacks}: both must be, or none"));
        }
        if let Some(raw) = file.leaves.raw.iter().find(|raw| file.is_beyond(raw.leaf)) {
            return Err(format!(
                "leaves.raw: {:#x} is beyond last_leaf, which is {:#x}: raise that",
                raw.leaf, file.last_leaf
            ));
        }
        Ok(file)
    }

    /// The register's value is there just where the register is.
    fn check_arch_capabilities(&self) -> Result<(), String> {
        let name = Feature::ArchCapabilities.name();
        let is_announced = self.features.iter().any(|feature| feature == name);
        match (is_announced, self.arch_capabilities) {
            (true, None) => Err(format!(
                "features have {name:?}, but the key {name}, which says what the register holds, is not there"
            )),
            (false, Some(_)) => Err(format!("{name} is there, but features do not have {name:?}")),
            _ => Ok(()),
        }
    }

    /// Whether no standard leaf has the number.
    fn is_beyond(&self, leaf: u32) -> bool {
        leaf < 0x4000_0000 && leaf > self.last_leaf
    }
}

impl Clocks {
    /// From the slowest to the fastest, none beyond what a core can be clocked at.
    fn check(&self) -> Result<(), String> {
        let all_core = self.all_core.as_ref().unwrap_or(&self.base);
        let rates = [&self.base, all_core, &self.boost];
        if let Some(rate) = rates.iter().find(|rate| !CLOCK_RANGE.contains(&rate.hertz)) {
            let (least, most) = (CLOCK_RANGE.start(), CLOCK_RANGE.end());
            return Err(format!("clock: {} Hz, must be between {least} and {most}", rate.hertz));
        }
        if !rates.is_sorted_by_key(|rate| rate.hertz) {
            return Err("clock: base, all_core and boost must not fall in this order".to_owned());
        }
        Ok(())
    }
}

/// The names of features that a wrong one could have meant.
fn alike(wrong: &str) -> String {
    let all = Feature::ALL.iter().map(|feature| feature.name());
    let is_near = |name: &&str| wrong.get(..2).is_some_and(|start| name.starts_with(start));
    let near: Vec<_> = all.clone().filter(is_near).collect();
    let names = if near.is_empty() { all.collect() } else { near };
    format!("there are {}", names.join(", "))
}
