//! How long stages of earlier runs took, so that a waiting user knows what to expect.

use crate::host::cache;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Where they are, in the cache.
pub(crate) const FOLDER: &str = "times";
/// Stages that are remembered.
const MOST: usize = 200;
/// A longer file is not ours.
const MOST_BYTES: u64 = 1 << 20;

/// Seconds by the stage's name. Nothing here is worth a complaint.
#[derive(Debug, Default)]
pub struct Expected {
    seconds: BTreeMap<String, f64>,
}

fn path() -> Option<PathBuf> {
    Some(cache::folder(FOLDER).ok()?.join("stages.json"))
}

impl Expected {
    /// As earlier runs have left them.
    pub fn load() -> Self {
        let read = || {
            let path = path()?;
            let is_small = std::fs::metadata(&path).ok()?.len() <= MOST_BYTES;
            is_small.then(|| std::fs::read(path).ok()).flatten()
        };
        let seconds = read().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { seconds: seconds.unwrap_or_default() }
    }

    /// None where the stage was never run.
    pub fn of(&self, stage: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(*self.seconds.get(stage)?).ok()
    }

    /// What it took this time is what is expected next time.
    pub fn learn(&mut self, stage: &str, took: Duration) {
        if self.seconds.len() < MOST || self.seconds.contains_key(stage) {
            self.seconds.insert(stage.to_owned(), took.as_secs_f64());
        }
    }

    /// For later runs.
    pub fn save(&self) {
        if let (Some(path), Ok(text)) = (path(), serde_json::to_vec(&self.seconds)) {
            let _ = std::fs::write(path, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_is_what_is_expected() {
        let mut expected = Expected::default();
        assert_eq!(expected.of("boot"), None);
        expected.learn("boot", Duration::from_secs(9));
        expected.learn("boot", Duration::from_secs(11));
        assert_eq!(expected.of("boot"), Some(Duration::from_secs(11)));
        (0..2 * MOST).for_each(|stage| expected.learn(&stage.to_string(), Duration::ZERO));
        assert_eq!(expected.seconds.len(), MOST);
    }
}
