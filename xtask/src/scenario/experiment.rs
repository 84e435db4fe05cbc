//! `avicenna experiment --on host` on an emulated host: Debian's kernel, QEMU and kmod, a guest of
//! Linux behind a serial line, KVM's module loaded again in each block. The experiment is killed at
//! moments that are drawn, restored or resumed, and comes to its end all the same; after each the
//! host is as it was.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{machine, need, number, run};
use super::stage::{Scenario, Stage, Stop};
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "experiment",
    summary: "experiment --on host with a QEMU guest, killed at drawn moments and resumed",
    options: &[
        ("cpu", "zen4", "a model with AVIC"),
        ("kills", "20", "how often it is killed"),
        ("seed", "1", "the moments are drawn from it"),
    ],
    run: prove,
    is_test: false,
};

const PACKAGES: [&str; 3] = ["qemu-system-x86", "busybox-static", "kmod"];

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = tree(stage, "experiment", "trixie", &PACKAGES)?;
    let folder = stage.folder("experiment")?;

    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, &packages, include_str!("inside/experiment-guest"))?;
    disk::put_program(&guest.join("bin/work"), include_str!("inside/experiment-work"))?;
    disk::archive(&guest, &archive)?;

    let host = disk::Disk::of(&packages, &folder)?;
    disk::put_stripped(stage.program, &host.tree.join("usr/bin/avicenna"))?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &archive)?;
    host.put_text("proof", include_str!("inside/experiment-host"))?;
    host.put_text("start", include_str!("inside/experiment-start"))?;
    host.put_text("stop", include_str!("inside/experiment-stop"))?;
    host.put_text("plan.toml", include_str!("inside/experiment-plan.toml"))?;
    let (kills, seed) = (stage.option("kills"), stage.option("seed"));
    host.put_text("draws", &format!("kills={kills} draw={seed}\n"))?;
    kernel.install_modules(&["kvm_amd"], &host.tree)?;
    let image = host.finish(700)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;

    let mut command = machine(stage.program, stage.option("cpu"), "4", "1G");
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    command.args(["--append", "console=ttyS0 quiet"]).arg("--disk").arg(&image);
    let said = run(&mut command)?;
    fs::remove_file(image)?;

    checks.hold("without --yes nothing changes", said.has("plain: 0, as before"));
    let wanted: u64 = kills.parse().unwrap_or(0);
    let killed = said.after("killed: ").and_then(number);
    checks.hold(format!("killed {wanted} times"), killed == Some(wanted));
    let restored = said.all_after("restored: ").collect::<Vec<_>>();
    let as_before = restored.iter().filter(|line| **line == "0, as before").count();
    checks.hold(
        format!("after each of {} restores the host is as it was", restored.len()),
        !restored.is_empty() && as_before == restored.len(),
    );
    checks.hold("the last resume ends with an answer, and the host as it was", {
        said.has("ended: 0, as before")
    });
    checks.hold("AVIC took exits away", said.contains("MSR exits is better"));
    checks.hold(
        "no trial is missing",
        said.has("12 of 12 trials ended, 0 void, 6 of 6 blocks whole"),
    );
    said.ends_well(checks);
    Ok(())
}
