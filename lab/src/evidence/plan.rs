//! The plan of a published figure: the command of this program that reproduces it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is run for a figure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Words of a command line of this program. A file of the user's stands in braces.
    pub run: String,
    /// Of a change, what is run for the value that it begins at.
    pub before: Option<String>,
    /// Programs of this machine, and files that the user names: those with a dot.
    #[serde(default)]
    pub needs: Vec<String>,
}

impl Plan {
    /// All that it runs.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.before.as_deref().into_iter().chain([self.run.as_str()])
    }

    /// What it needs and is not there. `has` tells of a program.
    pub fn missing(
        &self,
        files: &BTreeMap<String, PathBuf>,
        has: impl Fn(&str) -> bool,
    ) -> Vec<&str> {
        let is_there = |name: &str| match is_file(name) {
            true => files.contains_key(name),
            false => has(name),
        };
        self.needs.iter().map(String::as_str).filter(|name| !is_there(name)).collect()
    }
}

/// Whether what a plan needs is a file that the user names.
pub fn is_file(need: &str) -> bool {
    need.contains('.')
}

/// The words of a command, with the user's files in their places: single quotes keep words
/// together, and nothing else is special.
pub fn words(command: &str, files: &BTreeMap<String, PathBuf>) -> Vec<String> {
    let mut text = command.to_owned();
    for (name, path) in files {
        text = text.replace(&format!("{{{name}}}"), &path.display().to_string());
    }
    let mut words = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_stay_together_and_files_stand_where_their_names_stood() {
        let files = BTreeMap::from([("a.flat".to_owned(), PathBuf::from("/tmp/b"))]);
        let found =
            words("lab exec --add {a.flat}=/t -- bench --append 'tests=ipi samples=1'", &files);
        let expected =
            ["lab", "exec", "--add", "/tmp/b=/t", "--", "bench", "--append", "tests=ipi samples=1"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_plan_misses_programs_that_are_not_there_and_files_that_nobody_named() {
        let plan = Plan {
            run: String::new(),
            before: None,
            needs: ["a.flat", "hackbench", "sh"].map(str::to_owned).into(),
        };
        assert_eq!(plan.missing(&BTreeMap::new(), |name| name == "sh"), ["a.flat", "hackbench"]);
        let files = BTreeMap::from([("a.flat".to_owned(), PathBuf::new())]);
        assert_eq!(plan.missing(&files, |_| true), Vec::<&str>::new());
    }
}
