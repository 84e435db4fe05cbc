//! The kernel command line, through the tool the distribution uses.
//!
//! Told apart by what is installed: proxmox-boot-tool (Proxmox VE on systemd-boot), kernelstub (Pop!_OS), grubby
//! (Fedora and relatives), update-grub (Debian and Ubuntu), grub-mkconfig (Arch, openSUSE), kernel-install
//! (systemd-boot elsewhere).

use super::Action;
use crate::host::Facts;
use serde::Serialize;

/// Who keeps the kernel command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    Proxmox,
    Kernelstub,
    Grubby,
    UpdateGrub,
    GrubMkconfig,
    KernelInstall,
    Unknown,
}

const GRUB_DEFAULTS: &str = "/etc/default/grub";
const CMDLINE_FILE: &str = "/etc/kernel/cmdline";

impl Loader {
    pub fn detect(facts: &Facts) -> Loader {
        let has_tool = |name: &str| facts.boot.tools.contains(name);
        let has_file = |path: &str| facts.boot.files.iter().any(|file| file.path == path);
        if has_tool("proxmox-boot-tool") && has_file(CMDLINE_FILE) {
            Loader::Proxmox
        } else if has_tool("kernelstub") {
            Loader::Kernelstub
        } else if has_tool("grubby") {
            Loader::Grubby
        } else if has_tool("update-grub") && has_file(GRUB_DEFAULTS) {
            Loader::UpdateGrub
        } else if (has_tool("grub-mkconfig") || has_tool("grub2-mkconfig"))
            && has_file(GRUB_DEFAULTS)
        {
            Loader::GrubMkconfig
        } else if has_tool("kernel-install") && has_file(CMDLINE_FILE) {
            Loader::KernelInstall
        } else {
            Loader::Unknown
        }
    }
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| part.to_string()).collect()
}

/// What adds and removes arguments here.
pub fn actions(facts: &Facts, add: &[&str], remove: &[&str]) -> Vec<Action> {
    let run = |command: &[&str], undo: &[&str]| Action::Run {
        command: words(command),
        undo: words(undo),
    };
    let regenerate = |command: &[&str]| run(command, command);
    let edit = |path: &str, change: fn(&str, &[&str], &[&str]) -> Option<String>| {
        let file = facts.boot.files.iter().find(|file| file.path == path)?;
        let after = change(&file.text, add, remove)?;
        Some(Action::Write { path: path.into(), before: Some(file.text.clone()), after })
    };
    let edited = |path: &str, change, command: &[&str]| match edit(path, change) {
        Some(action) => vec![action, regenerate(command)],
        None => vec![tell(add, remove)],
    };
    match Loader::detect(facts) {
        Loader::Proxmox => edited(CMDLINE_FILE, change_line, &["proxmox-boot-tool", "refresh"]),
        Loader::UpdateGrub => edited(GRUB_DEFAULTS, change_defaults, &["update-grub"]),
        Loader::GrubMkconfig if facts.boot.tools.contains("grub2-mkconfig") => edited(
            GRUB_DEFAULTS,
            change_defaults,
            &["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"],
        ),
        Loader::GrubMkconfig => {
            edited(GRUB_DEFAULTS, change_defaults, &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"])
        }
        Loader::KernelInstall => edited(CMDLINE_FILE, change_line, &["kernel-install", "add-all"]),
        Loader::Grubby => {
            let (adding, removing) = (add.join(" "), remove.join(" "));
            let arguments = |added: &str, removed: &str| {
                let mut command = words(&["grubby", "--update-kernel=ALL"]);
                if !added.is_empty() {
                    command.push(format!("--args={added}"));
                }
                if !removed.is_empty() {
                    command.push(format!("--remove-args={removed}"));
                }
                command
            };
            vec![Action::Run {
                command: arguments(&adding, &removing),
                undo: arguments(&removing, &adding),
            }]
        }
        Loader::Kernelstub => {
            let each = |option: &str, list: &[&str]| {
                list.iter().map(|word| (option.to_string(), word.to_string())).collect::<Vec<_>>()
            };
            each("-a", add)
                .into_iter()
                .chain(each("-d", remove))
                .map(|(option, word)| {
                    let opposite = if option == "-a" { "-d" } else { "-a" };
                    run(&["kernelstub", &option, &word], &["kernelstub", opposite, &word])
                })
                .collect()
        }
        Loader::Unknown => vec![tell(add, remove)],
    }
}

fn tell(add: &[&str], remove: &[&str]) -> Action {
    let mut parts = vec![];
    if !add.is_empty() {
        parts.push(format!("add '{}' to", add.join(" ")));
    }
    if !remove.is_empty() {
        parts.push(format!("remove '{}' from", remove.join(" ")));
    }
    Action::Tell {
        instruction: format!(
            "{} the kernel command line, with this host's boot loader tool",
            parts.join(" and ")
        ),
    }
}

/// A command line with the arguments added and removed; `None` if nothing changes.
fn change_words(line: &str, add: &[&str], remove: &[&str]) -> Option<String> {
    let given: Vec<&str> = line.split_whitespace().collect();
    let missing: Vec<&str> = add.iter().copied().filter(|word| !given.contains(word)).collect();
    if missing.is_empty() && !given.iter().any(|word| remove.contains(word)) {
        return None;
    }
    let kept = given.into_iter().filter(|word| !remove.contains(word));
    Some(kept.chain(missing).collect::<Vec<_>>().join(" "))
}

/// /etc/kernel/cmdline: one line.
fn change_line(text: &str, add: &[&str], remove: &[&str]) -> Option<String> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    change_words(line, add, remove).map(|line| format!("{line}\n{rest}"))
}

