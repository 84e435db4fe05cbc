//! A folder of this machine that a guest mounts by 9P, read-only and writable: what it reads and
//! writes, that a link leads nowhere, and that two runs are the same.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{Said, machine, need, run, tool};
use super::stage::{Scenario, Stage, Stop};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "share",
    summary: "a folder of this machine that a guest mounts by 9P",
    options: &[("cpu", "zen4", "a model of the machine")],
    run: prove,
    is_test: true,
};

const MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];
/// Bytes of the file that the guest reads.
const LENGTH: usize = 8 << 20;

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let kernel = Kernel::of(stage, "bookworm")?;
    let packages = tree(stage, "busybox", "bookworm", &["busybox-static"])?;
    let folder = stage.folder("share")?;
    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, &packages, include_str!("inside/share-init"))?;
    kernel.unpack_modules(&MODULES, &guest.join("modules"))?;
    disk::archive(&guest, &archive)?;
    let shared = folder.join("shared");
    let digest = fill(&folder, &shared)?;

    let boot = |access| boot(stage, &kernel.image, &archive, &shared, access);
    let (first, again, written) = (boot("")?, boot("")?, boot(",writable")?);
    for (said, of) in [(&first, "read-only"), (&written, "writable")] {
        checks.hold(format!("{of}: it is mounted"), said.has("mounted: yes"));
        checks.hold(format!("{of}: a file is read"), said.has(&format!("numbers: {digest}  -")));
        checks.hold(format!("{of}: a link inside is followed"), said.has("by a link: inside"));
        checks.hold(format!("{of}: no link leads out"), !said.contains("secret of the host"));
        checks.hold(format!("{of}: it is unmounted"), said.has("unmounted: yes"));
        said.ends_well(checks);
    }
    let is_same = first.hash().is_some() && first.hash() == again.hash();
    checks.hold("two runs with the same folder have the same trace hash", is_same);
    checks.hold("read-only: nothing is written", first.has("written: nothing"));
    checks.hold("writable: what was written is read", written.has("written: text"));
    let renamed = shared.join("folder/renamed");
    let mode = fs::metadata(&renamed).map(|file| file.permissions().mode() & 0o7777);
    checks.hold("writable: it is here", fs::read(&renamed).is_ok_and(|text| text == b"text\n"));
    checks
        .hold("writable: its mode is as asked for, but for set-user-ID", mode.ok() == Some(0o711));
    let zeroes = fs::read(shared.join("folder/zeroes")).unwrap_or_default();
    checks.hold("writable: a large file is here", zeroes == vec![0; 4 << 20]);
    Ok(())
}

/// What is shared, beside what is not; the digest of its large file.
fn fill(folder: &Path, shared: &Path) -> Result<String> {
    let outside = folder.join("outside");
    fs::create_dir_all(&outside)?;
    fs::create_dir_all(shared)?;
    fs::write(outside.join("secret"), "secret of the host\n")?;
    fs::write(shared.join("file"), "inside\n")?;
    symlink("file", shared.join("link"))?;
    symlink(&outside, shared.join("out"))?;
    let lines = (1..=LENGTH).flat_map(|number| format!("{number}\n").into_bytes());
    let numbers = shared.join("numbers");
    fs::write(&numbers, lines.take(LENGTH).collect::<Vec<u8>>())?;
    let digest = String::from_utf8(tool("sha256sum", [&numbers])?)?;
    Ok(digest.split(' ').next().unwrap_or_default().to_owned())
}

fn boot(
    stage: &Stage<'_>,
    image: &Path,
    initrd: &Path,
    shared: &Path,
    access: &str,
) -> Result<Said> {
    let mut command = machine(stage.program, stage.option("cpu"), "2", "512M");
    command.arg("--kernel").arg(image).arg("--initrd").arg(initrd);
    command.args(["--share", &format!("host={}{access}", shared.display())]);
    run(command.args(["--append", "console=ttyS0 quiet"]))
}
