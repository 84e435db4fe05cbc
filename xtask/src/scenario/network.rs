//! Network functions given to guests by Debian's own QEMU on the emulated host, with AVIC (or
//! APICv) on and off: of two virtual functions of an 82599 with a wire between, one stays with the
//! host, the other goes to a guest with vfio-pci, and netperf sends from there. Throughput and
//! processor time, as the guest sees it and as the host does, are compared.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{Said, machine, need, number, run};
use super::stage::{Scenario, Stage, Stop};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) static SCENARIO: Scenario = Scenario {
    name: "network",
    summary: "network functions given to guests of QEMU: netperf with AVIC or APICv off and on",
    options: &[
        ("cpu", "zen4", "a model of the machine"),
        ("runs", "16384:-400000000,64:-20000000", RUNS),
        ("guests", "1", "1 with two processors, or 2 with one each that share a processor"),
        ("release", "trixie", "whose kernel both have: bookworm, trixie, sid"),
        ("mhz", "", "to which the host slows the processor that two guests share"),
        ("append", "", "further words for the host's kernel, such as intremap=nopost"),
    ],
    run: prove,
    is_test: false,
};

pub(super) const RUNS: &str =
    "SIZE:LENGTH,... messages of SIZE for LENGTH seconds, or -LENGTH bytes";
/// Programs' packages are trixie's: netperf is not in main before.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "busybox-static", "netperf"];
/// What the guest's sender is linked with.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Mb/s: nine tenths of the wire's rate, which large messages reach.
const FAST: f64 = 9000.0;
const LARGE: u64 = 16384;
/// What the host counts in a run, and what that is called in the table.
const COUNTS: [&str; 6] =
    ["executing", "polling", "exits", "halt_exits", "irq_exits", "interrupts"];

pub(super) fn packages(stage: &Stage<'_>) -> Result<PathBuf, Stop> {
    tree(stage, "qemu-netperf", "trixie", &PACKAGES)
}

