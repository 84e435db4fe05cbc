//! Debian packages of kernels, which may be anybody's.

use crate::host::program::Program;
use crate::watch::Watch;
use anyhow::{Context, bail};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Most bytes that a package may hold: kernels have up to 1 GiB, those with debugging information
/// are not taken.
const LIMIT: u64 = 4 << 30;
/// Bytes between two looks at the watch.
const PIECE: usize = 1 << 18;

/// Unpacks a package into a folder. What `dpkg-deb` makes of it goes through here on its way to
/// `tar`, so that a small package cannot fill the disk.
pub(crate) fn unpack(package: &Path, folder: &Path, watch: &mut Watch<'_>) -> anyhow::Result<()> {
    unpack_within(LIMIT, package, folder, watch)
}

fn unpack_within(
    limit: u64,
    package: &Path,
    folder: &Path,
    watch: &mut Watch<'_>,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut unpacker = Command::new("dpkg-deb");
    unpacker.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut unpacker = Program::start(&mut unpacker)?;
    let mut writer = Command::new("tar");
    writer.arg("-xC").arg(folder).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut writer = Program::start(&mut writer)?;
    let mut from = unpacker.child.stdout.take().context("no output")?;
    let mut to = writer.child.stdin.take().context("no input")?;
    let (mut piece, mut taken) = (vec![0; PIECE], 0);
    loop {
        watch.check()?;
        let length = from.read(&mut piece)?;
        taken += length as u64;
        if taken > limit {
            bail!("{} holds more than {} MiB: not a kernel's", package.display(), limit >> 20);
        }
        match to.write_all(&piece[..length]) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                writer.succeed(watch)?;
                bail!("tar ended before the package did");
            }
            written => written?,
        }
        if length == 0 {
            break;
        }
    }
    drop(to);
    unpacker.succeed(watch)?;
    writer.succeed(watch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn unpacked(limit: u64, package: &Path, folder: &Path) -> anyhow::Result<()> {
        let stop = AtomicBool::new(false);
        let mut tell = |_: crate::watch::Told<'_>| {};
        let mut watch = Watch::new(&stop, Duration::from_secs(60), &mut tell);
        unpack_within(limit, package, folder, &mut watch)
    }

    #[test]
    fn small_package_with_a_large_file_does_not_fill_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("DEBIAN")).expect("a folder");
        let control = "Package: big\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n\
                       Description: big\n";
        std::fs::write(tree.join("DEBIAN/control"), control).expect("a file");
        std::fs::write(tree.join("big"), vec![0; 3 << 20]).expect("a file");
        let package = folder.path().join("big.deb");
        let built = Command::new("dpkg-deb").arg("-b").arg(&tree).arg(&package).output();
        assert!(built.expect("dpkg-deb").status.success());
        assert!(std::fs::metadata(&package).expect("a package").len() < 100_000);

        unpacked(4 << 20, &package, &folder.path().join("whole")).expect("it is small enough");
        let whole = std::fs::metadata(folder.path().join("whole/big")).expect("the file");
        assert_eq!(whole.len(), 3 << 20);
        let error =
            unpacked(2 << 20, &package, &folder.path().join("part")).expect_err("too large");
        assert!(error.to_string().contains("holds more than 2 MiB"), "{error}");
        std::fs::write(&package, "no package").expect("a file");
        let error =
            unpacked(4 << 20, &package, &folder.path().join("none")).expect_err("no package");
        assert!(error.to_string().contains("dpkg-deb failed"), "{error}");
    }
}
