//! Words that mark unfinished work (what is left out is written down as a deviation or in the docs
//! instead), and words that a reader of English stumbles over, with what to write.

use super::source::File;

/// Joined here, so that this file has none of them.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// What was said there stays.
const HISTORY: &str = "CHANGELOG.md";

/// In prose, comments and messages: words of our own where the field has one, and turns that are
/// not English, with what to write.
const ENGLISH: [(&str, &str); 33] = [
    (concat!("exits ", "but"), "exits other than"),
    (concat!("none ", "but"), "only"),
    (concat!("an", "ew"), "again, from scratch"),
    (concat!("guest ", "log"), "GA log"),
    (concat!("but ", "waiting"), "other than HLT"),
    (concat!("but ", "waits"), "other than HLT"),
    (concat!("exits ", "each"), "exits per interrupt"),
    (concat!("may not be ", "read by"), "permission denied"),
    (concat!("see to ", "access"), "check permissions"),
    (concat!("men", "d"), "repair"),
    (concat!("men", "ds"), "repairs"),
    (concat!("men", "ded"), "repaired"),
    (concat!("men", "ding"), "repairing"),
    (concat!("virtual ", "processor"), "vCPU"),
    (concat!("virtual ", "processors"), "vCPUs"),
    (concat!("des", "k"), "queue"),
    (concat!("abr", "east"), "in parallel"),
    (concat!("of no", "body"), "of none"),
    (concat!("for ", "people"), "for readers, as text"),
    (concat!("no ", "end within"), "not finished after"),
    (concat!("controls ", "no session"), "is not the controlling terminal"),
    (concat!("no terminal ", "to ask"), "not a terminal"),
    (concat!("is there ", "twice"), "is given twice"),
    (concat!("end in ", "different places"), "say what changed"),
    (concat!("the guest ", "says no"), "not in the guest's output"),
    (concat!("highest ", "rung"), "best method"),
    (concat!("no ", "host:"), "not a host"),
    (concat!("and no ", "virtual machine"), "not a virtual machine"),
    (concat!("nothing known ", "in them"), "no known format"),
    (concat!("whichever is ", "there first"), "the first one"),
    (concat!("who", "ever"), "the user, the caller, a reader: who it is"),
    (concat!("some", "body"), "a user, another process: who it is"),
    (concat!("all ", "but"), "all except"),
];

/// After such a denial: where these follow it is English.
const AFTER_NO: [&str; 12] = [
    "longer", "more", "less", "better", "other", "others", "further", "such", "closer", "gain",
    "place", "room",
];

/// Denials of the kind "it is not a file" that leave out "not", unless they begin with "there".
fn is_no(text: &str) -> Option<&'static str> {
    ["is no", "are no", "was no", "were no"].into_iter().find(|words| {
        text.match_indices(words).any(|(at, _)| {
            let before = text[..at].trim_end().rsplit(' ').next().unwrap_or("");
            let after = text[at + words.len()..].strip_prefix(' ').unwrap_or("-");
            let next = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            let is_apart = text[..at].ends_with([' ', '"']);
            is_apart && !before.ends_with("there") && !next.is_empty() && !AFTER_NO.contains(&next)
        })
    })
}

pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files {
        for (line, text) in file.text.lines().enumerate() {
            let is_ours = [".rs", ".md"].iter().any(|end| file.path.ends_with(end));
            let english = ENGLISH.iter().filter(|_| is_ours && file.path != HISTORY);
            for (word, better) in english.filter(|(word, _)| has_word(&text.to_lowercase(), word)) {
                problems.push(format!("{}:{}: {word}: {better}", file.path, line + 1));
            }
            // What guests print is part of images, whose runs are golden.
            let is_checked = is_ours && !file.path.starts_with("guest/");
            if is_checked
                && file.path != HISTORY
                && let Some(words) = is_no(&text.to_lowercase())
            {
                problems.push(format!("{}:{}: {words}: is not a", file.path, line + 1));
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
            (concat!("it is n", "o file"), 1),
            (concat!("there is n", "o file, and it is n", "o longer read"), 0),
        ];
        for (text, expected) in rows {
            let mut problems = vec![];
            check(&[file("a.rs", text)], &mut problems);
            assert_eq!(problems.len(), expected, "{text}");
        }
    }
}