/// The initial RAM disk of a guest that sends by netperf over a virtual function: busybox, the
/// function's driver, netperf with its libraries.
pub(super) fn sender(kernel: &Kernel, packages: &Path, folder: &Path) -> Result<PathBuf> {
    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    disk::busybox_tree(&guest, packages, include_str!("inside/network-guest"))?;
    std::os::unix::fs::symlink("usr/lib", guest.join("lib"))?;
    let loader = "usr/lib64/ld-linux-x86-64.so.2".to_owned();
    let libraries = ["libc.so.6", "libm.so.6"].map(|name| format!("{LIBRARIES}/{name}"));
    for file in ["usr/bin/netperf".to_owned(), loader].into_iter().chain(libraries) {
        let place = guest.join(file.replace("usr/lib64", "lib64"));
        fs::create_dir_all(place.parent().context("a file without a folder")?)?;
        fs::copy(packages.join(&file), &place).with_context(|| file.clone())?;
    }
    fs::write(guest.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    kernel.unpack_modules(&["ixgbevf"], &guest.join("modules"))?;
    disk::archive(&guest, &archive)?;
    Ok(archive)
}

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let (cpu, guests) = (stage.option("cpu"), stage.option("guests"));
    let count: u64 = match guests {
        "1" => 1,
        "2" => 2,
        _ => return Err(anyhow::anyhow!("guests={guests}: 1 or 2").into()),
    };
    let mhz = stage.option("mhz");
    if !mhz.is_empty() && (count != 2 || mhz.parse::<u32>().is_err()) {
        return Err(anyhow::anyhow!("mhz={mhz}: a number, with guests=2").into());
    }
    let kernel = Kernel::of(stage, stage.option("release"))?;
    let packages = packages(stage)?;
    let folder = stage.folder("network")?;
    let archive = sender(&kernel, &packages, &folder)?;

    let host = disk::Disk::of(&packages, &folder)?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &archive)?;
    host.put_text("proof", include_str!("inside/network-host"))?;
    host.put_text("gate", include_str!("inside/gate"))?;
    let modules = ["vfio_iommu_type1", "vfio_pci", "ixgbevf"];
    kernel.unpack_modules(&modules, &host.tree.join("modules"))?;
    kernel.unpack_modules(&["kvm_amd", "kvm_intel"], &host.tree.join("kvm"))?;
    let image = host.finish(700)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;

    let (runs, append) = (stage.option("runs"), stage.option("append"));
    let mut command = machine(stage.program, cpu, "4", "1G");
    for _ in 0..count {
        command.args(["--vf", "pair"]);
    }
    if !mhz.is_empty() {
        command.arg("--clock-control");
    }
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    let words = format!("console=ttyS0 quiet guests={guests} mhz={mhz} runs={runs} {append}");
    let said = run(command.args(["--append", &words]).arg("--disk").arg(&image))?;
    fs::remove_file(image)?;

    let runs = runs.split(',').map(Run::of).collect::<Result<Vec<Run<'_>>>>()?;
    if !mhz.is_empty() {
        let asked = said.has(&format!("processor 3 may run at {mhz}000 kHz"));
        checks.hold(format!("the guests' processor is slowed to {mhz} MHz"), asked);
    }
    let posts = !["ivy-bridge-ep", "haswell-ep"].contains(&cpu)
        && !["intremap=nopost", "intr=legacy"].iter().any(|word| append.contains(word));
    for mode in ["on", "off"] {
        for guest in 1..=count {
            let start = format!("{mode} {guest} ");
            let up = said.all_after(&start).any(|rest| rest.contains("NIC Link is Up 10 Gbps"));
            checks.hold(format!("{mode}: the function of guest {guest} has a link"), up);
            let ended = said.has(&format!("{mode} qemu {guest} ended: 0"));
            checks.hold(format!("{mode}: QEMU {guest} ends"), ended);
        }
        for one in &runs {
            one.check(&said, mode, count, mode == "on" && posts, checks);
        }
    }
    if posts {
        let all = said.has(&format!("on posted: {}", 3 * count));
        checks.hold("on: KVM posts all three vectors of each", all);
    }
    checks.hold("off: KVM posts none", said.has("off posted: 0"));
    let whole = said.program.matches(", 0 with a wrong checksum").count() as u64 == 2 * count;
    checks.hold("no frame on a wire has a wrong checksum", whole);
    said.ends_well(checks);
    table(&said, cpu, &kernel.release, &runs);
    Ok(())
}

/// What netperf does for a while.
struct Run<'a> {
    name: &'a str,
    /// Bytes of a message.
    size: u64,
    /// Bytes that are sent, or none where seconds end it.
    bytes: Option<u64>,
}

/// What netperf said of a run, of all guests.
#[derive(Default)]
struct Sum {
    rate: f64,
    sent: u64,
    received: u64,
}

impl<'a> Run<'a> {
    fn of(name: &'a str) -> Result<Self> {
        let parts = name.split_once(':').with_context(|| format!("runs={name}: {RUNS}"))?;
        let (size, length) = (parts.0.parse()?, parts.1.parse::<i64>()?);
        Ok(Self { name, size, bytes: (length < 0).then_some(length.unsigned_abs()) })
    }

    fn check(&self, said: &Said, mode: &str, guests: u64, is_posted: bool, checks: &mut Checks) {
        let (name, sum) = (self.name, self.sum(said, mode));
        let least = self.bytes.map_or(1, |bytes| bytes * guests);
        let arrived = sum.sent >= least && sum.received >= self.bytes.map_or(0, |_| least);
        checks.hold(format!("{mode}: all bytes of {name} arrive"), arrived);
        if self.size >= LARGE {
            checks.hold(format!("{mode}: {name} at 9 Gb/s or more"), sum.rate >= FAST);
        }
        let interrupts = self.host(said, mode, "interrupts");
        if is_posted {
            let what = format!("{mode}: the host takes no interrupt of a function in {name}");
            checks.hold(what, interrupts == Some(0));
        } else {
            let what = format!("{mode}: the host takes the functions' interrupts in {name}");
            checks.hold(what, interrupts.is_some_and(|count| count > 0));
        }
    }

