//! An IOMMU unit as sysfs shows it.

use crate::fact::Fact;
use serde::Serialize;

/// Whose architecture a unit follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IommuKind {
    /// AMD-Vi, in sysfs `ivhdN`.
    AmdVi,
    /// VT-d, in sysfs `dmarN`.
    VtD,
}

/// How the kernel printed the feature registers: the file changed its format twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureFormat {
    /// `EFR` alone, up to 5.19.
    EfrOnly,
    /// `EFR2:EFR`, 6.0 to 6.6.
    SecondFirst,
    /// `EFR:EFR2`, from 6.7 (commit 7b7563a93437).
    FirstFirst,
}

impl FeatureFormat {
    /// For evidence: the order and the kernels that print it.
    pub fn describe(self) -> &'static str {
        match self {
            FeatureFormat::EfrOnly => "format EFR, up to 5.19",
            FeatureFormat::SecondFirst => "format EFR2:EFR, 6.0 to 6.6",
            FeatureFormat::FirstFirst => "format EFR:EFR2, 6.7 and later",
        }
    }
}

/// Extended feature registers of an AMD IOMMU. [IOMMU "Extended Feature Register"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AmdFeatures {
    /// MMIO offset 30h.
    #[serde(serialize_with = "hexadecimal")]
    pub efr: u64,
    /// MMIO offset 1A0h; `None` where the kernel does not print it.
    #[serde(serialize_with = "optional_hexadecimal")]
    pub efr2: Option<u64>,
    /// By which the two were told apart.
    pub format: FeatureFormat,
}

fn hexadecimal<S: serde::Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

fn optional_hexadecimal<S: serde::Serializer>(
    value: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => hexadecimal(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Reads the extended feature register, wherever it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efr(pub u64);

impl Efr {
    fn field(self, high: u32, low: u32) -> u64 {
        self.0 >> low & ((1 << (high - low + 1)) - 1)
    }

    /// XTSup \[2\]: 32-bit interrupt destinations.
    pub fn has_x2apic(self) -> bool {
        self.field(2, 2) == 1
    }

    /// GASup \[7\]: guest virtual APIC, the 128-bit interrupt remapping entry.
    pub fn has_guest_apic(self) -> bool {
        self.field(7, 7) == 1
    }

    /// GAMSup \[23:21\] is 001b: guest virtual APIC mode. Linux tests bit 21 alone.
    pub fn has_guest_apic_mode(self) -> bool {
        self.field(21, 21) == 1
    }

    /// SNPSup \[63\].
    pub fn has_snp(self) -> bool {
        self.field(63, 63) == 1
    }
}

/// Reads the second extended feature register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efr2(pub u64);

impl Efr2 {
    /// SNPAVICSup \[7:5\] is 001b: guest virtual APIC mode while SNP is on.
    pub fn has_guest_apic_under_snp(self) -> bool {
        self.0 >> 5 & 7 == 1
    }
}

/// Reads VT-d's capability registers. [VTD "Capability Register"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VtdCapability {
    /// Capability register, offset 8.
    pub cap: u64,
    /// Extended capability register, offset 10h.
    pub ecap: u64,
}

impl VtdCapability {
    /// CAP.PI \[59\]: posted interrupts.
    pub fn has_posting(self) -> bool {
        self.cap >> 59 & 1 == 1
    }

    /// ECAP.IR \[3\]: interrupt remapping.
    pub fn has_remapping(self) -> bool {
        self.ecap >> 3 & 1 == 1
    }

    /// ECAP.EIM \[4\]: 32-bit interrupt destinations.
    pub fn has_extended_mode(self) -> bool {
        self.ecap >> 4 & 1 == 1
    }
}

/// One IOMMU unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Iommu {
    /// Its name in sysfs: `ivhd0`, `dmar1`.
    pub name: String,
    /// By what sysfs shows of it.
    pub kind: IommuKind,
    /// `amd-iommu/features`; absent for VT-d.
    pub amd: Fact<AmdFeatures>,
    /// `intel-iommu/cap`; absent for AMD-Vi.
    pub cap: Fact<u64>,
    /// `intel-iommu/ecap`; absent for AMD-Vi.
    pub ecap: Fact<u64>,
}
