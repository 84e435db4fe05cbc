//! Which host a verb is about: this one, or a recorded one.

use crate::status::Status;
use crate::terminal::remark;
use facts::{Error, Facts, Inputs};
use rules::Answer;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Source {
    /// Read a recorded host instead of this one: a folder, a snapshot, a sosreport, or a single
    /// CPUID listing, /proc/cpuinfo, lscpu output, process list, kernel log, ACPI table or
    /// acpidump; `-` is standard input
    #[arg(long, value_name = "PATH")]
    pub root: Option<PathBuf>,
}

impl Source {
    pub fn inputs(&self) -> anyhow::Result<Inputs> {
        match &self.root {
            Some(path) => recorded(path),
            None => Ok(facts::live()),
        }
    }

    pub fn facts(&self) -> anyhow::Result<Facts> {
        Ok(facts::facts(&self.inputs()?))
    }
}

/// A recorded host; `-` is what comes in on standard input.
pub fn recorded(path: &Path) -> anyhow::Result<Inputs> {
    match path.as_os_str() == "-" {
        true => facts::pasted(std::io::stdin().lock(), "standard input"),
        false => facts::recorded(path),
    }
    .map_err(|error| match &error {
        Error::UnknownFormat { path, text } | Error::TooBig { path, text, .. }
            if rules::configuration::detect(text).is_some() =>
        {
            let path = path.display();
            anyhow::anyhow!("{path}: a configuration file, not a host: use avicenna lint")
        }
        _ => error.into(),
    })
}

/// The exit status of an answer that rests on these facts: where a part of them is missing, nothing
/// is certain.
pub fn status(facts: &Facts, answer: Answer) -> ExitCode {
    match &facts.incomplete {
        Some(why) => {
            remark(&format!(
                "avicenna: {}: {why}; what it does not show may be there",
                facts.origin
            ));
            Status::CannotTell.into()
        }
        None => Status::from(answer).into(),
    }
}
