//! Functions of the standard library that panic where the system refuses: `spawn` of a thread, for
//! which `thread::Builder` answers, and `output` of a program, for which `outcome` of cli does.

use super::source::File;
use super::token::tokens;

/// Measured programs of the lab's guests, which have that system for themselves, and the output of
/// the 8259s.
const EXEMPT: [&str; 3] =
    ["lab/src/workload/threads.rs", "lab/src/workload/call.rs", "machine/board/src/wiring.rs"];
/// What is not handed on.
const OWN: [&str; 5] = ["xtask/", "fuzz/", "conformance/", "bench/", "golden/"];

const PANICKING: [&[&str]; 3] =
    [&["thread", "::", "spawn"], &["scope", ".", "spawn"], &[".", "output", "(", ")"]];

/// Each place where one of them is called.
pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let path = file.path.as_str();
        let is_test = path.split(['/', '.']).any(|part| part == "tests");
        if is_test || EXEMPT.contains(&path) || OWN.iter().any(|own| path.starts_with(own)) {
            continue;
        }
        let tokens = tokens(&file.text);
        for (at, token) in tokens.iter().enumerate() {
            let begins = |words: &[&str]| {
                let there = tokens[at..].iter().map(|token| token.text);
                there.take(words.len()).eq(words.iter().copied())
            };
            if let Some(words) = PANICKING.iter().find(|words| begins(words)) {
                let (line, name) = (token.line + 1, words.concat());
                problems.push(format!("{path}:{line}: {name} panics where the system refuses"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn what_the_system_does_not_give_is_an_error() {
        for (path, text, expected) in [
            ("cli/src/a.rs", "std::thread::spawn(f); scope.spawn(f);\n", 2),
            ("cli/src/a.rs", "command\n.output()?;\n", 1),
            ("cli/src/a.rs", "Builder::new().spawn_scoped(scope, f); command.spawn()\n", 0),
            ("cli/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { thread::spawn(f); } }\n", 0),
            ("cli/src/a/tests.rs", "thread::spawn(f);\n", 0),
            ("xtask/src/a.rs", "thread::spawn(f);\n", 0),
        ] {
            let mut problems = vec![];
            check(&[file(path, text)], &mut problems);
            assert_eq!(problems.len(), expected, "{path}: {text}: {problems:?}");
        }
    }
}
