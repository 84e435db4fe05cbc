//! The programs of a suite: files that can be executed, in a folder and those below it.

use super::judge::Convention;
use crate::host::initramfs::Initramfs;
use crate::protocol::Command;
use anyhow::Context;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where suites are on the emulated host.
const FOLDER: &str = "/suite";
/// Files of a folder at most, and the bytes that go with a script.
const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 512 << 20;
/// Folders in folders.
const DEEPEST: usize = 8;

/// A test: a program, with arguments or without, and what it needs.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called: its path below the suite's folder, and its arguments.
    pub name: String,
    /// What is run.
    pub(super) command: Command,
    /// What goes to the host first.
    pub(super) files: Initramfs,
    /// What its end says.
    pub(super) convention: Convention,
    /// Why it is not run at all.
    pub(super) skipped: Option<String>,
}

/// The programs of a folder that `wanted` names: patterns of names with `*`, or one with arguments
/// behind it; without any all of them.
pub fn of_folder(folder: &Path, wanted: &[String]) -> anyhow::Result<Vec<Program>> {
    let failed = || format!("cannot read {}", folder.display());
    let folder = folder.canonicalize().with_context(failed)?;
    let files = files(&folder)?;
    let names: Vec<String> =
        files.iter().filter(|file| file.is_executable).map(|file| file.name.clone()).collect();
    anyhow::ensure!(!names.is_empty(), "{} has no file that can be executed", folder.display());
    let mut chosen = Vec::new();
    for words in wanted {
        let mut words = words.split_ascii_whitespace();
        let pattern = words.next().context("a test without a name")?;
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        let found: Vec<&String> = names.iter().filter(|name| matches(pattern, name)).collect();
        anyhow::ensure!(!found.is_empty(), "{} has no test {pattern}", folder.display());
        // One that is named twice is run once.
        for test in found.into_iter().map(|name| (name.clone(), arguments.clone())) {
            if !chosen.contains(&test) {
                chosen.push(test);
            }
        }
    }
    if wanted.is_empty() {
        chosen = names.into_iter().map(|name| (name, Vec::new())).collect();
    }
    chosen.into_iter().map(|(name, arguments)| program(&folder, &files, &name, arguments)).collect()
}

/// A file of the suite's folder.
struct Found {
    name: String,
    is_executable: bool,
    bytes: u64,
}

/// All files, sorted by name.
fn files(folder: &Path) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut waiting = vec![(folder.to_owned(), 0)];
    while let Some((inner, depth)) = waiting.pop() {
        let entries = std::fs::read_dir(&inner);
        for entry in entries.with_context(|| format!("cannot read {}", inner.display()))? {
            let path = entry?.path();
            let Ok(facts) = std::fs::metadata(&path) else { continue };
            if facts.is_dir() && depth < DEEPEST {
                waiting.push((path, depth + 1));
            } else if facts.is_file() {
                anyhow::ensure!(
                    found.len() < MOST_FILES,
                    "more than {MOST_FILES} files in {}",
                    folder.display()
                );
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                let is_executable = facts.permissions().mode() & 0o111 != 0;
                found.push(Found { name, is_executable, bytes: facts.len() });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn program(
    folder: &Path,
    all: &[Found],
    name: &str,
    arguments: Vec<String>,
) -> anyhow::Result<Program> {
    let place = |name: &str| format!("{FOLDER}/{name}");
    let mut files = Initramfs::default();
    let path = folder.join(name);
    files.add_program(&place(name), &path)?;
    // A script may use whatever is beside it.
    if std::fs::read(&path)?.starts_with(b"#!") {
        let bytes: u64 = all.iter().map(|file| file.bytes).sum();
        anyhow::ensure!(
            bytes <= MOST_BYTES,
            "{name} is a script, which gets the whole folder, and that has {} MB: {} at most",
            bytes >> 20,
            MOST_BYTES >> 20
        );
        for other in all {
            files.add_program(&place(&other.name), &folder.join(&other.name))?;
        }
    }
    let there = PathBuf::from(place(name));
    let folder = there.parent().map(|folder| folder.display().to_string());
    let name = std::iter::once(name.to_owned()).chain(arguments.iter().cloned());
    let name = name.collect::<Vec<_>>().join(" ");
    let words = std::iter::once(there.display().to_string()).chain(arguments).collect();
    let command = Command { folder, ..Command::new(words) };
    Ok(Program { name, command, files, convention: Convention::Selftest, skipped: None })
}

impl Program {
    /// A verb of avicenna on the host, with files of this machine at paths there.
    pub fn of_verb(name: &str, words: &[&str], files: &[(&Path, &str)]) -> anyhow::Result<Self> {
        let mut tree = Initramfs::default();
        for (from, to) in files {
            tree.add(
                to,
                std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?,
            );
        }
        let words = std::iter::once("/proc/self/exe").chain(words.iter().copied());
        let command = Command::new(words.map(str::to_owned).collect());
        let (name, convention) = (name.to_owned(), Convention::Selftest);
        Ok(Self { name, command, files: tree, convention, skipped: None })
    }

    /// The same with another convention.
    pub(super) fn judged_by(self, convention: Convention) -> Self {
        Self { convention, ..self }
    }

    /// One that is not run, and why.
    pub(super) fn skipped(name: &str, why: &str) -> Self {
        Self {
            name: name.to_owned(),
            command: Command::default(),
            files: Initramfs::default(),
            convention: Convention::Selftest,
            skipped: Some(why.to_owned()),
        }
    }

    /// Leaves to the host's boot what that brings anyway.
    pub fn without(&mut self, booted: &Initramfs) {
        self.files.subtract(booted);
    }
}

/// Whether a name is as a pattern says; the last part of a name will do.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    is_like(pattern, name) || is_like(pattern, last)
}

/// Whether a text is as a pattern says, in which `*` is any text.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_pattern_is_for_a_name_or_its_last_part() {
        for (pattern, name, expected) in [
            ("svm_*", "x86_64/svm_vmcall_test", true),
            ("x86_64/*", "x86_64/svm_vmcall_test", true),
            ("*vmcall*", "x86_64/svm_vmcall_test", true),
            ("svm", "x86_64/svm_vmcall_test", false),
            ("*", "a", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("", "a", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn programs_are_what_can_be_executed_and_a_script_gets_what_is_beside_it() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let write = |name: &str, mode| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
            std::fs::write(&path, "#!/bin/sh\n").expect("a writable folder");
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        };
        write("inner/test", 0o755);
        write("data", 0o644);
        let all = of_folder(folder.path(), &[]).expect("a suite");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].name, "inner/test");
        assert_eq!(all[0].command.folder.as_deref(), Some("/suite/inner"));
        assert!(all[0].files.contains(Path::new("/suite/data")));
        let one = ["test -x 1", "t* -x 1"].map(str::to_owned);
        let one = of_folder(folder.path(), &one).expect("a test");
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].name, "inner/test -x 1");
        assert_eq!(one[0].command.arguments, ["/suite/inner/test", "-x", "1"]);
        let error = of_folder(folder.path(), &["nosuch".to_owned()]).expect_err("no such test");
        assert!(error.to_string().contains("nosuch"), "{error}");
    }
}
