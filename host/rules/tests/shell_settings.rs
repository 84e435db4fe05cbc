//! Files of shell settings are changed so that real shells then give what was meant, or not at all.

use rules::configuration::settings::{Outcome, Wanted, change};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const VARIABLES: [&str; 2] = ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"];

/// What a shell says once it has sourced the texts in order; `None` where it is not installed or
/// does not take them.
fn shell(program: &str, texts: &[&str]) -> Option<BTreeMap<String, String>> {
    let folder = std::env::temp_dir().join(format!(
        "avicenna-settings-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).unwrap();
    let mut script = String::new();
    for (index, text) in texts.iter().enumerate() {
        let path = folder.join(format!("{index}.cfg"));
        std::fs::write(&path, text).unwrap();
        script.push_str(&format!(". '{}'\n", path.display()));
    }
    script.push_str("printf 'END\\n'\n");
    // Values by name, each between marks of its own.
    for name in VARIABLES.iter().chain(&["GRUB_TIMEOUT", "GRUB_DISABLE_RECOVERY"]) {
        script.push_str(&format!("printf '\\0%s=%s' {name} \"${name}\"\n"));
    }
    let mut child = Command::new(program)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(script.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, values) = text.split_once("END\n")?;
    let pairs = values.split('\0').filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// As the kernel takes a value apart.
fn words(value: &str) -> Vec<String> {
    let mut found = vec![];
    let mut word = String::new();
    let mut is_quoted = false;
    for c in value.chars() {
        is_quoted ^= c == '"';
        match c.is_ascii_whitespace() && !is_quoted {
            true if word.is_empty() => {}
            true => found.push(std::mem::take(&mut word)),
            false => word.push(c),
        }
    }
    found.extend(Some(word).filter(|word| !word.is_empty()));
    found
}

#[derive(Default, Debug)]
struct Tally {
    changed: usize,
    same: usize,
    refused: usize,
}

/// Changes the texts and has every shell judge: the words that were there stay in order, but for
/// those that had to go, the new ones are there, and no other variable changed.
fn check(texts: &[&str], add: &[&str], remove: &[&str], tally: &mut Tally) {
    let wanted = Wanted { variables: &VARIABLES, add, remove };
    let changed = match change(texts, &wanted) {
        Outcome::Refused(why) => {
            assert!(!why.is_empty(), "a refusal says why: {texts:?}");
            return tally.refused += 1;
        }
        Outcome::Same => {
            tally.same += 1;
            BTreeMap::new()
        }
        Outcome::Changed(changed) => {
            tally.changed += 1;
            changed
        }
    };
    let after: Vec<&str> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| changed.get(&index).map_or(*text, String::as_str))
        .collect();
    let mut judges = 0;
    for program in ["sh", "bash"] {
        let Some(old) = shell(program, texts) else { continue };
        judges += 1;
        let context = format!("{program}: {texts:?} +{add:?} -{remove:?} gave {after:?}");
        let new = shell(program, &after).unwrap_or_else(|| panic!("broken for {context}"));
        for (name, value) in &old {
            if !VARIABLES.contains(&name.as_str()) {
                assert_eq!(value, &new[name], "{name} changed, {context}");
                continue;
            }
            let kept = |value: &str| -> Vec<String> {
                let is_asked =
                    |word: &String| add.contains(&word.as_str()) || remove.contains(&word.as_str());
                words(value).into_iter().filter(|word| !is_asked(word)).collect()
            };
            assert_eq!(kept(value), kept(&new[name]), "{name}, {context}");
        }
        let all: Vec<String> = VARIABLES.iter().flat_map(|name| words(&new[*name])).collect();
        for word in add {
            assert!(all.iter().any(|given| given == word), "{word} is missing, {context}");
        }
        for word in remove {
            assert!(all.iter().all(|given| given != word), "{word} is left, {context}");
        }
    }
    assert!(judges > 0 || cfg!(not(unix)), "no shell to ask: {texts:?}");
}

/// Ways to write one value that has the words `quiet` and `amd_iommu=off`, or more.
const FORMS: [&str; 34] = [
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT='quiet amd_iommu=off'",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet\\ amd_iommu=off",
    "GRUB_CMDLINE_LINUX_DEFAULT=amd_iommu=off",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet   # as installed",
    "GRUB_CMDLINE_LINUX_DEFAULT=",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\namd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  amd_iommu=off \\\n  splash\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\n  amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT='quiet\namd_iommu=off\n'",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"dyndbg=\\\"file x +p\\\" quiet amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT='dyndbg=\"file x  +p\" amd_iommu=off'",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \"'amd_iommu=off'",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \"amd_iommu\"=off\"' splash'",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"root=$(echo \"a b\" | cut -d' ' -f1) quiet amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet $(echo x)\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=`echo quiet`",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"cost=\\$5 amd_iommu=off\"",
    "EXTRA=\"amd_iommu=off\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet $EXTRA\"",
    "A=quiet; B=amd_iommu=off\nGRUB_CMDLINE_LINUX_DEFAULT=\"$A ${B}\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"; GRUB_CMDLINE_LINUX=\"amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"old\" GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX_DEFAULT+=\" amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT splash\"",
    "if [ -e /nowhere ]; then\n  GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nelse\n  GRUB_CMDLINE_LINUX_DEFAULT=\"amd_iommu=off\"\nfi",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n[ -e / ] && GRUB_CMDLINE_LINUX_DEFAULT=\"splash\"",
    "export GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"",
    "  GRUB_CMDLINE_LINUX=\"quiet amd_iommu=off\"",
    "GRUB_CMDLINE_LINUX_DEFAULT=$'quiet\\x20amd_iommu=off'",
    "for x in a b; do GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT $x\"; done",
    "case x in y) GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\";; *) GRUB_CMDLINE_LINUX=\"amd_iommu=off\";; esac",
    ": \"${GRUB_CMDLINE_LINUX_DEFAULT:=quiet}\"",
    "#GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"",
];

type Asked = (&'static [&'static str], &'static [&'static str]);

