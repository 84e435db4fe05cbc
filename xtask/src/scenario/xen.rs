//! A guest of Xen on the emulated machine: Debian's Xen with its own dom0, xl and QEMU starts a
//! Linux HVM guest, xentrace records its exits, and `avicenna exits report` reads them; they have
//! to be those that the machine itself has counted. Or the guest is given a virtual function of an
//! 82599, and sends by netperf to another that dom0 has.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::machine::{Said, machine, need, number, run, tool};
use super::stage::{Scenario, Stage, Stop};
use super::{disk, network};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) static SCENARIO: Scenario = Scenario {
    name: "xen",
    summary: "an HVM guest of Debian's Xen: xentrace counts as the machine does, or netperf sends",
    options: &[
        ("cpu", "skylake-sp", "a model of the machine"),
        ("xen", "apicv=1", "Xen's options, such as apicv=0, or \"apicv=1 iommu=intpost\""),
        (
            "guests",
            "1",
            "with a function 1 with two processors, or 2 with one each that they share",
        ),
        ("part", "", "a name that keeps runs at the same time apart"),
        ("mhz", "", "to which xenpm slows that processor; a model of Intel's without HWP"),
        ("guest", "nopv", "nopv (no channels of Xen's beside the APIC), or quiet with them"),
        ("release", "bookworm", "bookworm (Xen 4.17) or trixie (4.20)"),
        ("iommu", "off", "off, on, or function, which takes trixie for netperf"),
        ("runs", "16384:-1000000000,64:-20000000", network::RUNS),
    ],
    run: prove,
    is_test: false,
};

const PACKAGES: [&str; 5] =
    ["xen-utils-common", "qemu-system-xen", "qemu-system-data", "seabios", "busybox-static"];
const MODULES: [&str; 5] = ["xen-evtchn", "xen-privcmd", "xen-gntdev", "xen-gntalloc", "xenfs"];
/// What Xen and Linux say when an access or a message is refused, or a command goes wrong.
const COMPLAINTS: [&str; 9] = [
    "IO_PAGE_FAULT",
    "ILLEGAL_",
    "INVALID_DEVICE",
    "INTR-REMAP: Request",
    "BUG",
    "WARNING: CPU",
    "timeout",
    "time out",
    "timed out",
];
/// Fewer exits are not a guest that ran.
const LEAST: u64 = 1000;

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    need(&["gzip", "ldd", "truncate"])?;
    let iommu = stage.option("iommu");
    let (release, has_function) = (stage.option("release"), iommu == "function");
    let version = match release {
        "bookworm" if !has_function => "4.17",
        "trixie" => "4.20",
        _ => {
            return Err(anyhow!("release={release}: bookworm, or trixie, which has netperf").into());
        }
    };
    let guests: u64 = match stage.option("guests") {
        "1" => 1,
        "2" if has_function => 2,
        other => return Err(anyhow!("guests={other}: 1, or 2 with iommu=function").into()),
    };
    let speed = Speed::of(stage, guests)?;
    let own = [format!("xen-hypervisor-{version}-amd64"), format!("xen-utils-{version}")];
    let netperf = has_function.then_some("netperf");
    let packages: Vec<&str> =
        own.iter().map(String::as_str).chain(PACKAGES).chain(netperf).collect();
    let name = if has_function { "xen-netperf" } else { "xen" };
    let kernel = Kernel::of(stage, release)?;
    let packages = tree(stage, name, release, &packages)?;
    let folder = stage.folder("xen")?;
    let guest = if has_function {
        network::sender(&kernel, &packages, &folder)?
    } else {
        this_program(stage.program, &folder)?
    };
    let images = dom0(&kernel, &packages, &folder, &guest, has_function)?;

    let trace = folder.join("machine.trace");
    let mut command = machine(stage.program, stage.option("cpu"), "4", "3G");
    if speed.slow.is_some() {
        command.arg("--clock-control");
    }
    if has_function {
        command.args((0..guests).flat_map(|_| ["--vf", "pair"]));
    }
    match iommu {
        "function" => command.args(["--iommu", "on"]),
        "on" | "off" => command.args(["--iommu", iommu]).arg("--trace").arg(&trace),
        _ => return Err(anyhow!("iommu={iommu}: off, on or function").into()),
    };
    let words = if has_function {
        format!("guests={guests} runs={} {}", stage.option("runs"), speed.words())
    } else {
        String::new()
    };
    let boot = packages.join(format!("boot/xen-{version}-amd64.gz"));
    let mut dom0 = OsString::from(&kernel.image);
    dom0.push(format!(" console=hvc0 quiet guest={} {words}", stage.option("guest")));
    command.arg("--kernel").arg(boot).arg("--module").arg(dom0);
    command.arg("--module").arg(&images.initrd).arg("--append").arg(format!(
        "console=com1 com1=115200,8n1 dom0_mem=1300M dom0_max_vcpus=2 dom0_vcpus_pin loglvl=all {} {}",
        speed.of_xen(),
        stage.option("xen")
    ));
    command.arg("--disk").arg(&images.host);
    command.arg("--disk").arg(format!("{},write-through", images.trace.display()));
    let said = run(&mut command)?;

    checks.hold("power-off ends the run", said.is_powered_off);
    if iommu != "off" {
        check_iommu(stage, &said, checks);
    }
    if has_function {
        check_function(stage, &said, guests, checks);
        speed.check(&said, checks);
    } else {
        check_exits(stage, &said, &folder, &images.trace, checks)?;
    }
    [images.host, images.trace].iter().try_for_each(fs::remove_file)?;
    if !stage.option("part").is_empty() {
        // One of many leaves nothing.
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

struct Images {
    host: PathBuf,
    initrd: PathBuf,
    /// An empty disk that dom0 leaves xentrace's recording on.
    trace: PathBuf,
}

/// dom0's disks and initial RAM disk.
fn dom0(
    kernel: &Kernel,
    packages: &Path,
    folder: &Path,
    guest: &Path,
    has_function: bool,
) -> Result<Images> {
    let host = disk::Disk::of(packages, folder)?;
    fs::create_dir_all(host.tree.join("var"))?;
    let _ = fs::remove_dir_all(host.tree.join("var/run"));
    std::os::unix::fs::symlink("/run", host.tree.join("var/run"))?;
    fs::create_dir_all(host.tree.join("etc/xen"))?;
    host.put_text("etc/xen/xl.conf", "")?;
    host.put("vmlinuz", &kernel.image)?;
    host.put("guest.cpio", &packed(guest)?)?;
    host.put_text("proof", include_str!("inside/xen-host"))?;
    host.put_text("gate", include_str!("inside/gate"))?;
    host.put_text("states", include_str!("inside/xen-clock-states"))?;
    let function: &[&str] = if has_function { &["xen-pciback", "ixgbevf"] } else { &[] };
    kernel.unpack_modules(&[&MODULES, function].concat(), &host.tree.join("modules"))?;
    let host = host.finish(900)?;
    let initrd = packed(&disk::disk_initrd(kernel, packages, folder)?)?;
    let trace = folder.join("xentrace.img");
    tool("truncate", [Path::new("-s"), Path::new("256M"), &trace])?;
    Ok(Images { host, initrd, trace })
}

/// A guest whose first process is this program, which runs threads that wake each other.
fn this_program(program: &Path, folder: &Path) -> Result<PathBuf> {
    let (guest, archive) = (folder.join("guest"), folder.join("guest.cpio"));
    for part in ["bin", "dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(guest.join(part))?;
    }
    disk::put_stripped(program, &guest.join("init"))?;
    let libraries = String::from_utf8(tool("ldd", [program])?)?;
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = guest.join(library.trim_start_matches('/'));
        fs::create_dir_all(place.parent().context("a file without a folder")?)?;
        fs::copy(library, place).with_context(|| library.to_owned())?;
    }
    disk::archive(&guest, &archive)?;
    Ok(archive)
}

