//! Kernels of distributions: fetched on first use, verified, kept. Each name is pinned to one
//! version; another takes its place only where the archive has that no longer, and that is said.
//!
//! The package manager of Debian and Ubuntu does the work, with lists and sources of our own, so
//! that nothing of the system is changed: `apt-get` checks the distribution's signature and the
//! package's hash.

use crate::host::apt::{self, KEYRING};
use crate::host::cache;
use crate::host::package::unpack;
use crate::host::pin::{Pin, verify};
use crate::host::program::output;
use crate::watch::{Halt, Watch};
use anyhow::{Context, bail};
use report::writer::remark;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that names the current kernel.
const META_PACKAGE: &str = "linux-image-amd64";
/// A release of a distribution that kernels are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// As on the command line.
    pub name: &'static str,
    suite: &'static str,
    /// Whether there is an archive of security updates besides.
    is_released: bool,
}

/// All that can be had by name.
pub const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution { name: "debian-12", suite: "bookworm", is_released: true },
    Distribution { name: "debian-13", suite: "trixie", is_released: true },
    Distribution { name: "debian-sid", suite: "sid", is_released: false },
];

/// The one that is meant where none is named.
pub const USUAL: &str = "debian-13";

/// The folder with a distribution's kernel, fetched if it is not there yet.
pub(crate) fn fetched(
    distribution: Distribution,
    watch: &mut Watch<'_>,
) -> anyhow::Result<PathBuf> {
    let store = cache::folder("kernels")?;
    let folder = store.join(distribution.name);
    let pin = Pin::of(distribution.name)?;
    if folder.is_dir() {
        if !pin.is_in(&folder) {
            remark(&format!(
                "avicenna: {} was fetched earlier and is kept; it is not Linux {}, which this \
                 version is checked with: remove {} to fetch that",
                distribution.name,
                pin.version,
                folder.display()
            ));
        }
        return Ok(folder);
    }
    watch.stage(&format!("fetching the kernel of {}", distribution.name));
    cache::sweep(&store);
    let work = tempfile::tempdir_in(&store)?;
    let apt = Apt::prepare(work.path(), distribution)?;
    apt.run("apt-get", &["update"], watch)?;
    let tree = work.path().join("tree");
    for (package, sha256) in apt.packages(distribution, &pin, watch)? {
        watch.line(&package);
        apt.run("apt-get", &["download", &package], watch)?;
        let file = file_in(work.path(), ".deb").context("no package came")?;
        sha256.map_or(Ok(()), |sha256| verify(&file, sha256, watch))?;
        unpack(&file, &tree, watch)?;
        std::fs::remove_file(file)?;
    }
    // What is in its place is trusted from then on, also after a loss of power.
    rustix::fs::syncfs(File::open(&tree)?)?;
    // Another process may have been faster; its folder is as good.
    match std::fs::rename(&tree, &folder) {
        Err(error) if !folder.is_dir() => {
            Err(error).with_context(|| format!("cannot create {}", folder.display()))
        }
        _ => Ok(folder),
    }
}

/// The archive with a kernel's sources, of exactly one version of a package, in a folder.
pub(crate) fn source(
    distribution: Distribution,
    package: &str,
    version: &str,
    folder: &Path,
    watch: &mut Watch<'_>,
) -> anyhow::Result<PathBuf> {
    let apt = Apt::prepare(folder, distribution)?;
    apt.run("apt-get", &["update"], watch)?;
    apt.run("apt-get", &["download", &format!("{package}={version}")], watch)?;
    let file = file_in(folder, ".deb").context("no package came")?;
    unpack(&file, &folder.join("package"), watch)?;
    std::fs::remove_file(file)?;
    let sources = folder.join("package/usr/src");
    file_in(&sources, ".tar.xz").with_context(|| format!("{package} has no archive"))
}

/// A file of the folder by its name's end.
fn file_in(folder: &Path, end: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(end))
}

/// A kernel's package and those of its release that it depends on: newer ones have the image and
/// the modules in packages of their own. `dependencies` is what `apt-cache depends` says.
pub(super) fn parts<'a>(package: &'a str, dependencies: &'a str) -> Vec<&'a str> {
    let release = package.trim_start_matches("linux-image-");
    let names = dependencies.lines().filter_map(|line| line.trim().split_once("Depends: "));
    let own = names.map(|(_, name)| name).filter(|name| {
        name.strip_suffix(release)
            .is_some_and(|start| ["linux-binary-", "linux-modules-"].contains(&start))
    });
    std::iter::once(package).chain(own).collect()
}

/// `apt` with a state of its own.
struct Apt<'a> {
    folder: &'a Path,
}

impl<'a> Apt<'a> {
    fn prepare(folder: &'a Path, distribution: Distribution) -> anyhow::Result<Self> {
        if !Path::new(KEYRING).exists() {
            bail!("{KEYRING} is missing (package debian-archive-keyring): nothing can be verified");
        }
        apt::prepare(folder, distribution.suite, distribution.is_released)?;
        Ok(Self { folder })
    }

    /// What to fetch, with its hash where that is known: the pinned kernel, or today's.
    fn packages<'p>(
        &self,
        distribution: Distribution,
        pin: &'p Pin,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<(String, Option<&'p str>)>> {
        let pinned: Vec<_> = pin.packages().collect();
        let mut is_there = true;
        for (package, _) in &pinned {
            is_there &= match self.run("apt-cache", &["show", package], watch) {
                Err(error) if error.downcast_ref::<Halt>().is_some() => return Err(error),
                said => said.is_ok_and(|text| !text.trim().is_empty()),
            };
        }
        if is_there {
            return Ok(pinned);
        }
        let name = distribution.name;
        let text = self.run("apt-cache", &["depends", META_PACKAGE], watch)?;
        let package = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|package| package.starts_with("linux-image-"))
            .with_context(|| format!("{META_PACKAGE} of {name} names no kernel"))?;
        let version = &pin.version;
        remark(&format!(
            "avicenna: {name}: the archive no longer has Linux {version}; {package} takes its place"
        ));
        let text = self.run("apt-cache", &["depends", package], watch)?;
        Ok(parts(package, &text).into_iter().map(|part| (part.to_owned(), None)).collect())
    }

    fn run(
        &self,
        program: &str,
        arguments: &[&str],
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        for (key, value) in apt::settings(self.folder) {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        output(command.arg("-q").args(arguments).current_dir(self.folder), watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_in_several_packages_is_fetched_whole() {
        let split = "linux-image-7.2.13-amd64\n  PreDepends: linux-base\n |Depends: dracut\n  \
                     Depends: linux-base-7.2.13-amd64\n  Depends: linux-binary-7.2.13-amd64\n  \
                     Depends: linux-modules-7.2.13-amd64\n";
        let all = parts("linux-image-7.2.13-amd64", split);
        let names = ["image", "binary", "modules"].map(|part| format!("linux-{part}-7.2.13-amd64"));
        assert_eq!(all, names);
        assert_eq!(parts("linux-image-6.1-amd64", "  Depends: kmod\n"), ["linux-image-6.1-amd64"]);
    }
}
