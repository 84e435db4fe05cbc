//! Runs one instruction on the host processor with a chosen floating-point and vector state.
//! See README.md for what the tests do with it.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod emulated;
mod host;
mod image;
pub mod integer;
pub mod operands;

pub use emulated::{Emulated, OPERANDS, signal};
pub use host::{Block, MEMORY, Native, Signal, has_avx};
pub use image::Image;

/// Whether the host is of another vendor than AMD, whose results the emulated processor gives where
/// vendors differ; says so of `what`, which is then not compared.
pub fn is_others(what: &str) -> bool {
    let is_others = !integer::is_amd();
    if is_others {
        println!("skipped: {what}: vendors differ, and the host is not AMD's");
    }
    is_others
}