fn packed(file: &Path) -> Result<PathBuf> {
    let packed = file.with_extension("cpio.gz");
    fs::write(&packed, tool("gzip", [Path::new("-c"), file])?)?;
    Ok(packed)
}

fn check_iommu(stage: &Stage<'_>, said: &Said, checks: &mut Checks) {
    let is_used = if stage.option("cpu").starts_with("zen") {
        said.contains("AMD-Vi: IOMMU 0 Enabled")
    } else {
        said.console.lines().any(|line| line.contains("Intel VT-d ") && line.contains("enabled"))
    };
    checks.hold("Xen uses the IOMMU", is_used);
    checks.hold("interrupts are remapped", said.begins("(XEN) Interrupt remapping enabled"));
    if stage.option("xen").contains("intpost") {
        let posted = said.contains("Intel VT-d Posted Interrupt enabled");
        checks.hold("interrupts are posted", posted);
    }
    let is_fault = |line: &str| line.contains("DMAR:") && line.to_lowercase().contains("fault");
    let complaint = said
        .console
        .lines()
        .find(|line| is_fault(line) || COMPLAINTS.iter().any(|word| line.contains(word)));
    let what = complaint.map_or("nobody complains".into(), |line| format!("complained: {line}"));
    checks.hold(what, complaint.is_none());
}

