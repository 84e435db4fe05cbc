//! The workspace's crates as their manifests describe them.

use super::source::File;
use toml::{Table, Value};

/// A crate: its folder, and the crates of ours that it uses outside tests.
#[derive(Debug)]
pub struct Member {
    pub folder: String,
    pub uses: Vec<String>,
    manifest: Table,
}

/// The workspace's members. Ours are those that the root manifest gives a path.
pub fn members(files: &[File], problems: &mut Vec<String>) -> Vec<Member> {
    let mut read = |path: &str| -> Table {
        let Some(file) = files.iter().find(|file| file.path == path) else {
            problems.push(format!("{path}: not there"));
            return Table::new();
        };
        file.text.parse().unwrap_or_else(|error| {
            problems.push(format!("{path}: {error}"));
            Table::new()
        })
    };
    let root = read("Cargo.toml");
    let workspace = root.get("workspace");
    let ours: Vec<&str> = workspace
        .and_then(|workspace| workspace.get("dependencies")?.as_table())
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.get("path").is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    let folders = workspace.and_then(|workspace| workspace.get("members")?.as_array());
    let folders = folders.into_iter().flatten().filter_map(Value::as_str);
    folders
        .map(|folder| {
            let manifest = read(&format!("{folder}/Cargo.toml"));
            let uses =
                dependencies(&manifest).filter(|name| ours.contains(&name.as_str())).collect();
            Member { folder: folder.to_owned(), uses, manifest }
        })
        .collect()
}

/// Names of what a crate depends on outside tests, on every target.
fn dependencies(manifest: &Table) -> impl Iterator<Item = String> {
    let of_targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    of_targets
        .filter_map(|(_, target)| target.get("dependencies")?.as_table())
        .chain(manifest.get("dependencies").and_then(Value::as_table))
        .flat_map(|table| table.keys().cloned())
}

/// Every crate takes the workspace's lints, which forbid `unsafe`, or its README says why it
/// cannot.
pub fn check_lints(members: &[Member], files: &[File], problems: &mut Vec<String>) {
    for member in members {
        let lints = member.manifest.get("lints");
        let forbids = lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true);
        let readme = format!("{}/README.md", member.folder);
        let says_why =
            || files.iter().any(|file| file.path == readme && file.text.contains("unsafe"));
        if !forbids && !says_why() {
            problems.push(format!(
                "{}/Cargo.toml: no `[lints] workspace = true`, which forbids unsafe code, and no \
                 README that says why",
                member.folder
            ));
        }
    }
    let root = files.iter().find(|file| file.path == "Cargo.toml");
    if !root.is_some_and(|file| file.text.contains("unsafe_code = \"forbid\"")) {
        problems.push("Cargo.toml: the workspace's lints do not forbid unsafe code".into());
    }
}

/// Every crate says in a README what it is, what it may use, what it must never contain.
pub fn check_readmes(members: &[Member], files: &[File], problems: &mut Vec<String>) {
    for member in members {
        let readme = format!("{}/README.md", member.folder);
        if !files.iter().any(|file| file.path == readme && !file.text.trim().is_empty()) {
            problems.push(format!("{readme}: not there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn uses_are_ours_and_outside_tests() {
        let files = [
            file(
                "Cargo.toml",
                "[workspace]\nmembers = [\"a\"]\n[workspace.dependencies]\nb = { path = \"b\" }\n\
                 c = { path = \"c\" }\nserde = \"1\"\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\n",
            ),
            file(
                "a/Cargo.toml",
                "[dependencies]\nserde.workspace = true\nb.workspace = true\n[dev-dependencies]\nc = {}\n",
            ),
        ];
        let mut problems = vec![];
        let members = members(&files, &mut problems);
        assert_eq!(members[0].uses, ["b"]);
        assert_eq!(problems, [] as [String; 0]);
        check_lints(&members, &files, &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.clear();
        check_readmes(&members, &files, &mut problems);
        assert_eq!(problems, ["a/README.md: not there"]);
    }
}
