//! The running kernel: its version and how far that version can be trusted.

use crate::version::Version;
use serde::Serialize;

/// A kernel release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// The numbers at the start of the release.
    pub version: Version,
    /// The stable patch level, where the release or /proc/version tells it: Debian's
    /// `6.1.0-56-amd64` is 6.1.192.
    pub stable: Option<Version>,
}

impl Kernel {
    /// From `uname -r` and the text of /proc/version.
    pub fn parse(release: &str, banner: Option<&str>) -> Option<Kernel> {
        let release = release.trim();
        let version = Version::parse(release)?;
        // Debian and Ubuntu keep a fixed patch level in the release and tell the real one in the
        // banner.
        let in_banner = banner.and_then(|text| {
            text.split_whitespace()
                .filter_map(Version::parse)
                .filter(|found| (found.major, found.minor) == (version.major, version.minor))
                .max()
        });
        let kernel = Kernel { release: release.into(), version, stable: None };
        let stable = if kernel.has_backports() { None } else { in_banner.max(Some(version)) };
        // A fixed `.0` with a package number says nothing about stable updates.
        let stable = stable.filter(|known| known.patch > 0 || !release.contains(".0-"));
        Some(Kernel { stable, ..kernel })
    }

    /// A distribution that moves features of newer kernels under an old version number: version
    /// tables then decide nothing.
    pub fn has_backports(&self) -> bool {
        const MARKS: &[&str] =
            &[".el", "uek", ".amzn", ".oe", ".an8", ".an7", ".al8", ".tl", "velinux", "-default"];
        let release = self.release.to_ascii_lowercase();
        MARKS.iter().any(|mark| release.contains(mark))
    }

    /// True if the kernel has what version `since` brought; unknown if it is older and has
    /// backports.
    pub fn has_since(&self, major: u16, minor: u16) -> Option<bool> {
        let is_new = (self.version.major, self.version.minor) >= (major, minor);
        (is_new || !self.has_backports()).then_some(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_level_comes_from_the_banner_where_the_release_hides_it() {
        let debian = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) \
                      12.2.0) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1 (2026-10-01)";
        let rows = [
            ("6.18.44", None, Some((6, 18, 44)), false),
            ("6.1.0-56-amd64", Some(debian), Some((6, 1, 192)), false),
            ("6.1.0-56-amd64", None, None, false),
            ("5.15.0-204.147.6.el8uek.x86_64", None, None, true),
            ("6.17.0-rc3", None, None, false),
            ("7.3.1-arch1-1", None, Some((7, 3, 1)), false),
        ];
        for (release, banner, stable, backports) in rows {
            let kernel = Kernel::parse(release, banner).unwrap();
            let got = kernel.stable.map(|v| (v.major, v.minor, v.patch));
            assert_eq!((got, kernel.has_backports()), (stable, backports), "{release}");
        }
        assert_eq!(Kernel::parse("not a version", None), None);
    }

    #[test]
    fn a_kernel_with_backports_never_lacks_a_feature_for_certain() {
        let uek = Kernel::parse("5.15.0-204.147.6.el8uek.x86_64", None).unwrap();
        assert_eq!((uek.has_since(6, 0), uek.has_since(5, 15)), (None, Some(true)));
        let plain = Kernel::parse("5.15.168", None).unwrap();
        assert_eq!(plain.has_since(6, 0), Some(false));
    }
}
