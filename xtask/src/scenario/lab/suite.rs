//! `lab suite`: programs that pass, skip, fail and hang, each on a host of its own and all on one;
//! `lab exec` with files and input that come after the boot.

use super::super::check::Checks;
use super::session::{Lab, Said};
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Name, result, program.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("fails", "fail", "#!/bin/sh\necho 1..2\necho ok 1\necho not ok 2 - two\n"),
    ("hangs", "stopped", "#!/bin/sh\necho before\nwhile :; do :; done\n"),
    ("passes", "pass", "#!/bin/sh\n[ -f data ]\n"),
    ("skips", "skip", "#!/bin/sh\necho '1..0 # SKIP - no such part'\nexit 4\n"),
];

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) -> Result<()> {
    let folder = lab.work.join("suite");
    fs::create_dir(&folder)?;
    for (name, _, text) in PROGRAMS {
        fs::write(folder.join(name), text)?;
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o755))?;
    }
    fs::write(folder.join("data"), "")?;
    let folder = folder.display().to_string();
    for sharing in [&[][..], &["--shared"]] {
        let what = format!("a suite is judged {}", sharing.join(" "));
        checks.succeed(&what, is_judged(lab, &folder, sharing));
    }
    checks.succeed("a suite is as its list has it", is_as_listed(lab, &folder));
    checks.succeed("input and files come and go", passes_input_and_files(lab));
    checks.succeed("a folder is shared, and changed if it may be", shares_a_folder(lab));
    Ok(())
}

fn suite(lab: &Lab<'_>, folder: &str, words: &[&str]) -> Result<Said> {
    let usual = ["suite", folder, "--kernel", &lab.kernel, "--each", "2"];
    lab.said(&[&usual[..], words].concat())
}

fn is_judged(lab: &Lab<'_>, folder: &str, sharing: &[&str]) -> Result<()> {
    let said = suite(lab, folder, &[sharing, &["--format", "json"]].concat())?;
    ensure!(said.status == Some(1), "{said:?}");
    let outcome: serde_json::Value = serde_json::from_str(&said.output)?;
    let tests = outcome["tests"].as_array().context("no tests")?;
    ensure!(tests.len() == PROGRAMS.len(), "{said:?}");
    for (test, (name, verdict, _)) in tests.iter().zip(PROGRAMS) {
        ensure!(test["name"] == name && test["verdict"] == verdict, "{test}");
    }
    let hung = &tests[1];
    ensure!(hung["output"] == "before\n", "what it wrote is kept: {hung}");
    ensure!(hung["reason"].as_str().is_some_and(|why| why.contains("processor 0")), "{hung}");
    Ok(())
}

fn is_as_listed(lab: &Lab<'_>, folder: &str) -> Result<()> {
    let list = lab.work.join("list.tsv");
    fs::write(
        &list,
        "hangs\t*\t*\t*\tstopped\tby design\nfails\t*\t*\t*\tfail\tby design\n\
                      skips\t*\t*\t*\tskip\tby design\n",
    )?;
    let expect = ["--expect", &list.display().to_string()];
    let said = suite(lab, folder, &[&expect[..], &["--format", "tap"]].concat())?;
    ensure!(said.status == Some(0), "only what differs counts: {said:?}");
    ensure!(said.output.contains("\nok 4 - skips"), "{said:?}");
    ensure!(said.output.contains("# SKIP no such part"), "{said:?}");
    let said = suite(lab, folder, &[&expect[..], &["--", "passes x"]].concat())?;
    ensure!(said.status == Some(0) && said.output.contains("pass    passes x"), "{said:?}");
    Ok(())
}

fn passes_input_and_files(lab: &Lab<'_>) -> Result<()> {
    let (from, to) = (lab.work.join("from"), lab.work.join("to"));
    fs::write(&from, "a file\n")?;
    let root = format!("{}=/tmp/there", from.display());
    let get = format!("/tmp/back={}", to.display());
    let script = "cat; cat /tmp/there > /tmp/back; echo $WORD";
    let mut command = lab.command(&[
        "exec",
        "--kernel",
        &lab.kernel,
        "-i",
        "--root",
        &root,
        "--get",
        &get,
        "--env",
        "WORD=said",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("a pipe")?.write_all(b"typed\n")?;
    let said = Said::of(child.wait_with_output()?);
    ensure!(said.status == Some(0) && said.output == "typed\nsaid\n", "{said:?}");
    ensure!(fs::read_to_string(&to)? == "a file\n", "{said:?}");
    Ok(())
}

/// The second host is the first one as it was kept; the third may not write.
fn shares_a_folder(lab: &Lab<'_>) -> Result<()> {
    let folder = lab.work.join("shared");
    fs::create_dir(&folder)?;
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\ncat in && echo \"$1\" > out\n")?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    for (word, access) in [("first", ",writable"), ("second", ",writable"), ("third", "")] {
        fs::write(folder.join("in"), format!("for the {word}"))?;
        let share = format!("{}=/there{access}", folder.display());
        let options = ["--share", &share, "--chdir", "/there"];
        let said = lab.exec(&options, &["/there/program", word])?;
        let written = fs::read_to_string(folder.join("out"))?;
        ensure!(said.output == format!("for the {word}"), "{said:?}");
        if access.is_empty() {
            ensure!(said.status != Some(0) && said.errors.contains("Read-only"), "{said:?}");
            ensure!(written == "second\n", "{written:?}");
        } else {
            ensure!(said.status == Some(0) && written == format!("{word}\n"), "{said:?}");
        }
    }
    let said = lab.exec(&["--chdir", "/nowhere"], &["check"])?;
    let answer = "cannot start in /nowhere: No such file";
    ensure!(said.status != Some(0) && said.errors.contains(answer), "{said:?}");
    Ok(())
}
