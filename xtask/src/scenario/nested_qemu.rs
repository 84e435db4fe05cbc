//! Debian's own QEMU on the emulated host: Debian 13's KVM and `qemu-system-x86_64` run a guest
//! with the same kernel, and `avicenna why` looks at that process, `avicenna lint` at its
//! arguments.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{machine, need, run};
use super::stage::{Scenario, Stage, Stop};
use anyhow::anyhow;
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "nested-qemu",
    summary: "Debian's QEMU runs a guest, and why and lint say what AVIC does there",
    options: &[("cpu", "zen4", "a model with AVIC")],
    run: prove,
    is_test: false,
};

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    let cpu = stage.option("cpu");
    if !cpu.starts_with("zen") {
        let why = "what this proves of AVIC takes a model of AMD's; network runs QEMU on either";
        return Err(anyhow!("cpu={cpu}: {why}").into());
    }
    need(&disk::TOOLS)?;
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = tree(stage, "qemu", "trixie", &["qemu-system-x86", "busybox-static"])?;
    let folder = stage.folder("nested-qemu")?;

    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, &packages, include_str!("inside/nested-qemu-guest"))?;
    disk::archive(&guest, &archive)?;

    // QEMU with its libraries and ROMs, this program, the guest.
    let host = disk::Disk::of(&packages, &folder)?;
    disk::put_stripped(stage.program, &host.tree.join("usr/bin/avicenna"))?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &archive)?;
    host.put_text("proof", include_str!("inside/nested-qemu-host"))?;
    kernel.unpack_modules(&["kvm_amd"], &host.tree.join("modules"))?;
    let image = host.finish(700)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;

    let mut command = machine(stage.program, cpu, "4", "1G");
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    command.args(["--append", "console=ttyS0 quiet"]).arg("--disk").arg(&image);
    let said = run(&mut command)?;
    fs::remove_file(image)?;

    checks.hold("kvm_amd says that AVIC is on", said.has("avic=Y") || said.has("avic=1"));
    for name in ["split", "default"] {
        let first = format!("{name} guest: first process, 2 processors");
        checks.hold(format!("{name}: the guest reaches its first process"), said.has(&first));
        let ended = said.has(&format!("{name} qemu ended: 0"));
        checks.hold(format!("{name}: the guest powers off and QEMU ends"), ended);
    }
    checks.hold("split: avicenna says that AVIC is active", said.has("split why: 0"));
    let inhibits = said.begins("split inhibits at the end: inhibits=0x0");
    checks.hold("split: no inhibit stays", inhibits);
    checks.hold("default: avicenna says that AVIC is not active", said.has("default why: 1"));
    checks.hold("default: and lint sees it in QEMU's arguments", said.has("default lint: 1"));
    let watched = said.contains("PIT_REINJ for its whole life, certain");
    checks.hold("default: it watched the timer in reinject mode inhibit", watched);
    said.ends_well(checks);
    Ok(())
}
