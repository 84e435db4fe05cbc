//! A distribution's user land from a root file system on a virtio disk: what bash, python3, perl,
//! coreutils and openssl say is what is known.

use super::check::Checks;
use super::debian::{Kernel, tree};
use super::disk;
use super::machine::{machine, need, run};
use super::stage::{Scenario, Stage, Stop};
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "user-land",
    summary: "bash, python3, perl, coreutils and openssl of Debian against known answers",
    options: &[("cpu", "zen4", "a model of the machine")],
    run: prove,
    is_test: false,
};

const PACKAGES: [&str; 8] =
    ["bash", "coreutils", "mount", "sed", "python3", "perl", "openssl", "busybox-static"];
const QUESTIONS: &str = include_str!("inside/user-land-questions");
const ANSWERS: &str = include_str!("inside/user-land-answers");

fn prove(stage: &Stage<'_>, checks: &mut Checks) -> Result<(), Stop> {
    need(&disk::TOOLS)?;
    let kernel = Kernel::of(stage, "trixie")?;
    let packages = tree(stage, "user-land", "trixie", &PACKAGES)?;
    let folder = stage.folder("user-land")?;
    let root = disk::Disk::of(&packages, &folder)?;
    root.put_text("questions", QUESTIONS)?;
    root.put_text("proof", "exec /bin/bash /questions\n")?;
    let image = root.finish(800)?;
    let initrd = disk::disk_initrd(&kernel, &packages, &folder)?;
    let before = fs::read(&image)?;
    let mut command = machine(stage.program, stage.option("cpu"), "2", "1G");
    command.arg("--kernel").arg(&kernel.image).arg("--initrd").arg(&initrd);
    command.args(["--append", "console=ttyS0 quiet"]).arg("--disk").arg(&image);
    let said = run(&mut command)?;
    for answer in ANSWERS.lines().filter(|line| !line.is_empty()) {
        checks.hold(answer, said.begins(answer));
    }
    checks.hold("the image was not changed", fs::read(&image)? == before);
    said.ends_well(checks);
    fs::remove_file(image)?;
    Ok(())
}
