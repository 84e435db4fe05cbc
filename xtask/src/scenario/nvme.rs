//! An NVM Express controller given to a guest by Debian's own QEMU on the emulated host, with AVIC
//! (or APICv) on and off: the host uses the file system on its namespace first, then a guest's two
//! processors, each through a pair of queues of its own.

use super::check::Checks;
use super::debian::Kernel;
use super::disk;
use super::machine::{machine, need, number, run, tool};
use super::stage::{Scenario, Stage, Stop};
use anyhow::Result;
use std::fs;
use std::path::Path;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "nvme",
    summary: "a drive given to a guest of QEMU: what arrives, and what interrupts the host",
    options: &[("cpu", "zen4", "a model of the machine")],
    run: prove,
    is_test: false,
};

/// Blocks that each of the guest's processors reads in a phase.
const READS: u64 = 2000;
/// Bytes of the file that everybody reads.
const GIVEN: usize = 16 << 20;

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    need(&["e2fsck", "debugfs"])?;
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = super::network::packages(stage)?;
    let folder = stage.folder("nvme")?;

    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, &packages, include_str!("inside/nvme-guest"))?;
    kernel.unpack_modules(&["nvme", "ext4", "crc32c_generic"], &guest.join("modules"))?;
    disk::archive(&guest, &archive)?;

    let host = disk::Disk::of(&packages, &folder)?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &archive)?;
    host.put_text("proof", include_str!("inside/nvme-host"))?;
    let modules = ["vfio_iommu_type1", "vfio_pci", "nvme"];
    kernel.unpack_modules(&modules, &host.tree.join("modules"))?;
    kernel.unpack_modules(&["kvm_amd", "kvm_intel"], &host.tree.join("kvm"))?;
    let image = host.finish(700)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;
    let (given, namespace) = (folder.join("given"), folder.join("nvme.img"));
    let bytes = give(&given, &namespace)?;

    let mut command = machine(stage.program, stage.option("cpu"), "4", "1G");
    command.args(["--iommu", "on", "--nvme"]);
    command.arg(format!("{},write-through", namespace.display()));
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    command.args(["--append", &format!("console=ttyS0 quiet reads={READS}")]);
    let said = run(command.arg("--disk").arg(&image))?;
    fs::remove_file(image)?;

    let line = |start: &str, end: &str| {
        said.all_after(&format!("{start} ")).any(|rest| rest.ends_with(end))
    };
    let has_copy = |name: &str| {
        let request = format!("cat /{name}");
        let words = [Path::new("-R"), Path::new(&request), &namespace];
        tool("debugfs", words).is_ok_and(|copy| copy == bytes)
    };
    checks.hold("the host reads what was given", said.has("host given: OK"));
    checks.hold("the host has a vector for each of its processors", line("host", " nvme0q4"));
    checks.hold("what the host wrote is in the image", has_copy("host"));
    for mode in ["on", "off"] {
        let of = |what| format!("{mode}: {what}");
        checks.hold(of("the guest reads what was given"), said.has(&format!("{mode} given: OK")));
        checks.hold(of("the guest has a vector for each processor"), line(mode, " nvme0q2"));
        for processor in 1..=2 {
            let copy = format!("{mode}-{processor}");
            checks.hold(format!("what processor {copy} wrote is in the image"), has_copy(&copy));
        }
        checks.hold(of("QEMU ends"), said.has(&format!("{mode} qemu ended: 0")));
    }
    checks.hold("on: KVM posts all three vectors", said.has("on posted: 3"));
    checks.hold("off: KVM posts none", said.has("off posted: 0"));
    for phase in ["waits", "runs"] {
        let interrupts = |mode| {
            said.after(&format!("{mode} {phase} interrupts of the function: ")).and_then(number)
        };
        let what = format!("on: the host takes none of the function's, the guest {phase}");
        checks.hold(what, interrupts("on") == Some(0));
        let what = format!("off: the host takes each of the function's, the guest {phase}");
        checks.hold(what, interrupts("off").is_some_and(|count| count >= 2 * READS));
    }
    let words = [Path::new("-fn"), &namespace];
    checks.succeed("the file system in the image is whole", tool("e2fsck", words).map(drop));
    said.ends_well(checks);
    Ok(())
}

/// A file system with a file, numbers line by line, and its digest.
fn give(folder: &Path, image: &Path) -> Result<Vec<u8>> {
    fs::create_dir_all(folder)?;
    let lines = (1..=GIVEN).flat_map(|number| format!("{number}\n").into_bytes());
    let bytes: Vec<u8> = lines.take(GIVEN).collect();
    let file = folder.join("given");
    fs::write(&file, &bytes)?;
    let digest = String::from_utf8(tool("sha256sum", [&file])?)?;
    let digest = digest.split(' ').next().unwrap_or_default();
    fs::write(folder.join("given.sha256"), format!("{digest}  given\n"))?;
    disk::format(folder, image, 128)?;
    Ok(bytes)
}
