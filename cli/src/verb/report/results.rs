//! Figures of experiments and of runs of the lab, as their verbs leave them.

use anyhow::Context as _;
use report::result::{Outcome, Trial};
use serde::Deserialize;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What a folder or a file of results holds.
#[derive(Debug, Default, Deserialize)]
pub struct Results {
    #[serde(default)]
    pub trials: Vec<Trial>,
    #[serde(default)]
    pub outcomes: Vec<Outcome>,
}

/// In the folder of an experiment.
const NAME: &str = "results.json";
/// No experiment leaves more.
const LARGEST: u64 = 256 << 20;
/// What such a file begins with, within its first bytes.
const MARK: &str = "\"avicenna-results\"";

/// The results at a path; `None` where it is something else.
pub fn find(path: &Path) -> Option<anyhow::Result<Results>> {
    let file = if path.is_dir() { path.join(NAME) } else { path.to_owned() };
    if !file.is_file() {
        return None;
    }
    let mut head = String::new();
    // What is no text is no result; what cannot be read is said by whoever reads it next.
    File::open(&file).ok()?.take(200).read_to_string(&mut head).ok()?;
    head.contains(MARK).then(|| read(&file))
}

fn read(file: &Path) -> anyhow::Result<Results> {
    let length = std::fs::metadata(file)?.len();
    anyhow::ensure!(length <= LARGEST, "{length} bytes, and no results have more than {LARGEST}");
    let text = std::fs::read(file)?;
    serde_json::from_slice(&text).context("not the results of an experiment or of the lab")
}
