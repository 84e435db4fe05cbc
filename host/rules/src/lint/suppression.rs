//! Comments that silence rules: `avicenna: ignore AV001, AV003` and `avicenna: ignore-file AV001`.
//!
//! In a comment of the input's own syntax: `#` in shell text, `-readconfig`, YAML, modprobe.d and
//! boot loader files, `<!-- -->` in XML. On a line of its own it is about the next line, or about
//! the machine that starts there; behind something, about its own line. Proxmox moves comments to
//! the top of the file: there it is about the file. Without identifiers it silences nothing: say
//! which rule.

use crate::configuration::Kind;

/// Comments read; each silences a few rules.
const MAX_COMMENTS: usize = 100_000;

const MARK: &str = "avicenna:";

#[derive(Debug, Default)]
pub struct Suppressions {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// `None` is the whole file.
    line: Option<u32>,
    ids: Vec<String>,
}

impl Suppressions {
    pub fn read(text: &str, kind: Kind) -> Self {
        let mut entries = Vec::new();
        if !text.contains(MARK) && !text.contains("avicenna%3A") {
            return Self { entries };
        }
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            // Proxmox writes the colon of its descriptions as %3A.
            let line = line.replace("avicenna%3A", MARK);
            let Some(at) = line.find(MARK) else { continue };
            let opener = if kind == Kind::LibvirtXml { "<!--" } else { "#" };
            let Some(comment) = line[..at].rfind(opener) else { continue };
            let directive = line[at + MARK.len()..].trim_start();
            let (is_file, list) = match directive.strip_prefix("ignore-file") {
                Some(list) => (true, list),
                None => match directive.strip_prefix("ignore") {
                    Some(list) => (false, list),
                    None => continue,
                },
            };
            let ids: Vec<String> = list
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| word.len() > 2 && word[..2].eq_ignore_ascii_case("av"))
                .map(str::to_ascii_uppercase)
                .collect();
            let is_alone = line[..comment].trim().is_empty();
            let target = if is_alone { next_content(&lines, index, kind) } else { index };
            let line = u32::try_from(target + 1).unwrap_or(u32::MAX);
            let is_file = is_file || kind == Kind::Proxmox;
            entries.push(Entry { line: (!is_file).then_some(line), ids });
            if entries.len() >= MAX_COMMENTS {
                break;
            }
        }
        Self { entries }
    }

    /// Whether a rule is silenced on a line, or for the machine that starts on another.
    pub fn silence(&self, id: &str, line: u32, machine_line: Option<u32>) -> bool {
        self.entries.iter().any(|entry| {
            let is_here = match entry.line {
                None => true,
                Some(silenced) => silenced == line || Some(silenced) == machine_line,
            };
            is_here && entry.ids.iter().any(|silenced| silenced == id)
        })
    }
}

/// The next line that is neither blank nor a comment.
fn next_content(lines: &[&str], index: usize, kind: Kind) -> usize {
    let is_comment = |line: &str| {
        let line = line.trim();
        line.is_empty()
            || (kind == Kind::LibvirtXml && line.starts_with("<!--") && line.ends_with("-->"))
            || (kind != Kind::LibvirtXml && line.starts_with('#'))
    };
    (index + 1..lines.len()).find(|&next| !is_comment(lines[next])).unwrap_or(index)
}
