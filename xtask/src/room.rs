//! `cargo xtask test ROOM`: the tests of one room, such as `cpu::svm` or `clauses::vmx::entry`.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Whether the word names a room, not a program's file.
pub fn is_room(root: &Path, word: &str) -> bool {
    !word.contains('/') && folder(root, first(word)).is_some()
}

/// Runs cargo with the tests of that room alone.
pub fn test(root: &Path, word: &str) -> Result<()> {
    let folder = folder(root, first(word)).with_context(|| format!("no crate is called {word}"))?;
    let path = folder.join("Cargo.toml");
    let manifest: Table = std::fs::read_to_string(&path)?.parse()?;
    let arguments = arguments(&manifest, word).with_context(|| path.display().to_string())?;
    println!("cargo {}", arguments.join(" "));
    let status = crate::cargo::cargo().args(&arguments).current_dir(root).status()?;
    if !status.success() {
        bail!("{word}: {status}");
    }
    Ok(())
}

fn first(word: &str) -> &str {
    word.split("::").next().unwrap_or(word)
}

/// The member whose folder has that last name.
fn folder(root: &Path, name: &str) -> Option<PathBuf> {
    let manifest: Table = std::fs::read_to_string(root.join("Cargo.toml")).ok()?.parse().ok()?;
    let members = manifest.get("workspace")?.get("members")?.as_array()?.iter();
    let mut members = members.filter_map(Value::as_str).map(|member| root.join(member));
    members.find(|member| member.file_name().is_some_and(|last| last == name))
}

/// Modules are the beginnings of tests' names, but for the targets of a crate that has several.
fn arguments(manifest: &Table, word: &str) -> Option<Vec<String>> {
    let package = manifest.get("package")?.get("name")?.as_str()?;
    let mut arguments = ["test", "--locked", "--package", package].map(str::to_owned).to_vec();
    let targets = manifest.get("test").and_then(Value::as_array).into_iter().flatten();
    let targets: Vec<&str> = targets.filter_map(|target| target.get("name")?.as_str()).collect();
    let mut rooms = word.split("::").skip(1).peekable();
    if let Some(target) = rooms.next_if(|room| targets.contains(room)) {
        arguments.extend(["--test".to_owned(), target.to_owned()]);
    }
    let rooms: Vec<&str> = rooms.collect();
    if !rooms.is_empty() {
        arguments.push(rooms.join("::"));
    }
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_a_crate_a_target_and_the_beginning_of_names() {
        let plain = "[package]\nname = \"avicenna-cpu\"";
        let several = "[package]\nname = \"avicenna-clauses\"\n[[test]]\nname = \"vmx\"";
        for (manifest, word, expected) in [
            (plain, "cpu", "test --locked --package avicenna-cpu"),
            (plain, "cpu::svm::exit", "test --locked --package avicenna-cpu svm::exit"),
            (several, "clauses::vmx", "test --locked --package avicenna-clauses --test vmx"),
            (
                several,
                "clauses::vmx::entry",
                "test --locked --package avicenna-clauses --test vmx entry",
            ),
            (several, "clauses::other", "test --locked --package avicenna-clauses other"),
        ] {
            let found = arguments(&manifest.parse().unwrap(), word).unwrap();
            assert_eq!(found.join(" "), expected, "{word}");
        }
    }

    #[test]
    fn crates_are_found_by_their_folder() {
        let root = crate::root();
        assert!(is_room(&root, "cpu::svm") && is_room(&root, "clauses"));
        assert!(!is_room(&root, "nosuch") && !is_room(&root, "target/debug/cpu"));
    }
}
