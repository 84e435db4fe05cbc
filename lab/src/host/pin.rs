//! Which kernel a distribution's name stands for, to the byte, whatever the archive has by now.

use super::kernel::modules_in;
use crate::host::program::output;
use crate::watch::Watch;
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A kernel by name each.
const PINS: &str = include_str!("../../kernels.toml");

/// One kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// As the kernel says it.
    pub release: String,
    /// Of its packages.
    pub version: String,
    /// SHA-256 of each package.
    pub sha256: BTreeMap<String, String>,
}

impl Pin {
    /// That of a distribution.
    pub fn of(name: &str) -> anyhow::Result<Self> {
        let mut all: BTreeMap<String, Self> = toml::from_str(PINS)?;
        all.remove(name).with_context(|| format!("lab/kernels.toml has no {name}"))
    }

    /// Whether it was unpacked to the folder.
    pub(super) fn is_in(&self, folder: &Path) -> bool {
        modules_in(folder, &self.release).is_some()
    }

    /// The packages as apt names exactly these.
    pub(super) fn packages(&self) -> impl Iterator<Item = (String, Option<&str>)> {
        let version = &self.version;
        self.sha256.iter().map(move |(name, sum)| (format!("{name}={version}"), Some(sum.as_str())))
    }
}

/// Whether a package's file is the one that was pinned.
pub(super) fn verify(file: &Path, sha256: &str, watch: &mut Watch<'_>) -> anyhow::Result<()> {
    let said = output(Command::new("sha256sum").arg("--").arg(file), watch)?;
    let sum = said.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    ensure!(sum == sha256, "{name} has the SHA-256 {sum}, not {sha256}, which is pinned");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::distribution::{DISTRIBUTIONS, parts};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn every_distribution_has_a_kernel_whose_packages_are_pinned() {
        for one in DISTRIBUTIONS {
            let pin = Pin::of(one.name).expect("a pin");
            let image = format!("linux-image-{}", pin.release);
            for (name, sum) in &pin.sha256 {
                assert_eq!(parts(&image, &format!("Depends: {name}\n")).last(), Some(&&**name));
                assert!(sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
            }
            assert!(pin.sha256.contains_key(&image), "{image}");
            let folder = tempfile::tempdir().expect("a folder");
            assert!(!pin.is_in(folder.path()));
            let modules = folder.path().join("lib/modules").join(&pin.release);
            std::fs::create_dir_all(modules).expect("a folder");
            assert!(pin.is_in(folder.path()));
        }
    }

    #[test]
    fn a_package_with_another_sum_is_refused_with_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("linux.deb");
        std::fs::write(&file, "abc").expect("a file");
        let stop = AtomicBool::new(false);
        let mut tell = |_: crate::watch::Told<'_>| {};
        let mut watch = Watch::new(&stop, Duration::from_secs(60), &mut tell);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        verify(&file, abc, &mut watch).expect("what is pinned");
        let error = verify(&file, "00", &mut watch).expect_err("another").to_string();
        assert!(error.contains(abc) && error.contains("linux.deb"), "{error}");
    }
}
