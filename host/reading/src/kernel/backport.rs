//! What distributions' kernels have that their number does not say: a row for each, with its
//! source. What is in no row is not known.
//!
//! A feature stays once it has come, so a row of what there is holds for all later kernels of the
//! same line. What is not there is known only of those whose source was read.

use super::KernelFeature;
use KernelFeature as F;

/// A line of kernels that one distribution keeps, by how its releases are written.
struct Line {
    /// The numbers at the start, up to the distribution's own.
    base: &'static str,
    /// What follows the distribution's numbers, before a minor release (`_5`) and the architecture.
    mark: &'static str,
    rows: &'static [Row],
}

/// What kernels of a line have.
struct Row {
    /// The distribution's numbers from which on it holds.
    from: &'static [u32],
    what: What,
    #[expect(dead_code, reason = "read by people")]
    source: &'static str,
}

enum What {
    Has(&'static [KernelFeature]),
    /// Up to these numbers: an update of one minor release, which the next one had not when it was
    /// begun.
    HasTo(&'static [u32], &'static [KernelFeature]),
    /// Up to these numbers, which are the last that were read.
    Lacks(&'static [u32], &'static [KernelFeature]),
}

const fn has(from: &'static [u32], what: &'static [KernelFeature], source: &'static str) -> Row {
    Row { from, what: What::Has(what), source }
}

const fn lacks(
    from: &'static [u32],
    to: &'static [u32],
    what: &'static [KernelFeature],
    source: &'static str,
) -> Row {
    Row { from, what: What::Lacks(to, what), source }
}

/// Oracle's UEK; Red Hat's kernels and those that are built from their source, whose releases are
/// the same (AlmaLinux, Rocky Linux, CentOS Stream, Oracle's RHCK); Ubuntu's for all machines, of
/// which one is the next release's for the one before; Proxmox VE's, which are Ubuntu's, patched.
///
/// Of SUSE's, openEuler's and Amazon's sources none could be read with the release it is of, so
/// they have no row.
const LINES: [Line; 7] = [
    Line { base: "5.15.0-", mark: "uek", rows: &UEK7 },
    Line { base: "4.18.0-", mark: "el8", rows: &EL8 },
    Line { base: "5.14.0-", mark: "el9", rows: &EL9 },
    Line { base: "6.12.0-", mark: "el10", rows: &EL10 },
    Line { base: "5.4.0-", mark: "generic", rows: &UBUNTU_20_04 },
    Line { base: "5.15.0-", mark: "generic", rows: &UBUNTU_22_04 },
    Line { base: "5.15.", mark: "pve", rows: &PROXMOX_7 },
];

const UEK7: [Row; 1] = [has(
    &[204, 146, 1],
    &[F::X2avic, F::AbsentInhibits, F::ApicChangedInhibits],
    "Oracle Linux Blog, \"How to enable AMD AVIC and speed up your VMs\", 2024-03-28: x2AVIC measured on \
     5.15.0-204.146.1.el8uek, guests of 380 vCPUs; its trace numbers inhibits as Linux 6.0 does",
)];

/// In all rows of Red Hat's: the source packages of AlmaLinux of that release; arch/x86/kvm/svm,
/// arch/x86/kvm/vmx/vmx.c, arch/x86/include/asm/kvm_host.h, drivers/iommu/amd were searched for the
/// name that came with the feature.
const EL8: [Row; 9] = [
    has(&[240], &[F::NoPost, F::Inhibits, F::X2apicInhibits], "kernel-4.18.0-240.el8"),
    has(&[372, 9, 1], &[F::AutoEoiCounted], "kernel-4.18.0-372.9.1.el8"),
    has(&[425, 3, 1], &[F::AbsentInhibits, F::SevInhibits], "kernel-4.18.0-425.3.1.el8"),
    has(
        &[513, 5, 1],
        &[
            F::NestedPerVcpu,
            F::ForceAvic,
            F::X2avic,
            F::ApicChangedInhibits,
            F::AliasInhibits,
            F::ClusterWakeUp,
        ],
        "kernel-4.18.0-513.5.1.el8_9",
    ),
    has(
        &[553, 5, 1],
        &[F::EntryCacheSwitch, F::FirstRegisterFirst],
        "kernel-4.18.0-553.5.1.el8_10",
    ),
    lacks(
        &[240],
        &[348, 23, 1],
        &[F::AutoEoiCounted, F::AbsentInhibits, F::SevInhibits],
        "kernel-4.18.0-240.el8 to kernel-4.18.0-348.23.1.el8_5",
    ),
    lacks(
        &[240],
        &[477, 27, 2],
        &[F::NestedPerVcpu, F::ForceAvic, F::X2avic, F::ApicChangedInhibits, F::AliasInhibits],
        "kernel-4.18.0-240.el8 to kernel-4.18.0-477.27.2.el8_8",
    ),
    lacks(
        &[240],
        &[513, 24, 1],
        &[F::EntryCacheSwitch, F::FirstRegisterFirst],
        "kernel-4.18.0-240.el8 to kernel-4.18.0-513.24.1.el8_9",
    ),
    lacks(
        &[240],
        &[553, 66, 1],
        &[
            F::IntelIpiv,
            F::FenceLeftOut,
            F::EntryFlushLeftOut,
            F::SnpHost,
            F::DevicePostedIrqs,
            F::AmdIpiv,
            F::PhysicalIdInhibits,
            F::AvicByDefault,
            F::X2avicExtended,
        ],
        "kernel-4.18.0-240.el8 to kernel-4.18.0-553.66.1.el8_10",
    ),
];

const EL9: [Row; 13] = [
    has(
        &[70, 13, 1],
        &[F::NoPost, F::Inhibits, F::X2apicInhibits, F::AutoEoiCounted],
        "kernel-5.14.0-70.13.1.el9_0",
    ),
    has(&[162, 6, 1], &[F::AbsentInhibits, F::SevInhibits], "kernel-5.14.0-162.6.1.el9_1"),
    has(
        &[284, 11, 1],
        &[
            F::NestedPerVcpu,
            F::ForceAvic,
            F::X2avic,
            F::ApicChangedInhibits,
            F::IntelIpiv,
            F::FirstRegisterFirst,
        ],
        "kernel-5.14.0-284.11.1.el9_2",
    ),
    Row {
        from: &[284, 30, 1],
        what: What::HasTo(&[284, u32::MAX], &[F::AliasInhibits, F::ClusterWakeUp]),
        source: "kernel-5.14.0-284.30.1.el9_2",
    },
    has(&[362, 8, 1], &[F::AliasInhibits, F::ClusterWakeUp], "kernel-5.14.0-362.8.1.el9_3"),
    has(&[427, 13, 1], &[F::EntryCacheSwitch], "kernel-5.14.0-427.13.1.el9_4"),
    has(
        &[503, 11, 1],
        &[F::FenceLeftOut, F::EntryFlushLeftOut, F::SnpHost],
        "kernel-5.14.0-503.11.1.el9_5",
    ),
    lacks(&[70, 13, 1], &[70, 30, 1], &[F::SevInhibits], "kernel-5.14.0-70.13.1 to 70.30.1.el9_0"),
    lacks(
        &[70, 13, 1],
        &[162, 23, 1],
        &[
            F::NestedPerVcpu,
            F::ForceAvic,
            F::X2avic,
            F::ApicChangedInhibits,
            F::IntelIpiv,
            F::FirstRegisterFirst,
        ],
        "kernel-5.14.0-70.13.1.el9_0 to kernel-5.14.0-162.23.1.el9_1",
    ),
    lacks(
        &[284, 11, 1],
        &[284, 25, 1],
        &[F::AliasInhibits, F::ClusterWakeUp],
        "kernel-5.14.0-284.11.1.el9_2 to kernel-5.14.0-284.25.1.el9_2",
    ),
    lacks(
        &[70, 13, 1],
        &[362, 24, 2],
        &[F::EntryCacheSwitch],
        "kernel-5.14.0-70.13.1.el9_0 to kernel-5.14.0-362.24.2.el9_3",
    ),
    lacks(
        &[70, 13, 1],
        &[427, 42, 1],
        &[F::FenceLeftOut, F::EntryFlushLeftOut, F::SnpHost],
        "kernel-5.14.0-70.13.1.el9_0 to kernel-5.14.0-427.42.1.el9_4",
    ),
    lacks(
        &[70, 13, 1],
        &[570, 32, 1],
        &[
            F::DevicePostedIrqs,
            F::AmdIpiv,
            F::PhysicalIdInhibits,
            F::AvicByDefault,
            F::X2avicExtended,
        ],
        "kernel-5.14.0-70.13.1.el9_0 to kernel-5.14.0-570.32.1.el9_6",
    ),
];

const EL10: [Row; 1] = [lacks(
    &[55, 9, 1],
    &[55, 24, 1],
    &[F::DevicePostedIrqs, F::AmdIpiv, F::PhysicalIdInhibits, F::AvicByDefault, F::X2avicExtended],
    "kernel-6.12.0-55.9.1.el10_0 to kernel-6.12.0-55.24.1.el10_0",
)];

/// What Linux 5.15 has not and no update of Ubuntu's brought.
const AFTER_5_15: [KernelFeature; 17] = [
    F::AbsentInhibits,
    F::SevInhibits,
    F::NestedPerVcpu,
    F::ForceAvic,
    F::X2avic,
    F::ApicChangedInhibits,
    F::IntelIpiv,
    F::AliasInhibits,
    F::ClusterWakeUp,
    F::EntryCacheSwitch,
    F::FirstRegisterFirst,
    F::SnpHost,
    F::DevicePostedIrqs,
    F::AmdIpiv,
    F::PhysicalIdInhibits,
    F::AvicByDefault,
    F::X2avicExtended,
];

/// Ubuntu's source packages as they were imported into git one by one, searched as Red Hat's: 45
/// from 5.4.0-144.161 to 5.4.0-216.236, and 67 from 5.15.0-47.51 to 5.15.0-185.195. What the first
/// had not, those before had not either.
const UBUNTU_20_04: [Row; 2] = [
    lacks(&[26], &[216], &AFTER_5_15, "linux 5.4.0-144.161 to 5.4.0-216.236"),
    lacks(
        &[26],
        &[216],
        &[F::Inhibits, F::X2apicInhibits, F::AutoEoiCounted],
        "linux 5.4.0-144.161 to 5.4.0-216.236",
    ),
];

const UBUNTU_22_04: [Row; 1] =
    [lacks(&[25], &[185], &AFTER_5_15, "linux 5.15.0-47.51 to 5.15.0-185.195")];

const PROXMOX_7: [Row; 1] = [lacks(
    &[5, 1],
    &[158, 2],
    &AFTER_5_15,
    "proxmox/pve-kernel, branch pve-kernel-5.15: patches/kernel has none of it, and what it is built from is \
     Ubuntu's up to 5.15.0-115.125",
)];

/// `None` where no row says anything.
pub fn has_feature(release: &str, feature: KernelFeature) -> Option<bool> {
    let (line, numbers) = line_of(release)?;
    let met = line.rows.iter().filter(|row| numbers.as_slice() >= row.from);
    let mut said = met.filter_map(|row| match row.what {
        What::Has(features) => features.contains(&feature).then_some(true),
        What::HasTo(to, features) => {
            (numbers.as_slice() <= to && features.contains(&feature)).then_some(true)
        }
        What::Lacks(to, features) => {
            (numbers.as_slice() <= to && features.contains(&feature)).then_some(false)
        }
    });
    said.next()
}

/// The line of a release, and the distribution's numbers in it.
fn line_of(release: &str) -> Option<(&'static Line, Vec<u32>)> {
    LINES.iter().find_map(|line| {
        let own = release.strip_prefix(line.base)?;
        let words: Vec<&str> = own.split(['.', '-']).collect();
        let count = words.iter().take_while(|word| word.parse::<u32>().is_ok()).count();
        let numbers = words[..count].iter().filter_map(|word| word.parse().ok()).collect();
        let is_own = match words.get(count..)? {
            [mark] => is_mark(mark, line.mark),
            // A rebuild with changes of its own has a word more.
            [mark, architecture] => is_mark(mark, line.mark) && architecture.starts_with("x86_64"),
            _ => false,
        };
        is_own.then_some((line, numbers))
    })
}

/// `el9`, `el9_5`, `el8uek`.
fn is_mark(word: &str, mark: &str) -> bool {
    match mark {
        "uek" => word.ends_with(mark),
        "generic" | "pve" => word == mark,
        _ => word
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_prefix('_').or(rest.is_empty().then_some("0")))
            .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|c| c.is_ascii_digit())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_line_never_contradict_each_other() {
        for line in &LINES {
            for row in line.rows {
                let What::Lacks(to, lacking) = row.what else { continue };
                for other in line.rows {
                    let (What::Has(having) | What::HasTo(_, having)) = other.what else { continue };
                    let both = lacking.iter().find(|feature| having.contains(feature));
                    assert!(both.is_none() || other.from > to, "{}: {both:?}", line.mark);
                }
            }
        }
    }

