//! What `lab exec` runs, and what the lab answers to words that are wrong.

use super::super::check::Checks;
use super::super::machine::tool;
use super::session::{Lab, Said};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// Without polling, a processor sleeps at once.
const SLEEPERS: &str =
    "apic=xapic tests=ipi targets=halted gap=500 samples=300 warmup=5 patience=20000000";
/// Linux has a work-around of erratum 1235 from here on; before, wake-ups are lost.
const WORKED_AROUND: (u64, u64) = (6, 17);

/// Words that only a closer look finds wrong.
pub(super) fn usage(lab: &Lab<'_>, checks: &mut Checks) {
    let what = "a kernel that was named is never replaced";
    checks.succeed(what, refuses_a_kernel_it_cannot_have(lab));
    for (what, answer, words) in [
        ("a workload that is none", "ipi, threads, mesh, timer", &["--workload", "nosuch"][..]),
        (
            "guests that would keep each other from running",
            "--workload wake",
            &["--workload", "threads", "--guests", "2"],
        ),
        (
            "a program that a root has not",
            "no program \"nosuch\"",
            &["--root", "/etc", "--workload", "nosuch"],
        ),
        ("too little memory", "at least 256M", &["--memory", "12"]),
        ("no processors", "1..=512", &["--cpus", "0"]),
        ("a processor without SVM and VMX", "zen4", &["--cpu", "generic"]),
        (
            "a feature of the other vendor",
            "apicv",
            &["--cpu", "skylake-sp", "--feature", "avic=on"],
        ),
        ("a kernel that is none", "debian-13", &["--kernel", "nosuch"]),
        (
            "a module for the built-in hypervisor",
            "--load need a kernel",
            &["--kernel", "builtin", "--load", "ioatdma"],
        ),
    ] {
        let said = lab.said(&[&["run"], words].concat());
        checks.succeed(what, said.and_then(|said| says_what_would_be_right(&said, answer)));
    }
}

/// Such words end with the status of usage, and the answer says what would do.
fn says_what_would_be_right(said: &Said, answer: &str) -> Result<()> {
    let is_said = said.errors.contains(answer) || said.output.contains(answer);
    ensure!(said.status == Some(2) && is_said, "{said:?}");
    Ok(())
}

/// A kernel that was named is not replaced; one that was not is, with an exit status of its own.
fn refuses_a_kernel_it_cannot_have(lab: &Lab<'_>) -> Result<()> {
    let home = lab.work.join("unwritable");
    fs::write(&home, "")?;
    let run = |words: &[&str]| {
        let mut command = lab.command(&[&["run", "--cpus", "2"], words].concat());
        let output = command.env("HOME", &home).env("XDG_CACHE_HOME", &home).output();
        anyhow::Ok(Said::of(output.context("cannot start the lab")?))
    };
    let replaced = "built-in hypervisor ran";
    let named = run(&["--kernel", "debian-12"])?;
    ensure!(named.status == Some(3) && !named.output.contains(replaced), "{named:?}");
    let other = run(&[])?;
    let is_first = other.output.starts_with("the built-in hypervisor ran, not KVM");
    ensure!(other.status == Some(4) && is_first, "{other:?}");
    Ok(())
}

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let said = lab.run_words(&["--parameter", "kvm.nosuch=1"])?;
    let what = "a parameter that a module has not";
    checks.succeed(what, says_what_would_be_right(&said, "halt_poll_ns"));
    let said = lab.exec(&[], &["nosuch"])?;
    let answer = "neither a verb of avicenna (check";
    checks.succeed("a command that is none", says_what_would_be_right(&said, answer));

    let used = "the hardware interrupt controller is used";
    let on = lab.exec(&[], &["check"])?;
    checks.hold("check says on", on.says("yes", used));
    checks.hold("check says off", lab.exec(&["--off"], &["check"])?.says("no", used));
    let old = lab.exec(&["--cpu", "zen3"], &["check"])?.says("no", "the CPU has AVIC");
    checks.hold("check names a processor without AVIC", old);
    let inside = lab.exec(&[], &["sh", "-c", "echo from inside; exit 7"])?;
    checks.hold("a command's exit status is the lab's", inside.status == Some(7));
    let is_there = inside.output.contains("from inside");
    checks.hold("a program of this machine runs in there", is_there);
    let along = "taken along\n";
    fs::write(lab.work.join("along"), along)?;
    let add = format!("{}=/taken/along", lab.work.join("along").display());
    let said = lab.exec(&["--add", &add], &["cat", "/taken/along"])?;
    checks.hold("what was added is there", said.output == along);

    checks.succeed("a command runs in a root of its own", runs_in_a_root(lab));
    let what = "KVM loses wake-ups to erratum 1235 unless it works around";
    checks.succeed(what, loses_unless_worked_around(&on, &sleepers(lab, "erratum-1235=on")?));
    let what = "KVM loses no wake-up where the erratum is not";
    checks.succeed(what, loses_nothing(&sleepers(lab, "erratum-1235=off")?));
    for rung in ["bpf", "histogram"] {
        let what = format!("exits record ({rung}) sees what the machine does");
        checks.succeed(what, records_what_the_machine_does(lab, rung));
    }
    Ok(())
}

