//! Embeds the cost profiles: one more file is one more profile.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("costs");
    let folder = folder.canonicalize().expect("the folder of profiles");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of profiles")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    let row = |name: &String| {
        let path = folder.join(format!("{name}.toml"));
        format!("    ({name:?}, include_str!({path:?})),\n")
    };
    let rows: String = names.iter().map(row).collect();
    let output = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("costs.rs");
    fs::write(output, format!("&[\n{rows}]\n")).expect("cargo's folder takes files");
}
