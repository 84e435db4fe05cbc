//! What was found in the initial RAM disk, or what a listing of it tells.

use crate::initial_disk::{FILES, Listing, RECORD, listing};
use crate::inputs::{Content, Inputs};
use reading::{ConfigurationFile, Fact, InitialDisk};
use std::collections::BTreeSet;

/// The disk of the running kernel; unreadable where nobody looked into it.
pub fn read(inputs: &Inputs) -> Fact<InitialDisk> {
    let record = inputs.text(RECORD);
    if let Some(text) = record.get() {
        return recorded(inputs, text);
    }
    let listed =
        inputs.below("sos_commands/boot/lsinitrd").find_map(|(_, content)| match content {
            Content::Bytes(bytes) => listing(&String::from_utf8_lossy(bytes)),
            Content::Unreadable(_) => None,
        });
    match listed {
        Some(listing) => compared(inputs, listing),
        None => Fact::unreadable("the initial RAM disk", "not looked into"),
    }
}

/// Lines of a word and what belongs to it.
fn recorded(inputs: &Inputs, text: &str) -> Fact<InitialDisk> {
    let all = |word: &str| -> Vec<&str> {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.filter(|(key, _)| *key == word).map(|(_, value)| value).collect()
    };
    let place = all("initrd").first().copied().unwrap_or("the initial RAM disk");
    let (modules, files) = match all("unreadable").first() {
        Some(why) => (Fact::unreadable(place, *why), Fact::unreadable(place, *why)),
        None => {
            let files = inputs.below(FILES).filter_map(|(path, content)| match content {
                Content::Bytes(bytes) => Some(ConfigurationFile {
                    path: path[FILES.len()..].to_owned(),
                    text: String::from_utf8_lossy(bytes).into_owned(),
                }),
                Content::Unreadable(_) => None,
            });
            let modules: BTreeSet<String> = all("module").into_iter().map(str::to_owned).collect();
            (Fact::value(place, modules), Fact::value(place, files.collect()))
        }
    };
    let older_than = all("changed").first().map(|path| (*path).to_owned());
    Fact::value(place, InitialDisk { older_than, modules, files })
}

/// A file of the same name and length is taken for the host's own.
fn compared(inputs: &Inputs, listing: Listing) -> Fact<InitialDisk> {
    let place = listing.image;
    let (mut files, mut other) = (vec![], None);
    for (path, size) in &listing.files {
        let of_host = inputs.bytes(path);
        match of_host.get() {
            Some(bytes) if bytes.len() as u64 == *size => files.push(ConfigurationFile {
                path: path.rsplit('/').next().unwrap_or(path).to_owned(),
                text: String::from_utf8_lossy(bytes).into_owned(),
            }),
            // Reports hold no more than /etc/modprobe.d.
            None if !of_host.is_absent() => {}
            _ => other = Some(format!("/{path}")),
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let files = match &other {
        Some(path) => Fact::unreadable(&place, format!("its copy of {path} is of another length")),
        None => Fact::value(&place, files),
    };
    let modules = Fact::value(&place, listing.modules);
    Fact::value(&place, InitialDisk { older_than: other, modules, files })
}