impl Lab<'_> {
    /// `lab run` that is not to get as far as a result.
    fn run_words(&self, words: &[&str]) -> Result<Said> {
        self.said(&[&["run", "--kernel", &self.kernel], words].concat())
    }
}

/// A folder with a program and what it is linked to is a guest's root: links and all.
pub(super) fn runs_in_a_root(lab: &Lab<'_>) -> Result<()> {
    let root = lab.work.join("root");
    for (from, to) in [
        ("/usr/bin/cat", "usr/bin/cat"),
        ("/lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
    ] {
        let to = root.join(to);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(from, to).context(from)?;
    }
    for folder in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{folder}"), root.join(folder))?;
    }
    symlink("cat", root.join("usr/bin/show"))?;
    fs::write(root.join("mine"), "mine")?;
    let root = root.display().to_string();
    let words = ["--root", &root, "--workload", "show /mine", "--feature", "on"];
    let outcome = lab.run_kvm("in-root", &words)?;
    let ended = &outcome.result["comparisons"][0]["troubles"];
    ensure!(outcome.status == Some(0) && ended == &Value::Array(Vec::new()), "{ended}");
    Ok(())
}

/// IPIs to processors that are about to halt, on KVM of a part with the erratum or without it: what
/// the guest measured.
fn sleepers(lab: &Lab<'_>, variant: &str) -> Result<Said> {
    let part = ["--cpu", "zen2", "--variant", variant, "--parameter", "kvm.halt_poll_ns=0"];
    lab.exec(&part, &["bench", "--no-x2apic", "--append", SLEEPERS])
}

fn loses_unless_worked_around(check: &Said, measured: &Said) -> Result<()> {
    let release = check.output.split("Linux ").nth(1).context("check names no kernel")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok).context("no version");
    if (next()?, next()?) >= WORKED_AROUND {
        return loses_nothing(measured);
    }
    ensure!(measured.output.contains("\"record\":\"lost\""), "nothing lost: {measured:?}");
    Ok(())
}

fn loses_nothing(measured: &Said) -> Result<()> {
    let has_ended = measured.output.contains("\"record\":\"end\",\"passed\":true");
    ensure!(has_ended && !measured.output.contains("\"record\":\"lost\""), "{measured:?}");
    Ok(())
}

/// Exits as a verb on the emulated host recorded them are those that the machine performed and
/// resumed from, reason by reason.
fn records_what_the_machine_does(lab: &Lab<'_>, rung: &str) -> Result<()> {
    let counters = lab.work.join("machine").display().to_string();
    let bench =
        ["--", "avicenna", "bench", "--append", "tests=ipi targets=spinning samples=200 warmup=20"];
    let record = ["exits", "record", "--rung", rung, "-o", "-"];
    let said = lab.exec(&["--counters", &counters], &[&record[..], &bench].concat())?;
    let mut recorded: BTreeMap<u64, u64> = BTreeMap::new();
    for line in said.output.lines().skip(1) {
        let line: Value = serde_json::from_str(line).with_context(|| format!("{said:?}"))?;
        for row in line["rows"].as_array().context("a line without rows")? {
            let (reason, count) = (row[0]["reason"].as_u64(), row[1]["count"].as_u64());
            let (reason, count) = reason.zip(count).with_context(|| row.to_string())?;
            *recorded.entry(reason).or_default() += count;
        }
    }
    let machine: BTreeMap<String, Value> = serde_json::from_str(&fs::read_to_string(&counters)?)?;
    let mut performed = BTreeMap::new();
    for (reason, counts) in &machine {
        match counts["completed"].as_u64().context("no count")? {
            0 => {}
            count => drop(performed.insert(reason.parse::<u64>()?, count)),
        }
    }
    let sum = |of: &BTreeMap<u64, u64>| of.values().sum::<u64>();
    println!("exits record: {} of {} exits", sum(&recorded), sum(&performed));
    let same = recorded == performed && !recorded.is_empty();
    ensure!(same, "{recorded:?} instead of {performed:?}");
    Ok(())
}

/// How long a run may go on once it is to end.
const SOON: Duration = Duration::from_secs(5);

/// The signals that end a run, with the status of an interrupt. The run's own end is far away: a
/// boot and two Linux guests, or hundreds of lives of a guest.
pub(super) fn ends_when_asked(
    lab: &Lab<'_>,
    signal: &str,
    words: &[&str],
    after: Duration,
) -> Result<()> {
    let mut command = lab.command(&[&["run", "--kernel", &lab.kernel], words].concat());
    let quiet = || std::process::Stdio::null();
    let mut running = command.stdout(quiet()).stderr(quiet()).spawn().context("the lab")?;
    std::thread::sleep(after);
    let asked = Instant::now();
    tool("kill", [&format!("-{signal}"), &running.id().to_string()])?;
    let status = running.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    let took = asked.elapsed();
    ensure!(took < SOON, "it went on for {took:?}");
    Ok(())
}
