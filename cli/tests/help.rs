//! What the binary says about itself: help, man pages and completions come from the same
//! definitions.

use std::fs;
use std::process::{Command, Output};

const VERBS: [&str; 8] =
    ["check", "why", "enable", "rollback", "lint", "snapshot", "machine", "exits"];

fn avicenna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna")).args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = avicenna(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_fits_100_columns_and_has_no_colour_in_a_pipe() {
    let mut pages = vec![stdout(&["--help"])];
    pages.extend(VERBS.map(|verb| stdout(&[verb, "--help"])));
    for [verb, action] in [["machine", "run"], ["exits", "report"], ["exits", "live"]] {
        pages.push(stdout(&[verb, action, "--help"]));
    }
    for page in pages {
        let long = page.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None);
        assert!(!page.contains('\x1b'), "{page}");
    }
}

#[test]
fn verbs_that_answer_say_what_their_exit_status_means() {
    for verb in ["check", "why", "enable", "lint"] {
        let page = stdout(&[verb, "--help"]);
        for part in ["Exit status: 0 ", " 1 ", "2 usage", "3 could not tell"] {
            assert!(page.contains(part), "{verb} lacks {part:?}:\n{page}");
        }
    }
}

#[test]
fn every_verb_has_a_man_page() {
    let folder = std::env::temp_dir().join(format!("avicenna-man-{}", std::process::id()));
    stdout(&["generate", "man", folder.to_str().unwrap()]);
    for verb in VERBS {
        let page = fs::read_to_string(folder.join(format!("avicenna-{verb}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{verb}: {page}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_version_says_what_the_build_has() {
    let version = stdout(&["--version"]);
    assert!(version.starts_with(concat!("avicenna ", env!("CARGO_PKG_VERSION"), "\n")));
    for feature in ["bpf", "parquet", "terminal"] {
        let named =
            |sign| version.split_whitespace().any(|word| word == format!("{sign}{feature}"));
        assert!(named('+') != named('-'), "{version}");
    }
    assert_eq!(stdout(&["-V"]).lines().count(), 1);
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&["generate", "completions", shell]);
        for verb in VERBS {
            assert!(script.contains(verb), "{shell} lacks {verb}");
        }
    }
    assert_eq!(avicenna(&["generate", "completions", "nosuch"]).status.code(), Some(2));
}
