//! `xenpm` on an emulated host of Xen: the clock that it asks for is the clock at which a processor
//! then runs, so what dom0 does there takes as much longer as the clock is slower.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::machine::{Said, machine, need, number, run};
use super::stage::{Scenario, Stage, Stop};
use super::{disk, xen};
use anyhow::{Context, anyhow};
use std::ffi::OsString;
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "xen-clock",
    summary: "xenpm slows a processor of a Xen host, and work there takes as much longer",
    options: &[
        ("cpu", "ivy-bridge-ep", "a model of Intel's without HWP"),
        ("mhz", "1200", "what xenpm asks for, in steps of 100"),
    ],
    run: prove,
    is_test: false,
};

const PACKAGES: [&str; 4] =
    ["xen-hypervisor-4.20-amd64", "xen-utils-4.20", "xen-utils-common", "busybox-static"];
const MODULES: [&str; 2] = ["xen-privcmd", "xenfs"];
/// Of the ratio of times to that of clocks: interrupts are in the times, of which what APICs and
/// memory take does not follow the clock.
const LEEWAY: f64 = 0.05;

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let (cpu, mhz) = (stage.option("cpu"), stage.option("mhz"));
    let slow: u64 = mhz.parse().with_context(|| format!("mhz={mhz}"))?;
    let fast = xen::clock(stage.root, cpu)?;
    if cpu.starts_with("zen") || !slow.is_multiple_of(100) || !(1000..fast).contains(&slow) {
        let why = format!("a model of Intel's, and 1000 to less than its {fast}, in steps of 100");
        return Err(anyhow!("cpu={cpu} mhz={mhz}: {why}").into());
    }
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = tree(stage, "xen-clock", "trixie", &PACKAGES)?;
    let folder = stage.folder("xen-clock")?;
    let host = disk::Disk::of(&packages, &folder)?;
    host.put_text("proof", include_str!("inside/xen-clock-host"))?;
    host.put_text("states", include_str!("inside/xen-clock-states"))?;
    kernel.unpack_modules(&MODULES, &host.tree.join("modules"))?;
    let image = host.finish(600)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;

    let mut command = machine(stage.program, cpu, "2", "1G");
    command.arg("--clock-control");
    let mut dom0 = OsString::from(&kernel.image);
    dom0.push(format!(" console=hvc0 quiet fast={fast} slow={slow}"));
    command.arg("--kernel").arg(packages.join("boot/xen-4.20-amd64.gz"));
    command.arg("--module").arg(dom0).arg("--module").arg(&initrd);
    command.arg("--append").arg(
        "console=com1 com1=115200,8n1 dom0_mem=700M dom0_max_vcpus=2 dom0_vcpus_pin loglvl=all \
         cpufreq=xen:performance,verbose",
    );
    let said = run(command.arg("--disk").arg(&image))?;
    fs::remove_file(image)?;
    check(&said, fast, slow, checks);
    said.ends_well(checks);
    Ok(())
}

/// The time of the same loop at the base clock and at what was asked for.
fn check(said: &Said, fast: u64, slow: u64, checks: &mut Checks) {
    let of = |name: &str| said.after(&format!("{name}: ")).and_then(number);
    checks.hold("xenpm does it", of("xenpm") == Some(0));
    let khz = slow * 1000;
    let current = format!("max [{khz}] min [{khz}] cur [{khz}]");
    checks.hold(format!("it says that processor 1 has {slow} MHz"), said.contains(&current));
    let (Some(before), Some(after)) = (of("nanoseconds before"), of("nanoseconds after")) else {
        return checks.hold("the loop is timed", false);
    };
    let (times, clocks) = (after as f64 / before as f64, fast as f64 / slow as f64);
    println!("the loop: {before} ns at {fast} MHz, {after} ns at {slow} MHz: {times:.3} times");
    let is_so = (times / clocks - 1.0).abs() < LEEWAY;
    checks.hold(format!("the loop takes {clocks:.3} times as long as before"), is_so);
}
