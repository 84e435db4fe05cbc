//! Why KVM runs a virtual machine without its hardware APIC: the inhibit reasons.
//!
//! Models the bit numbers that `kvm_apicv_inhibit_changed` prints. Six numberings exist between
//! Linux 5.6 and 7.3 and the numbers move between them, so a bare number means nothing: it is
//! decoded by the names a kernel prints or carries in its tracefs `format` file ([`Numbering::
//! from_print_format`], [`reasons_named`]), and only then by the kernel's version
//! ([`Numbering::of_kernel`]). Specified by `enum kvm_apicv_inhibit` of the Linux sources.
//! Leaves out what each reason costs and how it is cured: that is the business of rules.

use serde::{Deserialize, Serialize};

/// One reason to inhibit AVIC or APICv, whatever number a kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// The module parameter is off, or the CPU lacks the feature.
    Disabled,
    /// The guest uses the AutoEOI of Hyper-V's synthetic interrupt controller.
    Hyperv,
    /// No local APIC in the kernel, or the guest has switched its own off; brief at VM start.
    Absent,
    /// A debugger blocks interrupts (`KVM_GUESTDBG_BLOCKIRQ`).
    Blockirq,
    /// Two vCPUs answer to one physical APIC ID.
    PhysicalIdAliased,
    /// The guest changed an APIC ID.
    ApicIdModified,
    /// The guest moved an APIC's base address.
    ApicBaseModified,
    /// A vCPU runs a guest of its own (AMD).
    Nested,
    /// A window for an external (PIC) interrupt is open (AMD).
    #[serde(rename = "IRQWIN")]
    #[doc(alias = "IRQWIN")]
    InterruptWindow,
    /// The in-kernel PIT re-injects ticks that were missed (AMD).
    #[serde(rename = "PIT_REINJ")]
    #[doc(alias = "PIT_REINJ")]
    PitReinject,
    /// The guest is in x2APIC mode and the CPU has no x2AVIC (AMD, 5.7 to 5.19).
    #[serde(rename = "X2APIC")]
    X2apic,
    /// Encrypted guest (AMD).
    Sev,
    /// Logical destinations overlap (AMD).
    LogicalIdAliased,
    /// A vCPU's number does not fit the physical APIC ID table (AMD).
    PhysicalIdTooBig,
}

impl Reason {
    /// All reasons, in the order of the newest kernels with the retired one at its old place.
    pub const ALL: [Self; 14] = [
        Self::Disabled,
        Self::Hyperv,
        Self::Absent,
        Self::Blockirq,
        Self::PhysicalIdAliased,
        Self::ApicIdModified,
        Self::ApicBaseModified,
        Self::Nested,
        Self::InterruptWindow,
        Self::PitReinject,
        Self::X2apic,
        Self::Sev,
        Self::LogicalIdAliased,
        Self::PhysicalIdTooBig,
    ];

