//! What earlier runs of plans found, so that a list of figures needs no run.

use super::published::Published;
use crate::host::cache;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Where they are, in the cache.
pub(crate) const FOLDER: &str = "evidence";
/// A longer file is not ours.
const MOST_BYTES: u64 = 4 << 20;

/// What a plan gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Found {
    /// In the figure's unit.
    pub value: f64,
    /// Of the seeds and of the costs, where the run tells it.
    pub interval: Option<(f64, f64)>,
    /// The program that ran it.
    pub program: String,
    /// What else was asked of the plan, such as other costs.
    pub with: String,
    /// What ran, so that a plan that was changed has no result.
    pub run: String,
}

/// All of them, by the figure's name.
#[derive(Debug, Default)]
pub struct Kept {
    path: Option<PathBuf>,
    found: BTreeMap<String, Found>,
}

impl Kept {
    /// As earlier runs left it; nothing where there is none or it cannot be read.
    pub fn open() -> Self {
        cache::folder(FOLDER)
            .map_or_else(|_| Self::default(), |folder| Self::at(folder.join("found.json")))
    }

    fn at(path: PathBuf) -> Self {
        let is_small = std::fs::metadata(&path).is_ok_and(|facts| facts.len() <= MOST_BYTES);
        let bytes = is_small.then(|| std::fs::read(&path).ok()).flatten();
        let found = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { path: Some(path), found: found.unwrap_or_default() }
    }

    /// What was found for a figure by its plan as it is.
    pub fn of(&self, figure: &Published) -> Option<&Found> {
        let found = self.found.get(&figure.name)?;
        (figure.plan.as_ref()?.run == found.run).then_some(found)
    }

    /// Keeps a result in place of the last one.
    pub fn put(&mut self, figure: &Published, found: Found) {
        self.found.insert(figure.name.clone(), found);
    }

    /// Others see the file when it is whole, or not at all.
    pub fn save(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let folder = path.parent().context("a file has a folder")?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&self.found)?)?;
        file.persist(path).with_context(|| format!("cannot keep {}", path.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_there_again_until_the_plan_changes() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let path = folder.path().join("found.json");
        let mut figure = Published::all().remove(0);
        let run = figure.plan.as_ref().expect("a plan").run.clone();
        let found = Found {
            value: 1.5,
            interval: Some((1.0, 2.0)),
            program: "avicenna".into(),
            with: String::new(),
            run,
        };
        let mut kept = Kept::at(path.clone());
        assert_eq!(kept.of(&figure), None);
        kept.put(&figure, found.clone());
        kept.save().expect("a writable folder");
        assert_eq!(Kept::at(path.clone()).of(&figure), Some(&found));
        figure.plan.as_mut().expect("a plan").run += " --cpus 2";
        assert_eq!(Kept::at(path).of(&figure), None);
    }
}
