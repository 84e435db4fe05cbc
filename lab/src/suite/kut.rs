//! kvm-unit-tests as guests of the emulated host's KVM: the entries of a built tree's
//! `x86/unittests.cfg`, each image in a virtual machine of `avicenna bench`. What a test says must
//! not depend on AVIC or APICv.

use super::judge::Convention;
use super::program::{Program, matches};
use super::{Column, Tested};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::Path;

/// Where a tree has its images and the list of them.
const FOLDER: &str = "x86";
const LIST: &str = "unittests.cfg";
/// Longer lists are none.
const MOST_BYTES: u64 = 1 << 20;
/// Where the image is on the host.
const IMAGE: &str = "/suite/test.flat";

/// Around a value of several lines.
const QUOTES: &str = r#"""""#;

/// An entry of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    name: String,
    file: String,
    smp: String,
    arguments: String,
    options: String,
    arch: String,
}

/// The tests of a tree that `wanted` names, or all.
pub fn of_tree(tree: &Path, wanted: &[String]) -> anyhow::Result<Vec<Program>> {
    let list = tree.join(FOLDER).join(LIST);
    let failed = || format!("{}: no tree of kvm-unit-tests", list.display());
    let size = std::fs::metadata(&list).with_context(failed)?.len();
    anyhow::ensure!(size <= MOST_BYTES, "{}: longer than a list is", list.display());
    let entries = entries(&std::fs::read_to_string(&list).with_context(failed)?);
    let is_wanted = |entry: &&Entry| {
        wanted.is_empty() || wanted.iter().any(|pattern| matches(pattern, &entry.name))
    };
    let programs = entries.iter().filter(is_wanted).map(|entry| program(tree, entry));
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(!programs.is_empty(), "{} has no such test", list.display());
    Ok(programs)
}

/// The list: names in brackets, values below them, some in quotes over several lines.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            entries.push(Entry { name: name.to_owned(), smp: "1".to_owned(), ..Entry::default() });
        }
        let (Some(entry), Some((key, value))) = (entries.last_mut(), line.split_once('=')) else {
            continue;
        };
        let value = match value.trim().strip_prefix(QUOTES) {
            Some(first) => quoted(first, &mut lines),
            None => value.trim().trim_matches(['\'', '"']).to_owned(),
        };
        let field = match key.trim() {
            "file" => &mut entry.file,
            "smp" => &mut entry.smp,
            "test_args" => &mut entry.arguments,
            "qemu_params" | "extra_params" => &mut entry.options,
            "arch" => &mut entry.arch,
            _ => continue,
        };
        *field = value;
    }
    entries
}

/// A value up to the next quotes, on one line.
fn quoted(first: &str, lines: &mut std::str::Lines<'_>) -> String {
    let mut value = String::new();
    let mut line = Some(first);
    while let Some(text) = line {
        if let Some((text, _)) = text.split_once(QUOTES) {
            value += text;
            break;
        }
        value = value + text.trim() + " ";
        line = lines.next();
    }
    value.trim().to_owned()
}

fn program(tree: &Path, entry: &Entry) -> anyhow::Result<Program> {
    let image = tree.join(FOLDER).join(&entry.file);
    let words = match words(entry, &image) {
        Ok(words) => words,
        Err(why) => return Ok(Program::skipped(&entry.name, &why)),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = Program::of_verb(&entry.name, &words, &[(&image, IMAGE)])?;
    Ok(program.judged_by(Convention::KvmUnitTests))
}

/// The virtual machine that an entry asks QEMU for, or why there is none.
fn words(entry: &Entry, image: &Path) -> Result<Vec<String>, String> {
    if entry.arch == "i386" {
        return Err("for 32-bit builds".to_owned());
    }
    if !image.is_file() {
        return Err(format!("the tree has no {FOLDER}/{}", entry.file));
    }
    let vcpus: u16 = entry.smp.parse().map_err(|_| format!("smp = {}", entry.smp))?;
    let mut words = vec!["bench".to_owned(), "--vcpus".to_owned(), vcpus.to_string()];
    let mut options = entry.options.split_ascii_whitespace();
    while let Some(option) = options.next() {
        if option == "-enable-kvm" {
            continue;
        }
        let value = options.next().unwrap_or_default();
        match option {
            // The guest has the host's processor, with this feature or without it.
            "-cpu" if value.split(',').any(|feature| feature == "-x2apic") => {
                words.push("--no-x2apic".to_owned());
            }
            "-cpu" | "-name" => {}
            "-m" => words.extend(["--memory".to_owned(), memory(value)?]),
            // There is none anyway, nor one that reinjects.
            "-machine" if value == "pit=off" => {}
            "-global" if value.starts_with("kvm-pit.") => {}
            _ => return Err(format!("needs QEMU's {option} {value}")),
        }
    }
    words.extend(["--kernel".to_owned(), IMAGE.to_owned()]);
    if !entry.arguments.is_empty() {
        words.extend(["--append".to_owned(), entry.arguments.clone()]);
    }
    Ok(words)
}

/// RAM in the words of `bench`, where a guest of it can have so much. QEMU's numbers without a unit
/// are MiB.
fn memory(value: &str) -> Result<String, String> {
    let most = bench::MOST_MEMORY >> 20;
    let (number, per_unit) = match value.strip_suffix('G') {
        Some(number) => (number, 1024),
        None => (value.trim_end_matches('M'), 1),
    };
    let megabytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(per_unit));
    match megabytes {
        Some(megabytes) if megabytes <= most => Ok(format!("{megabytes}M")),
        _ => Err(format!("needs QEMU's -m {value}: a guest has {most} MB at most")),
    }
}

