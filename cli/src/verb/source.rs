//! Which host a verb is about: this one, or a recorded one.

use crate::status::Status;
use crate::terminal::remark;
use anyhow::Context as _;
use facts::{Error, Facts, Inputs, source};
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

/// The bytes of a file that a user names, `most` of them; `limit` says what that is.
pub fn file(path: &Path, most: u64, limit: &str) -> anyhow::Result<Vec<u8>> {
    named(path, limit, source::read(path, most))
}

/// A file that a user names, of a bounded size.
pub enum Named {
    /// One that stays as it is, as files do: it is read where its bytes are wanted.
    Ordinary(Ordinary),
    /// All of another, such as a pipe.
    Read(Vec<u8>),
}

/// An open file and its size.
pub struct Ordinary {
    file: std::fs::File,
    length: u64,
}

impl board::load::ReadAt for Ordinary {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, offset)
    }
}

impl Named {
    /// As [`file`], without reading what can be read later. Some files of the system's own say that
    /// they are empty, and are not.
    pub fn open(path: &Path, most: u64, limit: &str) -> anyhow::Result<Self> {
        if let Ok(Some(file)) = source::open_ordinary(path)
            && let Ok(status) = file.metadata()
            && (1..=most).contains(&status.len())
        {
            return Ok(Self::Ordinary(Ordinary { file, length: status.len() }));
        }
        file(path, most, limit).map(Self::Read)
    }

    /// With the name by which messages call it.
    pub fn source<'a>(&'a self, name: &'a str) -> board::load::Source<'a> {
        match self {
            Self::Ordinary(file) => board::load::Source::on_disk(name, file, file.length),
            Self::Read(bytes) => board::load::Source::of(name, bytes),
        }
    }
}

/// The same of a text.
pub fn text(path: &Path, most: u64, limit: &str) -> anyhow::Result<String> {
    named(path, limit, source::read_text(path, most))
}

fn named<T>(path: &Path, limit: &str, read: Result<T, source::Error>) -> anyhow::Result<T> {
    let name = path.display();
    match read {
        Err(source::Error::TooBig { most }) => {
            anyhow::bail!("{name} is larger than {}, {limit}", source::amount(most))
        }
        Err(error @ source::Error::Open(_)) => {
            Err(error).with_context(|| format!("cannot open {name}"))
        }
        other => other.with_context(|| format!("cannot read {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused_and_one_that_just_fits_is_not() {
        let error = file(Path::new("/dev/zero"), 3 << 20, "the limit").expect_err("no end");
        assert_eq!(error.to_string(), "/dev/zero is larger than 3 MiB, the limit");
        let size = std::fs::metadata("Cargo.toml").expect("the manifest is there").len();
        let bytes = file(Path::new("Cargo.toml"), size, "the limit").expect("it fits");
        assert_eq!(bytes.len() as u64, size);
        assert!(file(Path::new("Cargo.toml"), size - 1, "the limit").is_err());
        let error = file(Path::new("/nonexistent"), 1, "").expect_err("no file");
        assert_eq!(error.to_string(), "cannot open /nonexistent");
    }
}
