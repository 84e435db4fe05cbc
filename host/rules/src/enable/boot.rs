//! The kernel command line, in the file and through the tool that this host really uses.
//!
//! Told apart by what is installed and what is there: see [`Loader`]. A host that keeps its command
//! line in another way is told what to change, and nothing is written.

pub(super) mod grub;
mod kernelstub;
mod text;

use super::step::Action;
use reading::{ConfigurationFile, Facts};
use serde::Serialize;
use std::collections::BTreeMap;

/// Who keeps the kernel command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// NixOS, Guix: a description of the whole system, from which files are made.
    Described,
    /// The root file system is an image, and what is written into it does not last: Harvester,
    /// Flatcar, Talos.
    Image,
    /// Fedora CoreOS, Silverblue, IoT: `rpm-ostree kargs`.
    RpmOstree,
    /// Proxmox VE whose boot partitions proxmox-boot-tool fills, from either of two files.
    Proxmox,
    /// Pop!_OS.
    Kernelstub,
    /// openSUSE with systemd-boot or GRUB that reads entries.
    Sdbootutil,
    /// openSUSE MicroOS, SLE Micro: GRUB's configuration is part of a snapshot.
    TransactionalUpdate,
    /// Fedora, RHEL and their relatives: boot loader entries.
    Grubby,
    /// Debian, Ubuntu, Proxmox VE with GRUB alone.
    UpdateGrub,
    /// Arch, openSUSE, Gentoo.
    GrubMkconfig,
    /// Entries that kernel-install makes for systemd-boot.
    KernelInstall,
    /// Unified kernel images that mkinitcpio makes.
    Mkinitcpio,
    /// systemd-boot with entries that a person wrote.
    Entries,
    /// None of these is recognized: the operator is told what to change.
    Unknown,
}

const CMDLINE_FILE: &str = "/etc/kernel/cmdline";

/// Words that go to and from the kernel command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    add: Vec<String>,
    remove: Vec<String>,
}

impl Arguments {
    pub fn new<'w>(
        add: impl IntoIterator<Item = &'w str>,
        remove: impl IntoIterator<Item = &'w str>,
    ) -> Self {
        Self {
            add: add.into_iter().map(String::from).collect(),
            remove: remove.into_iter().map(String::from).collect(),
        }
    }

    pub fn add(&self) -> Vec<&str> {
        self.add.iter().map(String::as_str).collect()
    }

    pub fn remove(&self) -> Vec<&str> {
        self.remove.iter().map(String::as_str).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// Takes more words in, each once.
    pub fn extend(&mut self, more: &Arguments) {
        for (words, new) in [(&mut self.add, &more.add), (&mut self.remove, &more.remove)] {
            words.extend(
                new.iter().filter(|word| !words.contains(word)).cloned().collect::<Vec<_>>(),
            );
        }
    }
}

impl Loader {
    /// By the tools that are installed and the files that are there; the more special one first.
    pub fn detect(facts: &Facts) -> Loader {
        let has_tool = |name: &str| facts.boot.tools.contains(name);
        let has_file = |path: &str| facts.boot.files.iter().any(|file| file.path == path);
        let has_defaults = has_file(grub::DEFAULTS);
        let entries = || entries(facts);
        let is_ostree = facts.command_line_words().any(|word| word.starts_with("ostree="));
        if facts.is_described() {
            Loader::Described
        } else if is_ostree {
            if has_tool("rpm-ostree") { Loader::RpmOstree } else { Loader::Unknown }
        } else if is_image(facts) {
            Loader::Image
        } else if has_tool("proxmox-boot-tool")
            && has_file("/etc/kernel/proxmox-boot-uuids")
            && (has_file(CMDLINE_FILE) || has_defaults)
        {
            Loader::Proxmox
        } else if has_tool("kernelstub") {
            Loader::Kernelstub
        } else if has_tool("sdbootutil") && has_file(CMDLINE_FILE) {
            Loader::Sdbootutil
        } else if has_tool("transactional-update") {
            if has_defaults { Loader::TransactionalUpdate } else { Loader::Unknown }
        } else if has_tool("grubby") && (has_defaults || entries().next().is_some()) {
            Loader::Grubby
        } else if has_tool("update-grub") && has_defaults {
            Loader::UpdateGrub
        } else if (has_tool("grub-mkconfig") || has_tool("grub2-mkconfig")) && has_defaults {
            Loader::GrubMkconfig
        } else if makes_unified_images(facts) {
            Loader::Mkinitcpio
        } else if has_tool("kernel-install")
            && has_file(CMDLINE_FILE)
            && entries().any(|entry| entry.text.contains("90-loaderentry.install"))
        {
            Loader::KernelInstall
        } else if entries().next().is_some()
            && entries().all(|entry| !entry.text.contains("90-loaderentry.install"))
        {
            Loader::Entries
        } else {
            Loader::Unknown
        }
    }
}