/// The checks of a test, without what its prints of times and addresses differ in.
fn said(tested: &Tested) -> Vec<&str> {
    const WORDS: [&str; 5] = ["PASS", "FAIL", "SKIP", "XFAIL", "SUMMARY"];
    let checks = tested.output.lines().map(str::trim_end);
    checks.filter(|line| WORDS.iter().any(|word| line.starts_with(word))).collect()
}

/// Tests that say with AVIC or APICv something else than without, in words.
pub fn disagreements(all: &[Tested]) -> Vec<String> {
    let mut by_test: BTreeMap<(&str, Column), &Tested> = BTreeMap::new();
    let mut found = Vec::new();
    for tested in all {
        let column = Column { feature: String::new(), ..tested.column.clone() };
        let Some(other) = by_test.insert((&tested.name, column), tested) else { continue };
        let (one, two) = (said(other), said(tested));
        if tested.status == other.status && one == two {
            continue;
        }
        let first = one.iter().zip(&two).find(|(one, two)| one != two);
        let what = match first {
            Some((one, two)) => format!("{one:?} and {two:?}"),
            None => format!(
                "{} checks, status {:?}, and {}, status {:?}",
                one.len(),
                other.status,
                two.len(),
                tested.status
            ),
        };
        let (off, on) = (&other.column.feature, &tested.column.feature);
        found.push(format!("{} says with the feature {off} and {on}: {what}", tested.name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Verdict;

    const TEXT: &str = "# entries\n[x2apic]\nfile = apic.flat\nsmp = 2\nqemu_params = -cpu max,+x2apic -enable-kvm -m 2048\n\
                        [xapic]\nfile = apic.flat\nqemu_params = -cpu max,-x2apic -machine pit=off\n\
                        test_args = 'ipi'\n[i]\nfile = apic.flat\narch = i386\n[d]\nfile = apic.flat\n\
                        qemu_params = -device pci-testdev\n[big]\nfile = apic.flat\nextra_params = -m 4G\n[many]\nfile = none.flat\ntest_args = \"\"\"a\nb\"\"\"\n";

    #[test]
    fn an_entry_becomes_a_virtual_machine_or_says_why_not() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let image = folder.path().join("apic.flat");
        std::fs::write(&image, "").expect("a writable folder");
        let entries = entries(TEXT);
        let words: Vec<String> = entries
            .iter()
            .map(|entry| match words(entry, &folder.path().join(&entry.file)) {
                Ok(words) => words.join(" "),
                Err(why) => format!("{}: {why}", entry.name),
            })
            .collect();
        assert_eq!(
            words,
            [
                "bench --vcpus 2 --memory 2048M --kernel /suite/test.flat",
                "bench --vcpus 1 --no-x2apic --kernel /suite/test.flat --append ipi",
                "i: for 32-bit builds",
                "d: needs QEMU's -device pci-testdev",
                "big: needs QEMU's -m 4G: a guest has 3072 MB at most",
                "many: the tree has no x86/none.flat",
            ]
        );
    }

    #[test]
    fn values_in_quotes_are_whole_and_end_where_their_quotes_do() {
        let text = "[a]\ntest_args = \"\"\"\none\n  two\n\"\"\"\nsmp = 2\n[b]\ntest_args = \"\"\"one\ntwo\"\"\"\n\
                    smp = 3\n[c]\ntest_args = \"\"\"one\"\"\"\nsmp = 4\n[d]\ntest_args = \"one\"\n";
        let said: Vec<(String, String)> =
            entries(text).into_iter().map(|one| (one.arguments, one.smp)).collect();
        let rows = [("one two", "2"), ("one two", "3"), ("one", "4"), ("one", "1")];
        assert_eq!(said, rows.map(|(arguments, smp)| (arguments.to_owned(), smp.to_owned())));
    }

    #[test]
    fn what_a_test_checks_must_not_depend_on_the_feature_and_times_may() {
        let tested = |name: &str, feature: &str, output: &str| Tested {
            name: name.to_owned(),
            column: Column {
                kernel: "k".to_owned(),
                cpu: "c".to_owned(),
                feature: feature.to_owned(),
                parameters: Vec::new(),
            },
            verdict: Verdict::Pass,
            status: Some(0),
            virtual_seconds: 0.0,
            seconds: 0.0,
            trace_hash: None,
            output: output.to_owned(),
            log: Vec::new(),
        };
        let all = [
            tested("a", "off", "took 7\nPASS: x\n"),
            tested("b", "off", "PASS: x\nPASS: y\n"),
            tested("a", "on", "took 5\nPASS: x\n"),
            tested("b", "on", "PASS: x\nFAIL: y\n"),
        ];
        let found = disagreements(&all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("b says") && found[0].contains("FAIL: y"), "{found:?}");
    }
}
