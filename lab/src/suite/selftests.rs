//! Linux's selftests of KVM: built on this machine from the sources that the kernel's distribution
//! gives beside it, and kept. They are part of the kernel, so their version must be its own.

use crate::host::cache;
use crate::host::distribution::{self, DISTRIBUTIONS};
use crate::host::kernel::Kernel;
use crate::host::program;
use crate::watch::Watch;
use anyhow::Context;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are in a kernel's tree.
const SUITE: &str = "tools/testing/selftests/kvm";
/// What of a kernel's tree their build reads.
const PARTS: [&str; 7] = [
    "*/Makefile",
    "*/Kbuild",
    "*/include/*",
    "*/scripts/*",
    "*/tools/*",
    "*/arch/x86/*",
    "*/virt/*",
];
/// Static programs need nothing of the emulated host.
const LINK: &str = "LDFLAGS=-static -pthread -no-pie";

/// The folder with the selftests for a kernel that was named so. `source` is its tree, where that
/// is not a distribution's.
pub fn built(
    name: &str,
    kernel: &Kernel,
    source: Option<&Path>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<PathBuf> {
    let store = cache::folder("selftests")?;
    if let Some(tree) = source {
        let tree =
            tree.canonicalize().with_context(|| format!("cannot read {}", tree.display()))?;
        let work = tempfile::tempdir_in(&store)?;
        let folder = work.keep();
        build(&tree, &folder, watch)?;
        return Ok(folder);
    }
    let release = DISTRIBUTIONS.iter().find(|one| one.name == name).with_context(|| {
        format!(
            "--kernel {name}: no distribution's, so --source has to name the tree it was built from"
        )
    })?;
    let version = package_version(&kernel.image).with_context(|| {
        format!("{}: its image does not say which package it is of", kernel.name)
    })?;
    let folder = store.join(&version);
    if folder.is_dir() {
        return Ok(folder);
    }
    cache::sweep(&store);
    let work = tempfile::tempdir_in(&store)?;
    watch.stage(&format!("fetching the sources of Linux {version}"));
    let package = source_package(&version).context("its version has no two numbers")?;
    let archive = distribution::source(*release, &package, &version, work.path(), watch)?;
    watch.stage(&format!("unpacking the sources of Linux {version}"));
    let tree = work.path().join("linux");
    std::fs::create_dir(&tree)?;
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(&archive).arg("-C").arg(&tree);
    program::output(tar.args(["--strip-components=1", "--wildcards"]).args(PARTS), watch)?;
    let suite = work.path().join("suite");
    std::fs::create_dir(&suite)?;
    build(&tree, &suite, watch)?;
    match std::fs::rename(&suite, &folder) {
        Err(error) if !folder.is_dir() => {
            Err(error).with_context(|| format!("cannot create {}", folder.display()))
        }
        _ => Ok(folder),
    }
}

/// Builds them into a folder and leaves the programs alone there.
fn build(tree: &Path, folder: &Path, watch: &mut Watch<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(tree.join(SUITE).is_dir(), "{} has no {SUITE}", tree.display());
    watch.stage("building the selftests of KVM");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = || {
        let mut make = Command::new("make");
        make.current_dir(tree).arg(format!("-j{jobs}"));
        make
    };
    program::output(make().args(["-s", "headers"]), watch)?;
    let mut output = std::ffi::OsString::from("OUTPUT=");
    output.push(folder);
    let mut all = make();
    all.args(["-C", SUITE, "-k", "ARCH=x86_64", LINK]).arg(output);
    // A program that needs a library which is not here is missed, not the suite.
    let built = program::output(&mut all, watch);
    let count = keep_programs(folder)?;
    match built {
        Err(error) if count == 0 || watch.check().is_err() => Err(error),
        _ => Ok(()),
    }
}

/// Removes everything except programs, whose symbols nobody reads there; how many there are.
fn keep_programs(folder: &Path) -> anyhow::Result<usize> {
    let (mut count, mut waiting) = (0, vec![folder.to_owned()]);
    while let Some(inner) = waiting.pop() {
        for entry in std::fs::read_dir(&inner)? {
            let entry = entry?;
            let (path, facts) = (entry.path(), entry.metadata()?);
            if facts.is_dir() {
                waiting.push(path);
            } else if facts.permissions().mode() & 0o111 == 0 {
                std::fs::remove_file(path)?;
            } else {
                count += 1;
            }
        }
    }
    Ok(count)
}

/// `linux-source-6.12` of `6.12.118-1`.
fn source_package(version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    Some(format!("linux-source-{}.{}", numbers.next()?, numbers.next()?))
}

/// The package's version, which Debian's kernels have in the line that they boot with: `... Debian
/// 6.12.118-1 (2026-11-01)`. [LINUX "The Linux/x86 Boot Protocol", kernel_version]
fn package_version(image: &[u8]) -> Option<String> {
    const POINTER: usize = 0x20E;
    const BASE: usize = 0x200;
    const LONGEST: usize = 512;
    let pointer = image.get(POINTER..POINTER + 2)?;
    let start = BASE + usize::from(u16::from_le_bytes([pointer[0], pointer[1]]));
    let text = image.get(start..)?;
    let end = text.iter().take(LONGEST).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    let (_, version) = text.split_once(" Debian ")?;
    let version = version.split_ascii_whitespace().next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-+~".contains(c);
    (version.chars().all(is_plain) && !version.starts_with('.')).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x20E..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image.splice(0x300..0x300, text.bytes());
        image
    }

    #[test]
    fn the_sources_are_those_of_the_package_that_the_image_names() {
        let line = "6.12.118+deb13-amd64 (x@y) #1 SMP Debian 6.12.118-1 (2026-11-02)";
        let version = package_version(&image(line)).expect("a version");
        assert_eq!(version, "6.12.118-1");
        assert_eq!(source_package(&version).as_deref(), Some("linux-source-6.12"));
    }

    #[test]
    fn an_image_that_names_none_or_a_path_has_none() {
        for line in ["6.12.118 (x@y) #1 SMP", "x Debian ../../etc y", "x Debian a/b", ""] {
            assert_eq!(package_version(&image(line)), None, "{line}");
        }
        assert_eq!(package_version(&[0; 16]), None);
        let mut far = image("");
        far[0x20E..0x210].copy_from_slice(&[0xFF, 0xFF]);
        assert_eq!(package_version(&far), None);
    }
}
