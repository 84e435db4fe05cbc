//! The lab end to end: the built-in hypervisor, then KVM of a distribution's kernel where one can
//! be fetched. Each check can fail: it reads what the program printed.

mod calibrate;
mod command;
mod device;
mod explore;
mod session;
mod suite;
mod terminal;
mod verdict;
mod watch;

use super::check::Checks;
use super::debian::{Kernel, unpacked};
use super::stage::{Scenario, Stage, Stop};
use anyhow::{Context, Result, ensure};
use session::{Lab, Outcome};
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "lab",
    summary: "lab run, exec, suite, explore, calibrate and shell: verdicts, exit statuses, messages",
    options: &[],
    run: prove,
    is_test: true,
};

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    let work = stage.folder("lab")?;
    let mut lab = Lab { program: stage.program, work, kernel: "builtin".into() };
    built_in(&lab, checks)?;
    command::usage(&lab, checks);
    let folder = stage.kernel("debian-12")?;
    let kernel = Kernel::of(stage, "bookworm")?;
    lab.kernel = folder.display().to_string();
    amd(&lab, checks)?;
    intel(&lab, checks)?;
    device::check(&lab, checks)?;
    command::check(&lab, checks)?;
    terminal::check(&lab, checks);
    suite::check(&lab, checks)?;
    explore::check(&lab, checks);
    watch::check(&lab, checks);
    calibrate::check(&lab, checks);
    checks.succeed("a module of another kernel", names_a_foreign_module(&lab, &kernel));
    fs::remove_dir_all(&lab.work)?;
    Ok(())
}

fn built_in(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let two = ["--kernel", "builtin", "--cpus", "2"];
    let amd = lab.run("builtin", &two)?;
    checks.succeed("built-in hypervisor: 90 % fewer exits", verdict::falls(&amd, -90.0));
    let one = lab.run("builtin", &[&two[..], &["--jobs", "1"]].concat())?;
    let alike = verdict::are_alike(&amd, &one);
    checks.succeed("built-in hypervisor: jobs do not change the result", alike);
    let intel = lab.run("builtin", &[&two[..], &["--cpu", "sapphire-rapids"]].concat())?;
    checks.succeed("built-in hypervisor on Intel: 80 % fewer exits", verdict::falls(&intel, -80.0));
    let page = lab.work.join("page").display().to_string();
    lab.said(&[&["run", "--format", "html", "-o", &page], &two[..]].concat())?;
    let page = fs::read_to_string(page).unwrap_or_default();
    checks.hold("the page has plots", page.contains("<figure class=\"plot"));
    Ok(())
}

fn amd(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let first = lab.run_kvm("kvm", &[])?;
    checks.succeed("KVM: 90 % fewer exits", verdict::falls(&first, -90.0));
    checks.succeed("KVM: AVIC is active all the time", verdict::is_active(&first));
    let what = "KVM: functions of the host are named by the exit that they are for";
    checks.succeed(what, verdict::names_functions(&first));
    checks.succeed("KVM: times have intervals", verdict::has_intervals(&first));
    let again = lab.run_kvm("again", &[])?;
    let alike = verdict::is_restored_alike(&first, &again);
    checks.succeed("KVM: a snapshot spares the boot and changes nothing", alike);
    changes_nothing(lab, &first, checks)?;
    let without = lab.run_kvm("without", &["--cpu", "zen4,-avic"])?;
    let what = "KVM: a processor without AVIC makes the comparison fail";
    checks.succeed(what, verdict::fails_without_avic(&without));
    let pit = lab.run_kvm("pit", &["--pit", "reinject"])?;
    let reasons = ["PIT_REINJ", "set reason=8,", "set reason=9,"];
    let what = "KVM: the timer in reinject mode inhibits";
    checks.succeed(what, verdict::is_inhibited(&pit, &reasons));
    Ok(())
}

/// How many parts of a run there are at once, and whether a trace is written.
fn changes_nothing(lab: &Lab<'_>, first: &Outcome, checks: &mut Checks) -> Result<()> {
    for jobs in ["1", "2", "3"] {
        let other = lab.run_kvm("jobs", &["--jobs", jobs])?;
        let alike = verdict::are_alike(first, &other);
        checks
            .succeed(format!("KVM: the result of {jobs} jobs is that of any other number"), alike);
    }
    let trace = lab.work.join("trace").display().to_string();
    let traced = lab.run_kvm("traced", &["--jobs", "2", "--trace", &trace])?;
    checks.succeed("KVM: a trace changes no result", verdict::are_alike(first, &traced));
    let seeds = ["--seeds", "7", "--feature", "on", "--guest-apic", "x2apic"];
    let one = lab.run_kvm("seeds", &[&seeds[..], &["--jobs", "1"]].concat())?;
    let two = lab.run_kvm("seeds", &[&seeds[..], &["--jobs", "2"]].concat())?;
    checks.succeed("KVM: nor do jobs of seeds", verdict::are_alike(&one, &two));
    Ok(())
}

fn intel(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let cpu = ["--cpu", "sapphire-rapids"];
    let steps = lab.run_kvm("intel", &[&cpu[..], &["--feature", "steps"]].concat())?;
    checks.succeed("KVM on Intel: 80 % fewer exits", verdict::falls(&steps, -80.0));
    checks.succeed("KVM on Intel: APICv is active all the time", verdict::is_active(&steps));
    let what = "KVM on Intel: exits per IPI are as expected";
    checks.succeed(what, verdict::are_as_expected(&steps));
    let auto_eoi = lab.run_kvm("auto-eoi", &[&cpu[..], &["--inhibit", "auto-eoi"]].concat())?;
    let inhibited = verdict::is_inhibited(&auto_eoi, &["HYPERV", "set reason=1,"]);
    checks.succeed("KVM on Intel: AutoEOI inhibits", inhibited);
    let said = lab.exec(&cpu, &["check"])?;
    let ipis = said.says("yes", "IPIs between vCPUs are delivered without an exit");
    checks.hold("check on Intel says on", ipis);
    Ok(())
}

/// The kernel refuses a module of a kernel that is configured otherwise, and the lab shows its
/// line.
fn names_a_foreign_module(lab: &Lab<'_>, kernel: &Kernel) -> Result<()> {
    let path = kernel.module("kvm_amd").context("the kernel has no kvm_amd")?;
    let mut bytes = unpacked(path)?;
    // Without the mark at its end nobody looks for a signature, which would be wrong now.
    bytes.truncate(bytes.len() - 28);
    let mark = format!("vermagic={} SMP", kernel.release).into_bytes();
    let at = bytes.windows(mark.len()).position(|window| window == mark);
    let end = at.context("no version magic")? + mark.len();
    bytes[end - 3..end].copy_from_slice(b"UNI");
    let module = lab.work.join("kvm-amd.ko");
    fs::write(&module, bytes)?;
    let module = module.display().to_string();
    let said = lab.said(&["run", "--kernel", &lab.kernel, "--module", &module])?;
    ensure!(said.status == Some(3), "{said:?}");
    let why = said.errors.contains("it was built for another kernel");
    let line = said.errors.lines().any(|line| {
        line.contains("kernel: kvm_amd: version magic ")
            && line.contains(" UNI ")
            && line.contains("should be")
    });
    ensure!(why && line, "{}", said.errors);
    Ok(())
}
