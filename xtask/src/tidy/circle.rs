//! Circles of modules: a module that uses another, which uses it in turn, can only be read with it.
//!
//! A crate's modules are nodes, what their code names is an edge: in `use` lines and in paths that
//! begin with `crate`, `super`, `self` or a module of their own. A name that a module only passes
//! on leads to where it comes from. Each crate's largest circle stands in a file of ceilings.

use super::manifest::Member;
use super::source::File;
use super::token::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};

/// The largest circle's modules of every crate that has one.
pub fn largest(files: &[File], members: &[Member]) -> Vec<(String, Vec<String>)> {
    let circles = members.iter().map(|member| {
        let modules = Modules::of(files, &member.folder);
        (member.folder.clone(), modules.largest_circle())
    });
    circles.filter(|(_, circle)| circle.len() > 1).collect()
}

/// A module's path: nothing for the crate's own.
type Path = Vec<String>;

/// A name that a module passes on, and the path it has where it comes from.
#[derive(Debug)]
struct PassedOn {
    name: String,
    from: Path,
}

#[derive(Debug, Default)]
struct Module {
    /// Paths that its code names, from the crate on.
    names: Vec<Path>,
    passes_on: Vec<PassedOn>,
}

#[derive(Debug, Default)]
struct Modules(BTreeMap<Path, Module>);

/// How many re-exports are followed, one from the other.
const STEPS: usize = 16;

impl Modules {
    fn of(files: &[File], folder: &str) -> Self {
        let start = format!("{folder}/src/");
        let paths: Vec<(Path, &File)> = files
            .iter()
            .filter_map(|file| Some((module(file.path.strip_prefix(&start)?)?, file)))
            .collect();
        let known: BTreeSet<Path> = paths.iter().map(|(path, _)| path.clone()).collect();
        let mut modules = Self::default();
        for (path, file) in paths {
            let read = read(&path, &tokens(&file.text), &known);
            // `lib.rs` and `main.rs` of one crate are one node.
            let module = modules.0.entry(path).or_default();
            module.names.extend(read.names);
            module.passes_on.extend(read.passes_on);
        }
        modules
    }

    /// The module that holds what the path names.
    fn resolve(&self, path: &Path) -> Path {
        let mut path = path.clone();
        for _ in 0..STEPS {
            let length =
                (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]));
            let (holder, rest) = path.split_at(length.unwrap_or(0));
            let Some((name, rest)) = rest.split_first() else { return path };
            let passed = self.0[holder].passes_on.iter().find(|one| one.name == *name);
            match passed {
                Some(one) => path = one.from.iter().chain(rest).cloned().collect(),
                None => return holder.to_vec(),
            }
        }
        Vec::new()
    }

    fn edges(&self) -> BTreeMap<&Path, BTreeSet<Path>> {
        let edges = self.0.iter().map(|(path, module)| {
            let mut used: BTreeSet<Path> =
                module.names.iter().map(|name| self.resolve(name)).collect();
            used.remove(path);
            (path, used)
        });
        edges.collect()
    }

    fn largest_circle(&self) -> Vec<String> {
        let edges = self.edges();
        let reach: BTreeMap<&Path, BTreeSet<&Path>> =
            edges.keys().map(|path| (*path, reachable(path, &edges))).collect();
        let circles = edges.keys().map(|path| {
            let together = edges.keys().filter(|other| {
                other == &path || reach[path].contains(**other) && reach[**other].contains(*path)
            });
            together.map(|path| name(path)).collect::<Vec<_>>()
        });
        circles.max_by_key(Vec::len).unwrap_or_default()
    }
}

fn name(path: &[String]) -> String {
    if path.is_empty() { "(the crate)".into() } else { path.join("::") }
}

fn reachable<'e>(from: &Path, edges: &'e BTreeMap<&Path, BTreeSet<Path>>) -> BTreeSet<&'e Path> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&Path> = edges.get(from).into_iter().flatten().collect();
    while let Some(path) = waiting.pop() {
        if found.insert(path) {
            waiting.extend(edges.get(path).into_iter().flatten());
        }
    }
    found
}

/// The module that a file below `src` is; none of tests.
fn module(file: &str) -> Option<Path> {
    let path: Path = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if path.iter().any(|part| part == "tests" || part == "bin") {
        return None;
    }
    let is_root = path.len() == 1 && ["lib", "main"].contains(&path[0].as_str());
    Some(if is_root { Vec::new() } else { path })
}

/// What the code of a module names.
fn read(own: &Path, tokens: &[Token<'_>], known: &BTreeSet<Path>) -> Module {
    let mut module = Module::default();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "use" && !follows_path(tokens, at) {
            let end = tokens[at..].iter().position(|token| token.text == ";");
            let end = end.map_or(tokens.len(), |length| at + length);
            let is_public = is_public(&tokens[..at]);
            let mut tree = Tree { tokens: &tokens[at + 1..end], found: Vec::new() };
            tree.branch(&mut Vec::new());
            for (path, name) in tree.found {
                let Some(path) = absolute(own, &path, known) else { continue };
                match name {
                    Some(name) if is_public => module.passes_on.push(PassedOn { name, from: path }),
                    _ => module.names.push(path),
                }
            }
            at = end;
        } else if tokens[at].is_word() && !follows_path(tokens, at) {
            let mut words = vec![tokens[at].text.to_owned()];
            while let [sign, word, ..] = &tokens[at + 1..]
                && sign.text == "::"
                && word.is_word()
            {
                words.push(word.text.to_owned());
                at += 2;
            }
            if words.len() > 1 {
                module.names.extend(absolute(own, &words, known));
            }
        }
        at += 1;
    }
    // What is passed on and used here as well.
    let words: BTreeSet<&str> = outside_use(tokens);
    let used = module.passes_on.iter().filter(|one| words.contains(one.name.as_str()));
    let used: Vec<Path> = used.map(|one| one.from.clone()).collect();
    module.names.extend(used);
    module
}

