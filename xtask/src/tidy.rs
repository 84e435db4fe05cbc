//! `cargo xtask tidy`: the rules of this project that no compiler knows.
//!
//! Lengths of files, one form of modules, the width of prose, the table of ARCHITECTURE.md against
//! what crates depend on, a README for each crate, the ban on `unsafe`, words that mark unfinished
//! work, citations of documents that SPECIFICATIONS.md does not list, paths that are named and not
//! there, functions that panic where the system refuses, circles of modules and vendors' names
//! against ceilings that only fall, the trace's vocabulary against who makes and shows it, and
//! docs/deviations.md against the marks it is collected from.

mod ceiling;
mod circle;
mod column;
mod deviation;
mod layer;
mod length;
mod manifest;
mod module;
mod panicking;
mod path;
mod pure;
mod source;
mod specification;
mod token;
mod vendor;
mod vocabulary;
mod word;

use anyhow::{Context, Result, bail};
use source::File;
use std::fs;
use std::path::Path;

/// Folders that hold no source of ours.
const SKIPPED: [&str; 4] = ["target", "corpus", "artifacts", ".git"];

/// Endings of what is read.
const READ: [&str; 6] = ["rs", "md", "toml", "sh", "S", "c"];

/// Modules that may use each other.
const LARGEST_CIRCLE: usize = 5;

/// Deepest folder, most files.
const DEPTH: usize = 16;
const FILES: usize = 20_000;

/// Runs every check and lists the long files; an error says what is wrong.
pub fn run(root: &Path, write: bool) -> Result<()> {
    for (path, lines) in check(root, write)? {
        println!("{lines} lines  {path}");
    }
    Ok(())
}

/// Runs every check, after writing the page of deviations if asked to. The answer is the long
/// files.
pub fn check(root: &Path, write: bool) -> Result<Vec<(String, usize)>> {
    let mut files = Vec::new();
    collect(root, "", DEPTH, &mut files)?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let keys = specification::keys(&files);
    let (page, mut problems) = deviation::page(&files, &keys);
    if write {
        fs::write(root.join(deviation::PAGE), &page).context("cannot write the deviations")?;
    } else if files.iter().find(|file| file.path == deviation::PAGE).map(|file| &file.text)
        != Some(&page)
    {
        problems.push(format!("{}: not up to date; cargo xtask tidy --write", deviation::PAGE));
    }
    let long = length::check(&files, &mut problems);
    word::check(&files, &mut problems);
    module::check(&files, &mut problems);
    column::check(&files, &mut problems);
    specification::check(&files, &keys, &mut problems);
    path::check(root, &files, &mut problems);
    vocabulary::check(&files, &mut problems);
    let members = manifest::members(&files, &mut problems);
    manifest::check_lints(&members, &files, &mut problems);
    manifest::check_readmes(&members, &files, &mut problems);
    layer::check(&files, &members, &mut problems);
    pure::check(&files, &mut problems);
    panicking::check(&files, &mut problems);
    ceiling::check(&files, &figures(&files, &members), &mut problems);
    if !problems.is_empty() {
        bail!("{} problems\n{}", problems.len(), problems.join("\n"));
    }
    let count = files.len();
    println!("{count} files in order, {} of them longer than {} lines", long.len(), length::AIM);
    Ok(long.into_iter().map(|(path, lines)| (path.to_owned(), lines)).collect())
}

/// What ceilings are held against.
fn figures(files: &[File], members: &[manifest::Member]) -> Vec<ceiling::Figure> {
    let circles = circle::largest(files, members).into_iter().map(|(folder, modules)| {
        let what = modules.join(", ");
        let (section, limit) = ("modules in a circle", LARGEST_CIRCLE);
        ceiling::Figure { section, key: folder, value: modules.len(), limit, what }
    });
    let vendors = ceiling::Figure {
        section: "lines that name a vendor",
        key: "machine/cpu".into(),
        value: vendor::lines(files),
        limit: 0,
        what: "outside of svm and vmx".into(),
    };
    circles.chain([vendors]).collect()
}

fn collect(root: &Path, below: &str, depth: usize, files: &mut Vec<File>) -> Result<()> {
    if depth == 0 || files.len() >= FILES {
        bail!("{below}: more than {FILES} files, or folders deeper than {DEPTH}");
    }
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {below}"))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(root, &path, depth - 1, files)?;
        } else if kind.is_file()
            && name.rsplit_once('.').is_some_and(|(_, ending)| READ.contains(&ending))
        {
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("cannot read {path} as text"))?;
            files.push(File { path, text });
        }
    }
    Ok(())
}