    /// The kernel's word, without its `APICV_INHIBIT_REASON_` prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Hyperv => "HYPERV",
            Self::Absent => "ABSENT",
            Self::Blockirq => "BLOCKIRQ",
            Self::PhysicalIdAliased => "PHYSICAL_ID_ALIASED",
            Self::ApicIdModified => "APIC_ID_MODIFIED",
            Self::ApicBaseModified => "APIC_BASE_MODIFIED",
            Self::Nested => "NESTED",
            Self::InterruptWindow => "IRQWIN",
            Self::PitReinject => "PIT_REINJ",
            Self::X2apic => "X2APIC",
            Self::Sev => "SEV",
            Self::LogicalIdAliased => "LOGICAL_ID_ALIASED",
            Self::PhysicalIdTooBig => "PHYSICAL_ID_TOO_BIG",
        }
    }

    /// Reads a kernel's word; `DISABLE` is how kernels before 6.11 spelt `DISABLED`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("APICV_INHIBIT_REASON_").unwrap_or(name);
        if name == "DISABLE" {
            return Some(Self::Disabled);
        }
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// What sets it, in a few words.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Disabled => "module parameter off or feature missing",
            Self::Hyperv => "Hyper-V synthetic interrupts with AutoEOI",
            Self::Absent => "no in-kernel local APIC, or it is switched off",
            Self::Blockirq => "a debugger blocks interrupts",
            Self::PhysicalIdAliased => "two vCPUs share a physical APIC ID",
            Self::ApicIdModified => "the guest changed an APIC ID",
            Self::ApicBaseModified => "the guest moved an APIC base",
            Self::Nested => "a vCPU runs a nested guest",
            Self::InterruptWindow => "window for an external (PIC) interrupt",
            Self::PitReinject => "in-kernel PIT re-injects missed ticks",
            Self::X2apic => "guest in x2APIC mode without x2AVIC",
            Self::Sev => "encrypted guest",
            Self::LogicalIdAliased => "logical APIC IDs overlap",
            Self::PhysicalIdTooBig => "vCPU number beyond the physical APIC ID table",
        }
    }

    /// Whether kvm_intel heeds the reason; kvm_amd heeds every one.
    pub const fn inhibits_apicv(self) -> bool {
        matches!(
            self,
            Self::Disabled
                | Self::Hyperv
                | Self::Absent
                | Self::Blockirq
                | Self::PhysicalIdAliased
                | Self::ApicIdModified
                | Self::ApicBaseModified
        )
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// What a numbering rests on, strongest first; every decoded reason says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The names a running or recorded kernel gives in its `format` file or its BTF.
    Kernel,
    /// The kernel's version, which distribution kernels may contradict.
    Version,
    /// Nothing is known of the kernel; the newest numbering is taken.
    Assumed,
}

/// Which bit means which reason, on one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbering {
    /// For whatever it decodes.
    pub authority: Authority,
    /// Indexed by bit number.
    reasons: Vec<Option<Reason>>,
}

use Reason::*;

const LINUX_5_6: &[Reason] = &[Disabled, Hyperv, Nested, InterruptWindow, PitReinject];
const LINUX_5_7: &[Reason] = &[Disabled, Hyperv, Nested, InterruptWindow, PitReinject, X2apic];
const LINUX_5_17: &[Reason] =
    &[Disabled, Hyperv, Nested, InterruptWindow, PitReinject, X2apic, Blockirq, Absent];
const LINUX_6_0: &[Reason] = &[
    Disabled,
    Hyperv,
    Absent,
    Blockirq,
    ApicIdModified,
    ApicBaseModified,
    Nested,
    InterruptWindow,
    PitReinject,
    Sev,
];
const LINUX_6_2: &[Reason] = &[
    Disabled,
    Hyperv,
    Absent,
    Blockirq,
    PhysicalIdAliased,
    ApicIdModified,
    ApicBaseModified,
    Nested,
    InterruptWindow,
    PitReinject,
    Sev,
    LogicalIdAliased,
];
const LINUX_6_17: &[Reason] = &[
    Disabled,
    Hyperv,
    Absent,
    Blockirq,
    PhysicalIdAliased,
    ApicIdModified,
    ApicBaseModified,
    Nested,
    InterruptWindow,
    PitReinject,
    Sev,
    LogicalIdAliased,
    PhysicalIdTooBig,
];

impl Numbering {
    /// The numbering of a kernel release such as `6.1.0-56-amd64`; Oracle's 5.15 (UEK7, from
    /// update 2 on) carries the 6.0 numbering. `None` before 5.6, which had no inhibits, and for
    /// text that is not a release.
    pub fn of_kernel(release: &str) -> Option<Self> {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        let major: u32 = parts.next()?.parse().ok()?;
        let minor: u32 = parts.next()?.parse().ok()?;
        let table = match (major, minor) {
            (5, 15) if release.contains("uek") => LINUX_6_0,
            (..=4, _) | (5, ..=5) => return None,
            (5, 6) => LINUX_5_6,
            (5, 7..=16) => LINUX_5_7,
            (5, 17..) => LINUX_5_17,
            (6, 0..=1) => LINUX_6_0,
            (6, 2..=16) => LINUX_6_2,
            (6.., _) => LINUX_6_17,
        };
        Some(Self::from_table(table, Authority::Version))
    }

