//! The initial RAM disk of the running kernel: which of KVM's modules are in it, and with which
//! options.
//!
//! It is unpacked as it is read and nothing of it is kept but small files of modprobe.d; that takes
//! a few tenths of a second, so it is left alone unless a module reads otherwise than it was asked
//! to. What was found stands under `avicenna/`, so that a snapshot says the same.

mod cpio;
mod image;

use crate::folder::{Folder, reason};
use crate::inputs::{Content, Inputs};
use reading::module::{AMD_MODULE, COMMON_MODULE, INTEL_MODULE};
use reading::{Kernel, KernelFeature, boolean};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufReader, Read};

/// Where what was found of it is kept.
pub const RECORD: &str = "avicenna/initrd.txt";

/// Where its files of modprobe.d are kept, by their names.
pub const FILES: &str = "avicenna/modprobe.d/";

/// Longest file of modprobe.d that is kept, and most of them.
const FILE_LIMIT: u64 = 64 << 10;
const FILES_LIMIT: usize = 256;

/// What a module may read otherwise than it was asked to.
const SWITCHES: [(&str, &str); 7] = [
    (AMD_MODULE, "avic"),
    (AMD_MODULE, "npt"),
    (AMD_MODULE, "enable_ipiv"),
    (AMD_MODULE, "enable_device_posted_irqs"),
    (INTEL_MODULE, "enable_apicv"),
    (INTEL_MODULE, "enable_ipiv"),
    (INTEL_MODULE, "enable_device_posted_irqs"),
];

/// Whether a module reads otherwise than files or the kernel's own choice have it: whether the disk
/// has something to say.
pub fn is_in_doubt(inputs: &Inputs) -> bool {
    let texts: Vec<String> = inputs
        .files()
        .filter(|(path, _)| path.contains("modprobe.d/") && !path.starts_with(FILES))
        .filter_map(|(_, content)| match content {
            Content::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).replace('-', "_")),
            Content::Unreadable(_) => None,
        })
        .collect();
    let has_default = inputs
        .text("proc/sys/kernel/osrelease")
        .get()
        .and_then(|release| Kernel::parse(release, None))
        .and_then(|kernel| kernel.has(KernelFeature::AvicByDefault));
    SWITCHES.iter().any(|(module, option)| {
        let reads = inputs.text(&format!("sys/module/{module}/parameters/{option}"));
        let is_off = reads.get().and_then(|text| boolean(text)) == Some(false);
        let word = format!("{option}=");
        let mut given = texts.iter().flat_map(|text| text.split_whitespace());
        let value = given.rfind(|given| given.starts_with(&word)).map(|given| &given[word.len()..]);
        let is_asked = match value {
            Some(value) => boolean(value) == Some(true),
            None => *option == "avic" && has_default == Some(true),
        };
        is_off && is_asked
    })
}

/// Reads the disk of the running kernel, if there is one to be found.
pub fn read_into(folder: &Folder, inputs: &mut Inputs) {
    let release = inputs.text("proc/sys/kernel/osrelease");
    let Some(release) = release.get().filter(|release| !release.contains('/')) else { return };
    let arguments = inputs.text("proc/cmdline");
    let arguments = arguments.get().map(String::as_str).unwrap_or_default();
    for place in places(folder, release, arguments) {
        match folder.open(&place) {
            Ok(Some(file)) => return record(folder, &place, file, inputs),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                inputs.insert(
                    RECORD,
                    format!("initrd /{place}\nunreadable {}\n", reason(&error)).into_bytes(),
                );
                return;
            }
        }
    }
}

/// Where distributions put it, by the kernel's release.
fn places(folder: &Folder, release: &str, arguments: &str) -> Vec<String> {
    let mut names: Vec<String> = vec![
        format!("initrd.img-{release}"),
        format!("initramfs-{release}.img"),
        format!("initrd-{release}"),
        format!("initramfs-{release}"),
    ];
    // Arch's are called by the package.
    let flavour = ["lts", "zen", "hardened"].into_iter().find(|flavour| release.contains(flavour));
    match flavour {
        Some(flavour) => names.push(format!("initramfs-linux-{flavour}.img")),
        None if release.contains("arch") => names.push("initramfs-linux.img".into()),
        None => {}
    }
    let mut numbers = release.split('.');
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) {
        names.push(format!("initramfs-{major}.{minor}-x86_64.img"));
    }
    // A boot loader may say it: initrd=\initramfs-linux.img.
    let said = arguments.split_whitespace().filter_map(|word| word.strip_prefix("initrd="));
    let said = said.map(|path| path.replace('\\', "/")).filter(|path| !path.contains("ucode"));
    let said: Vec<String> = said.map(|path| path.trim_start_matches('/').to_owned()).collect();
    let machines = folder
        .names("boot")
        .into_iter()
        .filter(|name| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let of_machines = machines.map(|machine| format!("boot/{machine}/{release}/initrd"));
    let of = |top: &str, names: &[String]| -> Vec<String> {
        names.iter().map(|name| format!("{top}/{name}")).collect()
    };
    [
        of("boot", &said),
        of("efi", &said),
        of("boot/efi", &said),
        of("boot", &names),
        of_machines.collect(),
        vec![format!("usr/lib/modules/{release}/initramfs.img")],
    ]
    .concat()
}

