//! QEMU's devices and what is behind them.

use super::character::{self, Character};
use super::folder::Folder;
use super::place::Place;
use super::request::{Question, Request};

/// What the machine does with a device of a name.
enum Kind {
    /// It has one.
    Has,
    /// It gets one by an option of `machine run`.
    Gets(&'static str, &'static str),
    /// A disk over a drive.
    Disk,
    /// A network cable.
    Network,
    /// The serial port, at a character device.
    Serial,
    /// A port of the console, at a character device.
    Port,
    /// A folder of this computer.
    Folder,
    /// It has none, and who asks for it goes on without.
    Missing(&'static str),
}

/// Devices, a row each.
const DEVICES: &[(&str, Kind)] = &[
    ("isa-debug-exit", Kind::Has),
    ("pc-testdev", Kind::Has),
    ("pci-testdev", Kind::Has),
    ("virtio-blk-pci", Kind::Disk),
    ("virtio-blk-pci-non-transitional", Kind::Disk),
    ("virtio-blk", Kind::Disk),
    ("virtio-net-pci", Kind::Network),
    ("virtio-net", Kind::Network),
    ("isa-serial", Kind::Serial),
    ("virtio-serial-pci", Kind::Has),
    ("virtio-serial-device", Kind::Has),
    ("virtio-serial", Kind::Has),
    ("virtserialport", Kind::Port),
    ("virtconsole", Kind::Port),
    ("virtio-9p-pci", Kind::Folder),
    ("virtio-9p-device", Kind::Folder),
    ("virtio-9p", Kind::Folder),
    ("i6300esb", Kind::Missing("there is no watchdog")),
    ("ioatdma", Kind::Gets("--device", "ioat")),
    ("intel-iommu", Kind::Gets("--iommu", "on")),
    ("amd-iommu", Kind::Gets("--iommu", "on")),
];

/// The port at which the machine has its exit device.
const EXIT_PORT: u64 = 0xF4;

/// `NAME[,KEY=VALUE]...`
pub(super) fn add(request: &mut Request, text: &str) -> Result<(), String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    if matches!(name, "help" | "?") {
        return request.ask(Question::Devices);
    }
    let Some((_, kind)) = DEVICES.iter().find(|(known, _)| *known == name) else {
        return Err(format!("'{name}' is not a device of the machine (-device help lists them)"));
    };
    let value = |wanted: &str| {
        let mut values = text.split(',').filter_map(|part| part.split_once('='));
        values.find(|(key, _)| *key == wanted).map(|(_, value)| value)
    };
    match kind {
        Kind::Has if name == "isa-debug-exit" => {
            let port = value("iobase").map_or(Some(0x501), number);
            if port != Some(EXIT_PORT) {
                return Err("the exit port is at F4h: iobase=0xf4".into());
            }
        }
        Kind::Has => {}
        Kind::Gets(option, value) => request.devices.extend([(*option).into(), (*value).into()]),
        Kind::Disk => {
            let drive = value("drive").ok_or("drive=ID is missing")?;
            if !request.drives.iter().any(|(id, _)| id == drive) {
                return Err(format!("there is no -drive with id={drive} before it"));
            }
        }
        Kind::Network => request.has_network = true,
        Kind::Serial => {
            return value("chardev").map_or(Ok(()), |name| serial_at(request, name));
        }
        Kind::Port => {
            let at = value("chardev").ok_or("chardev=ID is missing")?;
            return port_at(request, value("name").filter(|_| name == "virtserialport"), at);
        }
        Kind::Folder => {
            let folder = value("fsdev").ok_or("fsdev=ID is missing")?;
            let tag = value("mount_tag").ok_or("mount_tag=TAG is missing")?;
            return mount(request, folder, tag);
        }
        Kind::Missing(why) => request.ignore(&format!("-device {text}: {why}")),
    }
    Ok(())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What `-device help` says.
pub(super) fn list() -> String {
    DEVICES.iter().map(|(name, _)| format!("name \"{name}\"\n")).collect()
}

/// `-pflash FILE`, in the next unit.
pub(super) fn flash(request: &mut Request, text: &str) -> Result<(), String> {
    put_flash(request, None, text, true)
}

fn put_flash(
    request: &mut Request,
    unit: Option<&str>,
    file: &str,
    is_kept: bool,
) -> Result<(), String> {
    let lost = request.flash.put(unit, file, is_kept)?;
    lost.iter().for_each(|what| request.ignore(what));
    Ok(())
}

/// `file=FILE,format=raw|qcow2,if=virtio|none|pflash[,unit=N][,id=ID][,readonly=on][,snapshot=on]`
pub(super) fn drive(request: &mut Request, text: &str) -> Result<(), String> {
    let (mut file, mut id, mut mode) = ("", String::new(), ",write-through");
    let (mut format, mut is_flash, mut unit) = ("", false, None);
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("file", value)) => file = value,
            Some(("id", value)) => id = value.to_owned(),
            Some(("format", value @ ("raw" | "qcow2"))) => format = value,
            Some(("format", other)) => {
                return Err(format!("{other}: an image has to be raw or qcow2"));
            }
            Some(("if", "virtio" | "none")) => {}
            Some(("if", "pflash")) => is_flash = true,
            Some(("if", other)) => return Err(format!("{other}: only virtio, none and pflash")),
            Some(("unit" | "index", value)) => unit = Some(value),
            Some(("readonly", "on")) => mode = ",readonly",
            Some(("snapshot", "on")) => mode = "",
            Some(("readonly" | "snapshot", "off") | ("cache" | "aio" | "media" | "discard", _)) => {
            }
            _ => return Err(format!("{part}: no such word")),
        }
    }
    if is_flash && !file.is_empty() {
        return match format {
            "qcow2" => Err("flash memory has to be raw".into()),
            _ => put_flash(request, unit, file, mode == ",write-through"),
        };
    }
    if file.is_empty() || format.is_empty() {
        return Err("file=FILE and format=raw or qcow2 are needed".into());
    }
    request.writes_qcow2 |= format == "qcow2" && mode == ",write-through";
    request.drives.push((id, format!("{file}{mode}")));
    Ok(())
}

