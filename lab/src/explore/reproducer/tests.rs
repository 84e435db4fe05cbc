//! The program compiles as every guest and host that a search draws, and says what it is of.

use super::*;
use crate::explore::finding::example;
use crate::workload::mix::Changes;
use arch::time::Picoseconds;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Compiles the text as a C program; what the compiler says.
fn compile(text: &str) -> String {
    let words = "-x c -O2 -Wall -Wextra -Werror -pthread -c -o /dev/null -";
    let mut compiler = Command::new("cc")
        .args(words.split(' '))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler, which Rust links by");
    compiler.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let said = compiler.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    if said.status.success() { String::new() } else { errors }
}

fn text(finding: &Finding, name: &str) -> String {
    let all = files(finding).expect("no function");
    all.into_iter().find(|(own, _)| *own == name).map(|(_, text)| text).expect(name)
}

#[test]
fn each_guest_and_what_its_host_changes_is_a_program_without_a_warning() {
    let flips = [None].into_iter().chain(Flip::ALL.map(Some));
    for (number, flip) in flips.enumerate() {
        let is_odd = number % 2 == 1;
        let changes = Changes {
            flip,
            moves: is_odd,
            sends: !is_odd,
            saves: number > 2,
            ..Changes::default()
        };
        let mix = Mix {
            apic: if is_odd { "xapic" } else { "x2apic" }.into(),
            vcpus: if number == 2 { 64 } else { 3 },
            changes,
            polls: is_odd,
            ..Mix::default()
        };
        let finding = Finding { mix, ..example() };
        let said = compile(&text(&finding, "reproducer.c"));
        assert!(said.is_empty(), "{changes:?}: {said}");
    }
}

#[test]
fn a_comment_is_not_ended_by_what_the_finding_says() {
    let rows = [
        ("what */ int main", " * - what * / int main\n"),
        ("two\n*\\\n/ int main", " * - two?*??/ int main\n"),
        ("at its end\\", " * - at its end?\n"),
    ];
    for (story, expected) in rows {
        let finding = Finding { story: vec![story.to_owned()], ..example() };
        let program = text(&finding, "reproducer.c");
        assert!(program.contains(expected), "{program}");
        assert_eq!(compile(&program), "");
    }
}

#[test]
fn names_that_would_be_code_are_refused() {
    let delay = Picoseconds::ZERO;
    for word in ["", "a\"); system(\"b", "a\nb", "a\\", "ä"] {
        let release = Finding { release: word.into(), ..example() };
        let error = files(&release).expect_err(word).to_string();
        assert!(error.contains("release"), "{error}");
        let places = vec![Place { function: word.into(), offset: 0, delay }];
        let error = files(&Finding { places, ..example() }).expect_err(word).to_string();
        assert!(error.contains("function"), "{error}");
    }
    assert!(is_name("6.12.118+deb13-amd64") && is_name("kvm_make_vcpu_request.isra.0"));
}

#[test]
fn what_the_program_would_not_show_has_none() {
    let mut finding = example();
    finding.mix.changes.posts = true;
    let error = files(&finding).expect_err("a function").to_string();
    assert!(error.contains("--with device"), "{error}");
    finding.mix.changes = Changes { raises: true, ..Changes::default() };
    let error = files(&finding).expect_err("lines").to_string();
    assert!(error.contains("--with lines"), "{error}");
    finding.mix.changes = Changes { starts: true, ..Changes::default() };
    let error = files(&finding).expect_err("starts").to_string();
    assert!(error.contains("--with startup"), "{error}");
    let mut finding = example();
    finding.alarm.rule = Rule::Unasked;
    let error = files(&finding).expect_err("one that is not late").to_string();
    assert!(error.contains("nobody sent"), "{error}");
}

#[test]
fn the_module_holds_where_the_finding_was_held_once_at_each_place() {
    assert!(files(&example()).expect("no function").iter().all(|(name, _)| *name != "hold.c"));
    let place = |offset, nanoseconds: u64| Place {
        function: "kvm_make_vcpu_request".into(),
        offset,
        delay: Picoseconds(nanoseconds * 1000),
    };
    let places = vec![place(0x12, 300), place(0x12, 29_000), place(0x20, 1)];
    let module = text(&Finding { places, ..example() }, "hold.c");
    for row in [
        "#define RELEASE \"6.1\"",
        ".symbol = \"kvm_make_vcpu_request\", .offset = 0x12, .nanoseconds = 29000 }",
        ".symbol = \"kvm_make_vcpu_request\", .offset = 0x20, .nanoseconds = 1 }",
    ] {
        assert!(module.contains(row), "{row}: {module}");
    }
    assert_eq!(module.matches(".symbol = \"").count(), 2, "{module}");
}
