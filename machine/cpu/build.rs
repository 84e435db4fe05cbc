//! Embeds the files of CPU models, one more file being one more model, and checks them.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

#[path = "src/model/schema.rs"]
#[expect(dead_code, reason = "the crate uses what is read here for its check alone")]
mod schema;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let folder = folder.canonicalize().expect("the folder of models");
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=src/model/schema.rs");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of models")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    let path = |name: &String| folder.join(format!("{name}.toml"));
    let mut is_right = true;
    for name in &names {
        let text = fs::read_to_string(path(name)).expect("a model's file");
        if let Err(error) = check(name, &text) {
            is_right = false;
            println!("cargo::error=machine/models/{name}.toml:");
            error.lines().for_each(|line| println!("cargo::error={line}"));
        }
    }
    let row = |name: &String| format!("    ({name:?}, include_str!({:?})),\n", path(name));
    let rows: String = names.iter().map(row).collect();
    let output = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("models.rs");
    fs::write(output, format!("&[\n{rows}]\n")).expect("cargo's folder takes files");
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(name: &str, text: &str) -> Result<(), String> {
    let file = schema::File::read(text)?;
    if file.name != name {
        return Err(format!("name is {:?}, must be {name:?}, as the file's", file.name));
    }
    Ok(())
}
