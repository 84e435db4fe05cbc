//! Setup options of servers' firmware: what makers call the ones that matter here, a row each with
//! its source. A name that was found in no source has no row.

use crate::capability::Row;
use crate::inhibit::Vendor;

/// What an option switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// AMD's processor virtualization.
    Svm,
    /// Intel's processor virtualization.
    Vmx,
    /// The IOMMU.
    Iommu,
    /// x2APIC mode of the host.
    X2apic,
    /// Interrupt remapping.
    Remapping,
}

impl Switch {
    /// Every one, in the order in which they need each other.
    pub const ALL: [Self; 5] = [Self::Svm, Self::Vmx, Self::Iommu, Self::X2apic, Self::Remapping];

    /// As manuals call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Svm => "SVM",
            Self::Vmx => "VMX",
            Self::Iommu => "IOMMU (AMD-Vi, VT-d)",
            Self::X2apic => "x2APIC of the host",
            Self::Remapping => "interrupt remapping",
        }
    }

    /// Whether a host of this vendor has it.
    pub fn concerns(self, vendor: Vendor) -> bool {
        match self {
            Self::Svm => vendor == Vendor::Amd,
            Self::Vmx => vendor == Vendor::Intel,
            Self::Iommu | Self::X2apic | Self::Remapping => true,
        }
    }

    /// The row of `check` that shows whether it is on; `None` where the kernel log alone tells.
    pub fn row(self, vendor: Vendor) -> Option<Row> {
        match (self, vendor) {
            (Self::Svm, _) => Some(Row::CpuSvmEnabled),
            (Self::Vmx, _) => Some(Row::CpuVmxEnabled),
            (Self::Iommu, _) => Some(Row::IommuPresent),
            (Self::X2apic, Vendor::Intel) => Some(Row::IommuX2apicOptOut),
            (Self::X2apic, Vendor::Amd) => None,
            (Self::Remapping, Vendor::Intel) => Some(Row::IommuTableRemapping),
            (Self::Remapping, Vendor::Amd) => Some(Row::IommuGuestApicOn),
        }
    }

    /// What the running kernel says of it.
    pub fn seen(self) -> &'static str {
        match self {
            Self::Svm => "/proc/cpuinfo lists svm, and dmesg has no 'SVM disabled (by BIOS)'",
            Self::Vmx => {
                "/proc/cpuinfo lists vmx, and dmesg has no 'VMX (outside TXT) disabled by BIOS'"
            }
            Self::Iommu => "/sys/class/iommu has units",
            Self::X2apic => "dmesg has 'x2apic enabled'",
            Self::Remapping => {
                "dmesg has 'Enabled IRQ remapping' or 'AMD-Vi: Interrupt remapping enabled'"
            }
        }
    }
}

/// An option of one maker's setup.
pub struct SetupOption {
    /// Who made the firmware.
    pub maker: &'static str,
    /// On whose processors it is there.
    pub vendor: Vendor,
    /// What it switches.
    pub switch: Switch,
    /// As setup shows it, behind the menu that it is in.
    pub name: &'static str,
    /// What it is to be.
    pub value: &'static str,
    /// As Redfish has it; empty where it is not known.
    pub attribute: &'static str,
    /// Where the name stands.
    pub source: &'static str,
}

const fn option(
    maker: &'static str,
    (vendor, switch): (Vendor, Switch),
    name: &'static str,
    value: &'static str,
    attribute: &'static str,
    source: &'static str,
) -> SetupOption {
    SetupOption { maker, vendor, switch, name, value, attribute, source }
}

const DELL: &str = "BIOS attribute registry 1.0.3 of a PowerEdge R750, firmware 1.8.2";
const HPE: &str =
    "attribute names as other programs use them; HPE's own list (iLO 6 v1.66) was not read";
const HPE_X2APIC: &str = "HPE UEFI System Utilities, ProLiant Gen10 (techlibrary.hpe.com, s_enable_disable_x2APIC_support)";
const LENOVO: &str = "BIOS attribute registry 1.0.0 of a ThinkSystem SR670 V2, firmware TGBT42S";
const LENOVO_AMD: &str = "NVIDIA libredfish, src/lenovo.rs";
const SUPERMICRO: &str = "BIOS attribute registry 1.0.0 of Supermicro, as in NVIDIA libredfish";
const AMI: &str = "BIOS attribute registry 1.1.3 of a DGX H100, AMI Aptio";
const AMI_AMD: &str = "open-iov.org, CPU Support; ASRock TRX40 Creator's setup";

