//! What this kernel does as a guest: the fence before x2APIC register writes.
//!
//! Writes to x2APIC registers do not serialize on Intel, so Linux fences them. AMD does not need
//! the fence; kernels from 6.8 on, and stable kernels since December 2024, leave it out there
//! (commit 04c3024560d3, `weak_wrmsr_fence`). Left out: the TSC deadline register, which shares the
//! fence up to 6.12.

use super::Row;
use super::draft::Draft;
use crate::finding::{Answer, Finding, Needs, Severity};
use reading::{Facts, Kernel, KernelFeature, Vendor};

/// Stable branches that took the change: the patch level that certainly has it, and the last that
/// certainly lacks it.
const BACKPORTS: &[(u16, u16, u16, u16)] =
    &[(5, 4, 287, 284), (5, 10, 231, 228), (5, 15, 174, 170), (6, 1, 120, 115), (6, 6, 64, 60)];

pub fn wrmsr_fence(facts: &Facts) -> Finding {
    let vendor = facts.cpus.iter().find_map(|cpu| cpu.vendor.clone());
    let draft = Draft::new(
        Row::GuestWrmsrFence,
        "this kernel as a guest",
        "x2APIC register writes go without a fence",
        "arch/x86/include/asm/processor.h weak_wrmsr_fence, commit 04c3024560d3 (6.8, stable since 2024-12)",
    )
    .severity(Severity::Note)
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .fix("a guest kernel of 6.8 or later, or a stable kernel of 2025", Needs::VmRestart);
    match &vendor {
        None => draft.answer(Answer::Unknown, "the vendor is not known"),
        Some(Vendor::Amd | Vendor::Hygon) => match facts.kernel.get().map(leaves_out) {
            Some(Answer::Yes) => {
                draft.answer(Answer::Yes, "this kernel leaves the fence out on AMD and Hygon")
            }
            Some(Answer::No) => {
                draft.answer(Answer::No, "this kernel fences every IPI, which AMD does not need")
            }
            Some(Answer::Unknown) => draft.answer(
                Answer::Unknown,
                "the stable level of this kernel does not tell whether it has the change",
            ),
            None => draft.answer(Answer::Unknown, "the kernel is not known"),
        },
        Some(other) => {
            let mut finding =
                draft.answer(Answer::No, &format!("{other} processors need the fence"));
            finding.fix = None;
            finding
        }
    }
}

fn leaves_out(kernel: &Kernel) -> Answer {
    if kernel.has(KernelFeature::FenceLeftOut) == Some(true) {
        return Answer::Yes;
    }
    if kernel.has_backports() {
        return Answer::Unknown;
    }
    let mut branches = BACKPORTS.iter();
    match branches.find_map(|row| Some((row, kernel.stable_level(row.0, row.1)?))) {
        None => Answer::No,
        Some((_, None)) => Answer::Unknown,
        Some((row, Some(level))) if level >= row.2 => Answer::Yes,
        Some((row, Some(level))) if level <= row.3 => Answer::No,
        Some(_) => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_goes_with_the_mainline_change_and_its_backports_only() {
        for (release, expected) in [
            ("6.8.0", Answer::Yes),
            ("6.18.44", Answer::Yes),
            ("6.7.12", Answer::No),
            ("6.6.64", Answer::Yes),
            ("6.6.62", Answer::Unknown),
            ("6.6.30", Answer::No),
            ("6.1.192", Answer::Yes),
            ("6.1.0-56-amd64", Answer::Unknown),
            ("5.15.0-204.147.6.el8uek.x86_64", Answer::Unknown),
            ("5.17.3", Answer::No),
        ] {
            let kernel = Kernel::parse(release, None).unwrap();
            assert_eq!(leaves_out(&kernel), expected, "{release}");
        }
    }
}