fn check_function(stage: &Stage<'_>, said: &Said, guests: u64, checks: &mut Checks) {
    for guest in 1..=guests {
        let start = format!("guest {guest} ");
        let up = said.all_after(&start).any(|rest| rest.contains("NIC Link is Up 10 Gbps"));
        checks.hold(format!("the function of guest {guest} has a link"), up);
    }
    for name in stage.option("runs").split(',') {
        // Netperf's server may leave its last read out: as much as was asked for.
        let length = name.split_once(':').and_then(|(_, length)| length.parse::<f64>().ok());
        let least = length.map_or(1.0, |length| (-length).max(1.0));
        let (mut rate, mut busy, mut arrived) = (0.0, Some(0), true);
        for guest in 1..=guests {
            let start = format!("guest {guest} netperf {name} ");
            let fields = said.after(&start).unwrap_or_default().split(',');
            let fields: Vec<f64> = fields.filter_map(|f| f.trim().parse().ok()).collect();
            arrived &= fields.len() == 4 && fields[3] >= least;
            rate += fields.first().copied().unwrap_or(0.0);
            let own = said.after(&format!("guest {guest} busy {name} ")).and_then(number);
            busy = busy.zip(own).map(|(sum, own)| sum + own);
        }
        checks.hold(format!("all bytes of {name} arrive"), arrived);
        let at = |when| said.after(&format!("host {name} {when} ")).and_then(number);
        let host = at("after")
            .zip(at("before"))
            .and_then(|(after, before)| Some(after.checked_sub(before)? / 1000));
        checks.hold(format!("guests and Xen count time in {name}"), busy.zip(host).is_some());
        let shown = |time: Option<u64>| time.map_or("-".to_owned(), |time| time.to_string());
        let (busy, host) = (shown(busy), shown(host));
        println!("{name}: {rate:.2} Mb/s; guests busy {busy} us, by Xen's count {host} us");
    }
    let whole = said.program.matches(", 0 with a wrong checksum").count() as u64 == 2 * guests;
    checks.hold("no frame has a wrong checksum", whole);
}

/// The clock of the processor that two guests share, in megahertz.
struct Speed {
    fast: u64,
    slow: Option<u64>,
}

impl Speed {
    fn of(stage: &Stage<'_>, guests: u64) -> Result<Self> {
        let (cpu, mhz) = (stage.option("cpu"), stage.option("mhz"));
        let fast = clock(stage.root, cpu)?;
        if mhz.is_empty() {
            return Ok(Self { fast, slow: None });
        }
        let slow: u64 = mhz.parse().with_context(|| format!("mhz={mhz}"))?;
        let is_one = !cpu.starts_with("zen")
            && slow.is_multiple_of(100)
            && (1000..fast).contains(&slow)
            && guests == 2;
        ensure!(is_one, "cpu={cpu} mhz={mhz}: Intel's, in steps of 100, with guests=2");
        Ok(Self { fast, slow: Some(slow) })
    }

    /// What dom0 is told.
    fn words(&self) -> String {
        self.slow.map_or(String::new(), |slow| format!("fast={} slow={slow}", self.fast))
    }

    fn of_xen(&self) -> &'static str {
        if self.slow.is_some() { "cpufreq=xen:performance" } else { "" }
    }

    fn check(&self, said: &Said, checks: &mut Checks) {
        let Some(slow) = self.slow else { return };
        let current = format!("max [{0}] min [{0}] cur [{0}]", slow * 1000);
        let what = format!("xenpm says that the guests' processor has {slow} MHz");
        checks.hold(what, said.contains(&current));
    }
}

/// What xentrace recorded beside what the machine did.
fn check_exits(
    stage: &Stage<'_>,
    said: &Said,
    folder: &Path,
    disk: &Path,
    checks: &mut Checks,
) -> Result<()> {
    let size = said.after("xentrace: ").and_then(number).unwrap_or(0) as usize;
    let bytes = fs::read(disk)?;
    let recording = folder.join("xentrace");
    fs::write(&recording, bytes.get(..size).unwrap_or_default())?;
    let mhz = clock(stage.root, stage.option("cpu"))?.to_string();
    let xen = exits(stage.program, &["--tsc-mhz", &mhz], &recording)?;
    let machine = exits(stage.program, &[], &folder.join("machine.trace"))?;
    let count = |of: &BTreeMap<String, u64>, name: &str| of.get(name).copied().unwrap_or(0);
    let names: std::collections::BTreeSet<&String> = xen.keys().chain(machine.keys()).collect();
    for name in names {
        println!("{name:20} {:8} {:8}", count(&xen, name), count(&machine, name));
    }
    checks.hold("the guest ran", machine.values().sum::<u64>() > LEAST);
    checks.hold("xentrace and the machine counted the same exits", xen == machine);
    Ok(())
}

/// Megahertz of a model's time stamp counter, from the model's file.
pub(super) fn clock(root: &Path, cpu: &str) -> Result<u64> {
    let file = root.join("machine/models").join(cpu).with_extension("toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("tsc_hertz"));
    let hertz = line.with_context(|| format!("{}: no tsc_hertz", file.display()))?;
    number(&hertz.replace('_', "")).map(|hertz| hertz / 1_000_000).context("no number of hertz")
}

fn exits(program: &Path, options: &[&str], file: &Path) -> Result<BTreeMap<String, u64>> {
    let words = ["exits", "report", "--format", "json"].iter().chain(options);
    let words = words.map(Path::new).chain([file]);
    let text = tool(&program.display().to_string(), words)?;
    let report: Value = serde_json::from_slice(&text)?;
    let rows = &report["reports"][0]["summary"]["table"]["rows"];
    let rows = rows.as_array().context("a report without rows")?;
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["count"].as_u64()?));
    Ok(rows.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_with_a_name_has_a_clock() {
        assert_eq!(clock(&crate::root(), "skylake-sp").unwrap(), 2100);
        assert!(clock(&crate::root(), "nosuch").is_err());
    }
}
