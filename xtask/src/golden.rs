//! `cargo xtask golden`: what the machine does, held as hashes and counts in a file, so that a
//! change that is meant to change nothing shows that it did not.
//!
//! A row is a run of the program with everything fixed but the program. It names what it was made
//! with (the kernel's release and bytes, the guest's bytes): where that differs and so does the
//! result, nothing was compared, and the row says so and counts as skipped.

mod image;
mod row;
mod run;

use crate::tally::Tally;
use anyhow::{Context, Result, bail};
use row::{ROWS, Row};
use run::Setting;
pub(crate) use run::{image_in, kernel};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

const FILE: &str = "golden/hashes.tsv";
const HEAD: &str = "# name\tmade with\tresult\n";

/// What a row came to, or what the file says that it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the result rests on besides the program: a kernel, a guest.
    made_with: String,
    result: String,
}

/// How a row compares with the file.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// It rests on something else than the file's.
    NotCompared(String),
    Differs(String),
}

/// Which rows run, and whether their results replace the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Only those that belong to `cargo xtask test`.
    pub is_quick: bool,
    /// Writes the file instead of comparing with it.
    pub writes: bool,
    /// Only names that begin so.
    pub start: &'a str,
}

/// Runs rows, prints one line for each, and takes what they come to into the tally.
pub fn run(root: &Path, program: &Path, choice: Choice<'_>, tally: &mut Tally) -> Result<()> {
    if !program.exists() {
        bail!("{}: no such program; build it first, or name another", program.display());
    }
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| (!choice.is_quick || row.is_quick) && row.name.starts_with(choice.start))
        .collect();
    if rows.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        bail!("no row's name begins with {:?}: there are {}", choice.start, names.join(", "));
    }
    let path = root.join(FILE);
    let mut known = read(&std::fs::read_to_string(&path).unwrap_or_default())
        .with_context(|| path.display().to_string())?;
    let setting = Setting::prepare(root, program, &rows)?;
    let (mut same, mut differ) = (0, 0);
    all(&rows, &setting, |row, result| {
        let line = match result {
            Err(run::Failure::Missing(why)) => {
                tally.take(&format!("skipped: {why}"));
                format!("skipped: {why}")
            }
            Err(run::Failure::Wrong(why)) => {
                differ += 1;
                format!("FAILED: {why:#}")
            }
            Ok(outcome) if choice.writes => {
                let line = outcome.result.clone();
                known.insert(row.name.into(), outcome);
                line
            }
            Ok(outcome) => match compare(known.get(row.name), &outcome) {
                Verdict::Same => {
                    same += 1;
                    "the same".into()
                }
                Verdict::NotCompared(why) => {
                    tally.take(&format!("skipped: {why}"));
                    format!("skipped: {why}")
                }
                Verdict::Differs(how) => {
                    differ += 1;
                    format!("FAILED: {how}")
                }
            },
        };
        println!("golden {}: {line}", row.name);
    });
    if choice.writes {
        known.retain(|name, _| ROWS.iter().any(|row| row.name == name));
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        return std::fs::write(&path, write(&known)).with_context(|| path.display().to_string());
    }
    let line = format!("golden: {same} passed, {differ} failed");
    println!("{line}");
    tally.take(&line);
    Ok(())
}

/// Runs all rows, as many at a time as there are processors (results hold no time of this machine),
/// and hands each on when it has ended.
fn all(
    rows: &[&Row],
    setting: &Setting,
    mut take: impl FnMut(&Row, Result<Outcome, run::Failure>),
) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(rows.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((*row, setting.run(row))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(|(row, result)| take(row, result));
    });
}

fn compare(known: Option<&Outcome>, found: &Outcome) -> Verdict {
    match known {
        None => {
            Verdict::Differs(format!("{FILE} has no such row; cargo xtask golden --write adds it"))
        }
        // What it was made with may have changed without a consequence.
        Some(known) if row::is_same(&known.result, &found.result) => Verdict::Same,
        Some(known) if known.made_with != found.made_with => Verdict::NotCompared(format!(
            "not compared: {} instead of {}",
            found.made_with, known.made_with
        )),
        Some(known) => {
            Verdict::Differs(format!("{}\n    instead of {}", found.result, known.result))
        }
    }
}

fn read(text: &str) -> Result<BTreeMap<String, Outcome>> {
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, made_with, result] = fields.as_slice() else {
            bail!("three columns are name, made with and result, not {line:?}");
        };
        let outcome = Outcome { made_with: (*made_with).into(), result: (*result).into() };
        if rows.insert((*name).into(), outcome).is_some() {
            bail!("two rows are called {name}");
        }
    }
    Ok(rows)
}

fn write(rows: &BTreeMap<String, Outcome>) -> String {
    let lines =
        rows.iter().map(|(name, row)| format!("{name}\t{}\t{}\n", row.made_with, row.result));
    lines.fold(HEAD.to_owned(), |text, line| text + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(made_with: &str, result: &str) -> Outcome {
        Outcome { made_with: made_with.into(), result: result.into() }
    }

    #[test]
    fn another_kernel_is_not_compared_and_another_result_of_the_same_differs() {
        let known = outcome("Linux 6.1", "12ab");
        let verdict = |made_with, result| compare(Some(&known), &outcome(made_with, result));
        assert_eq!(verdict("Linux 6.1", "12ab"), Verdict::Same);
        assert_eq!(verdict("Linux 6.2", "12ab"), Verdict::Same);
        let text = "not compared: Linux 6.2 instead of Linux 6.1".to_owned();
        assert_eq!(verdict("Linux 6.2", "34cd"), Verdict::NotCompared(text));
        assert!(matches!(verdict("Linux 6.1", "34cd"), Verdict::Differs(_)));
        assert!(matches!(compare(None, &known), Verdict::Differs(_)));
    }

    #[test]
    fn what_is_written_is_read_again_and_a_damaged_file_is_refused() {
        let rows: BTreeMap<String, Outcome> =
            [("a".to_owned(), outcome("-", "1")), ("b".to_owned(), outcome("x y", "2 3"))].into();
        assert_eq!(read(&write(&rows)).unwrap(), rows);
        for text in ["a\tb\n", "a\tb\tc\td\n", "a\tb\tc\na\tb\tc\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_of_rows_are_unique() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
