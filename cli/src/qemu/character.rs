//! QEMU's character devices: what the serial port, the monitor and the machine protocol are at,
//! under a name that other options refer to.

use super::place::Place;
use std::path::PathBuf;

/// A place where characters come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Character {
    /// A socket file or the terminal.
    At(Place),
    /// A file that is written.
    File(PathBuf),
    /// What is written is lost.
    Nothing,
}

/// Those that a command line has named so far.
pub(super) type Characters = [(String, Character)];

/// `KIND,id=NAME[,KEY=VALUE]...`
pub(super) fn parse(known: &Characters, text: &str) -> Result<(String, Character), String> {
    let (kind, words) = text.split_once(',').unwrap_or((text, ""));
    let (mut name, mut path, mut rest) = (None, None, String::new());
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.split_once('=') {
            Some(("id", value)) => name = Some(value.to_owned()),
            Some(("path", value)) if matches!(kind, "socket" | "file") => path = Some(value),
            Some(("mux" | "signal" | "logfile" | "logappend", _)) => {}
            _ if kind == "socket" => rest += &format!(",{word}"),
            _ => return Err(format!("{word}: no such word")),
        }
    }
    let name = name.filter(|name| !name.is_empty()).ok_or("id=NAME is missing")?;
    if named(known, &name).is_ok() {
        return Err(format!("{name}: there is one of this name"));
    }
    let character = match kind {
        "stdio" => Character::At(Place::parse("stdio")?),
        "null" => Character::Nothing,
        "file" => Character::File(path.ok_or("path=PATH is missing")?.into()),
        "socket" => {
            let path = path.ok_or("a socket is a file of this machine: path=PATH,server=on")?;
            Character::At(Place::parse(&format!("unix:{path}{rest}"))?)
        }
        _ => return Err(format!("{kind}: only socket, file, stdio and null")),
    };
    Ok((name, character))
}

/// The one of a name.
pub(super) fn named<'a>(known: &'a Characters, name: &str) -> Result<&'a Character, String> {
    let found = known.iter().find(|(other, _)| other == name);
    let found = found.map(|(_, character)| character);
    found.ok_or_else(|| format!("there is no -chardev with id={name}"))
}

/// `[chardev=]NAME[,mode=readline|control]`: where the monitor is, or, as the second says, the
/// machine protocol.
pub(super) fn monitor(known: &Characters, text: &str) -> Result<(Character, bool), String> {
    let (mut name, mut is_protocol) = (None, false);
    for (number, word) in text.split(',').enumerate() {
        match word.split_once('=') {
            Some(("chardev", value)) => name = Some(value),
            Some(("mode", "readline")) => is_protocol = false,
            Some(("mode", "control")) => is_protocol = true,
            Some(("mode", other)) => return Err(format!("{other}: must be readline or control")),
            Some(("pretty", _)) => {}
            None if number == 0 => name = Some(word),
            _ => return Err(format!("{word}: no such word")),
        }
    }
    let name = name.ok_or("chardev=NAME is missing")?;
    Ok((named(known, name)?.clone(), is_protocol))
}
