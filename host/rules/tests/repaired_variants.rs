//! Machines' files are repaired so that their program then gets what was meant, or not at all:
//! shells for scripts, Perl's words for Proxmox VE, a strict reader for JSON.

use rules::lint::Target;
use rules::lint::fix::fixed;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const WORDS: [&str; 2] = ["-global", "kvm-pit.lost_tick_policy=discard"];
const DELAY: &str = "kvm-pit.lost_tick_policy=delay";

/// A text after `lint --fix`; `None` where nothing is repaired or it is not read.
fn repaired(text: &str) -> Option<String> {
    let fixed = fixed("test", text, None, &Target::default()).ok()?;
    (fixed.text != text).then_some(fixed.text)
}

/// Whether the words are those from before with the ones that were meant, and no others.
fn is_as_meant(before: &[String], after: &[String]) -> bool {
    let is_put = |at: usize| {
        let rest = [&after[..at], after.get(at + 2..).unwrap_or_default()].concat();
        after[at..].iter().take(2).eq(WORDS.iter()) && rest == before
    };
    let in_place: Vec<String> = before
        .iter()
        .map(|word| if word == DELAY { WORDS[1].to_owned() } else { word.clone() })
        .collect();
    (0..after.len()).any(is_put) || (in_place == after && in_place != before)
}

