//! The running kernel, asked for what it has. Its numbers are not compared outside this module:
//! distributions carry newer code under older numbers.

mod backport;
#[cfg(test)]
mod tests;

use crate::version::Version;
use serde::Serialize;

/// A change of Linux that some rule depends on, with the version that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelFeature {
    /// `intremap=nopost`.
    NoPost,
    /// KVM takes AVIC and APICv from a machine for a reason, and gives it back.
    Inhibits,
    /// A guest that is offered x2APIC has no AVIC.
    X2apicInhibits,
    /// AutoEOI inhibits, SynIC alone does not.
    AutoEoiCounted,
    /// A machine without an APIC in the kernel has a reason of its own, and a blocked single step.
    AbsentInhibits,
    /// SEV has a reason of its own.
    SevInhibits,
    /// Only a virtual CPU that runs a nested guest goes without AVIC.
    NestedPerVcpu,
    /// `kvm_amd.force_avic`.
    ForceAvic,
    /// AVIC acts in x2APIC mode.
    X2avic,
    /// APICs with another identifier or base have a reason of their own.
    ApicChangedInhibits,
    /// IPI virtualization and `kvm_intel.enable_ipiv`.
    IntelIpiv,
    /// APICs that share an identifier have a reason of their own.
    AliasInhibits,
    /// A logical IPI in x2APIC mode wakes the first cluster.
    ClusterWakeUp,
    /// `amd_iommu=irtcachedis`.
    EntryCacheSwitch,
    /// `amd-iommu/features` has the first register first.
    FirstRegisterFirst,
    /// No fence before a write of the ICR in x2APIC mode.
    FenceLeftOut,
    /// No flush of an IOMMU's entry when a posted vCPU is scheduled.
    EntryFlushLeftOut,
    /// SEV-SNP on the host.
    SnpHost,
    /// `enable_device_posted_irqs`.
    DevicePostedIrqs,
    /// `kvm_amd.enable_ipiv`, and the way around erratum 1235.
    AmdIpiv,
    /// A physical identifier that is too big has a reason of its own.
    PhysicalIdInhibits,
    /// Posting of a device's interrupt is decided again when AVIC comes back.
    PostingLooksAgain,
    /// AVIC is on by default where the CPU has x2AVIC.
    AvicByDefault,
    /// The table of 4096 physical identifiers.
    X2avicExtended,
}

impl KernelFeature {
    /// The first version of Linux that has it.
    pub const fn since(self) -> Version {
        let (major, minor) = match self {
            Self::NoPost => (4, 4),
            Self::Inhibits => (5, 6),
            Self::X2apicInhibits => (5, 7),
            Self::AutoEoiCounted => (5, 15),
            Self::AbsentInhibits => (5, 17),
            Self::SevInhibits => (5, 18),
            Self::NestedPerVcpu | Self::ForceAvic => (5, 19),
            Self::X2avic | Self::ApicChangedInhibits | Self::IntelIpiv => (6, 0),
            Self::AliasInhibits => (6, 2),
            Self::ClusterWakeUp => (6, 3),
            Self::EntryCacheSwitch => (6, 5),
            Self::FirstRegisterFirst => (6, 7),
            Self::FenceLeftOut | Self::EntryFlushLeftOut => (6, 8),
            Self::SnpHost => (6, 9),
            Self::DevicePostedIrqs => (6, 16),
            Self::AmdIpiv | Self::PhysicalIdInhibits | Self::PostingLooksAgain => (6, 17),
            Self::AvicByDefault => (6, 18),
            Self::X2avicExtended => (6, 19),
        };
        Version::new(major, minor, 0)
    }
}

