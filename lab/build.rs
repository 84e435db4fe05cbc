//! Lists the recipes and the published figures of the folders beside it, so that a new one is a
//! file and nothing else.

use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    list("recipes")?;
    list("evidence")
}

fn list(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut list = String::from("&[\n");
    for file in files {
        let path = file.path();
        if let (Some(name), Some("toml")) = (
            path.file_stem().and_then(|name| name.to_str()),
            path.extension().and_then(|end| end.to_str()),
        ) {
            writeln!(list, "({name:?}, include_str!({:?})),", path.display().to_string())?;
        }
    }
    list.push(']');
    let file = format!("{name}.rs");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join(file), list)?;
    Ok(())
}
