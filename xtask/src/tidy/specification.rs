//! Citations in code, `[KEY "title"]`, against the keys of SPECIFICATIONS.md.

use super::source::{File, comment};

const PAGE: &str = "SPECIFICATIONS.md";

/// First column of the table of specifications.
pub fn keys(files: &[File]) -> Vec<String> {
    let text = files.iter().find(|file| file.path == PAGE).map_or("", |file| file.text.as_str());
    let cells = text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split(',')).map(|key| key.trim().to_owned()).collect()
}

pub fn check(files: &[File], keys: &[String], problems: &mut Vec<String>) {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    for file in sources.filter(|file| !file.path.starts_with("xtask/")) {
        for (line, text) in file.text.lines().enumerate() {
            let cited = comment(text).into_iter().flat_map(cited);
            for key in cited.filter(|key| !keys.iter().any(|known| known == key)) {
                problems.push(format!("{}:{}: no key {key} in {PAGE}", file.path, line + 1));
            }
        }
    }
}

/// The keys that a comment cites.
fn cited(comment: &str) -> impl Iterator<Item = &str> {
    comment.split('[').skip(1).filter_map(|rest| {
        let (key, _) = rest.split_once(" \"")?;
        let is_key = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "-_".contains(c);
        (!key.is_empty() && key.chars().all(is_key)).then_some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn cited_keys_are_known() {
        let rows = [
            ("/// Text. [APM2 \"A\", \"B\"] [SDM3 \"C\"]", 0),
            ("//! [NONE \"A\"] [APM2 \"B\"]", 1),
            ("let x = \"[NONE \\\"A\\\"]\";", 0),
            ("// [`link`] and [a \"word\"]", 0),
        ];
        let known = file(PAGE, "| Key | Document |\n|---|---|\n| APM2, SDM3 | manuals |\n");
        for (text, expected) in rows {
            let files = [known.clone(), file("arch/src/a.rs", text)];
            let mut problems = vec![];
            check(&files, &keys(&files), &mut problems);
            assert_eq!(problems.len(), expected, "{text}");
        }
    }
}
