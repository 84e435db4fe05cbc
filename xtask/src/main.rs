//! `cargo xtask`: the project's own checks and image building.

mod guest;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask guest";

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("guest") => guest::build(),
        _ => bail!("{USAGE}"),
    }
}
