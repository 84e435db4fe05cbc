//! Bit numbers of the inhibit reasons by kernel version.
//!
//! Only for kernels whose tracepoint prints no names (before 6.11) and when neither the tracepoint's format nor
//! BTF is at hand: distribution kernels carry later layouts (Oracle's UEK7 5.15 uses that of 6.0).

use super::InhibitReason::{self, *};
use crate::version::Version;

/// One layout: kernels from `since` on, until the next row's `since`; bit N is `reasons[N]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberingRow {
    pub since: Version,
    pub reasons: &'static [InhibitReason],
    /// Where the numbers were read.
    pub source: &'static str,
}

const fn row(
    major: u16,
    minor: u16,
    reasons: &'static [InhibitReason],
    source: &'static str,
) -> NumberingRow {
    NumberingRow { since: Version::new(major, minor, 0), reasons, source }
}

const ROWS: [NumberingRow; 7] = [
    row(5, 6, &[Disabled, Hyperv, Nested, Irqwin, PitReinj], "kvm_host.h of 5.6, #define"),
    row(5, 7, &[Disabled, Hyperv, Nested, Irqwin, PitReinj, X2apic], "kvm_host.h of 5.15, #define"),
    row(
        5,
        17,
        &[Disabled, Hyperv, Nested, Irqwin, PitReinj, X2apic, Blockirq, Absent],
        "kvm_host.h of 5.17",
    ),
    row(
        5,
        18,
        &[Disabled, Hyperv, Nested, Irqwin, PitReinj, X2apic, Blockirq, Absent, Sev],
        "kvm_host.h of 5.18; the place of SEV is uncertain",
    ),
    row(
        6,
        0,
        &[
            Disabled,
            Hyperv,
            Absent,
            Blockirq,
            ApicIdModified,
            ApicBaseModified,
            Nested,
            Irqwin,
            PitReinj,
            Sev,
        ],
        "kvm_host.h of 6.1",
    ),
    row(
        6,
        2,
        &[
            Disabled,
            Hyperv,
            Absent,
            Blockirq,
            PhysicalIdAliased,
            ApicIdModified,
            ApicBaseModified,
            Nested,
            Irqwin,
            PitReinj,
            Sev,
            LogicalIdAliased,
        ],
        "kvm_host.h of 6.12",
    ),
    row(
        6,
        17,
        &[
            Disabled,
            Hyperv,
            Absent,
            Blockirq,
            PhysicalIdAliased,
            ApicIdModified,
            ApicBaseModified,
            Nested,
            Irqwin,
            PitReinj,
            Sev,
            LogicalIdAliased,
            PhysicalIdTooBig,
        ],
        "BTF of 6.18, x86.h of 7.3",
    ),
];

/// All layouts, oldest first.
pub fn numbering_rows() -> &'static [NumberingRow] {
    &ROWS
}

/// The layout of a kernel; `None` before 5.6, which has no inhibits.
pub fn numbering(kernel: Version) -> Option<&'static NumberingRow> {
    ROWS.iter().rev().find(|row| row.since <= kernel)
}

/// The reason behind a bit number on a kernel.
pub fn reason_of_bit(kernel: Version, bit: u32) -> Option<InhibitReason> {
    numbering(kernel)?.reasons.get(usize::try_from(bit).ok()?).copied()
}
