//! What others say of a change: the shell of GRUB's settings, modprobe of its options, grubby and
//! qm of theirs. Who wrote a file is not a witness for it.
//!
//! Only of the host this program runs on: nothing is run that came with somebody else's folder. A
//! program that is not installed says nothing.

use rules::configuration::settings;
use rules::enable::{Action, Expected, GRUB_VARIABLES, Step};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lines that say who agrees; an error is what one of them says instead.
pub fn agree(steps: &[Step], expects: &[Expected]) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    said.extend(grub(Path::new("/"), steps)?);
    if let Some(dump) = output("modprobe", &["-c"]) {
        for expected in expects {
            said.push(modprobe(&dump, expected)?);
        }
    }
    said.extend(grubby(steps)?);
    said.extend(qm(steps)?);
    Ok(said)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The words that a change of GRUB's settings is about, and what the shell makes of them.
fn grub(root: &Path, steps: &[Step]) -> Result<Option<String>, String> {
    let mut texts: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for step in steps {
        if let Action::Write { path, before, after } = &step.action
            && path.starts_with("/etc/default/grub")
        {
            let before = before.as_deref().unwrap_or_default();
            texts.entry(path).or_insert((before, after)).1 = after;
        }
    }
    if texts.is_empty() {
        return Ok(None);
    }
    let words = |text: &str| -> Vec<String> {
        let found = settings::words(text, "GRUB_CMDLINE_LINUX").unwrap_or_default();
        let plain = found.into_iter().filter(|word| !word.text.contains(['$', '`']));
        plain.map(|word| word.text).collect()
    };
    let join = |texts: Vec<&str>| texts.join("\n");
    let before = words(&join(texts.values().map(|(before, _)| *before).collect()));
    let after = words(&join(texts.values().map(|(_, after)| *after).collect()));
    let Some(values) = sourced(root) else { return Ok(None) };
    let is_given = |word: &&String| values.split_ascii_whitespace().any(|given| given == *word);
    if let Some(word) =
        after.iter().filter(|word| !before.contains(word)).find(|word| !is_given(word))
    {
        return Err(format!("sh does not find {word} in GRUB's settings"));
    }
    if let Some(word) = before.iter().filter(|word| !after.contains(word)).find(is_given) {
        return Err(format!("sh still finds {word} in GRUB's settings"));
    }
    Ok(Some("verified by sh: GRUB's settings give the words that are wanted".into()))
}

/// Both variables, as grub-mkconfig's shell has them; `None` where there is no shell.
fn sourced(root: &Path) -> Option<String> {
    let main = root.join("etc/default/grub");
    let folder = std::fs::read_dir(root.join("etc/default/grub.d"));
    let mut files: Vec<PathBuf> = folder
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cfg"))
        .collect();
    files.sort();
    files.insert(0, main);
    let [first, second] = GRUB_VARIABLES;
    let script =
        format!("for file do . \"$file\"; done; printf '%s\\n' \"${first}\" \"${second}\"");
    let output = Command::new("/bin/sh")
        .args(["-c", &script, "sh"])
        .args(files.iter().filter(|file| file.is_file()))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last of the lines `options MODULE …` that give the option counts.
fn modprobe(dump: &str, expected: &Expected) -> Result<String, String> {
    let Expected { module, option, value } = expected;
    let given = dump
        .lines()
        .filter_map(|line| line.strip_prefix("options "))
        .filter_map(|line| line.split_once(' '))
        .filter(|(of, _)| of.replace('-', "_") == *module)
        .flat_map(|(_, words)| words.split_ascii_whitespace())
        .filter_map(|word| word.split_once('='))
        .filter(|(name, _)| name.replace('-', "_") == *option)
        .map(|(_, value)| value)
        .next_back();
    let switch = reading::boolean;
    match given {
        Some(given)
            if given == value || (switch(given).is_some() && switch(given) == switch(value)) =>
        {
            Ok(format!("verified by modprobe -c: {module} is given {option}={given}"))
        }
        Some(given) => Err(format!("modprobe -c gives {module} {option}={given}, not {value}")),
        None => Err(format!("modprobe -c gives {module} no {option}")),
    }
}

fn grubby(steps: &[Step]) -> Result<Option<String>, String> {
    let commands: Vec<&Vec<String>> = steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::Run { command, .. } => Some(command),
            _ => None,
        })
        .filter(|command| command.first().is_some_and(|program| program == "grubby"))
        .collect();
    if commands.is_empty() {
        return Ok(None);
    }
    let Some(info) = output("grubby", &["--info=ALL"]) else { return Ok(None) };
    let words = |option: &str| -> Vec<&str> {
        let lists = commands.iter().flat_map(|command| command.iter());
        lists.filter_map(|word| word.strip_prefix(option)).flat_map(str::split_whitespace).collect()
    };
    entries_have(&info, &words("--args="), &words("--remove-args=")).map(Some)
}

