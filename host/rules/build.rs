//! Lists the lint rules: one more file in their folder is one more rule.

use std::path::Path;
use std::{env, fs};

fn main() {
    // Asked when it runs: a copy of the checkout has rules of its own.
    let here = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let folder = Path::new(&here).join("src/lint/rules");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of rules")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_suffix(".rs")?.to_owned()))
        .collect();
    // By identifier, with which the names begin.
    names.sort();
    let module =
        |name: &String| format!("#[path = {:?}]\nmod {name};\n", folder.join(format!("{name}.rs")));
    let modules: String = names.iter().map(module).collect();
    let rows: String = names.iter().map(|name| format!("    &{name}::RULE,\n")).collect();
    let table = format!("{modules}\nstatic RULES: &[&Rule] = &[\n{rows}];\n");
    let output = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("rules.rs");
    fs::write(output, table).expect("cargo's folder takes files");
}
