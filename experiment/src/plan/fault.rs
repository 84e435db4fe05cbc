//! What is wrong with a plan: where, what, and what would be right.

use std::fmt::{Display, Formatter};

/// One fault of a plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of the file, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub cause: String,
    /// What would be right.
    pub remedy: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.cause, self.remedy)
    }
}

/// All that is wrong with a plan; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// As it was given: a path, or a name of a shipped plan.
    pub file: String,
    /// In the order of their lines.
    pub faults: Vec<Fault>,
}

impl Display for Faults {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let lines = self.faults.iter().map(|fault| format!("{}: {fault}", self.file));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The known word that is nearest to one that is not known, if any is near: at most a third of its
/// letters differ.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let rated = known.iter().map(|one| (distance(word, one), *one));
    let (distance, one) = rated.min_by_key(|(distance, _)| *distance)?;
    (distance <= one.chars().count().max(3) / 3).then_some(one)
}

/// Letters that are to be put in, left out or exchanged (Levenshtein), of words of a bounded
/// length.
fn distance(one: &str, other: &str) -> usize {
    const MOST: usize = 64;
    let other: Vec<char> = other.chars().take(MOST).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().take(MOST).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, against) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *against);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let known = ["metric", "factor", "design"];
        assert_eq!(nearest("metrc", &known), Some("metric"));
        assert_eq!(nearest("Factor", &known), Some("factor"));
        assert_eq!(nearest("colour", &known), None);
    }
}