/// Every entry of `grubby --info=ALL` has these words and none of those.
fn entries_have(info: &str, added: &[&str], removed: &[&str]) -> Result<String, String> {
    for line in info.lines().filter_map(|line| line.strip_prefix("args=")) {
        let given: Vec<&str> = line.trim_matches('"').split_whitespace().collect();
        if let Some(word) = added.iter().find(|word| !given.contains(word)) {
            return Err(format!("grubby shows an entry without {word}"));
        }
        if let Some(word) = removed.iter().find(|word| given.contains(word)) {
            return Err(format!("grubby shows an entry that still has {word}"));
        }
    }
    Ok("verified by grubby: every entry has the words that are wanted".into())
}

/// Proxmox reads the definitions that were written, and has their `args`.
fn qm(steps: &[Step]) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    for step in steps {
        let Action::Write { path, after, .. } = &step.action else { continue };
        let file = path.strip_prefix("/etc/pve/qemu-server/");
        let Some(id) = file.and_then(|name| name.strip_suffix(".conf")) else { continue };
        let wanted = after
            .lines()
            .take_while(|line| !line.starts_with('['))
            .find(|line| line.starts_with("args:"));
        let (Some(wanted), Some(found)) = (wanted, output("qm", &["config", id])) else { continue };
        if !found.lines().any(|line| line.trim_end() == wanted.trim_end()) {
            return Err(format!("qm config {id} does not have '{wanted}'"));
        }
        said.push(format!("verified by qm config {id}"));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modprobe_is_asked_for_the_last_option_it_gives() {
        let expected =
            Expected { module: "kvm_amd".into(), option: "avic".into(), value: "1".into() };
        for (dump, is_right) in [
            ("options kvm_amd avic=1\n", true),
            ("options kvm-amd nested=1 avic=Y\nalias x y\n", true),
            ("options kvm_amd avic=1\noptions kvm_amd avic=0\n", false),
            ("options kvm_intel avic=1\n", false),
            ("", false),
        ] {
            assert_eq!(modprobe(dump, &expected).is_ok(), is_right, "{dump}");
        }
    }

    #[test]
    fn every_entry_of_grubby_has_to_agree() {
        let info = "index=0\nargs=\"ro quiet a=1\"\nindex=1\nargs=\"ro a=1\"\n";
        assert!(entries_have(info, &["a=1"], &["b"]).is_ok());
        assert!(entries_have(info, &["quiet"], &[]).unwrap_err().contains("without quiet"));
        assert!(entries_have(info, &[], &["quiet"]).unwrap_err().contains("still has quiet"));
    }

    #[test]
    fn shell_is_asked_what_grub_gets() {
        let root = std::env::temp_dir().join(format!("avicenna-witness-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc/default/grub.d")).unwrap();
        let step = |before: &str, after: &str| Step {
            id: "write".into(),
            title: String::new(),
            because: String::new(),
            action: Action::Write {
                path: "/etc/default/grub".into(),
                before: Some(before.into()),
                after: after.into(),
            },
            needs: rules::Needs::Reboot,
            risk: String::new(),
            is_optional: false,
        };
        let before = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu=off\"\n";
        let after = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet a=1\"\n";
        for (found, says) in [
            (after, None),
            ("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\n", Some("does not find a=1")),
            (before, Some("does not find a=1")),
            (
                "GRUB_CMDLINE_LINUX_DEFAULT=\"a=1 amd_iommu=off\"\n",
                Some("still finds amd_iommu=off"),
            ),
        ] {
            std::fs::write(root.join("etc/default/grub"), found).unwrap();
            let outcome = grub(&root, &[step(before, after)]);
            match says {
                None => assert!(matches!(outcome, Ok(Some(_))), "{found}: {outcome:?}"),
                Some(part) => assert!(outcome.unwrap_err().contains(part), "{found}"),
            }
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
