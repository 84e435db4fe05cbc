//! The layer table of ARCHITECTURE.md against what crates use.

use super::manifest::Member;
use super::source::File;

const TABLE: &str = "ARCHITECTURE.md";

/// What a row allows.
#[derive(Debug, PartialEq, Eq)]
enum Allowed {
    Everything,
    /// Crates by name, and folders with all that is in them.
    Only {
        crates: Vec<String>,
        folders: Vec<String>,
    },
}

/// A row: folders, perhaps ending in `/*`.
#[derive(Debug)]
struct Row {
    folders: Vec<String>,
    allowed: Allowed,
}

pub fn check(files: &[File], members: &[Member], problems: &mut Vec<String>) {
    let Some(file) = files.iter().find(|file| file.path == TABLE) else {
        problems.push(format!("{TABLE}: not there"));
        return;
    };
    let rows: Vec<Row> = file.text.lines().filter_map(row).collect();
    for member in members {
        let Some(row) = rows.iter().find(|row| row.covers(&member.folder)) else {
            problems.push(format!("{TABLE}: no row for {}", member.folder));
            continue;
        };
        for used in member.uses.iter().filter(|used| !row.allowed.has(used, members)) {
            problems.push(format!("{}: uses {used}, which {TABLE} does not allow", member.folder));
        }
    }
}

impl Row {
    fn covers(&self, folder: &str) -> bool {
        self.folders.iter().any(|pattern| match pattern.strip_suffix("/*") {
            Some(above) => is_below(folder, above),
            None => folder == pattern || is_below(folder, pattern),
        })
    }
}

impl Allowed {
    fn has(&self, used: &str, members: &[Member]) -> bool {
        match self {
            Allowed::Everything => true,
            Allowed::Only { crates, folders } => {
                crates.iter().any(|name| name == used)
                    || members.iter().any(|member| {
                        member.folder.rsplit('/').next() == Some(used)
                            && folders.iter().any(|above| is_below(&member.folder, above))
                    })
            }
        }
    }
}

fn is_below(folder: &str, above: &str) -> bool {
    folder.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// `| folders in backquotes | what it is | what it may use |`.
fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> =
        line.strip_prefix('|')?.trim_end().strip_suffix('|')?.split('|').collect();
    let [folders, _, uses] = cells.as_slice() else { return None };
    let folders: Vec<String> =
        folders.split('`').skip(1).step_by(2).map(|name| name.trim().to_owned()).collect();
    (!folders.is_empty()).then(|| Row { folders, allowed: allowed(uses) })
}

fn allowed(cell: &str) -> Allowed {
    if cell.trim() == "everything" {
        return Allowed::Everything;
    }
    let (mut crates, mut folders) = (vec![], vec![]);
    for part in cell.split(',').map(str::trim) {
        match part.strip_prefix("all of ") {
            Some(folder) => folders.push(folder.to_owned()),
            None => crates.push(part.to_owned()),
        }
    }
    Allowed::Only { crates, folders }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::manifest;
    use crate::tidy::source::file;

    const MANIFEST: &str = "[workspace]\nmembers = [\"arch\", \"machine/cpu\", \"machine/board\", \"cli\"]\n\
        [workspace.dependencies]\narch = { path = \"arch\" }\ncpu = { path = \"machine/cpu\" }\n\
        board = { path = \"machine/board\" }\n";
    const LAYERS: &str = "| Folder | What | May use |\n|---|---|---|\n| `arch` | x | nothing of ours |\n\
        | `machine/cpu` | x | arch |\n| `machine/board` | x | arch, all of machine |\n| `cli` | x | everything |\n";

    /// Problems when one crate's dependencies are these.
    fn problems(folder: &str, dependencies: &str, layers: &str) -> usize {
        let mut files = vec![file("Cargo.toml", MANIFEST), file(TABLE, layers)];
        for member in ["arch", "machine/cpu", "machine/board", "cli"] {
            let uses = if member == folder { dependencies } else { "" };
            files.push(file(&format!("{member}/Cargo.toml"), &format!("[dependencies]\n{uses}")));
        }
        let mut problems = vec![];
        let members = manifest::members(&files, &mut problems);
        check(&files, &members, &mut problems);
        problems.len()
    }

    #[test]
    fn uses_beyond_the_row_are_problems() {
        let rows = [
            ("machine/cpu", "arch = {}\nserde = {}\n", 0),
            ("machine/cpu", "board = {}\n", 1),
            ("machine/board", "arch = {}\ncpu = {}\n", 0),
            ("arch", "cpu = {}\nboard = {}\n", 2),
            ("cli", "cpu = {}\nboard = {}\n", 0),
        ];
        for (folder, dependencies, expected) in rows {
            assert_eq!(problems(folder, dependencies, LAYERS), expected, "{folder} {dependencies}");
        }
    }

    #[test]
    fn a_crate_without_a_row_is_a_problem() {
        let layers = LAYERS.replace("`cli`", "`tool`");
        assert_eq!(problems("cli", "", &layers), 1);
    }
}
