//! The program's lab as the checks use it.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program's lab with a folder for what it writes, and a kernel.
pub(super) struct Lab<'a> {
    pub(super) program: &'a Path,
    pub(super) work: PathBuf,
    pub(super) kernel: String,
}

impl Lab<'_> {
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.arg("lab").args(words).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", self.work.join("cache"));
        command
    }

    pub(super) fn said(&self, words: &[&str]) -> Result<Said> {
        let output = self.command(words).output().context("cannot start the lab")?;
        Ok(Said::of(output))
    }

    /// `lab run` with a result.
    pub(super) fn run(&self, name: &str, words: &[&str]) -> Result<Outcome> {
        let file = self.work.join(name);
        let place = file.display().to_string();
        let said = self.said(&[&["run", "--format", "json", "-o", &place], words].concat())?;
        let text = fs::read_to_string(&file)
            .with_context(|| format!("lab run {} wrote no result: {said:?}", words.join(" ")))?;
        let result = serde_json::from_str(&text).with_context(|| place.clone())?;
        Ok(Outcome { status: said.status, result })
    }

    /// The same on the kernel.
    pub(super) fn run_kvm(&self, name: &str, words: &[&str]) -> Result<Outcome> {
        self.run(name, &[&["--kernel", &self.kernel], words].concat())
    }

    pub(super) fn exec(&self, options: &[&str], words: &[&str]) -> Result<Said> {
        self.said(&[&["exec", "--kernel", &self.kernel], options, &["--"], words].concat())
    }
}

/// What a command left.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: Option<i32>,
    pub(super) output: String,
    pub(super) errors: String,
}

impl Said {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (errors, status) = (text(&output.stderr), output.status.code());
        Self { status, output: text(&output.stdout), errors }
    }

    /// Whether a line has these parts in this order, with nothing but spaces between.
    pub(super) fn says(&self, first: &str, then: &str) -> bool {
        self.output.lines().any(|line| {
            let after = line.split_once(first).map(|(_, after)| after);
            after
                .is_some_and(|after| after.starts_with(' ') && after.trim_start().starts_with(then))
        })
    }
}

/// Of a comparison.
pub(super) struct Outcome {
    pub(super) status: Option<i32>,
    pub(super) result: Value,
}