    /// The newest numbering, for events of an unknown kernel.
    pub fn assumed() -> Self {
        Self::from_table(LINUX_6_17, Authority::Assumed)
    }

    /// Reads the names out of the `print fmt` of a tracefs `format` file. `None` where the kernel
    /// prints no names (before 6.11). The file gives names in bit order but the bits themselves
    /// only symbolically, so the n-th name is bit n.
    pub fn from_print_format(format: &str) -> Option<Self> {
        let flags = &format[format.find("__print_flags(REC->inhibits")?..];
        let names = flags.split('"').skip(1).step_by(2).filter(|text| *text != "|");
        Self::from_names(names.take(64))
    }

    /// Names in bit order, from a kernel's BTF or `format`; unknown names keep their place.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let reasons: Vec<_> =
            names.into_iter().take_while(|name| !name.is_empty()).map(Reason::from_name).collect();
        reasons
            .iter()
            .any(Option::is_some)
            .then_some(Self { authority: Authority::Kernel, reasons })
    }

    /// Names of single bits, as a kernel prints them beside a mask; the rest stay unnamed unless
    /// all of them fit one known numbering, which is then taken.
    pub fn from_bits<'a>(bits: impl IntoIterator<Item = (u32, &'a str)>) -> Option<Self> {
        let named: Vec<(u32, Reason)> = bits
            .into_iter()
            .filter_map(|(bit, name)| Some((bit, Reason::from_name(name)?)))
            .filter(|row| row.0 < 64)
            .collect();
        let last = named.iter().map(|row| row.0).max()?;
        let tables = [LINUX_6_17, LINUX_6_2, LINUX_6_0, LINUX_5_17, LINUX_5_7, LINUX_5_6];
        let fits = |table: &&&[Reason]| {
            named.iter().all(|(bit, reason)| table.get(*bit as usize) == Some(reason))
        };
        if let Some(table) = tables.iter().find(fits) {
            return Some(Self::from_table(table, Authority::Kernel));
        }
        let reason = |bit| named.iter().find(|row| row.0 == bit).map(|row| row.1);
        let reasons = (0..=last).map(reason).collect();
        Some(Self { authority: Authority::Kernel, reasons })
    }

    fn from_table(table: &[Reason], authority: Authority) -> Self {
        Self { authority, reasons: table.iter().copied().map(Some).collect() }
    }

    /// The reason of a bit number; `None` where this kernel has none there.
    pub fn reason(&self, bit: u32) -> Option<Reason> {
        self.reasons.get(bit as usize).copied().flatten()
    }

    /// Every reason this bit has stood for, of the newest kernels first: what can be said of a
    /// number whose kernel is not known.
    pub fn candidates(bit: u32) -> Vec<Reason> {
        let tables = [LINUX_6_17, LINUX_6_2, LINUX_6_0, LINUX_5_17, LINUX_5_7, LINUX_5_6];
        let mut candidates: Vec<Reason> = Vec::new();
        for reason in tables.iter().filter_map(|table| table.get(bit as usize)) {
            if !candidates.contains(reason) {
                candidates.push(*reason);
            }
        }
        candidates
    }

    /// The bit number of a reason, if this kernel knows it.
    pub fn bit(&self, reason: Reason) -> Option<u32> {
        self.reasons.iter().position(|known| *known == Some(reason)).map(|bit| bit as u32)
    }

    /// The reasons in a mask, lowest bit first, and the bits that have no name.
    pub fn reasons(&self, mask: u64) -> (Vec<Reason>, u64) {
        let mut unnamed = 0;
        let named = (0..64)
            .filter(|bit| mask >> bit & 1 != 0)
            .filter_map(|bit| {
                let reason = self.reason(bit);
                unnamed |= if reason.is_none() { 1 << bit } else { 0 };
                reason
            })
            .collect();
        (named, unnamed)
    }
}