/// Boot loader entries, wherever their partition is mounted.
fn entries(facts: &Facts) -> impl Iterator<Item = &ConfigurationFile> {
    facts.boot.files.iter().filter(|file| file.path.contains("/loader/entries/"))
}

/// Harvester and others made with Elemental, Flatcar, Talos, Bottlerocket say so on the kernel
/// command line, whatever tools lie in their images.
fn is_image(facts: &Facts) -> bool {
    const MARKS: [&str; 5] = ["cos-img/", "rd.cos.", "flatcar.", "talos.", "bottlerocket."];
    facts.command_line_words().any(|word| MARKS.iter().any(|mark| word.starts_with(mark)))
}

fn makes_unified_images(facts: &Facts) -> bool {
    let has_cmdline = facts.boot.files.iter().any(|file| file.path == CMDLINE_FILE);
    let presets =
        facts.boot.files.iter().filter(|file| file.path.starts_with("/etc/mkinitcpio.d/"));
    let is_uki =
        |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim().ends_with("_uki"));
    has_cmdline
        && facts.boot.tools.contains("mkinitcpio")
        && presets.flat_map(|file| file.text.lines()).any(is_uki)
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| part.to_string()).collect()
}

/// Texts as planned so far, by path.
type Planned = BTreeMap<String, String>;

/// What adds and removes arguments here: files first, then the program that spreads them.
pub struct Actions {
    pub writes: Vec<Action>,
    pub runs: Vec<Action>,
}

/// The actions for several groups of arguments, one after the other; the files of later ones build
/// on earlier ones.
pub fn actions(facts: &Facts, groups: &[Arguments]) -> Vec<Actions> {
    let mut planned = Planned::new();
    groups.iter().map(|arguments| group(facts, arguments, &mut planned)).collect()
}

fn group(facts: &Facts, arguments: &Arguments, planned: &mut Planned) -> Actions {
    carried_out(facts, arguments, planned)
        .unwrap_or_else(|why| Actions { writes: vec![by_hand(arguments, &why)], runs: vec![] })
}

/// A file that cannot be changed safely is left, and the operator is told.
fn by_hand(arguments: &Arguments, why: &str) -> Action {
    let asked = asks_for(arguments);
    Action::Tell { instruction: format!("{asked} the kernel command line by hand: {why}") }
}

fn carried_out(
    facts: &Facts,
    arguments: &Arguments,
    planned: &mut Planned,
) -> Result<Actions, String> {
    let loader = Loader::detect(facts);
    let regenerate = |command: &[&str]| run(command, command);
    let (writes, runs) = match loader {
        Loader::Proxmox => {
            let mut writes =
                edit(facts, planned, &[CMDLINE_FILE], |text, _| text::change_line(text, arguments));
            // Either file may be the one that counts.
            match grub::edit(facts, planned, arguments) {
                Ok(more) => writes.extend(more),
                Err(why) => writes.push(by_hand(arguments, &why)),
            }
            (writes, vec![regenerate(&["proxmox-boot-tool", "refresh"])])
        }
        Loader::UpdateGrub => {
            (grub::edit(facts, planned, arguments)?, vec![regenerate(&["update-grub"])])
        }
        Loader::TransactionalUpdate => (
            grub::edit(facts, planned, arguments)?,
            vec![regenerate(&["transactional-update", "grub.cfg"])],
        ),
        Loader::GrubMkconfig => {
            let command: &[&str] = match facts.boot.tools.contains("grub2-mkconfig") {
                true => &["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"],
                false => &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"],
            };
            (grub::edit(facts, planned, arguments)?, vec![regenerate(command)])
        }
        Loader::KernelInstall | Loader::Sdbootutil | Loader::Mkinitcpio => {
            let writes =
                edit(facts, planned, &[CMDLINE_FILE], |text, _| text::change_line(text, arguments));
            let command: &[&str] = match loader {
                Loader::Sdbootutil => &["sdbootutil", "update-all-entries"],
                Loader::Mkinitcpio => &["mkinitcpio", "-P"],
                _ => &["kernel-install", "add-all"],
            };
            (writes, vec![regenerate(command)])
        }
        Loader::Entries => {
            let paths: Vec<&str> = entries(facts).map(|file| file.path.as_str()).collect();
            let change = |text: &str, _: &str| text::change_entry(text, arguments);
            (edit(facts, planned, &paths, change), vec![])
        }
        Loader::Grubby => return Ok(Actions { writes: vec![], runs: vec![grubby(arguments)] }),
        Loader::RpmOstree => {
            return Ok(Actions { writes: vec![], runs: vec![rpm_ostree(arguments)] });
        }
        Loader::Kernelstub if knows_kernelstub(facts) => {
            let change = |text: &str, _: &str| kernelstub::change(text, arguments);
            let writes = edit(facts, planned, &[kernelstub::PATH], change);
            (writes, vec![regenerate(&["kernelstub"])])
        }
        Loader::Kernelstub => {
            return Ok(Actions { writes: vec![], runs: kernelstub_options(arguments) });
        }
        Loader::Described | Loader::Image | Loader::Unknown => {
            return Ok(Actions { writes: vec![tell(loader, arguments)], runs: vec![] });
        }
    };
    if writes.is_empty() {
        let instruction = "reboot: what the next boot takes says so already".to_owned();
        return Ok(Actions { writes: vec![Action::Tell { instruction }], runs: vec![] });
    }
    Ok(Actions { writes, runs })
}

