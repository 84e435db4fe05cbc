//! Collects the marks of what is left out, `DEVIATION(KEY "title"): reason`, into
//! docs/deviations.md.

use super::source::{File, comment};

pub const PAGE: &str = "docs/deviations.md";
const MARK: &str = "DEVIATION(";

const HEAD: &str = "\
# Deviations

What parts of the specifications are left out or done otherwise, and why: collected from the code by
`cargo xtask tidy --write`. The keys are those of [SPECIFICATIONS.md](../SPECIFICATIONS.md).
";

struct Deviation {
    key: String,
    title: String,
    reason: String,
    path: String,
}

/// The page, and what is wrong with the marks.
pub fn page(files: &[File], keys: &[String]) -> (String, Vec<String>) {
    let mut problems = vec![];
    let mut page = HEAD.to_owned();
    let mut folder = String::new();
    for file in
        files.iter().filter(|file| file.path.ends_with(".rs") && !file.path.starts_with("xtask/"))
    {
        for deviation in deviations(file, &mut problems) {
            if !keys.contains(&deviation.key) {
                problems.push(format!("{}: no key {}", file.path, deviation.key));
            }
            let (part, _) = file.path.split_once("/src/").unwrap_or((&file.path, ""));
            if part != folder {
                folder = part.to_owned();
                page += &format!("\n## {folder}\n\n");
            }
            page += &format!(
                "- **{} “{}”**: {} (`{}`)\n",
                deviation.key, deviation.title, deviation.reason, deviation.path
            );
        }
    }
    (page, problems)
}

fn deviations(file: &File, problems: &mut Vec<String>) -> Vec<Deviation> {
    let mut found: Vec<Deviation> = vec![];
    let mut is_open = false;
    for (line, text) in file.text.lines().enumerate() {
        let Some(comment) = comment(text) else {
            is_open = false;
            continue;
        };
        if let Some(at) = comment.find(MARK) {
            match parse(&comment[at + MARK.len()..]) {
                Some((key, title, reason)) => {
                    let path = file.path.clone();
                    found.push(Deviation { key, title, reason, path });
                    is_open = true;
                }
                None => problems.push(format!(
                    "{}:{}: not of the form {MARK}KEY \"title\"): reason",
                    file.path,
                    line + 1
                )),
            }
        } else if comment.is_empty() {
            is_open = false;
        } else if is_open && let Some(last) = found.last_mut() {
            last.reason.push(' ');
            last.reason.push_str(comment);
        }
    }
    found
}

fn parse(text: &str) -> Option<(String, String, String)> {
    let (key, rest) = text.split_once(" \"")?;
    let (title, reason) = rest.split_once("\"):")?;
    let reason = reason.trim();
    (!reason.is_empty()).then(|| (key.to_owned(), title.to_owned(), reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    fn page_of(text: &str) -> (String, Vec<String>) {
        page(&[file("machine/cpu/src/a.rs", text)], &["APM1", "APM2"].map(str::to_owned))
    }

    #[test]
    fn a_mark_is_collected_with_its_whole_paragraph() {
        let text = "//! DEVIATION(APM2 \"Title\"): one\n//! two.\n//!\n//! other\nfn f() {}\n\
                    // DEVIATION(APM1 \"B\"): three\nlet x = 1; // not more\n";
        let (page, problems) = page_of(text);
        assert_eq!(problems, [] as [String; 0]);
        assert_eq!(
            page.strip_prefix(HEAD).unwrap(),
            "\n## machine/cpu\n\n- **APM2 “Title”**: one two. (`machine/cpu/src/a.rs`)\n\
             - **APM1 “B”**: three (`machine/cpu/src/a.rs`)\n"
        );
    }

    #[test]
    fn marks_without_reason_or_known_key_are_problems() {
        for text in
            ["// DEVIATION(APM2 \"T\"):\n", "// DEVIATION(nothing)\n", "// DEVIATION(X \"T\"): r\n"]
        {
            assert_eq!(page_of(text).1.len(), 1, "{text}");
        }
    }
}
