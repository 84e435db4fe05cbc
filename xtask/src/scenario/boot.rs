//! A distribution's kernel on the bare machine: it reaches its first process on one and on two
//! processors, computes what it should, warns of nothing, powers off, and does the same again.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{Said, machine, run};
use super::stage::{Scenario, Stage, Stop};
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(super) static SCENARIO: Scenario = Scenario {
    name: "boot",
    summary: "Debian's kernel on one and two processors, twice the same",
    options: &[("cpu", "zen4", "a model of the machine")],
    run: prove,
    is_test: true,
};

/// SHA-256 of abc, as the standard's example has it.
const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// Need no others; the first process loads them.
const MODULES: [&str; 2] = ["dummy", "loop"];

/// The kernel of Debian 12 and an initial RAM disk of busybox.
pub(super) fn images(stage: &Stage<'_>) -> Result<(Kernel, PathBuf), Stop> {
    super::machine::need(&disk::TOOLS)?;
    let kernel = Kernel::of(stage, "bookworm")?;
    let packages = tree(stage, "busybox", "bookworm", &["busybox-static"])?;
    let file = stage.store.join("boot.cpio");
    let folder = stage.store.join("boot-tree");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    disk::busybox_tree(&folder, &packages, include_str!("inside/boot-init"))?;
    kernel.unpack_modules(&MODULES, &folder.join("modules"))?;
    disk::archive(&folder, &file)?;
    Ok((kernel, file))
}

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    let (kernel, initrd) = images(stage)?;
    let boot = |cpus| boot(stage, &kernel.image, &initrd, cpus);
    let (one, two, again) = (boot("1")?, boot("2")?, boot("2")?);
    for (said, cpus) in [(&one, "1"), (&two, "2")] {
        let on = format!("{cpus} processors");
        checks.hold(format!("a shell answers on {on}"), said.contains(&format!("on {on}")));
        checks.hold(format!("sha256 of abc, {on}"), said.contains(DIGEST));
        let is_loaded = |module| said.contains(&format!("avicenna: loaded 1{module}.ko"));
        let all = MODULES.iter().enumerate().map(|(at, name)| format!("{at}-{name}"));
        checks.hold(format!("modules are loaded, {on}"), all.into_iter().all(is_loaded));
        let complained = said.contains("the kernel complained");
        checks.hold(format!("no warning of the kernel, {on}"), !complained);
        checks.hold(format!("power-off ends the run, {on}"), said.is_powered_off);
    }
    let (first, second) = (two.hash(), again.hash());
    let same = first.is_some() && first == second;
    let what = format!(
        "two runs on 2 processors have the same trace hash ({})",
        first.unwrap_or("no hash was said")
    );
    checks.hold(what, same);
    Ok(())
}

fn boot(stage: &Stage<'_>, image: &Path, initrd: &Path, cpus: &str) -> Result<Said> {
    let mut command = machine(stage.program, stage.option("cpu"), cpus, "512M");
    command.arg("--kernel").arg(image).arg("--initrd").arg(initrd);
    run(command.args(["--append", "console=ttyS0 quiet"]))
}
