//! Kernels of distributions: fetched by package name on first use, verified, kept.
//!
//! The package manager of Debian and Ubuntu does the work, with lists and sources of our own, so
//! that nothing of the system is changed: `apt-get` checks the distribution's signature and the
//! package's hash.

use crate::cache;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys that the distribution signs with, as its own package installs them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
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

pub const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution { name: "debian-12", suite: "bookworm", is_released: true },
    Distribution { name: "debian-13", suite: "trixie", is_released: true },
    Distribution { name: "debian-sid", suite: "sid", is_released: false },
];

/// The folder with a distribution's kernel, fetched if it is not there yet.
pub(crate) fn fetched(
    distribution: Distribution,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<PathBuf> {
    let store = cache::folder("kernels")?;
    let folder = store.join(distribution.name);
    if folder.is_dir() {
        return Ok(folder);
    }
    say(&format!("fetching the kernel of {}", distribution.name));
    let work = tempfile::tempdir_in(&store)?;
    let apt = Apt::prepare(work.path(), distribution)?;
    apt.run("apt-get", &["update"])?;
    let text = apt.run("apt-cache", &["depends", META_PACKAGE])?;
    let package = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .with_context(|| format!("{META_PACKAGE} of {} names no kernel", distribution.name))?;
    say(&format!("fetching {package}"));
    let text = apt.run("apt-cache", &["depends", package])?;
    let tree = work.path().join("tree");
    for part in parts(package, &text) {
        apt.run("apt-get", &["download", part])?;
        let file = file_in(work.path(), ".deb").context("no package came")?;
        unpack(&file, &tree)?;
        std::fs::remove_file(file)?;
    }
    // Another process may have been faster; its folder is as good.
    match std::fs::rename(&tree, &folder) {
        Err(error) if !folder.is_dir() => {
            Err(error).with_context(|| format!("cannot create {}", folder.display()))
        }
        _ => Ok(folder),
    }
}

/// Unpacks a Debian package into a folder.
pub(crate) fn unpack(package: &Path, folder: &Path) -> anyhow::Result<()> {
    output(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder)).map(drop)
}

/// A file of the folder by its name's end.
fn file_in(folder: &Path, end: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(end))
}

/// A kernel's package and those of its release that it depends on: newer ones have the image and
/// the modules in packages of their own. `dependencies` is what `apt-cache depends` says.
fn parts<'a>(package: &'a str, dependencies: &'a str) -> Vec<&'a str> {
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
        for part in ["lists/partial", "cache/archives/partial", "empty"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        std::fs::write(folder.join("status"), "")?;
        let suite = distribution.suite;
        if !Path::new(KEYRING).exists() {
            bail!("{KEYRING} is missing (package debian-archive-keyring): nothing can be verified");
        }
        let signed = format!("deb [arch=amd64 signed-by={KEYRING}] http://deb.debian.org");
        let mut sources = format!("{signed}/debian {suite} main\n");
        if distribution.is_released {
            sources += &format!("{signed}/debian-security {suite}-security main\n");
        }
        std::fs::write(folder.join("sources.list"), sources)?;
        Ok(Self { folder })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let at = |part: &str| self.folder.join(part).display().to_string();
        let mut command = Command::new(program);
        for (key, value) in [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", at("empty")),
            ("Dir::State::lists", at("lists")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("APT::Architecture", "amd64".into()),
            ("APT::Architectures", "amd64".into()),
            ("APT::Sandbox::User", "root".into()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        output(command.arg("-q").args(arguments).current_dir(self.folder))
    }
}

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed: {}", error.trim().lines().last().unwrap_or("without a word"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
