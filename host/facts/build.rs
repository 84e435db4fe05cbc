//! The words that a snapshot may show: those that the rules and the readers compare with, taken
//! from their sources, so that a new rule's words are among them without a list to be kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Sources beside this crate, from the workspace's folder.
const SOURCES: [&str; 6] = [
    "host/facts/src",
    "host/reading/src",
    "host/rules/src",
    "host/tracefs/src",
    "trace/src",
    "host/change/src",
];
/// Longer sentences are said to people, not looked for.
const MOST_WORDS: usize = 6;

fn main() -> io::Result<()> {
    let workspace =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let mut words = BTreeSet::new();
    for folder in SOURCES.map(|folder| workspace.join(folder)).iter().filter(|at| at.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        read_folder(folder, &mut words)?;
    }
    let text: Vec<String> = words.into_iter().collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("words.txt");
    fs::write(out, text.join("\n"))
}

fn read_folder(folder: &Path, words: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read_folder(&path, words)?;
        } else if name.ends_with(".rs") && !name.contains("tests") {
            let text = fs::read_to_string(&path)?;
            let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            literals(&text[..end], words);
        } else if name.ends_with(".toml") {
            add(&fs::read_to_string(&path)?, words);
        }
    }
    Ok(())
}

/// The words in a source's string literals.
fn literals(text: &str, words: &mut BTreeSet<String>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            at += rest[1..].find('\'').map_or(3, |end| end + 2).max(3);
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            let end = raw.find("\"#").unwrap_or(raw.len());
            take(&raw[..end], words);
            at += end + 5;
        } else if rest.starts_with('"') {
            let (mut end, mut is_escaped) = (1, false);
            while end < rest.len() && (is_escaped || bytes[at + end] != b'"') {
                is_escaped = !is_escaped && bytes[at + end] == b'\\';
                end += 1;
            }
            take(&rest[1..end.min(rest.len())].replace("\\n", " ").replace("\\t", " "), words);
            at += end + 1;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
}

fn take(literal: &str, words: &mut BTreeSet<String>) {
    if literal.split_whitespace().count() <= MOST_WORDS {
        add(literal, words);
    }
}

fn add(text: &str, words: &mut BTreeSet<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in text.split(|c| !is_word(c)).filter(|word| word.len() < 40) {
        if word.contains(|c: char| c.is_ascii_alphabetic()) {
            words.insert(word.to_ascii_lowercase());
        }
    }
}
