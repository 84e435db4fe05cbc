//! Each system call of a verb fails once, one after the other: no verb panics or hangs, and no file
//! is lost or torn. `failing/fail.c` lets them fail, of whichever process.
//!
//! Some calls of each verb are tried, always the same; with `AVICENNA_FAULTS=all` every one, with
//! every error.

mod failing;
mod made_up;
mod scene;

use failing::Run;
use scene::{BAD, Scene, host};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of powers, which calls of a kind fail, where not all do: of verbs that write, and of others.
const WRITES: usize = 2;
const READS: usize = 6;
/// How many faults there are between two lines of a long run.
const PROGRESS: usize = 500;

/// A verb, what is there before it, and what holds after it, whichever call failed.
struct Verb {
    words: &'static str,
    step: usize,
    before: fn(&Scene),
    after: fn(&Scene, &Run),
}

fn check(verb: &Verb) {
    if !failing::is_possible() {
        return;
    }
    let attempt = |fault| {
        let scene = Scene::new();
        (verb.before)(&scene);
        let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
        command.args(verb.words.split_whitespace()).current_dir(scene.0.path());
        let run = failing::run(&command, fault);
        (scene, run)
    };
    let (mut tried, mut wrong) = (0, Vec::new());
    let faults = failing::faults(|fault| attempt(fault).1, verb.step);
    for (number, fault) in faults.iter().enumerate() {
        let (scene, run) = attempt(*fault);
        if number % PROGRESS == PROGRESS - 1 {
            eprintln!("{}: {number} of {}, {} wrong", verb.words, faults.len(), wrong.len());
        }
        if !run.has_failed {
            continue;
        }
        tried += 1;
        let after = std::panic::catch_unwind(|| (verb.after)(&scene, &run));
        if !run.is_sound() || after.is_err() {
            wrong.push(format!("{fault:?}: status {}: {}", run.status, run.said));
        }
    }
    println!("{}: {tried} calls failed", verb.words);
    let words = verb.words;
    assert!(wrong.is_empty(), "{words}: {} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

fn nothing(_: &Scene) {}

fn avicenna(scene: &Scene, words: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    let output = command.args(words.split(' ')).current_dir(scene.0.path()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The host's files but for the records, with their modes.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, facts) = (entry.path(), entry.metadata().unwrap());
            match facts.is_dir() {
                true if path.ends_with("var") => {}
                true => folders.push(path),
                false => {
                    let bytes = fs::read(&path).unwrap();
                    found.insert(path, (facts.permissions().mode(), bytes));
                }
            }
        }
    }
    found
}

fn is_as_before(scene: &Scene) {
    let now = files(&scene.at("host"));
    let names: Vec<&PathBuf> = now.keys().collect();
    assert_eq!(now.len(), host().len(), "{names:?}");
    for (path, text) in host() {
        let bytes = now[&scene.at("host").join(path)].1.as_slice();
        assert_eq!(bytes, text.as_bytes(), "{path}");
    }
}

fn is_enabled(scene: &Scene) {
    assert!(!scene.read("host/etc/default/grub").contains("legacy"));
    assert!(scene.read("host/etc/modprobe.d/avicenna.conf").contains("avic=1"));
}

fn is_taken_back(scene: &Scene) {
    let (code, said) = avicenna(scene, "rollback --yes --root host");
    assert!(code == Some(0) || said.contains("nothing to roll back"), "{said}");
    is_as_before(scene);
}

#[test]
fn enable_is_done_or_taken_back() {
    check(&Verb {
        words: "enable --apply --yes --root host",
        step: WRITES,
        before: nothing,
        after: |scene, run| {
            if run.status == 0 {
                is_enabled(scene);
            }
            is_taken_back(scene);
        },
    });
}

#[test]
fn rollback_is_done_or_done_again() {
    check(&Verb {
        words: "rollback --yes --root host",
        step: WRITES,
        before: |scene| {
            assert_eq!(avicenna(scene, "enable --apply --yes --root host").0, Some(0));
        },
        after: |scene, run| {
            if run.status == 0 {
                is_as_before(scene);
            }
            is_taken_back(scene);
        },
    });
}

#[test]
fn lint_repairs_a_file_or_leaves_it() {
    check(&Verb {
        words: "lint --fix bad.sh worse.sh",
        step: WRITES,
        before: nothing,
        after: |scene, run| {
            for name in ["bad.sh", "worse.sh"] {
                let text = scene.read(name);
                let is_repaired = text.contains("lost_tick_policy=discard");
                assert!(is_repaired && text.ends_with('\n') || text == BAD, "{name}: {text}");
                assert!(is_repaired || ![0, 1].contains(&run.status), "{name}: {text}");
            }
        },
    });
}

#[test]
fn snapshot_is_whole_or_not_there() {
    check(&Verb {
        words: "snapshot -o out.tar.zst --root host",
        step: WRITES,
        before: nothing,
        after: |scene, run| {
            assert!(run.status != 0 || scene.at("out.tar.zst").is_file());
            if scene.at("out.tar.zst").exists() {
                let (code, said) = avicenna(scene, "check --root out.tar.zst");
                assert!(matches!(code, Some(1 | 3)), "{said}");
            }
        },
    });
}

const TRACE: &str = "# tracer: nop\n#\n  qemu-1 [000] .... 1.0: kvm_exit: reason EXIT_AVIC_INCOMPLETE_IPI rip 0x1 info 0 0\n\
     qemu-1 [000] .... 1.1: kvm_entry: vcpu 0\n";

#[test]
fn saved_machine_is_whole_or_not_there() {
    check(&Verb {
        words: "machine run --memory 16M --max-instructions 2000 --kernel kernel \
                --snapshot-on instructions:1000 saved",
        step: WRITES,
        before: |scene| fs::write(scene.at("kernel"), image::BENCHMARK).unwrap(),
        after: |scene, _| {
            if scene.at("saved").exists() {
                let words = "machine run --memory 16M --max-instructions 2000 --restore saved";
                let (code, said) = avicenna(scene, words);
                assert_eq!(code, Some(68), "{said}");
            }
        },
    });
}

#[test]
fn what_only_reads_changes_nothing() {
    for words in [
        "check --root host",
        "check --format json --root host",
        "why --root host",
        "why --format json --root host",
        "lint bad.sh",
        "enable --root host",
        "rollback --list --root host",
        "report --format json host",
        "experiment check firecracker-pit",
        "exits report trace.txt",
        "machine list-cpus",
        "machine test bad.sh",
    ] {
        check(&Verb {
            words,
            step: READS,
            before: |scene| fs::write(scene.at("trace.txt"), TRACE).unwrap(),
            after: |scene, _| {
                is_as_before(scene);
                assert!(!scene.at("host/var").exists());
                assert_eq!(scene.read("bad.sh"), BAD);
            },
        });
    }
}
