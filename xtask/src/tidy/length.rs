//! Lengths of source files.

use super::source::File;

/// Lines that a source file should stay below, and may not exceed.
pub const AIM: usize = 300;
const LIMIT: usize = 600;

/// The files above the aim; those above the limit are problems.
pub fn check<'f>(files: &'f [File], problems: &mut Vec<String>) -> Vec<(&'f str, usize)> {
    let mut long = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let lines = file.text.lines().count();
        if lines > LIMIT {
            problems.push(format!("{}: {lines} lines, at most {LIMIT}", file.path));
        } else if lines > AIM {
            long.push((file.path.as_str(), lines));
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn long_files_are_listed_and_too_long_ones_refused() {
        let lines = |count| "x\n".repeat(count);
        let rows = [(300, 0, 0), (301, 1, 0), (600, 1, 0), (601, 0, 1)];
        for (count, listed, refused) in rows {
            let mut problems = vec![];
            let files = [file("a.rs", &lines(count)), file("a.md", &lines(9000))];
            assert_eq!(check(&files, &mut problems).len(), listed, "{count}");
            assert_eq!(problems.len(), refused, "{count}");
        }
    }
}
