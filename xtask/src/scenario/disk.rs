//! Initial RAM disks and disk images, made from folders.

use super::debian::Kernel;
use super::machine::tool;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Loads modules and runs /proof of the disk /dev/vda.
const DISK_INIT: &str = include_str!("inside/disk-init");
/// What an initial RAM disk needs to reach that disk.
const DISK_MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"];

/// What every scenario that unpacks and packs needs.
pub(super) const TOOLS: [&str; 4] = ["mke2fs", "cpio", "xz", "cp"];

/// The folder's files as an initial RAM disk.
pub(super) fn archive(folder: &Path, file: &Path) -> Result<()> {
    let list = tool("find", [folder, Path::new("-printf"), Path::new("%P\\n")])?;
    let mut command = Command::new("cpio");
    let command = command.args(["-o", "-H", "newc", "--quiet"]).current_dir(folder);
    let command = command.stdin(Stdio::piped()).stdout(fs::File::create(file)?);
    let mut child = command.spawn().context("cannot start cpio")?;
    let mut input = child.stdin.take().context("no standard input")?;
    let names = list.strip_prefix(b"\n").unwrap_or(&list);
    std::io::Write::write_all(&mut input, names)?;
    drop(input);
    anyhow::ensure!(child.wait()?.success(), "cpio failed on {}", folder.display());
    Ok(())
}

/// A folder with a static busybox and a first process.
pub(super) fn busybox_tree(folder: &Path, packages: &Path, init: &str) -> Result<()> {
    for part in ["bin", "dev", "etc", "proc", "sys", "root", "namespace"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::copy(busybox(packages), folder.join("bin/busybox")).context("busybox")?;
    put_program(&folder.join("init"), init)
}

/// Where the package busybox-static has it.
pub(super) fn busybox(packages: &Path) -> PathBuf {
    let places = ["usr/bin/busybox", "bin/busybox"].map(|place| packages.join(place));
    places.iter().find(|path| path.exists()).unwrap_or(&places[0]).clone()
}

pub(super) fn put_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// An initial RAM disk that runs /proof of a disk.
pub(super) fn disk_initrd(kernel: &Kernel, packages: &Path, folder: &Path) -> Result<PathBuf> {
    let (tree, file) = (folder.join("tree"), folder.join("tree.cpio"));
    busybox_tree(&tree, packages, DISK_INIT)?;
    kernel.unpack_modules(&DISK_MODULES, &tree.join("modules"))?;
    archive(&tree, &file)?;
    fs::remove_dir_all(tree)?;
    Ok(file)
}

/// A disk being filled: a copy of the packages' tree, without their bytes.
pub(super) struct Disk {
    pub(super) tree: PathBuf,
    image: PathBuf,
}

impl Disk {
    pub(super) fn of(packages: &Path, folder: &Path) -> Result<Self> {
        let tree = folder.join("disk");
        tool("cp", [Path::new("-al"), packages, &tree])?;
        Ok(Self { tree, image: folder.join("host.img") })
    }

    /// What runs on it, and what that reads. Nothing that it shares with the packages is written
    /// to: a file that is there already is another's.
    pub(super) fn put(&self, name: &str, file: &Path) -> Result<()> {
        let place = self.tree.join(name);
        let _ = fs::remove_file(&place);
        fs::copy(file, &place).with_context(|| file.display().to_string())?;
        Ok(())
    }

    pub(super) fn put_text(&self, name: &str, text: &str) -> Result<()> {
        let place = self.tree.join(name);
        let _ = fs::remove_file(&place);
        put_program(&place, text)
    }

    /// An ext4 file system of so many megabytes.
    pub(super) fn finish(self, megabytes: u32) -> Result<PathBuf> {
        format(&self.tree, &self.image, megabytes)?;
        fs::remove_dir_all(self.tree)?;
        Ok(self.image)
    }
}

/// A folder as a file system.
pub(super) fn format(folder: &Path, image: &Path, megabytes: u32) -> Result<()> {
    let size = format!("{megabytes}M");
    let words = ["-q", "-F", "-t", "ext4", "-d"].map(Path::new);
    let own = [folder, image, Path::new(&size)];
    tool("mke2fs", words.into_iter().chain(own)).map(drop)
}

/// This program without names, to be carried along.
pub(super) fn put_stripped(program: &Path, place: &Path) -> Result<()> {
    let _ = fs::remove_file(place);
    fs::copy(program, place).with_context(|| place.display().to_string())?;
    // Smaller where the tool is installed, else as it is.
    let _ = tool("strip", [place]);
    Ok(())
}
