//! Cargo, as this program was started by it.

use std::process::Command;

pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
