//! Crates that decide on values alone: no file, clock, program, thread or network.

use super::source::File;
use super::token::tokens;

const PURE: [&str; 4] =
    ["host/reading/src/", "host/rules/src/", "host/profile/src/", "machine/virtual_apic/src/"];
const OUTSIDE: [&str; 6] = ["fs", "time", "env", "process", "thread", "net"];

/// Each place where such a crate names a module of the standard library that is not pure.
pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| PURE.iter().any(|pure| file.path.starts_with(pure))) {
        if file.path.split(['/', '.']).any(|part| part == "tests") {
            continue;
        }
        let words: Vec<_> =
            tokens(&file.text).into_iter().filter(|token| token.is_word()).collect();
        for pair in words.windows(2) {
            if pair[0].text == "std" && OUTSIDE.contains(&pair[1].text) {
                let (path, line, module) = (&file.path, pair[1].line, pair[1].text);
                problems.push(format!("{path}:{line}: std::{module} in a crate without effects"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn a_crate_that_decides_opens_no_file() {
        for (path, text, expected) in [
            ("host/rules/src/a.rs", "use std::fs;\n", 1),
            ("host/rules/src/a.rs", "let t = std::time::Instant::now();\nstd::env::args();\n", 2),
            ("host/rules/src/a.rs", "use std::fmt;\n// std::fs\nlet s = \"std::fs\";\n", 0),
            ("host/rules/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs; }\n", 0),
            ("host/facts/src/a.rs", "use std::fs;\n", 0),
        ] {
            let mut problems = vec![];
            check(&[file(path, text)], &mut problems);
            assert_eq!(problems.len(), expected, "{path}: {text}: {problems:?}");
        }
    }
}