fn run(command: &[&str], undo: &[&str]) -> Action {
    Action::Run { command: words(command), undo: words(undo), keeps: vec![] }
}

/// Files that change, as actions; `change` gets the text and its path.
fn edit(
    facts: &Facts,
    planned: &mut Planned,
    paths: &[&str],
    change: impl Fn(&str, &str) -> Option<String>,
) -> Vec<Action> {
    let mut actions = vec![];
    for path in paths {
        let Some(file) = facts.boot.files.iter().find(|file| file.path == *path) else { continue };
        let before = planned.get(*path).unwrap_or(&file.text).clone();
        if let Some(after) = change(&before, path) {
            planned.insert((*path).to_owned(), after.clone());
            actions.push(Action::Write { path: file.path.clone(), before: Some(before), after });
        }
    }
    actions
}

/// grubby appends what it adds: the files that it writes are kept, so that the way back is exact.
fn grubby(arguments: &Arguments) -> Action {
    let (adding, removing) = (arguments.add().join(" "), arguments.remove().join(" "));
    let command = |added: &str, removed: &str| {
        let mut command = words(&["grubby", "--update-kernel=ALL"]);
        if !added.is_empty() {
            command.push(format!("--args={added}"));
        }
        if !removed.is_empty() {
            command.push(format!("--remove-args={removed}"));
        }
        command
    };
    let keeps = [
        "/boot/loader/entries/*.conf",
        "/boot/grub2/grubenv",
        "/boot/grub2/grub.cfg",
        "/boot/grub/grub.cfg",
        grub::DEFAULTS,
        CMDLINE_FILE,
    ];
    Action::Run {
        command: command(&adding, &removing),
        undo: command(&removing, &adding),
        keeps: words(&keeps),
    }
}

fn rpm_ostree(arguments: &Arguments) -> Action {
    let command = |added: &[&str], removed: &[&str]| {
        let mut command = words(&["rpm-ostree", "kargs"]);
        command.extend(added.iter().map(|word| format!("--append-if-missing={word}")));
        command.extend(removed.iter().map(|word| format!("--delete-if-present={word}")));
        command
    };
    let (add, remove) = (arguments.add(), arguments.remove());
    Action::Run { command: command(&add, &remove), undo: command(&remove, &add), keeps: vec![] }
}

fn knows_kernelstub(facts: &Facts) -> bool {
    let mut files = facts.boot.files.iter();
    files.any(|file| file.path == kernelstub::PATH && kernelstub::is_known(&file.text))
}

/// Where it has no configuration yet.
fn kernelstub_options(arguments: &Arguments) -> Vec<Action> {
    let one = |option: &str, word: &str| {
        let opposite = if option == "-a" { "-d" } else { "-a" };
        run(&["kernelstub", option, word], &["kernelstub", opposite, word])
    };
    let added = arguments.add.iter().map(|word| one("-a", word));
    added.chain(arguments.remove.iter().map(|word| one("-d", word))).collect()
}

/// "add 'a' to and remove 'b' from"
fn asks_for(arguments: &Arguments) -> String {
    let (add, remove) = (arguments.add(), arguments.remove());
    let mut parts = vec![];
    if !add.is_empty() {
        parts.push(format!("add '{}' to", add.join(" ")));
    }
    if !remove.is_empty() {
        parts.push(format!("remove '{}' from", remove.join(" ")));
    }
    parts.join(" and ")
}

fn tell(loader: Loader, arguments: &Arguments) -> Action {
    let parts = asks_for(arguments);
    Action::Tell {
        instruction: match loader {
            Loader::Described => format!(
                "{parts} boot.kernelParams in configuration.nix (kernel-arguments of Guix) and rebuild: this system \
                 is made from its description, and what is written beside it does not last"
            ),
            Loader::Image => format!(
                "{parts} the kernel command line in the configuration that this system is installed from: its root is \
                 an image, and what is written into it does not last"
            ),
            _ => format!(
                "{parts} the kernel command line: how this host keeps it is not known here, so nothing is written"
            ),
        },
    }
}
