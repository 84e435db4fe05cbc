//! What a scenario is, and what it is given.

use super::check::Checks;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// One of a kind.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Name, usual value, meaning.
    pub(super) options: &'static [(&'static str, &'static str, &'static str)],
    pub(super) run: fn(&Stage<'_>, &mut Checks) -> Result<(), Stop>,
    /// Whether `cargo xtask test` runs it.
    pub(super) is_test: bool,
}

/// Why a scenario has no result.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something that it needs is not to be had on this machine.
    Skipped(String),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// What a scenario is given.
pub(super) struct Stage<'a> {
    pub(super) program: &'a Path,
    /// The workspace's folder.
    pub(super) root: &'a Path,
    /// A folder for all scenarios, which is kept: packages are fetched once.
    pub(super) store: PathBuf,
    pub(super) options: BTreeMap<&'static str, String>,
}

impl Stage<'_> {
    /// An option, as its usual value is where none was given.
    pub(super) fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// A folder for this run alone, empty. Runs with other options beside it have their own.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let word = |text: &String| text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let words: Vec<String> = self.options.values().map(word).collect();
        let folder = self.store.join(format!("{name}-{}", words.join("-")));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// The folder of a distribution's kernel, which the program fetches for its lab.
    pub(super) fn kernel(&self, name: &str) -> Result<PathBuf, Stop> {
        crate::golden::kernel(self.program, name)
            .ok_or_else(|| Stop::Skipped(format!("no kernel can be fetched here ({name})")))
    }
}

impl Scenario {
    pub(super) fn options(&self, words: &[&str]) -> Result<BTreeMap<&'static str, String>> {
        let usual = self.options.iter().map(|(name, usual, _)| (*name, (*usual).to_owned()));
        let mut options: BTreeMap<&'static str, String> = usual.collect();
        for word in words {
            let given = word.split_once('=');
            let place = given.and_then(|(name, _)| options.get_mut(name));
            let (Some(place), Some((_, value))) = (place, given) else {
                bail!("{word:?} is not an option:\n{self}");
            };
            value.clone_into(place);
        }
        Ok(options)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:14} {}", self.name, self.summary)?;
        for (name, usual, meaning) in self.options {
            let option = format!("{name}={usual}");
            write!(f, "\n{:14}   {option:24} {meaning}", "")?;
        }
        Ok(())
    }
}