/// `user,id=ID...`: the peer answers ping, and nobody else.
pub(super) fn network(request: &mut Request, text: &str) -> Result<(), String> {
    match text.split(',').next() {
        Some("user") => {
            request.ignore(&format!("-netdev {text}: the peer answers ping alone"));
            Ok(())
        }
        _ => Err("the machine's network has no way out: only user".into()),
    }
}

/// `-nic none` is so; `-nic user` is a device with its network.
pub(super) fn interface(request: &mut Request, text: &str) -> Result<(), String> {
    match text.split(',').next() {
        Some("none") => Ok(()),
        _ => {
            network(request, text)?;
            request.has_network = true;
            Ok(())
        }
    }
}

const ONLY_STDIO: &str =
    "the serial port is at standard input and output or at a file: only stdio, null and file:PATH";
/// Where output goes that nobody reads.
const NOWHERE: &str = "/dev/null";

pub(super) fn serial(request: &mut Request, text: &str) -> Result<(), String> {
    match text {
        "stdio" | "mon:stdio" => Ok(()),
        "none" | "null" => {
            request.serial = Some(NOWHERE.to_owned());
            Ok(())
        }
        _ => match (text.strip_prefix("chardev:"), text.strip_prefix("file:")) {
            (Some(name), _) => serial_at(request, name),
            (_, Some(path)) => {
                request.serial = Some(path.to_owned());
                Ok(())
            }
            _ => Err(ONLY_STDIO.into()),
        },
    }
}

/// The serial port at a character device.
fn serial_at(request: &mut Request, name: &str) -> Result<(), String> {
    match character::named(&request.characters, name)? {
        Character::At(Place { socket: None, .. }) => {
            request.shares_terminal = true;
            Ok(())
        }
        Character::At(_) => Err(ONLY_STDIO.into()),
        Character::File(path) => {
            request.serial = Some(path.display().to_string());
            Ok(())
        }
        Character::Nothing => serial(request, "null"),
    }
}

