//! Programs of this machine that the lab runs: none outlives what it was started for.

use crate::watch::Watch;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Between two looks at a command that runs.
const PAUSE: Duration = Duration::from_millis(20);

/// Standard output of a command that must succeed. It is ended, with all that it started, when the
/// watch wants an end: a package manager that lives on would hold its locks and fill its folder.
pub(crate) fn output(command: &mut Command, watch: &mut Watch<'_>) -> anyhow::Result<String> {
    let mut out = tempfile::tempfile()?;
    Program::start(command.stdin(Stdio::null()).stdout(out.try_clone()?))?.succeed(watch)?;
    text_of(&mut out)
}

/// A program that runs, in a group of its own, which does not outlive this.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    pub(super) child: Child,
    errors: File,
}

impl Program {
    /// Starts it, with its input and output as the command has them.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let errors = tempfile::tempfile()?;
        let child = command.stderr(errors.try_clone()?).process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, errors })
    }

    /// Waits for its end, which must be a success.
    pub(super) fn succeed(mut self, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            watch.check()?;
            std::thread::sleep(PAUSE);
        };
        if !status.success() {
            let error = text_of(&mut self.errors)?;
            let last = error.trim().lines().last().unwrap_or("without a word");
            bail!("{} failed: {last}", self.name);
        }
        Ok(())
    }
}

fn text_of(file: &mut File) -> anyhow::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Program {
    fn drop(&mut self) {
        if let (Ok(None), Some(group)) =
            (self.child.try_wait(), Pid::from_raw(self.child.id() as i32))
        {
            let _ = rustix::process::kill_process_group(group, Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{Halt, Told};
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn a_command_that_is_interrupted_is_ended_with_all_that_it_started() {
        let stop = AtomicBool::new(false);
        let mut told = 0;
        // Interrupted at the third look.
        let mut tell = |_: Told<'_>| {
            told += 1;
            stop.store(told == 3, std::sync::atomic::Ordering::Relaxed);
        };
        let folder = tempfile::tempdir().expect("a writable folder");
        let mark = folder.path().join("alive");
        let script = format!("(sleep 1; touch {}) & sleep 60", mark.display());
        let mut watch = Watch::new(&stop, Duration::from_secs(60), &mut tell);
        let started = Instant::now();
        let error = output(Command::new("sh").args(["-c", &script]), &mut watch);
        let error = error.expect_err("interrupted");
        assert_eq!(error.downcast_ref(), Some(&Halt::Interrupted));
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "what it started went on");
    }
}