use Switch::{Iommu, Remapping, Svm, Vmx, X2apic};
use Vendor::{Amd, Intel};

/// Every option that a source names.
pub const OPTIONS: [SetupOption; 20] = [
    option(
        "Dell",
        (Intel, Vmx),
        "Processor Settings > Virtualization Technology",
        "Enabled",
        "ProcVirtualization",
        DELL,
    ),
    option(
        "Dell",
        (Intel, Iommu),
        "Processor Settings > Virtualization Technology",
        "Enabled",
        "ProcVirtualization",
        DELL,
    ),
    option(
        "Dell",
        (Intel, X2apic),
        "Processor Settings > x2APIC Mode",
        "Enabled",
        "ProcX2Apic",
        DELL,
    ),
    option("HPE", (Amd, Iommu), "AMD I/O virtualization", "Enabled", "ProcAmdIoVt", HPE),
    option("HPE", (Intel, Vmx), "Intel virtualization", "Enabled", "ProcVirtualization", HPE),
    option("HPE", (Intel, Iommu), "Intel VT-d", "Enabled", "IntelProcVtd", HPE),
    option(
        "HPE",
        (Amd, X2apic),
        "Processor Options > Processor x2APIC Support",
        "Enabled or Force Enabled",
        "ProcX2Apic",
        HPE_X2APIC,
    ),
    option(
        "HPE",
        (Intel, X2apic),
        "Processor Options > Processor x2APIC Support",
        "Enabled or Force Enabled",
        "ProcX2Apic",
        HPE_X2APIC,
    ),
    option(
        "Lenovo",
        (Amd, Svm),
        "Processors > SVM Mode",
        "Enabled",
        "Processors_SVMMode",
        LENOVO_AMD,
    ),
    option(
        "Lenovo",
        (Intel, Vmx),
        "Processors > Intel Virtualization Technology",
        "Enabled",
        "Processors_IntelVirtualizationTechnology",
        LENOVO,
    ),
    option(
        "Lenovo",
        (Intel, Iommu),
        "Devices and I/O Ports > Intel VT for Directed I/O (VT-d)",
        "Enabled",
        "DevicesandIOPorts_IntelVTforDirectedIOVTd",
        LENOVO,
    ),
    option(
        "Supermicro",
        (Intel, Vmx),
        "CPU Configuration > Intel Virtualization Technology",
        "Enable",
        "IntelVirtualizationTechnology",
        SUPERMICRO,
    ),
    option(
        "Supermicro",
        (Intel, X2apic),
        "CPU Configuration > Extended APIC",
        "Enable",
        "ExtendedAPIC",
        SUPERMICRO,
    ),
    option(
        "Supermicro",
        (Intel, Iommu),
        "North Bridge > IIO Configuration > Intel VT for Directed I/O (VT-d)",
        "Enable",
        "IntelVTforDirectedI_O_VT_d_",
        SUPERMICRO,
    ),
    option(
        "Supermicro",
        (Intel, Remapping),
        "North Bridge > IIO Configuration > Interrupt Remapping",
        "Auto or Enable",
        "InterruptRemapping",
        SUPERMICRO,
    ),
    option("AMI", (Intel, Vmx), "VMX", "Enable", "ProcessorVmxEnable", AMI),
    option("AMI", (Intel, Iommu), "Intel VT for Directed I/O", "Enable", "VTdSupport", AMI),
    option("AMI", (Amd, Svm), "SVM Mode", "Enabled", "", AMI_AMD),
    option("AMI", (Amd, Iommu), "AMD CBS > NBIO Common Options > IOMMU", "Enabled", "", AMI_AMD),
    option(
        "AMI",
        (Amd, Remapping),
        "AMD CBS > NBIO Common Options > IOMMU",
        "Enabled",
        "",
        AMI_AMD,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_of_a_vendor_has_an_option_and_every_option_a_source() {
        for vendor in [Amd, Intel] {
            for switch in Switch::ALL.into_iter().filter(|switch| switch.concerns(vendor)) {
                let is_one = |one: &&SetupOption| one.vendor == vendor && one.switch == switch;
                assert!(OPTIONS.iter().any(|one| is_one(&one)), "{vendor:?} {switch:?}");
            }
        }
        for one in &OPTIONS {
            assert!(one.switch.concerns(one.vendor) && !one.source.is_empty(), "{}", one.name);
        }
    }
}
