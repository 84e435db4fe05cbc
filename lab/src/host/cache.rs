//! What the lab keeps from one run to the next: in the user's cache folder.

use anyhow::Context;
use std::path::PathBuf;

/// A folder of ours there.
pub(crate) fn folder(part: &str) -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let folder = cache.unwrap_or_else(std::env::temp_dir).join("avicenna").join(part);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
