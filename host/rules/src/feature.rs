//! What each form of interrupt virtualization is called: its module and parameter, its CPU flag,
//! the tracepoints and exits that tell of it, and the words for readers. The one place: rules,
//! plans and experiments take them from here.
//!
//! arch/x86/kvm/svm/avic.c, svm.c, vmx/vmx.c, trace.h and x86.c of Linux 5.6 to 7.3. Left out: when
//! a kernel or a processor grants a feature ([`crate::capability`]), and when a virtual machine
//! loses it ([`crate::inhibit`]).

use crate::inhibit::Vendor;
use reading::KernelFeature;
pub use reading::module::{AMD_MODULE, COMMON_MODULE, INTEL_MODULE};
pub use reading::tracepoint::{
    ACCEPTED, GUEST_LOG, INCOMPLETE_IPI, INHIBIT_CHANGED, POSTING_CHANGED, Tracepoint,
    UNACCELERATED_ACCESS,
};
use serde::{Serialize, Serializer};

/// One feature of one vendor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Feature {
    /// AMD: the virtual APIC of a guest in xAPIC mode; what `kvm_amd.avic` stands for.
    Avic,
    /// AMD: the same in x2APIC mode. KVM uses it whenever it uses AVIC and the CPU has it.
    X2avic,
    /// AMD: AVIC sends IPIs to running vCPUs.
    AvicIpi,
    /// AMD: the IOMMU posts interrupts of passed-through devices (guest virtual APIC mode, GA log).
    IommuAvic,
    /// Intel: APIC-register virtualization, virtual-interrupt delivery and posted interrupts.
    Apicv,
    /// Intel: the CPU sends IPIs to vCPUs.
    #[doc(alias = "IPIv")]
    IpiVirtualization,
    /// Intel: VT-d posts interrupts of passed-through devices.
    PostedInterrupts,
}

/// A boolean parameter of a kernel module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// With underscores, as below `/sys/module`.
    pub module: &'static str,
    /// As below `/sys/module/MODULE/parameters`.
    pub name: &'static str,
    /// What brought it; `None` for what every kernel in use has.
    pub since: Option<KernelFeature>,
}

const AVIC: Parameter = Parameter::new(AMD_MODULE, "avic", None);
const AMD_IPI: Parameter = Parameter::new(AMD_MODULE, "enable_ipiv", Some(KernelFeature::AmdIpiv));
const AMD_POSTING: Parameter =
    Parameter::new(AMD_MODULE, "enable_device_posted_irqs", Some(KernelFeature::DevicePostedIrqs));
const APICV: Parameter = Parameter::new(INTEL_MODULE, "enable_apicv", None);
const INTEL_IPI: Parameter =
    Parameter::new(INTEL_MODULE, "enable_ipiv", Some(KernelFeature::IntelIpiv));
const INTEL_POSTING: Parameter = Parameter::new(
    INTEL_MODULE,
    "enable_device_posted_irqs",
    Some(KernelFeature::DevicePostedIrqs),
);

impl Feature {
    /// AMD's first, then Intel's, each vendor's own first.
    pub const ALL: [Self; 7] = [
        Self::Avic,
        Self::X2avic,
        Self::AvicIpi,
        Self::IommuAvic,
        Self::Apicv,
        Self::IpiVirtualization,
        Self::PostedInterrupts,
    ];