/// What of its members matters.
#[derive(Default)]
struct Found {
    modules: BTreeSet<String>,
    /// By name; of the folders the one that modprobe looks into first.
    files: BTreeMap<String, (usize, Vec<u8>)>,
}

/// In the order in which modprobe looks into them.
const FOLDERS: [&str; 5] = [
    "etc/modprobe.d/",
    "run/modprobe.d/",
    "usr/local/lib/modprobe.d/",
    "usr/lib/modprobe.d/",
    "lib/modprobe.d/",
];

impl Found {
    /// Whether a member is to be given to [`Found::take`].
    fn wants(&self, name: &str, size: u64) -> bool {
        FOLDERS.iter().any(|folder| name.starts_with(folder))
            && name.ends_with(".conf")
            && size <= FILE_LIMIT
            && self.files.len() < FILES_LIMIT
    }

    fn see(&mut self, name: &str) {
        let file = name.rsplit('/').next().unwrap_or(name);
        let Some((stem, _)) = file.split_once(".ko") else { return };
        let module = stem.replace('-', "_");
        if matches!(module.as_str(), COMMON_MODULE | AMD_MODULE | INTEL_MODULE) {
            self.modules.insert(module);
        }
    }

    fn take(&mut self, name: &str, bytes: Vec<u8>) {
        let Some(rank) = FOLDERS.iter().position(|folder| name.starts_with(folder)) else { return };
        let file = &name[FOLDERS[rank].len()..];
        let is_first = self.files.get(file).is_none_or(|(other, _)| rank < *other);
        if is_first && !file.contains('/') {
            self.files.insert(file.to_owned(), (rank, bytes));
        }
    }
}

/// Unpacks an image and keeps what matters of it.
fn found(image: impl Read) -> io::Result<Found> {
    let mut found = Found::default();
    image::members(&mut BufReader::new(image), &mut |name, size, data| {
        found.see(name);
        if found.wants(name, size) {
            let mut bytes = vec![];
            data.read_to_end(&mut bytes)?;
            found.take(name, bytes);
        }
        Ok(())
    })?;
    Ok(found)
}

fn record(folder: &Folder, place: &str, file: File, inputs: &mut Inputs) {
    let mut text = format!("initrd /{place}\n");
    // What was copied has the times of the copying.
    let made = file.metadata().and_then(|status| status.modified());
    if let Some(made) = made.ok().filter(|_| folder.is_live()) {
        let changed = inputs.files().map(|(path, _)| path).filter(|path| {
            FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".conf")
        });
        let newest = changed
            .filter_map(|path| Some((folder.changed(path)?, path)))
            .filter(|(time, _)| *time > made)
            .max();
        if let Some((_, path)) = newest {
            let _ = writeln!(text, "changed /{path}");
        }
    }
    match found(file) {
        Ok(found) => {
            for module in &found.modules {
                let _ = writeln!(text, "module {module}");
            }
            for (name, (_, bytes)) in found.files {
                if bytes.windows(3).any(|part| part == b"kvm") {
                    inputs.insert(format!("{FILES}{name}"), bytes);
                }
            }
        }
        Err(error) => {
            let _ = writeln!(text, "unreadable {}", reason(&error));
        }
    }
    inputs.insert(RECORD, text.into_bytes());
}

/// What `lsinitrd` prints: the image's name, KVM's modules, and files of modprobe.d with their
/// lengths.
pub struct Listing {
    pub image: String,
    pub modules: BTreeSet<String>,
    pub files: BTreeMap<String, u64>,
}

/// Takes a listing apart; `None` for what is none.
pub fn listing(text: &str) -> Option<Listing> {
    let image = text.lines().find_map(|line| line.strip_prefix("Image: "))?;
    let image = image.split(": ").next()?.trim().to_owned();
    let mut found = Found::default();
    let mut files = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('-')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(size)) = (words.get(8), words.get(4)) else { continue };
        found.see(name);
        if let Ok(size) = size.parse()
            && found.wants(name, size)
        {
            files.insert((*name).to_owned(), size);
        }
    }
    Some(Listing { image, modules: found.modules, files })
}

#[cfg(test)]
mod tests;