/// The names a kernel from 6.11 on prints behind the mask, as in `IRQWIN|PIT_REINJ`.
pub fn reasons_named(text: &str) -> Vec<Reason> {
    text.trim().split('|').filter_map(Reason::from_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_table_gives_the_bit_each_kernel_uses() {
        let rows: &[(&str, Reason, Option<u32>)] = &[
            ("5.4.0", Disabled, None),
            ("5.6.0", X2apic, None),
            ("5.10.0-28-amd64", X2apic, Some(5)),
            ("5.10.0-28-amd64", PitReinject, Some(4)),
            ("5.17.3", Absent, Some(7)),
            ("5.15.0-204.146.1.el8uek.x86_64", InterruptWindow, Some(7)),
            ("5.15.0-105-generic", InterruptWindow, Some(3)),
            ("6.1.0-56-amd64", PitReinject, Some(8)),
            ("6.1.0-56-amd64", LogicalIdAliased, None),
            ("6.2.0", PitReinject, Some(9)),
            ("6.16.1", PhysicalIdTooBig, None),
            ("6.18.44", PhysicalIdTooBig, Some(12)),
            ("7.3.0-rc1", InterruptWindow, Some(8)),
        ];
        for (release, reason, bit) in rows {
            let found = Numbering::of_kernel(release).and_then(|n| n.bit(*reason));
            assert_eq!(found, *bit, "{reason} on {release}");
        }
        assert_eq!(Numbering::of_kernel("linux"), None);
    }

    #[test]
    fn names_in_the_print_format_outrank_the_version() {
        let format = r#"print fmt: "%s reason=%u", (REC->inhibits) ? __print_flags(REC->inhibits,
            "|", { ((((1UL))) << (APICV_INHIBIT_REASON_DISABLED)), "DISABLED" }, { 2, "NEW_ONE" },
            { 4, "PIT_REINJ" }) : """#;
        let numbering = Numbering::from_print_format(format).expect("names are there");
        assert_eq!(numbering.authority, Authority::Kernel);
        assert_eq!(numbering.reason(0), Some(Disabled));
        assert_eq!(numbering.reason(1), None);
        assert_eq!(numbering.reason(2), Some(PitReinject));
        assert_eq!(numbering.reasons(0b1_0110), (vec![PitReinject], 0b1_0010));
        assert_eq!(Numbering::from_print_format("print fmt: \"%s reason=%u\", REC->reason"), None);
    }

    #[test]
    fn printed_names_choose_the_numbering_they_fit() {
        let numbering = Numbering::from_bits([(9, "PIT_REINJ"), (8, "IRQWIN")]).expect("named");
        assert_eq!(numbering.reason(2), Some(Absent));
        let odd = Numbering::from_bits([(1, "PIT_REINJ")]).expect("named");
        assert_eq!((odd.reason(1), odd.reason(2)), (Some(PitReinject), None));
        assert_eq!(Numbering::from_bits([(1, "NEW")]), None);
    }

    #[test]
    fn a_number_without_a_kernel_is_everything_it_ever_was() {
        assert_eq!(Numbering::candidates(1), [Hyperv]);
        assert_eq!(Numbering::candidates(7), [Nested, InterruptWindow, Absent]);
        assert_eq!(Numbering::candidates(63), []);
    }

    #[test]
    fn every_reason_has_one_name_and_is_read_back_by_it() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
            let json = serde_json::to_string(&reason).expect("a unit variant serializes");
            assert_eq!(json.trim_matches('"'), reason.name());
        }
        assert_eq!(Reason::from_name("APICV_INHIBIT_REASON_DISABLE"), Some(Disabled));
        assert_eq!(reasons_named(" IRQWIN|PIT_REINJ"), [InterruptWindow, PitReinject]);
    }

    #[test]
    fn a_mask_of_all_ones_is_split_into_named_and_unnamed_bits() {
        let (named, unnamed) = Numbering::assumed().reasons(u64::MAX);
        assert_eq!(named.len() as u32 + unnamed.count_ones(), 64);
        assert_eq!(unnamed, !0x1fff);
    }
}
