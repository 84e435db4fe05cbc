//! Paths that documents and comments name, against what is there.

use super::source::File;
use std::path::Path;

/// Made by a build, or Linux's.
const ELSEWHERE: [&str; 2] = ["target/", "arch/x86/"];

pub fn check(root: &Path, files: &[File], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| !file.path.starts_with("xtask/")) {
        let is_page = file.path.ends_with(".md");
        for (line, text) in file.text.lines().enumerate() {
            let text = if is_page { Some(text) } else { super::source::comment(text) };
            let quoted = text.into_iter().flat_map(quoted).filter(|path| is_of_project(root, path));
            let missing = quoted.filter(|path| !exists(root, path)).map(str::to_owned);
            let above = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let links = text.filter(|_| is_page).into_iter().flat_map(links);
            let broken = links
                .filter(|target| !root.join(above).join(target).exists())
                .map(|target| format!("({target})"));
            for path in missing.chain(broken) {
                problems.push(format!("{}:{}: {path} is not there", file.path, line + 1));
            }
        }
    }
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Where the links of a page lead, if not to the net or within the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = targets.map(|(target, _)| target.split('#').next().unwrap_or(target));
    files.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// A path from the project's folder on: of two parts at least, below a folder that is there.
fn is_of_project(root: &Path, path: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
    let first = path.split('/').next().unwrap_or("");
    path.contains('/')
        && path.chars().all(is_name)
        && !first.is_empty()
        && !ELSEWHERE.iter().any(|other| path.starts_with(other))
        && root.join(first).is_dir()
}

/// A module may be named without its ending, and `*` stands for any name.
fn exists(root: &Path, path: &str) -> bool {
    let path = path.split('*').next().unwrap_or("").trim_end_matches('/');
    let whole = root.join(path);
    whole.exists()
        || whole.with_extension("rs").exists()
        || path.rsplit_once('/').is_some_and(|(above, start)| has_start(&root.join(above), start))
}

fn has_start(folder: &Path, start: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    !start.is_empty()
        && entries
            .into_iter()
            .any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn named_paths_are_there() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("docs/lab")).unwrap();
        for name in ["docs/lab.md", "docs/lab/one.md"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let rows = [
            ("a.md", "see `docs/lab.md`, `docs/lab/*` and `docs/lab/one`", 0),
            ("a.md", "see `docs/lap.md`", 1),
            ("a.md", "`perf/kvm` is nobody's, `target/x` is built", 0),
            ("docs/a.md", "[one](lab/one.md#part) [net](https://example.org)", 0),
            ("docs/a.md", "[two](lab/two.md)", 1),
            ("src/a.rs", "// see `docs/two.md`", 1),
            ("src/a.rs", "let x = \"`docs/two.md`\";", 0),
        ];
        for (path, text, expected) in rows {
            let mut problems = vec![];
            check(root.path(), &[file(path, text)], &mut problems);
            assert_eq!(problems.len(), expected, "{text}: {problems:?}");
        }
    }
}