    #[test]
    fn release_of_a_line_is_known_by_all_of_its_words() {
        for (release, expected) in [
            ("5.14.0-503.11.1.el9_5.x86_64", Some(("el9", vec![503, 11, 1]))),
            ("5.14.0-503.11.1.el9_5.x86_64+rt", Some(("el9", vec![503, 11, 1]))),
            ("5.14.0-480.el9.x86_64", Some(("el9", vec![480]))),
            ("4.18.0-553.el8_10.x86_64", Some(("el8", vec![553]))),
            ("5.15.0-204.147.6.3.el8uek.x86_64", Some(("uek", vec![204, 147, 6, 3]))),
            // Others build from the same source, with changes of their own.
            ("5.14.0-427.13.1.el9_4.cloudlinux.x86_64", None),
            ("5.14.0-427.44.1.vz9.80.6", None),
            ("4.18.0-553.el8_10.centos.plus.x86_64", None),
            ("5.14.0-503.11.1.el9x.x86_64", None),
            ("5.14.0-503.11.1.el90.x86_64", None),
            ("5.15.0-204.el9.x86_64", None),
            ("5.15.0-91-generic", Some(("generic", vec![91]))),
            ("5.15.158-2-pve", Some(("pve", vec![158, 2]))),
            // Clouds' kernels have patches of their own.
            ("5.15.0-1050-aws", None),
            ("5.15.0-91-lowlatency", None),
        ] {
            let found = line_of(release).map(|(line, numbers)| (line.mark, numbers));
            assert_eq!(found, expected, "{release}");
        }
    }
}
