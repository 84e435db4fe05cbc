//! A guest among others that begin their work at once.

use super::place::TOGETHER;
use anyhow::Context;

/// What a guest prints that is ready.
pub(crate) const READY: &str = "{\"record\":\"ready\"}";

/// Waits until all guests that run at once are where this one is; alone, it goes on.
pub(crate) fn wait_for_others() -> anyhow::Result<()> {
    let words = std::fs::read_to_string("/proc/cmdline").context("/proc/cmdline")?;
    if words.split_ascii_whitespace().any(|word| word == TOGETHER) {
        say!("{READY}");
        std::io::stdin().read_line(&mut String::new()).context("the console")?;
    }
    Ok(())
}
