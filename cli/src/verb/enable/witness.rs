//! What others say of a change: the shell of GRUB's settings, modprobe of its options, grubby,
//! bootctl, virsh and qm of theirs. Who wrote a file is not a witness for it.
//!
//! Only of the host this program runs on: nothing is run that came with a foreign folder. A
//! program that is not installed says nothing.

use crate::outcome::outcome;
use rules::configuration::{self, Hints, Kind, settings};
use rules::enable::{Action, Expected, GRUB_VARIABLES, Step};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    said.extend(bootctl(steps)?);
    said.extend(virsh(steps)?);
    said.extend(qm(steps)?);
    Ok(said)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = outcome(Command::new(program).args(arguments)).ok();
    let output = output.filter(|output| output.status.success())?;
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
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", &script, "sh"])
        .args(files.iter().filter(|file| file.is_file()))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = outcome(&mut shell).ok()?;
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

/// The entries that kernel-install made of /etc/kernel/cmdline, as the boot loader's own tool reads
/// them.
fn bootctl(steps: &[Step]) -> Result<Option<String>, String> {
    let ran = steps.iter().any(|step| match &step.action {
        Action::Run { command, .. } => {
            command.first().is_some_and(|program| program == "kernel-install")
        }
        _ => false,
    });
    let written = steps.iter().find_map(|step| match &step.action {
        Action::Write { path, before, after } if path == "/etc/kernel/cmdline" => {
            Some((before.as_deref().unwrap_or_default(), after.as_str()))
        }
        _ => None,
    });
    let (true, Some((before, after))) = (ran, written) else { return Ok(None) };
    let release = output("uname", &["-r"]).unwrap_or_default();
    let Some(list) = output("bootctl", &["list", "--json=short", "--no-pager"]) else {
        return Ok(None);
    };
    entries_follow(&list, release.trim(), before, after)
}

/// Whether the entries of the running kernel have the words that came, and not those that went;
/// `None` where there are none. Other entries may be another system's.
fn entries_follow(
    list: &str,
    release: &str,
    before: &str,
    after: &str,
) -> Result<Option<String>, String> {
    let Ok(entries) = serde_json::from_str::<Vec<serde_json::Value>>(list) else { return Ok(None) };
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.split_whitespace().collect(), after.split_whitespace().collect());
    let mut is_there = false;
    for entry in entries.iter().filter(|entry| entry["version"] == release) {
        let Some(options) = entry["options"].as_str() else { continue };
        is_there = true;
        let given: Vec<&str> = options.split_whitespace().collect();
        let name = entry["id"].as_str().unwrap_or("an entry");
        let missing = |word: &&&str| !before.contains(word) && !given.contains(word);
        if let Some(word) = after.iter().find(missing) {
            return Err(format!("bootctl shows {name} without {word}"));
        }
        let is_left = |word: &&&str| !after.contains(word) && given.contains(word);
        if let Some(word) = before.iter().find(is_left) {
            return Err(format!("bootctl shows {name}, which still has {word}"));
        }
    }
    Ok(is_there.then(|| {
        format!("verified by bootctl: the entries of {release} have the words that are wanted")
    }))
}

/// libvirt's own form of the definitions that were written.
fn virsh(steps: &[Step]) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    for step in steps {
        let Action::Write { path, after, .. } = &step.action else { continue };
        let file = path.strip_prefix("/etc/libvirt/qemu/");
        let Some(name) = file.and_then(|name| name.strip_suffix(".xml")) else { continue };
        let Some(found) = output("virsh", &["dumpxml", "--inactive", "--", name]) else { continue };
        said.extend(is_defined(name, after, &found)?);
    }
    Ok(said)
}

/// Whether a definition decides of interrupts as the one that was written; `None` where one of them
/// is not understood.
fn is_defined(name: &str, written: &str, found: &str) -> Result<Option<String>, String> {
    let decided = |text: &str| {
        let contents =
            configuration::read(name, text, Some(Kind::LibvirtXml), &Hints::default()).ok()?;
        let vm = contents.vms.into_iter().next()?;
        Some([
            ("PIT", format!("{:?}", vm.pit.value)),
            ("interrupt controllers", format!("{:?}", vm.irqchip.value)),
            ("x2APIC", format!("{:?}", vm.x2apic.value)),
            ("largest APIC ID", vm.max_apic_id.value.to_string()),
        ])
    };
    let (Some(wanted), Some(found)) = (decided(written), decided(found)) else { return Ok(None) };
    for ((what, wanted), (_, found)) in wanted.iter().zip(&found) {
        if wanted != found {
            return Err(format!("virsh dumpxml {name}: {what} is {found}, not {wanted}"));
        }
    }
    Ok(Some(format!("verified by virsh dumpxml {name}")))
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
    fn entries_of_the_running_kernel_have_to_agree() {
        let entry = |version: &str, options: &str| serde_json::json!({"id": "a.conf", "version": version, "options": options});
        let list = |entries: &[serde_json::Value]| serde_json::json!(entries).to_string();
        let (before, after) = ("root=/dev/a amd_iommu=off", "root=/dev/a x=1");
        let right = list(&[entry("6.12", "root=/dev/a x=1"), entry("5.0", "amd_iommu=off")]);
        assert!(matches!(entries_follow(&right, "6.12", before, after), Ok(Some(_))));
        for (options, says) in
            [("root=/dev/a", "without x=1"), ("x=1 amd_iommu=off", "still has amd_iommu=off")]
        {
            let found = entries_follow(&list(&[entry("6.12", options)]), "6.12", before, after);
            assert!(found.unwrap_err().contains(says), "{options}");
        }
        for nothing in ["", "{}", "[]", &right.replace("6.12", "6.13")] {
            assert_eq!(entries_follow(nothing, "6.12", before, after), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn libvirt_has_to_decide_as_what_was_written() {
        let domain = |timer: &str| {
            format!(
                "<domain type='kvm'><name>a</name><vcpu>2</vcpu><os><type machine='q35'>hvm</type></os>\
                 <features><apic/></features><clock offset='utc'>{timer}</clock></domain>"
            )
        };
        let written = domain("<timer name='pit' tickpolicy='discard'/>");
        let other = domain("<timer tickpolicy=\"discard\" name=\"pit\"/><timer name='rtc'/>");
        assert!(matches!(is_defined("a", &written, &other), Ok(Some(_))));
        let lost = domain("<timer name='pit' tickpolicy='delay'/>");
        assert!(is_defined("a", &written, &lost).unwrap_err().contains("PIT"));
        assert_eq!(is_defined("a", &written, "no XML"), Ok(None));
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