const ASKED: [Asked; 4] = [
    (&["kvm_amd.avic=1"], &[]),
    (&[], &["amd_iommu=off"]),
    (&["kvm_amd.avic=1", "kvm_amd.npt=1"], &["amd_iommu=off"]),
    (&["amd_iommu=fullflush"], &["amd_iommu=off", "quiet"]),
];

#[test]
fn every_way_of_writing_is_changed_as_meant_or_left() {
    let mut tally = Tally::default();
    for form in FORMS {
        for (add, remove) in ASKED {
            let rest = "GRUB_TIMEOUT=5 # seconds\nGRUB_DISABLE_RECOVERY=\"true\"\n";
            check(&[&format!("{form}\n")], add, remove, &mut tally);
            check(&[form], add, remove, &mut tally);
            check(&[&format!("# head\n{rest}{form}\n")], add, remove, &mut tally);
            check(&[&format!("{form}\n{rest}")], add, remove, &mut tally);
            check(&[&format!("{form}\n").replace('\n', "\r\n")], add, remove, &mut tally);
            check(&[&format!("\u{feff}{form}\n")], add, remove, &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.changed + tally.same + tally.refused >= 800);
    assert!(tally.changed >= 330, "most are changed: {tally:?}");
}

#[test]
fn files_that_are_sourced_later_count() {
    let mut tally = Tally::default();
    let main = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n";
    for form in FORMS {
        for (add, remove) in ASKED {
            check(&[main, form], add, remove, &mut tally);
            check(
                &[form, "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1\"\n"],
                add,
                remove,
                &mut tally,
            );
            check(
                &[
                    "GRUB_CMDLINE_LINUX_DEFAULT=quiet",
                    form,
                    "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT x=1\"",
                ],
                add,
                remove,
                &mut tally,
            );
        }
    }
    println!("{tally:?}");
    assert!(tally.changed >= 150, "{tally:?}");
}

#[test]
fn what_is_written_looks_as_people_write_it() {
    for (before, add, remove, after) in [
        (
            "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\" # default\nGRUB_CMDLINE_LINUX='amd_iommu=off root=x'\n",
            "kvm_amd.avic=1",
            "amd_iommu=off",
            "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash kvm_amd.avic=1\" # default\nGRUB_CMDLINE_LINUX='root=x'\n",
        ),
        ("GRUB_CMDLINE_LINUX=quiet\n", "a=1", "b", "GRUB_CMDLINE_LINUX=\"quiet a=1\"\n"),
        ("GRUB_CMDLINE_LINUX_DEFAULT=\"\"\n", "a=1", "b", "GRUB_CMDLINE_LINUX_DEFAULT=\"a=1\"\n"),
        ("GRUB_TIMEOUT=5\n", "a=1", "b", "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"a=1\"\n"),
        (
            "GRUB_CMDLINE_LINUX_DEFAULT=quiet   # as installed\n",
            "a=1",
            "b",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet a=1\"   # as installed\n",
        ),
        (
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n  amd_iommu_intr=legacy\"\n",
            "a=1",
            "amd_iommu_intr=legacy",
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\n a=1\"\n",
        ),
    ] {
        let wanted = Wanted { variables: &VARIABLES, add: &[add], remove: &[remove] };
        let changed = match change(&[before], &wanted) {
            Outcome::Changed(changed) => changed[&0].clone(),
            other => panic!("{before}: {other:?}"),
        };
        assert_eq!(changed, after, "{before}");
    }
}

#[test]
fn what_cannot_be_followed_is_refused_with_the_reason() {
    for (text, part) in [
        (". /etc/vars\nGRUB_CMDLINE_LINUX=\"quiet\"\n", "command '.'"),
        ("GRUB_CMDLINE_LINUX=\"quiet\n", "quote is not closed"),
        ("GRUB_CMDLINE_LINUX=\"quiet\"\r\n", "CR LF"),
        ("\u{feff}GRUB_CMDLINE_LINUX=\"quiet\"\n", "byte order mark"),
        ("eval GRUB_CMDLINE_LINUX=quiet\n", "command 'eval'"),
        ("if true; then GRUB_CMDLINE_LINUX=quiet\n", "misplaced"),
        ("GRUB_CMDLINE_LINUX=$(cat <<E\nquiet\nE\n)\n", "not followed"),
        ("f() { GRUB_CMDLINE_LINUX=quiet; }\nf\n", "function"),
    ] {
        let wanted = Wanted { variables: &VARIABLES, add: &["a=1"], remove: &[] };
        match change(&[text], &wanted) {
            Outcome::Refused(why) => assert!(why.contains(part), "{text}: {why}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}