/// /etc/default/grub: words go from both variables, and are added to the one for ordinary boots.
fn change_defaults(text: &str, add: &[&str], remove: &[&str]) -> Option<String> {
    const VARIABLES: [&str; 2] = ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"];
    let has = |name: &str| text.lines().any(|line| variable(line) == Some(name));
    let adding_to = VARIABLES.into_iter().find(|name| has(name));
    let mut changed = false;
    let mut result = String::with_capacity(text.len() + 80);
    for line in text.split_inclusive('\n') {
        let name = variable(line).filter(|name| VARIABLES.contains(name));
        let edited = name.and_then(|name| {
            let (key, value) = line.split_once('=')?;
            let body = value.trim_end_matches('\n');
            let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''));
            let inner = match quote {
                Some(quote) => body[1..].split(quote).next()?,
                None => body,
            };
            let add = if Some(name) == adding_to { add } else { &[] };
            let words = change_words(inner, add, remove)?;
            let quote = quote.unwrap_or('"');
            let tail =
                body.get(inner.len() + if body.starts_with(quote) { 2 } else { 0 }..).unwrap_or("");
            Some(format!("{key}={quote}{words}{quote}{tail}{}", &value[body.len()..]))
        });
        changed |= edited.is_some();
        result.push_str(edited.as_deref().unwrap_or(line));
    }
    if adding_to.is_none() && !add.is_empty() {
        if !result.is_empty() && !result.ends_with('\n') {
            result.push('\n');
        }
        result.push_str(&format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{}\"\n", add.join(" ")));
        changed = true;
    }
    changed.then_some(result)
}

fn variable(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    (!name.starts_with('#')).then(|| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grub_defaults_change_in_place_and_keep_everything_else() {
        let text = "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\" # default\nGRUB_CMDLINE_LINUX='amd_iommu=off root=x'\n";
        let rows: &[(&[&str], &[&str], Option<&str>)] = &[
            (
                &["kvm_amd.avic=1"],
                &["amd_iommu=off"],
                Some(
                    "# comment\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash kvm_amd.avic=1\" # default\nGRUB_CMDLINE_LINUX='root=x'\n",
                ),
            ),
            (&["quiet"], &["absent"], None),
        ];
        for (add, remove, expected) in rows {
            assert_eq!(
                change_defaults(text, add, remove).as_deref(),
                *expected,
                "{add:?} {remove:?}"
            );
        }
        assert_eq!(
            change_defaults("GRUB_TIMEOUT=5", &["a=1"], &[]).as_deref(),
            Some("GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"a=1\"\n")
        );
        assert_eq!(
            change_defaults("GRUB_CMDLINE_LINUX=quiet\n", &["a=1"], &[]).as_deref(),
            Some("GRUB_CMDLINE_LINUX=\"quiet a=1\"\n")
        );
    }

    #[test]
    fn cmdline_file_keeps_its_other_lines() {
        assert_eq!(
            change_line("root=x quiet\n# note\n", &["a=1"], &["quiet"]).as_deref(),
            Some("root=x a=1\n# note\n")
        );
        assert_eq!(change_line("root=x", &["root=x"], &[]), None);
    }
}
