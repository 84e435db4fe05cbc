//! A module that is loaded from the initial RAM disk has the options that were copied into it: what
//! the disk says of an option that a module reads otherwise.

use crate::configuration::given;
use crate::feature::{Feature, Parameter};
use crate::finding::{Evidence, Needs};
use reading::{Fact, Facts, InitialDisk, Reading, boolean};

/// What follows from the disk for a module that was loaded without an option that is asked for.
pub enum Copy {
    /// It loads the module and does not ask for the option, or asks for the opposite.
    Older(Evidence),
    /// It does not load the module, or asks for the same: the module was loaded before.
    Innocent(Evidence),
    /// A file changed after it was made, and it could not be read.
    MayBeOlder(Evidence),
    /// Nobody looked, or it says nothing.
    Unknown,
}

/// Of a feature's parameter.
pub fn copy(facts: &Facts, feature: Feature) -> Copy {
    let Parameter { module, name, .. } = feature.parameter();
    let disk = &facts.initial_disk;
    let Some(found) = disk.get() else { return Copy::Unknown };
    let evidence = |value: &str| Evidence::new("initial RAM disk", disk.place.clone(), value);
    if found.has(module) == Some(false) {
        return Copy::Innocent(evidence(&format!("does not load {module}")));
    }
    let asked = found.files.get().map(|files| given::by_files(files, module, name));
    match asked {
        Some(Some((value, file))) if boolean(&value) == Some(true) => {
            Copy::Innocent(evidence(&format!("asks for {name}={value} in {file}")))
        }
        Some(Some((value, file))) => {
            Copy::Older(evidence(&format!("loads {module} with {name}={value} of {file}")))
        }
        Some(None) => Copy::Older(evidence(&format!("loads {module} without {name}"))),
        None => match &found.older_than {
            Some(file) => {
                let why = why_unread(found);
                Copy::MayBeOlder(evidence(&format!("made before {file} changed, and {why}")))
            }
            None => Copy::Unknown,
        },
    }
}

fn why_unread(disk: &InitialDisk) -> String {
    let of = |fact: &Reading<_>| match fact {
        Reading::Unreadable(why) => Some(format!("not read: {why}")),
        _ => None,
    };
    of(&disk.files.reading).unwrap_or_else(|| "not read".into())
}

/// The option as the disk gives it to a module that it loads, where the disk is to blame for a
/// value that no file asks for.
pub fn gives(facts: &Facts, feature: Feature) -> Option<(String, Evidence)> {
    let Parameter { module, name, .. } = feature.parameter();
    let disk: &Fact<InitialDisk> = &facts.initial_disk;
    let found = disk.get().filter(|disk| disk.has(module) == Some(true))?;
    let (value, file) = given::by_files(found.files.get()?, module, name)?;
    let evidence =
        Evidence::new("initial RAM disk", disk.place.clone(), format!("{name}={value} in {file}"));
    Some((value, evidence))
}

/// What rebuilds the disk, as a command of this host.
pub fn command(facts: &Facts) -> Option<&'static [&'static str]> {
    const COMMANDS: [(&str, &[&str]); 4] = [
        ("transactional-update", &["transactional-update", "initrd"]),
        ("update-initramfs", &["update-initramfs", "-u", "-k", "all"]),
        ("mkinitcpio", &["mkinitcpio", "-P"]),
        ("dracut", &["dracut", "--regenerate-all", "--force"]),
    ];
    let found = COMMANDS.into_iter().find(|(tool, _)| facts.boot.tools.contains(*tool));
    found.map(|(_, command)| command)
}

/// Rebuilds it and boots from it.
pub fn renewal(facts: &Facts) -> (String, Needs) {
    let line = match command(facts) {
        Some(command) => format!("{} && reboot", command.join(" ")),
        None => "rebuild the initial RAM disk, and reboot".to_owned(),
    };
    (line, Needs::Reboot)
}