    /// The vendor's feature that all others of it rest on.
    pub const fn of_vendor(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Amd => Self::Avic,
            Vendor::Intel => Self::Apicv,
        }
    }

    /// The vendor's feature that delivers IPIs.
    pub const fn ipis_of_vendor(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Amd => Self::AvicIpi,
            Vendor::Intel => Self::IpiVirtualization,
        }
    }

    /// The vendor's feature that posts device interrupts.
    pub const fn devices_of_vendor(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Amd => Self::IommuAvic,
            Vendor::Intel => Self::PostedInterrupts,
        }
    }

    /// Whose silicon has it.
    pub const fn vendor(self) -> Vendor {
        match self {
            Self::Avic | Self::X2avic | Self::AvicIpi | Self::IommuAvic => Vendor::Amd,
            Self::Apicv | Self::IpiVirtualization | Self::PostedInterrupts => Vendor::Intel,
        }
    }

    /// The word that people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avic => "AVIC",
            Self::X2avic => "x2AVIC",
            Self::AvicIpi => "IPIs by AVIC",
            Self::IommuAvic => "IOMMU AVIC",
            Self::Apicv => "APICv",
            Self::IpiVirtualization => "IPI virtualization",
            Self::PostedInterrupts => "posted interrupts of devices",
        }
    }

    /// What it saves, as a sentence without a full stop.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Avic | Self::Apicv => "interrupts reach a running vCPU without a VM exit",
            Self::X2avic => "the same for guests in x2APIC mode",
            Self::AvicIpi | Self::IpiVirtualization => {
                "an IPI from one running vCPU to another causes no VM exit"
            }
            Self::IommuAvic | Self::PostedInterrupts => {
                "an interrupt of a passed-through device reaches a running vCPU without the host"
            }
        }
    }

    /// The kernel module that drives it.
    pub const fn module(self) -> &'static str {
        match self.vendor() {
            Vendor::Amd => AMD_MODULE,
            Vendor::Intel => INTEL_MODULE,
        }
    }

    /// What switches it.
    pub const fn parameter(self) -> Parameter {
        match self {
            Self::Avic | Self::X2avic => AVIC,
            Self::AvicIpi => AMD_IPI,
            Self::IommuAvic => AMD_POSTING,
            Self::Apicv => APICV,
            Self::IpiVirtualization => INTEL_IPI,
            Self::PostedInterrupts => INTEL_POSTING,
        }
    }

    /// KVM's events that tell of it, besides [`INHIBIT_CHANGED`].
    pub const fn tracepoints(self) -> &'static [Tracepoint] {
        match self {
            Self::Avic | Self::X2avic => &[ACCEPTED, UNACCELERATED_ACCESS, INCOMPLETE_IPI],
            Self::AvicIpi => &[INCOMPLETE_IPI],
            Self::IommuAvic => &[POSTING_CHANGED, GUEST_LOG],
            Self::Apicv => &[ACCEPTED],
            // A virtualized IPI that needs KVM is an exit, APIC_WRITE, and no event of its own.
            Self::IpiVirtualization => &[],
            Self::PostedInterrupts => &[POSTING_CHANGED],
        }
    }

    /// Exits that only happen while it is on, as KVM's traces and perf spell them.
    pub const fn exits(self) -> &'static [&'static str] {
        match self {
            Self::Avic | Self::X2avic => &["avic_incomplete_ipi", "avic_unaccelerated_access"],
            Self::AvicIpi => &["avic_incomplete_ipi"],
            Self::Apicv => &["APIC_WRITE", "EOI_INDUCED"],
            Self::IpiVirtualization => &["APIC_WRITE"],
            Self::IommuAvic | Self::PostedInterrupts => &[],
        }
    }
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Feature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Parameter {
    const fn new(module: &'static str, name: &'static str, since: Option<KernelFeature>) -> Self {
        Self { module, name, since }
    }

    /// As the module is given it when it is loaded: `avic=1`.
    pub fn setting(self, is_on: bool) -> String {
        format!("{}={}", self.name, u8::from(is_on))
    }

    /// As the kernel command line has it: `kvm_amd.avic=1`.
    pub fn argument(self, is_on: bool) -> String {
        format!("{}.{}", self.module, self.setting(is_on))
    }

    /// As a file in modprobe.d has it: `options kvm_amd avic=1`.
    pub fn modprobe_line(self, is_on: bool) -> String {
        format!("options {} {}", self.module, self.setting(is_on))
    }

    /// Where a running kernel shows its value.
    pub fn path(self) -> String {
        format!("/sys/module/{}/parameters/{}", self.module, self.name)
    }

    /// What is unloaded, in this order, before the module is loaded with another value: the common
    /// module remembers what the vendor's has cleared (Linux 6.17 and later).
    pub const fn unloaded(self) -> [&'static str; 2] {
        [self.module, COMMON_MODULE]
    }
}

/// The vendor whose KVM module has this name.
pub fn vendor_of_module(module: &str) -> Option<Vendor> {
    match module {
        AMD_MODULE => Some(Vendor::Amd),
        INTEL_MODULE => Some(Vendor::Intel),
        _ => None,
    }
}

/// The parameter of this name that a feature has, in the given vendor's module.
pub fn parameter_named(vendor: Vendor, name: &str) -> Option<Parameter> {
    let mut of_vendor = Feature::ALL.into_iter().filter(|feature| feature.vendor() == vendor);
    of_vendor.find_map(|feature| Some(feature.parameter()).filter(|found| found.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::exit_reason::Isa;

    #[test]
    fn exit_names_are_those_of_the_exit_tables() {
        for feature in Feature::ALL {
            let isa = match feature.vendor() {
                Vendor::Amd => Isa::Svm,
                Vendor::Intel => Isa::Vmx,
            };
            for exit in feature.exits() {
                assert!(isa.reason_named(exit).is_some(), "{feature}: {exit}");
            }
        }
    }

    #[test]
    fn every_feature_belongs_to_its_vendors_module() {
        for feature in Feature::ALL {
            assert_eq!(vendor_of_module(feature.module()), Some(feature.vendor()), "{feature}");
            assert_eq!(feature.parameter().module, feature.module(), "{feature}");
        }
        for vendor in [Vendor::Amd, Vendor::Intel] {
            for feature in [
                Feature::of_vendor(vendor),
                Feature::ipis_of_vendor(vendor),
                Feature::devices_of_vendor(vendor),
            ] {
                assert_eq!(feature.vendor(), vendor, "{feature}");
            }
        }
    }

    #[test]
    fn parameter_is_spelt_as_each_reader_wants_it() {
        let avic = Feature::Avic.parameter();
        assert_eq!(avic.setting(true), "avic=1");
        assert_eq!(avic.argument(false), "kvm_amd.avic=0");
        assert_eq!(avic.modprobe_line(true), "options kvm_amd avic=1");
        let apicv = Feature::Apicv.parameter();
        assert_eq!(apicv.path(), "/sys/module/kvm_intel/parameters/enable_apicv");
        assert_eq!(apicv.unloaded(), ["kvm_intel", "kvm"]);
    }

    #[test]
    fn parameters_are_found_by_name_within_their_vendors_module() {
        let of = |vendor, name| parameter_named(vendor, name).map(|found| found.since);
        assert_eq!(of(Vendor::Amd, "enable_ipiv"), Some(Some(KernelFeature::AmdIpiv)));
        assert_eq!(of(Vendor::Intel, "enable_ipiv"), Some(Some(KernelFeature::IntelIpiv)));
        assert_eq!(of(Vendor::Amd, "enable_apicv"), None);
        assert_eq!(of(Vendor::Intel, "avic"), None);
    }
}