fn follows_path(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && tokens[at - 1].text == "::"
}

/// Whether what is read so far ends with `pub` or `pub(...)`.
fn is_public(before: &[Token<'_>]) -> bool {
    let before = match before {
        [rest @ .., last] if last.text == ")" => {
            let open = rest.iter().rposition(|token| token.text == "(");
            open.map_or(rest, |open| &rest[..open])
        }
        all => all,
    };
    before.last().is_some_and(|token| token.text == "pub")
}

fn outside_use<'t>(tokens: &[Token<'t>]) -> BTreeSet<&'t str> {
    let mut words = BTreeSet::new();
    let mut is_use = false;
    for (at, token) in tokens.iter().enumerate() {
        is_use = (is_use || token.text == "use") && token.text != ";";
        if !is_use && !follows_path(tokens, at) {
            words.insert(token.text);
        }
    }
    words
}

/// A path from the crate on; none if it leads out of it.
fn absolute(own: &Path, path: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    let mut whole = match first.as_str() {
        "crate" => Vec::new(),
        "self" => own.clone(),
        "super" => {
            let ups = path.iter().take_while(|word| *word == "super").count();
            let whole = own[..own.len().checked_sub(ups)?].to_vec();
            return Some(whole.iter().chain(&path[ups..]).cloned().collect());
        }
        child => {
            let whole: Path = own.iter().cloned().chain([child.to_owned()]).collect();
            if !known.contains(&whole) {
                return None;
            }
            whole
        }
    };
    whole.extend(rest.iter().cloned());
    Some(whole)
}

/// The tree of a `use` line: paths with the name that each brings, none for `*`.
struct Tree<'t> {
    tokens: &'t [Token<'t>],
    found: Vec<(Vec<String>, Option<String>)>,
}

impl Tree<'_> {
    /// Reads one branch behind a path; stops at a comma or at the end.
    fn branch(&mut self, path: &mut Vec<String>) {
        let length = path.len();
        let mut name = None;
        while let Some((token, rest)) = self.tokens.split_first() {
            match token.text {
                "," | "}" => break,
                "::" => {}
                "*" => name = None,
                "as" => {
                    name = rest.first().map(|token| token.text.to_owned());
                    self.tokens = rest.split_first().map_or(rest, |(_, rest)| rest);
                    continue;
                }
                "{" => {
                    self.tokens = rest;
                    self.branches(path);
                    path.truncate(length);
                    return;
                }
                "self" if !path.is_empty() => name = path.last().cloned(),
                word => {
                    path.push(word.to_owned());
                    name = Some(word.to_owned());
                }
            }
            self.tokens = rest;
        }
        if !path.is_empty() {
            self.found.push((path.clone(), name));
        }
        path.truncate(length);
    }

    /// Reads branches up to the closing brace.
    fn branches(&mut self, path: &mut Vec<String>) {
        while let Some((token, rest)) = self.tokens.split_first() {
            match token.text {
                "}" => {
                    self.tokens = rest;
                    return;
                }
                "," => self.tokens = rest,
                _ => self.branch(path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    fn circle(files: &[(&str, &str)]) -> String {
        let files: Vec<File> =
            files.iter().map(|(path, text)| file(&format!("x/src/{path}"), text)).collect();
        Modules::of(&files, "x").largest_circle().join(" ")
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle_however_they_are_named() {
        for (one, expected) in [
            ("use crate::b::B;", "a b"),
            ("use super::b;", "a b"),
            ("use crate::{b::{self, B}, d};", "a b"),
            ("fn f() -> crate::b::B {}", "a b"),
            // The crate passes it on.
            ("use crate::B;", "a b"),
            ("// use crate::b;\n#[cfg(test)]\nuse crate::b;", "a"),
            ("use other::b::B;", "a"),
            ("use crate::C;", "a"),
        ] {
            let found = circle(&[
                ("lib.rs", "mod a; mod b; pub use b::B; pub use c::C;"),
                ("a.rs", one),
                ("b.rs", "use crate::a;"),
                ("c.rs", ""),
            ]);
            let found = if found.contains(' ') { found } else { "a".into() };
            assert_eq!(found, expected, "{one}");
        }
    }

    #[test]
    fn a_parent_is_in_a_circle_with_a_child_that_it_calls_and_that_uses_it() {
        let child = "use super::Word;";
        for (parent, expected) in [
            ("mod b; pub struct Word; fn f() { b::g() }", 2),
            // It only passes on what the child has.
            ("mod b; pub struct Word; pub use b::g;", 1),
            ("mod b; pub struct Word; pub use b::g; fn f() { g() }", 2),
        ] {
            let found = circle(&[("lib.rs", "mod a;"), ("a.rs", parent), ("a/b.rs", child)]);
            assert_eq!(found.split(' ').count(), expected, "{parent}: {found}");
        }
    }

    #[test]
    fn a_circle_of_three_is_found_and_tests_are_left_out() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "use crate::b::X;"),
            ("b.rs", "use crate::c::Y;"),
            ("c.rs", "use crate::a::Z;"),
            ("c/tests.rs", "use crate::b;"),
        ];
        assert_eq!(circle(&files), "a b c");
    }
}