/// A port of the console at a character device; without a name it is the console itself.
fn port_at(request: &mut Request, name: Option<&str>, at: &str) -> Result<(), String> {
    let (path, is_terminal) = match character::named(&request.characters, at)? {
        Character::File(path) => (path.display().to_string(), false),
        Character::Nothing => (NOWHERE.to_owned(), false),
        Character::At(Place { socket: None, .. }) => ("/dev/stdout".to_owned(), true),
        Character::At(_) => return Err("a port is at a file, at null or at stdio".into()),
    };
    let port = name.map_or_else(|| path.clone(), |name| format!("{name}={path}"));
    request.devices.extend(["--console".to_owned(), port]);
    if let (Some(name), true) = (name, is_terminal) {
        request.devices.extend(["--stdin".to_owned(), name.to_owned()]);
    }
    Ok(())
}

/// A folder that devices refer to.
pub(super) fn name_folder(request: &mut Request, text: &str) -> Result<(), String> {
    let folder = Folder::parse(text)?;
    request.folders.push((folder.id()?.to_owned(), folder.place()?));
    folder.ignored.iter().for_each(|word| request.ignore(&format!("-fsdev {word}")));
    Ok(())
}

/// A folder with its device.
pub(super) fn share(request: &mut Request, text: &str) -> Result<(), String> {
    let folder = Folder::parse(text)?;
    let share = format!("{}={}", folder.tag()?, folder.place()?);
    request.devices.extend(["--share".to_owned(), share]);
    folder.ignored.iter().for_each(|word| request.ignore(&format!("-virtfs {word}")));
    Ok(())
}

/// The device of a folder that an option has named.
fn mount(request: &mut Request, id: &str, tag: &str) -> Result<(), String> {
    let found = request.folders.iter().find(|(other, _)| other == id);
    let (_, place) = found.ok_or_else(|| format!("there is no -fsdev with id={id}"))?;
    let share = format!("{tag}={place}");
    request.devices.extend(["--share".to_owned(), share]);
    Ok(())
}

/// `none`, which is what there is.
pub(super) fn nothing(_: &mut Request, text: &str) -> Result<(), String> {
    if text == "none" { Ok(()) } else { Err("only none".into()) }
}

/// There is no display, which is what `none` asks for.
pub(super) fn display(request: &mut Request, text: &str) -> Result<(), String> {
    if text != "none" {
        request.ignore(&format!("a display ({text})"));
    }
    Ok(())
}

/// The machine is emulated, with KVM on this computer or without.
pub(super) fn accelerator(request: &mut Request, text: &str) -> Result<(), String> {
    if text.split(',').next() != Some("tcg") {
        request.ignore(&format!("-accel {text}"));
    }
    Ok(())
}

/// `[TYPE][,KEY=VALUE]...`
pub(super) fn machine(request: &mut Request, text: &str) -> Result<(), String> {
    for part in text.split(',') {
        match part.split_once('=') {
            None => match part.strip_prefix("pc-").map_or(part, |_| "pc") {
                "help" | "?" => return request.ask(Question::Help),
                "pc" | "q35" => {}
                _ => request.ignore(&format!("-machine {part}")),
            },
            Some(("type", _)) => {}
            Some(("accel", accelerator)) => self::accelerator(request, accelerator)?,
            Some(("usb" | "graphics" | "hpet" | "vmport", "off")) => {}
            Some(("vmport", "on")) => return Err("the machine has no ports of VMware's".into()),
            Some(_) => request.ignore(&format!("-machine {part}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_port_is_where_it_is_and_not_elsewhere() {
        for (text, is_taken) in [
            ("isa-debug-exit,iobase=0xf4,iosize=0x4", true),
            ("isa-debug-exit,iobase=244", true),
            ("isa-debug-exit", false),
            ("isa-debug-exit,iobase=0x501", false),
            ("isa-debug-exit,iobase=0xffffffffffffffffff", false),
        ] {
            assert_eq!(add(&mut Request::default(), text).is_ok(), is_taken, "{text}");
        }
    }

    #[test]
    fn what_scripts_ask_for_by_name_is_in_the_list() {
        for name in ["pc-testdev", "pci-testdev", "isa-debug-exit"] {
            assert!(list().contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