/// The programs that a shell starts in place of QEMU: a list of words each, and its status.
fn started(shell: &str, folder: &Path, script: &str) -> Option<(Vec<Vec<String>>, Option<i32>)> {
    let file = folder.join("script");
    std::fs::write(&file, script).unwrap();
    let said = folder.join("said");
    std::fs::write(&said, "").unwrap();
    let output = Command::new(shell)
        .arg(&file)
        .args(["-name", "from the caller"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("SAID", &said)
        .output()
        .ok()?;
    let text = std::fs::read_to_string(&said).unwrap();
    let runs = text.split("\u{1}").skip(1);
    let words = |run: &str| run.split("\u{2}").skip(1).map(str::to_owned).collect();
    Some((runs.map(words).collect(), output.status.code()))
}

/// Ways to start a machine; `Q` is the program.
const COMMANDS: [&str; 32] = [
    "Q -enable-kvm -m 2G",
    "Q \\\n  -enable-kvm \\\n  -m 2G",
    "Q \\\n\t-enable-kvm \\\n\t-m 2G \\\n",
    "Q -enable-kvm -m 2G # two of them",
    "Q -enable-kvm -name 'a b'",
    "Q -enable-kvm -name \"a b\"",
    "Q -enable-kvm -name a\\ b",
    "Q -enable-kvm -name 'it'\\''s'",
    "Q -enable-kvm -m 2G >log 2>&1",
    "Q -enable-kvm -m 2G | cat",
    "Q -enable-kvm -m 2G || exit 3",
    "Q -enable-kvm -m 2G; echo done",
    "Q -enable-kvm -m 2G <<E\n-name x\nE",
    "(Q -enable-kvm -m 2G)",
    "{ Q -enable-kvm -m 2G; }",
    "if true; then\n  Q -enable-kvm -m 2G\nelse\n  Q -m 1G\nfi",
    "run() {\n  Q -enable-kvm \"$@\"\n}\nrun -m 2G",
    "for i in 1 2; do Q -enable-kvm -name vm$i; done",
    "case a in a) Q -enable-kvm -m 2G ;; esac",
    "X=1 Q -enable-kvm -m 2G",
    "env X=1 Q -enable-kvm -m 2G",
    "exec Q -enable-kvm \"$@\"",
    "A='-enable-kvm -m 2G'\nQ $A",
    "A='-enable-kvm'\nA=\"$A -m 2G\"\nQ $A \"$@\"",
    "A=\"-enable-kvm\n  -m 2G\"\nQ $A",
    "P=Q\n$P -enable-kvm -m 2G",
    "Q -enable-kvm -append \"a \\\"b c\\\" \\$d\"",
    "Q -enable-kvm -drive file=\"$PWD/a,b\",if=none",
    "Q -enable-kvm -global kvm-pit.lost_tick_policy=delay -m 2G",
    "Q -enable-kvm -global 'kvm-pit.lost_tick_policy=delay'",
    "Q -enable-kvm \\\n  -m 2G \\\n  # the end\necho x",
    "D='-m 2G'\nQ -enable-kvm ${D:-} ${E:+-S}",
];

/// Ways for bash alone.
const OF_BASH: [&str; 4] = [
    "A=(-enable-kvm -m 2G)\nQ \"${A[@]}\"",
    "A=(\n  -enable-kvm # fast\n  -name 'a b'\n)\nQ \"${A[@]}\"",
    "A=(-enable-kvm)\nA+=(-m 2G)\nQ \"${A[@]}\"",
    "A=(Q -enable-kvm -m 2G)\n\"${A[@]}\"",
];

fn surrounded(command: &str) -> Vec<String> {
    let command = command.replace('Q', "qemu-system-x86_64");
    let lines = format!("{command}\n");
    vec![
        lines.clone(),
        command.clone(),
        format!("#!/bin/sh\nset -e\n# starts it\n{lines}true\n"),
        format!("\u{feff}# a mark\n{lines}"),
        lines.replace('\n', "\r\n"),
        format!("echo a; echo 'b\nc'\n\n  {command}\n\n"),
        format!("true && {lines}"),
    ]
}

#[test]
fn scripts_start_what_was_meant_whatever_way_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let stub = folder.path().join("qemu-system-x86_64");
    let text =
        "#!/bin/sh\n{ printf '\\1'; for word; do printf '\\2%s' \"$word\"; done; } >>\"$SAID\"\n";
    std::fs::write(&stub, text).unwrap();
    std::fs::set_permissions(&stub, PermissionsExt::from_mode(0o755)).unwrap();
    let (mut changed, mut same, mut judged) = (0, 0, 0);
    let all = COMMANDS.iter().map(|one| (*one, &["sh", "bash"][..]));
    for (command, shells) in all.chain(OF_BASH.iter().map(|one| (*one, &["bash"][..]))) {
        for script in surrounded(command) {
            let Some(after) = repaired(&script) else {
                same += 1;
                continue;
            };
            changed += 1;
            for shell in shells {
                let Some(old) = started(shell, folder.path(), &script) else { continue };
                let new = started(shell, folder.path(), &after).unwrap();
                judged += 1;
                let context = format!("{shell}: {script:?} gave {after:?}: {old:?} {new:?}");
                assert_eq!((old.0.len(), old.1), (new.0.len(), new.1), "{context}");
                let mut is_changed = false;
                for (old, new) in old.0.iter().zip(&new.0) {
                    is_changed |= old != new;
                    assert!(old == new || is_as_meant(old, new), "{context}");
                }
                assert!(is_changed, "nothing came of it, {context}");
            }
        }
    }
    println!("{changed} changed, {same} left alone, {judged} judged");
    assert!(changed + same >= 250 && changed >= 180 && judged >= changed, "{changed} changed");
}

/// As Proxmox VE takes `args` apart; nothing where quotes are open.
fn words_of_perl(value: &str) -> Vec<String> {
    let program = "use Text::ParseWords; print map(\"\\2$_\", shellwords($ARGV[0]))";
    let output = Command::new("perl").args(["-e", program, "--", value]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split("\u{2}").skip(1).map(str::to_owned).collect()
}

fn arguments(text: &str) -> Option<&str> {
    let section = text.split("\n[").next().unwrap_or_default();
    section.lines().find_map(|line| line.strip_prefix("args:")).map(str::trim)
}

#[test]
fn arguments_of_proxmox_are_appended_as_perl_takes_them_apart() {
    let values = [
        None,
        Some("-cpu host"),
        Some("-name 'a b'"),
        Some("-name \"a b\""),
        Some("-smbios type=1,serial=a\\ b"),
        Some("-append \"x=\\\"y z\\\"\""),
        Some("-device vfio-pci,host=01:00.0 "),
        Some("-global kvm-pit.lost_tick_policy=delay"),
        Some("-name 'open"),
        Some("-name \"open"),
        Some("-name back\\"),
        Some("-name it\\'s"),
        Some("-fw_cfg name=opt/a,string='x' -S"),
        Some("  -nodefaults\t"),
    ];
    let mut changed = 0;
    for value in values {
        let line = value.map(|value| format!("args: {value}\n")).unwrap_or_default();
        let rest = "boot: order=scsi0\ncores: 4\nmemory: 2048\nname: a\nscsihw: virtio-scsi-pci\n";
        for text in [
            format!("{line}{rest}"),
            format!("#a description\n{line}{rest}"),
            format!("{rest}{line}"),
            format!("{rest}{}", line.trim_end_matches('\n')),
            format!("{line}{rest}").replace('\n', "\r\n"),
            format!("{line}{rest}\n[snap]\nargs: -S\ncores: 2\n"),
            format!("{line}{rest}\n[PENDING]\ncores: 2\n"),
        ] {
            let before = words_of_perl(arguments(&text).unwrap_or_default());
            let Some(after) = repaired(&text) else { continue };
            changed += 1;
            let words = words_of_perl(arguments(&after).unwrap_or_default());
            assert!(is_as_meant(&before, &words), "{text:?} gave {after:?}: {words:?}");
            // No other line changed.
            let others = |text: &str| -> Vec<String> {
                let lines = text.lines().filter(|line| !line.starts_with("args:"));
                lines.map(|line| line.trim_end().to_owned()).collect()
            };
            assert_eq!(others(&text), others(&after), "{text:?} gave {after:?}");
        }
    }
    println!("{changed} changed");
    assert!(changed >= 70, "{changed} changed");
}

#[test]
fn manifests_in_json_stay_json_and_differ_in_one_value() {
    let clocks = [
        "{}",
        "null",
        r#"{"timer":{}}"#,
        r#"{"timer":null}"#,
        r#"{"timer":{"pit":{}}}"#,
        r#"{"timer":{"pit":null}}"#,
        r#"{"timer":{"pit":{"tickPolicy":"delay"}}}"#,
        r#"{"timer":{"pit":{"present":true}}}"#,
        r#"{"timer":{"hpet":{"present":false}}}"#,
        r#"{"utc":{},"timer":{"rtc":{"tickPolicy":"catchup"},"pit":{"tickPolicy":"delay"}}}"#,
        r#"{"timezone":"a \" {b","timer":{"hpet":{"present":false},"pit":{"present":true}}}"#,
    ];
    let mut changed = 0;
    for clock in clocks {
        let clock: Value = serde_json::from_str(clock).unwrap();
        for place in 0..4 {
            let mut domain = serde_json::json!({"devices": {}, "cpu": {"cores": 2}});
            if place != 3 {
                domain["clock"] = clock.clone();
            }
            let kind = ["VirtualMachine", "VirtualMachineInstance"][place % 2];
            let specification = serde_json::json!({"domain": domain, "note": "a: {b} \u{e4}"});
            let specification = match place % 2 {
                0 => serde_json::json!({"template": {"spec": specification}}),
                _ => specification,
            };
            let object = serde_json::json!({
                "apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": {"name": "x"},
                "spec": specification,
            });
            let object = match place {
                2 => serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [object]}),
                _ => object,
            };
            let compact = object.to_string();
            let pretty = serde_json::to_string_pretty(&object).unwrap();
            for text in [
                compact.clone(),
                pretty.clone(),
                pretty.replace("  ", "\t"),
                pretty.replace('\n', "\r\n") + "\r\n",
                compact.replace("\":", "\" : ").replace(",\"", " ,\n\""),
            ] {
                let before: Value = serde_json::from_str(&text).unwrap();
                let Some(after) = repaired(&text) else { continue };
                changed += 1;
                let context = format!("{text} gave {after}");
                let mut after: Value =
                    serde_json::from_str(&after).unwrap_or_else(|why| panic!("{why}: {context}"));
                let mut before = before;
                let policy = policy(&after).unwrap_or_else(|| panic!("no policy: {context}"));
                assert_eq!(policy, "discard", "{context}");
                // Everything else is as it was, but for what holds it.
                forget(&mut after);
                forget(&mut before);
                assert_eq!(after, before, "{context}");
            }
        }
    }
    println!("{changed} changed");
    assert!(changed >= 200, "{changed} changed");
}

/// Where the tick policy of the PIT is said.
fn policy(value: &Value) -> Option<&Value> {
    match value {
        Value::Object(members) if members.contains_key("pit") => {
            members.get("pit")?.get("tickPolicy")
        }
        Value::Object(members) => members.values().find_map(policy),
        Value::Array(list) => list.iter().find_map(policy),
        _ => None,
    }
}

/// Leaves out the PIT's tick policy, and what holds nothing.
fn forget(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(pit)) = members.get_mut("pit") {
                pit.remove("tickPolicy");
            }
            members.values_mut().for_each(forget);
            let holds = |value: &Value| {
                !value.is_null() && value.as_object().is_none_or(|all| !all.is_empty())
            };
            members.retain(|_, value| holds(value));
        }
        Value::Array(list) => list.iter_mut().for_each(forget),
        _ => {}
    }
}
