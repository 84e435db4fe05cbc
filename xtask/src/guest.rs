//! `cargo xtask guest`: the guests' images as files, for QEMU, GRUB and real hardware.

#[path = "../../guest/images.rs"]
mod images;

use anyhow::{Context, Result, anyhow};
use std::path::Path;

/// Builds the images and puts them at `target/guest/NAME.elf`.
pub fn build() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let target = root.join("target/guest");
    let paths = images::build(env!("CARGO"), &root.join("guest"), &target)
        .map_err(|message| anyhow!(message))?;
    for (name, path) in images::NAMES.iter().zip(paths) {
        let image = target.join(name).with_extension("elf");
        let size = std::fs::copy(&path, &image)
            .with_context(|| format!("cannot copy {} to {}", path.display(), image.display()))?;
        println!("{} ({size} bytes)", image.display());
    }
    Ok(())
}
