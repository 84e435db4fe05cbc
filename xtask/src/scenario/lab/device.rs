//! Devices that guests are given, and the wire between two network functions.

use super::super::check::Checks;
use super::super::machine::tool;
use super::session::{Lab, Outcome};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Brings two functions up and sends 20 MB from one to the other.
const CARRY: &str = "
    unshare -n sleep 1000 > /dev/null 2>&1 &
    there=$!
    sleep 0.1
    ip link set eth1 netns $there
    ifconfig eth0 10.1.0.1 netmask 255.255.255.0
    nsenter -t $there -n ifconfig eth1 10.1.0.2 netmask 255.255.255.0
    sleep 2
    { sleep 30 | nsenter -t $there -n nc -l -p 5000 | md5sum > /there; } > /dev/null 2>&1 &
    head -c 20000000 /dev/urandom > /data
    md5sum < /data > /here
    nc 10.1.0.2 5000 < /data
    sleep 0.2
    cmp /here /there && echo carried";

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let device = lab.run_kvm("device", &["--workload", "device"])?;
    let what = "KVM: a device's interrupts are posted, and none is lost";
    checks.succeed(what, posts_interrupts(&device));
    match busybox(lab) {
        Some(busybox) => {
            let said = lab.exec(&["--vf", "pair"], &[&busybox, "sh", "-c", CARRY])?;
            let what = "KVM: network functions carry 20 MB over their wire";
            checks.hold(what, said.output.contains("carried"));
        }
        None => checks.skip("network functions, as busybox is neither installed nor unpacked"),
    }
    let words = ["--workload", "device", "--append", "amd_iommu_intr=legacy"];
    let legacy = lab.run_kvm("legacy", &words)?;
    checks.hold("KVM: interrupts that are not posted are told", legacy.status == Some(1));
    Ok(())
}

/// This machine's, or the one that boots were tried with.
fn busybox(lab: &Lab<'_>) -> Option<String> {
    let installed = tool("which", ["busybox"]).ok().and_then(|text| String::from_utf8(text).ok());
    let store = lab.work.parent()?;
    let unpacked = super::super::disk::busybox(&store.join("packages-busybox-bookworm/tree"));
    let unpacked = unpacked.exists().then(|| unpacked.display().to_string());
    installed.map(|text| text.trim().to_owned()).or(unpacked)
}

/// Interrupts of a device that a guest was given: none is lost, and those that are posted do not
/// exit.
fn posts_interrupts(outcome: &Outcome) -> Result<()> {
    let verdict = &outcome.result["verdict"];
    ensure!(verdict["is_sound"] == true, "{verdict}");
    let all = outcome.result["comparisons"].as_array().context("no comparisons")?;
    let all: Vec<&Value> = all.iter().map(|one| &one["device_interrupts"]).collect();
    let [running, halted, phases] = all[..] else { anyhow::bail!("{} comparisons", all.len()) };
    let count = |side: &Value, name: &str| {
        side[name].as_u64().with_context(|| format!("no count of {name}: {side}"))
    };
    let exits = |side: &Value| side["exits"].as_f64().context("no exits for each interrupt");
    let latency = |side: &Value, what: &str| count(&side["latency"], what);
    for pair in [running, halted] {
        let (off, on) = (&pair[0], &pair[1]);
        ensure!(off["is_on"] == false && on["is_on"] == true, "{pair}");
        let sent = [count(off, "sent")?, count(off, "arrived")?, count(on, "sent")?];
        ensure!(sent == [10_000; 3], "{pair}");
        let merged = count(on, "merged")?;
        ensure!(count(on, "arrived")? + merged == 10_000 && merged < 10, "{on}");
        ensure!(exits(off)? >= 1.0 && exits(on)? < 0.05, "{pair}");
        ensure!((count(off, "posted")?, count(on, "posted")?) == (0, 10_000), "{pair}");
        println!("device: {:.2} -> {:.4} exits for each interrupt", exits(off)?, exits(on)?);
        let [least, half, most] = ["min", "p50", "max"].map(|what| latency(on, what));
        let (least, half, most) = (least?, half?, most?);
        ensure!(0 < least && least <= half && half <= most && most < 100_000, "{on}");
        println!("device: {} -> {half} ns to the handler", latency(off, "p50")?);
    }
    // The first eight come while the guest compares its clock with the function's, and does not
    // halt. When the host's timer ticks on the vCPU's processor, a vCPU that runs may have been put
    // aside, and one that halts may not have halted yet: where the ticks fall differs with the
    // length of the program that the host has in its initial RAM disk.
    let on = &halted[1];
    for side in [&running[1], on] {
        ensure!(count(side, "logged")? == count(side, "woken")?, "{side}");
    }
    ensure!(count(&running[1], "logged")? < 10, "{running}");
    ensure!((9_980..=10_000).contains(&count(on, "logged")?), "{on}");
    ensure!(latency(&running[1], "p50")? < latency(&running[0], "p50")?, "{running}");
    // A processor that goes to sleep at every moment of the way: none waits, none is lost.
    let on = &phases[1];
    ensure!((count(on, "sent")?, count(on, "posted")?) == (10_010, 10_010), "{on}");
    ensure!(count(on, "arrived")? + count(on, "merged")? == 10_010, "{on}");
    ensure!((count(on, "late")?, count(&phases[0], "late")?) == (0, 0), "{phases}");
    Ok(())
}
