//! `cargo xtask scenario`: what takes a booted kernel to show, each with checks that can fail. What
//! runs inside the emulated machine is in `scenario/inside`; everything else is here.

mod boot;
mod check;
pub(crate) mod debian;
mod disk;
mod experiment;
mod lab;
mod machine;
mod many_vcpus;
mod nested_qemu;
mod network;
mod nvme;
mod share;
mod stage;
mod user_land;
mod xen;
mod xen_clock;

use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use check::Checks;
use stage::{Scenario, Stage, Stop};
use std::collections::BTreeMap;
use std::path::Path;

/// In the order of what is most basic.
static ALL: &[&Scenario] = &[
    &boot::SCENARIO,
    &lab::SCENARIO,
    &share::SCENARIO,
    &user_land::SCENARIO,
    &nested_qemu::SCENARIO,
    &many_vcpus::SCENARIO,
    &experiment::SCENARIO,
    &network::SCENARIO,
    &nvme::SCENARIO,
    &xen::SCENARIO,
    &xen_clock::SCENARIO,
];

/// Those of `cargo xtask test`, one after the other; whether any found no kernel.
pub fn test(root: &Path, program: &Path, tally: &mut Tally) -> Result<()> {
    for scenario in ALL.iter().filter(|one| one.is_test) {
        println!("scenario {}", scenario.name);
        run_one(root, program, scenario, &[], tally)?;
        if tally.summary().contains("no kernel can be fetched") {
            tally.miss("no kernel could be fetched");
        }
    }
    Ok(())
}

/// Fetches the kernel that is booted first, and prints its file and that of its initial RAM disk.
pub fn kernel(root: &Path, program: &Path) -> Result<()> {
    let stage =
        Stage { program, root, store: root.join("target/scenario"), options: BTreeMap::new() };
    let (kernel, initrd) = boot::images(&stage).map_err(|stop| match stop {
        Stop::Skipped(why) => anyhow::anyhow!(why),
        Stop::Failed(why) => why,
    })?;
    println!("{} {}", kernel.image.display(), initrd.display());
    Ok(())
}

/// `[NAME [OPTION=VALUE…]]`; without a name they are listed.
pub fn run(root: &Path, program: &Path, arguments: &[&str]) -> Result<()> {
    let Some((name, words)) = arguments.split_first() else {
        ALL.iter().for_each(|scenario| println!("{scenario}"));
        return Ok(());
    };
    let scenario = ALL.iter().find(|one| one.name == *name).with_context(|| {
        let names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        format!("{name:?} is not a scenario: there are {}", names.join(", "))
    })?;
    let given = words.iter().find_map(|word| word.strip_prefix("program="));
    let program = match given {
        Some(file) => std::path::absolute(file)?,
        None => program.to_owned(),
    };
    let words: Vec<&str> =
        words.iter().copied().filter(|word| !word.starts_with("program=")).collect();
    let mut tally = Tally::default();
    run_one(root, &program, scenario, &words, &mut tally)?;
    println!("{}", tally.summary());
    // Who asks for one by name waits for its answer.
    ensure!(tally.has_tried(), "{name} was not run: {}", tally.summary());
    if tally.is_pass() { Ok(()) } else { bail!("{name}: this run does not pass") }
}

fn run_one(
    root: &Path,
    program: &Path,
    scenario: &Scenario,
    words: &[&str],
    tally: &mut Tally,
) -> Result<()> {
    for line in lines(root, program, scenario, words)? {
        println!("{line}");
        tally.take(&line);
    }
    Ok(())
}

/// What a scenario comes to, as a tally takes it. Not printed here: the lines of a test of this
/// would be counted among those of the tests.
fn lines(root: &Path, program: &Path, scenario: &Scenario, words: &[&str]) -> Result<Vec<String>> {
    let options = scenario.options(words)?;
    let program = program.canonicalize().with_context(|| program.display().to_string())?;
    let stage = Stage { program: &program, root, store: root.join("target/scenario"), options };
    let mut checks = Checks::default();
    match (scenario.run)(&stage, &mut checks) {
        Ok(()) => {}
        Err(Stop::Skipped(why)) => checks.skip(&why),
        Err(Stop::Failed(why)) => checks.hold(format!("{why:#}"), false),
    }
    Ok(checks.lines(scenario.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_scenario_and_others_are_refused() {
        let options = network::SCENARIO.options(&["cpu=skylake-sp", "append=a=b"]).unwrap();
        assert_eq!((options["cpu"].as_str(), options["append"].as_str()), ("skylake-sp", "a=b"));
        assert_eq!(options["guests"], "1", "the usual value");
        for word in ["nosuch=1", "cpu", ""] {
            let error = network::SCENARIO.options(&[word]).unwrap_err().to_string();
            assert!(error.contains("cpu=zen4"), "{error}");
        }
    }

    #[test]
    fn a_scenario_that_cannot_run_is_skipped_and_one_that_breaks_off_has_failed() {
        let root = crate::root();
        let outcome = |run| {
            let scenario = Scenario { name: "x", summary: "", options: &[], run, is_test: false };
            let mut tally = Tally::default();
            let program = std::env::current_exe().unwrap();
            let lines = lines(&root, &program, &scenario, &[]).unwrap();
            lines.iter().for_each(|line| tally.take(line));
            (tally.is_pass(), tally.summary())
        };
        let skipped = outcome(|_, _| Err(Stop::Skipped("no disk".into())));
        assert_eq!(skipped, (true, "0 passed, 1 skipped (no disk)".into()));
        assert!(!outcome(|_, _| Err(Stop::Failed(anyhow::anyhow!("broken")))).0);
        let held = outcome(|_, checks| {
            checks.hold("one", true);
            checks.hold("other", false);
            Ok(())
        });
        assert_eq!(held, (false, "1 passed, 0 skipped, 1 FAILED".into()));
    }
}