    /// Lines of `MODE GUEST netperf RUN RATE,SECONDS,SENT,RECEIVED`.
    fn sum(&self, said: &Said, mode: &str) -> Sum {
        let mut sum = Sum::default();
        let start = format!("{mode} ");
        let marker = format!(" netperf {} ", self.name);
        for line in said.all_after(&start) {
            let Some((_, fields)) = line.split_once(&marker) else { continue };
            let fields: Vec<f64> =
                fields.split(',').filter_map(|f| f.trim().parse().ok()).collect();
            if let [rate, _, sent, received] = fields[..] {
                sum.rate += rate;
                sum.sent += sent as u64;
                sum.received += received as u64;
            }
        }
        sum
    }

    /// Microseconds that the guests' processors were busy, by their own account.
    fn busy(&self, said: &Said, mode: &str) -> u64 {
        let (start, marker) = (format!("{mode} "), format!(" busy {} ", self.name));
        let lines = said.all_after(&start);
        lines.filter_map(|line| number(line.split_once(&marker)?.1)).sum()
    }

    /// How much a count of the host's grew in the run.
    fn host(&self, said: &Said, mode: &str, what: &str) -> Option<u64> {
        let polled = || {
            let half = |what| self.host(said, mode, what);
            Some(half("halt_poll_success_ns")? + half("halt_poll_fail_ns")?)
        };
        match what {
            "polling" => return polled(),
            "executing" => return self.host(said, mode, "nanoseconds")?.checked_sub(polled()?),
            _ => {}
        }
        let at = |when| {
            said.after(&format!("{mode} host {} {when} {what} ", self.name)).and_then(number)
        };
        at("after")?.checked_sub(at("before")?)
    }
}

/// What published tests give: the same with APICv against without it.
fn table(said: &Said, cpu: &str, release: &str, runs: &[Run<'_>]) {
    println!("{:<28} {:>12} {:>12} {:>9}", format!("{cpu}, {release}"), "off", "on", "change");
    let row = |name: &str, off: f64, on: f64| {
        let change = if off > 0.0 { 100.0 * (on / off - 1.0) } else { 0.0 };
        println!("{name:<28} {off:>12.0} {on:>12.0} {change:>8.1}%");
    };
    for one in runs {
        println!("{}", one.name);
        row("Mb/s", one.sum(said, "off").rate, one.sum(said, "on").rate);
        row("guests busy, us", one.busy(said, "off") as f64, one.busy(said, "on") as f64);
        for what in COUNTS {
            let of = |mode| one.host(said, mode, what).unwrap_or(0) as f64;
            row(&format!("host: {what}"), of("off"), of("on"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_host_are_differences_and_guests_are_summed() {
        let said = Said {
            console: "on host 64:1 before exits 10\non host 64:1 after exits 30\n\
                      on host 64:1 before nanoseconds 5\non host 64:1 after nanoseconds 105\n\
                      on host 64:1 before halt_poll_success_ns 1\n\
                      on host 64:1 after halt_poll_success_ns 11\n\
                      on host 64:1 before halt_poll_fail_ns 0\n\
                      on host 64:1 after halt_poll_fail_ns 20\n\
                      on 1 netperf 64:1 100.5,1.0,7,8\non 2 netperf 64:1 200,1.0,1,2\n\
                      on 1 busy 64:1 40 of 100 us\n"
                .into(),
            program: String::new(),
            is_powered_off: true,
        };
        let run = Run::of("64:1").unwrap();
        let host = |what| run.host(&said, "on", what);
        assert_eq!(
            (host("exits"), host("polling"), host("executing")),
            (Some(20), Some(30), Some(70))
        );
        assert_eq!((host("interrupts"), run.host(&said, "off", "exits")), (None, None));
        let sum = run.sum(&said, "on");
        assert_eq!((sum.rate, sum.sent, sum.received), (300.5, 8, 10));
        assert_eq!(run.busy(&said, "on"), 40);
        assert_eq!(Run::of("64:-5").unwrap().bytes, Some(5));
        assert!(Run::of("64").is_err() && Run::of("x:1").is_err());
    }
}