/// A kernel release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// The numbers at the start of the release.
    version: Version,
    /// The stable patch level, where the release or /proc/version tells it: Debian's
    /// `6.1.0-56-amd64` is 6.1.192.
    pub stable: Option<Version>,
    /// Whose it is, as far as it matters.
    #[serde(skip)]
    lineage: Lineage,
    /// What the host itself shows of it.
    #[serde(skip)]
    shown: Vec<(KernelFeature, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lineage {
    /// Upstream's code of that number.
    Upstream,
    /// Newer code may be in it.
    Patched,
}

impl Kernel {
    /// From `uname -r` and the text of /proc/version.
    pub fn parse(release: &str, banner: Option<&str>) -> Option<Kernel> {
        let release = release.trim();
        let version = Version::parse(release)?;
        let lineage = lineage(release, banner);
        // Debian and Ubuntu keep a fixed patch level in the release and tell the real one in the
        // banner.
        let in_banner = banner.and_then(|text| {
            text.split_whitespace()
                .filter_map(Version::parse)
                .filter(|found| (found.major, found.minor) == (version.major, version.minor))
                .max()
        });
        let stable = match lineage {
            Lineage::Patched => None,
            Lineage::Upstream => in_banner.max(Some(version)),
        };
        // A fixed `.0` with a package number says nothing about stable updates.
        let stable = stable.filter(|known| known.patch > 0 || !release.contains(".0-"));
        Some(Kernel { release: release.into(), version, stable, lineage, shown: vec![] })
    }

    /// Its numbers, to be shown and not to be compared.
    pub fn numbers(&self) -> Version {
        self.version
    }

    /// Newer code may be in it than its number says.
    pub fn has_backports(&self) -> bool {
        self.lineage == Lineage::Patched
    }

    /// Yes, no, or not known: what the host shows counts more than what is known of a
    /// distribution, and that more than the number.
    pub fn has(&self, feature: KernelFeature) -> Option<bool> {
        let shown = self.shown.iter().find(|(known, _)| *known == feature).map(|(_, has)| *has);
        shown
            .or_else(|| self.has_since(feature.since()))
            .or_else(|| backport::has_feature(&self.release, feature))
    }

    /// By the number alone; `None` if it is older and newer code may be in it.
    fn has_since(&self, since: Version) -> Option<bool> {
        let is_new = (self.version.major, self.version.minor) >= (since.major, since.minor);
        (is_new || self.lineage == Lineage::Upstream).then_some(is_new)
    }

    /// The same kernel with what the host shows of it.
    pub fn with(&self, shown: Vec<(KernelFeature, bool)>) -> Kernel {
        Kernel { shown, ..self.clone() }
    }

    /// Whether it is of the branch with these numbers, and on which level; for lists of upstream's
    /// stable updates.
    pub fn stable_level(&self, major: u16, minor: u16) -> Option<Option<u16>> {
        let is_branch = (self.version.major, self.version.minor) == (major, minor);
        is_branch.then_some(self.stable.map(|level| level.patch))
    }
}

/// Words, without the digits at their end, in releases that are upstream's code but for drivers and
/// small patches: Arch, Debian (its stable kernels take stable updates alone), Fedora, Gentoo,
/// Alpine, Manjaro, NixOS.
const UPSTREAM: [&str; 17] = [
    "amd", "cloud", "rt", "rc", "deb", "bpo", "unsigned", "arch", "zen", "lts", "hardened",
    "gentoo", "manjaro", "virt", "nixos", "x", "pae",
];

/// Marks in the banner of kernels whose release looks like upstream's.
const PATCHED_BANNERS: [&str; 1] = ["bottlerocket"];

/// A number alone, a release candidate and a few distributions follow upstream; of all others it is
/// not known.
fn lineage(release: &str, banner: Option<&str>) -> Lineage {
    // Debian 13 puts its number behind a plus sign.
    let release = release.to_ascii_lowercase().replace("+deb", "-deb");
    let banner = banner.unwrap_or_default().to_ascii_lowercase();
    if PATCHED_BANNERS.iter().any(|mark| banner.contains(mark)) {
        return Lineage::Patched;
    }
    let numbers = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    let (numbers, rest) = release.split_at(numbers);
    // 5.15.153.1 is a number of Azure Linux, and `+` is behind a tree with changes of its own.
    if numbers.split('.').count() > 3 || rest.contains('+') {
        return Lineage::Patched;
    }
    let is_fedora = rest
        .split('.')
        .any(|part| part.strip_prefix("fc").is_some_and(|digits| digits.parse::<u16>().is_ok()));
    let words = || {
        rest.split(['-', '_', '.'])
            .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
            .filter(|word| !word.is_empty())
    };
    // ELRepo builds upstream's kernels for Red Hat's distributions.
    let is_elrepo = rest.contains(".elrepo.");
    let is_upstream = is_fedora || is_elrepo || words().all(|word| UPSTREAM.contains(&word));
    if is_upstream { Lineage::Upstream } else { Lineage::Patched }
}
