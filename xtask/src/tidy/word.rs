//! Words that mark unfinished work (what is left out is written down as a deviation or in the docs
//! instead), and words that a reader of English stumbles over, with what to write.

use super::source::File;

/// Joined here, so that this file has none of them.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// What was said there stays.
const HISTORY: &str = "CHANGELOG.md";

/// In prose, comments and messages. Those of the field come before ours.
const ENGLISH: [(&str, &str); 5] = [
    (concat!("an", "ew"), "again, from scratch"),
    (concat!("guest ", "log"), "GA log"),
    (concat!("but ", "waiting"), "other than HLT"),
    (concat!("may not be ", "read by"), "permission denied"),
    (concat!("see to ", "access"), "check permissions"),
];

pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files {
        for (line, text) in file.text.lines().enumerate() {
            let is_ours = [".rs", ".md"].iter().any(|end| file.path.ends_with(end));
            let english = ENGLISH.iter().filter(|_| is_ours && file.path != HISTORY);
            for (word, better) in english.filter(|(word, _)| has_word(&text.to_lowercase(), word)) {
                problems.push(format!("{}:{}: {word}: {better}", file.path, line + 1));
            }
            for mark in MARKS.iter().filter(|mark| has_word(text, mark)) {
                problems.push(format!("{}:{}: {mark}", file.path, line + 1));
            }
        }
    }
}

/// Whether the word stands alone: not as a part of a name, nor in a row of the same letters.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_apart = |neighbour: Option<char>| !neighbour.is_some_and(|c| c.is_alphanumeric());
        is_apart(text[..at].chars().next_back()) && is_apart(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn marks_are_found_as_words_only() {
        let rows = [
            (concat!("// TO", "DO: later"), 1),
            (concat!("(FIX", "ME)"), 1),
            ("mkdtemp /tmp/aXXXXXX", 0),
            ("a todo list", 0),
            (concat!("it boots an", "ew"), 1),
            (concat!("the Guest ", "log"), 1),
            ("weekly", 0),
        ];
        for (text, expected) in rows {
            let mut problems = vec![];
            check(&[file("a.rs", text)], &mut problems);
            assert_eq!(problems.len(), expected, "{text}");
        }
    }
}
