//! A guest of more than 255 processors, as Debian's QEMU makes one on the emulated host: with a
//! virtual IOMMU that remaps interrupts to 32-bit destinations, with the extended destinations that
//! KVM announces instead, and, so that this proves something, with neither.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{Said, machine, need, number, run};
use super::stage::{Scenario, Stage, Stop};
use anyhow::{Context, Result, anyhow};
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "many-vcpus",
    summary: "more than 255 vCPUs by a virtual IOMMU and by extended destinations, with Debian's QEMU",
    options: &[
        ("cpu", "zen4", "a model of the machine"),
        ("vcpus", "260", "of the guest, 257 to 512"),
        ("cpus", "8", "of the host"),
        ("ways", "iommu,extended,neither", "of iommu, extended and neither"),
    ],
    run: prove,
    is_test: false,
};

/// Processors whose APIC IDs a message has place for without either; Linux takes 255, too, which
/// means all in xAPIC mode.
const PLAIN: u64 = 256;

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let (cpu, cpus, vcpus) = (stage.option("cpu"), stage.option("cpus"), stage.option("vcpus"));
    let count: u64 = vcpus.parse().with_context(|| format!("vcpus={vcpus}"))?;
    let ways: Vec<&str> = stage.option("ways").split(',').collect();
    if !(257..=512).contains(&count) {
        return Err(anyhow!("vcpus={vcpus}: 257 to 512").into());
    }
    if let Some(way) = ways.iter().find(|way| !["iommu", "extended", "neither"].contains(way)) {
        return Err(anyhow!("ways={way}: iommu, extended, neither").into());
    }
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = tree(stage, "qemu", "trixie", &["qemu-system-x86", "busybox-static"])?;
    let folder = stage.folder("many-vcpus")?;

    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, &packages, include_str!("inside/many-vcpus-guest"))?;
    kernel.unpack_modules(&["virtio_pci", "virtio_rng"], &guest.join("modules"))?;
    disk::archive(&guest, &archive)?;

    let host = disk::Disk::of(&packages, &folder)?;
    disk::put_stripped(stage.program, &host.tree.join("usr/bin/avicenna"))?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &archive)?;
    host.put_text("proof", include_str!("inside/many-vcpus-host"))?;
    kernel.unpack_modules(&["kvm_amd", "kvm_intel"], &host.tree.join("modules"))?;
    let image = host.finish(700)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;

    let mut command = machine(stage.program, cpu, cpus, "3G");
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    let words = format!("console=ttyS0 quiet vcpus={vcpus} ways={}", ways.join(","));
    command.args(["--append", &words]).arg("--disk").arg(&image);
    let said = run(&mut command)?;
    fs::remove_file(image)?;

    ways.iter().for_each(|way| check(way, count, &said, checks));
    said.ends_well(checks);
    Ok(())
}

fn check(way: &str, vcpus: u64, said: &Said, checks: &mut Checks) {
    let line = |text: &str| said.has(&format!("{way} {text}"));
    let part = |text: &str| said.all_after(&format!("{way} ")).any(|rest| rest.contains(text));
    let fact = |name: &str| said.after(&format!("{way} guest: {name} ")).and_then(number);
    checks.hold(format!("{way}: the guest powers off and QEMU ends"), line("qemu ended: 0"));
    let up = if way == "neither" { PLAIN } else { vcpus };
    checks.hold(format!("{way}: {up} processors are up"), fact("online") == Some(up));
    checks.hold(format!("{way}: in x2APIC mode"), fact("x2apic").is_some_and(|count| count > 0));
    checks.hold(format!("{way}: AVIC or APICv is active"), line("why: 0"));
    if way == "neither" {
        return;
    }
    let reaches = |source: &str| fact(&format!("{source}, to the last processor"));
    let came = reaches("function").is_some_and(|some| some > 0);
    checks.hold(format!("{way}: interrupts of the function reach the last processor"), came);
    let remaps = part("Enabled IRQ remapping in x2apic mode");
    let what = if way == "iommu" { "remaps" } else { "has nothing that remaps" };
    checks.hold(format!("{way}: the guest {what} interrupts"), remaps == (way == "iommu"));
    // Without remapping a line's interrupts move with the next one, and the serial line has few.
    if way == "iommu" {
        let came = reaches("serial line").is_some_and(|some| some > 0);
        checks.hold("iommu: interrupts of the serial line reach the last processor", came);
    }
}
