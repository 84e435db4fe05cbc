//! What a rule is, and its page: the one text behind `--explain`, the documentation and SARIF.

use super::outcome::Outcome;
use super::subject::{Options, Subject};
use crate::finding::Severity;
use crate::inhibit::Vendor;
use reading::version::Version;
use reading::{Kernel, KernelFeature};
use std::fmt::Write;

/// Versions a rule is about: from one, and before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The first version; `None` for all that came before.
    pub from: Option<Version>,
    /// The first version that no longer counts; `None` for all to come.
    pub before: Option<Version>,
}

impl Versions {
    /// Every version.
    pub const ALL: Self = Self { from: None, before: None };

    /// This one and newer.
    pub const fn from(major: u16, minor: u16) -> Self {
        Self { from: Some(Version::new(major, minor, 0)), before: None }
    }

    /// Older than this one.
    pub const fn before(major: u16, minor: u16) -> Self {
        Self { from: None, before: Some(Version::new(major, minor, 0)) }
    }

    /// From the first one, and older than the second.
    pub const fn between(from: (u16, u16), before: (u16, u16)) -> Self {
        Self {
            from: Some(Version::new(from.0, from.1, 0)),
            before: Some(Version::new(before.0, before.1, 0)),
        }
    }

    /// Whether a version lies inside; `None` is a current one, so that only an open end holds it.
    pub fn contain(&self, version: Option<Version>) -> bool {
        match version {
            Some(version) => {
                self.from.is_none_or(|from| version >= from)
                    && self.before.is_none_or(|before| version < before)
            }
            None => self.before.is_none(),
        }
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.from, self.before) {
            (None, None) => f.write_str("all"),
            (Some(from), None) => write!(f, "{from} and newer"),
            (None, Some(before)) => write!(f, "before {before}"),
            (Some(from), Some(before)) => write!(f, "{from} to before {before}"),
        }
    }
}

/// How a rule is decided.
#[derive(Clone, Copy)]
pub(super) enum Check {
    Machine(fn(&Subject<'_>, &mut Outcome)),
    Options(fn(&Options<'_>, &mut Outcome)),
}

/// Kernels a rule is about: from what one change brought, and before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels {
    /// The change that made it true; `None` for all that came before.
    pub from: Option<KernelFeature>,
    /// The change that ended it; `None` for all to come.
    pub before: Option<KernelFeature>,
}

impl Kernels {
    /// Every kernel.
    pub const ALL: Self = Self { from: None, before: None };

    /// With this and newer.
    pub const fn from(feature: KernelFeature) -> Self {
        Self { from: Some(feature), before: None }
    }

    /// Without this.
    pub const fn before(feature: KernelFeature) -> Self {
        Self { from: None, before: Some(feature) }
    }

    /// With the first one, and without the second.
    pub const fn between(from: KernelFeature, before: KernelFeature) -> Self {
        Self { from: Some(from), before: Some(before) }
    }

    /// Whether a kernel is one of them, as far as that is known; `None` as a kernel is a current
    /// one.
    pub fn contain(&self, kernel: Option<&Kernel>) -> Option<bool> {
        let has = |feature| kernel.map_or(Some(true), |kernel| kernel.has(feature));
        match (self.from.map_or(Some(true), has), self.before.map_or(Some(false), has)) {
            (Some(false), _) | (_, Some(true)) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        }
    }

    fn versions(&self) -> Versions {
        let version = |feature: Option<KernelFeature>| feature.map(KernelFeature::since);
        Versions { from: version(self.from), before: version(self.before) }
    }
}

impl std::fmt::Display for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.versions().fmt(f)
    }
}

/// A rule.
pub struct Rule {
    /// Stable identifier, `AV001`.
    pub id: &'static str,
    /// The same in words.
    pub name: &'static str,
    /// Of a violation.
    pub severity: Severity,
    /// On whose KVM it matters.
    pub vendors: &'static [Vendor],
    /// Host kernels for which it holds.
    pub kernels: Kernels,
    /// Versions of QEMU for which it holds.
    pub qemu: Versions,
    /// The statement that should be true, in a line.
    pub summary: &'static str,
    /// Paragraphs of Markdown.
    pub explanation: &'static str,
    /// An input that violates it, one that does not, and one that leaves it open.
    pub bad: &'static str,
    /// An input of the same kind that obeys it.
    pub good: &'static str,
    /// An input in which it cannot be decided.
    pub unknown: &'static str,
    /// Kernel and QEMU the examples are judged for; empty means current.
    pub example_kernel: &'static str,
    /// See [`Rule::example_kernel`].
    pub example_qemu: &'static str,
    /// `--fix` can repair it.
    pub is_fixable: bool,
    /// Kernel and VMM files, commits, documents.
    pub sources: &'static [&'static str],
    pub(super) check: Check,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

pub(super) const BOTH: &[Vendor] = &[Vendor::Amd, Vendor::Intel];
pub(super) const AMD: &[Vendor] = &[Vendor::Amd];
pub(super) const INTEL: &[Vendor] = &[Vendor::Intel];

impl Rule {
    /// The target's vendors the rule is about.
    pub fn vendors_of(&self, vendors: &[Vendor]) -> Vec<Vendor> {
        vendors.iter().copied().filter(|vendor| self.vendors.contains(vendor)).collect()
    }

    /// `None` where it is not known whether the kernel is one that the rule is about.
    pub(super) fn applies(&self, kernel: Option<&Kernel>, qemu: Option<Version>) -> Option<bool> {
        match self.qemu.contain(qemu) {
            true => self.kernels.contain(kernel),
            false => Some(false),
        }
    }

    /// The rule's page in the documentation.
    pub fn page(&self) -> String {
        let mut page = String::new();
        let vendors: Vec<_> = self.vendors.iter().map(|vendor| vendor.name()).collect();
        let fix = if self.is_fixable { "`--fix` repairs it" } else { "by hand" };
        let (id, name) = (self.id, self.name);
        let _ = writeln!(page, "# {id}: {name}\n\n{}.\n", self.summary);
        let _ =
            writeln!(page, "| Severity | Vendors | Kernels | QEMU | Fix |\n|---|---|---|---|---|");
        let row = format!(
            "| {} | {} | {} | {} | {fix} |",
            self.severity,
            vendors.join(", "),
            self.kernels,
            self.qemu,
        );
        let _ = writeln!(page, "{row}\n\n{}\n", self.explanation.trim());
        let judged: Vec<_> = [("--kernel", self.example_kernel), ("--qemu", self.example_qemu)]
            .into_iter()
            .filter(|(_, version)| !version.is_empty())
            .map(|(flag, version)| format!("{flag} {version}"))
            .collect();
        let judged = if judged.is_empty() {
            String::new()
        } else {
            format!(" (with `{}`)", judged.join(" "))
        };
        let _ = writeln!(
            page,
            "## Examples{judged}\n\nViolates it:\n\n```\n{}\n```\n",
            self.bad.trim()
        );
        let _ = writeln!(page, "Does not:\n\n```\n{}\n```\n", self.good.trim());
        let _ = writeln!(page, "Cannot be decided:\n\n```\n{}\n```\n", self.unknown.trim());
        page.push_str("## Sources\n\n");
        for source in self.sources {
            let _ = writeln!(page, "- {source}");
        }
        page
    }
}
