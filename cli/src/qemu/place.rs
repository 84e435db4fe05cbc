//! Who looks on: QEMU's monitor and its machine protocol, behind sockets or at the terminal.

use std::path::PathBuf;

/// Where one of them is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Nothing is the terminal.
    pub socket: Option<PathBuf>,
    /// The machine stands until a client has come.
    pub waits: bool,
}

impl Place {
    /// `unix:PATH,server=on[,wait=on|off]`, or `stdio`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let first = words.next().unwrap_or_default();
        if first == "stdio" {
            return Ok(Place { socket: None, waits: false });
        }
        let path = first.strip_prefix("unix:").filter(|path| !path.is_empty());
        let path = path.ok_or("must be unix:PATH,server=on,wait=off")?;
        let is_on = |text: &str| match text {
            "on" | "yes" | "true" => Ok(true),
            "off" | "no" | "false" => Ok(false),
            _ => Err(format!("{text}: must be on or off")),
        };
        let (mut is_server, mut waits) = (false, true);
        for word in words {
            match word.split_once('=').unwrap_or((word, "on")) {
                ("server", value) => is_server = is_on(value)?,
                ("wait", value) => waits = is_on(value)?,
                ("nowait", "on") => waits = false,
                (name, _) => return Err(format!("{name}: no such word")),
            }
        }
        match is_server {
            true => Ok(Place { socket: Some(path.into()), waits }),
            false => Err("the machine calls nobody: server=on".into()),
        }
    }
}

/// The same as options of `machine run`.
pub(super) fn words(monitor: Option<&Place>, protocol: Option<&Place>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(Place { socket, .. }) = monitor {
        words.push(match socket {
            Some(path) => format!("--monitor={}", path.display()),
            None => "--monitor".into(),
        });
    }
    if let Some(path) = protocol.and_then(|place| place.socket.as_ref()) {
        words.extend(["--qmp".to_owned(), path.display().to_string()]);
    }
    if [monitor, protocol].into_iter().flatten().any(|place| place.waits) {
        words.push("--await-clients".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_file_is_named_and_served() {
        for (text, expected) in [
            ("unix:a,server=on,wait=off", Ok(("a", false))),
            ("unix:a,server,nowait", Ok(("a", false))),
            ("unix:./b,server=on", Ok(("./b", true))),
            ("unix:a", Err("server=on")),
            ("unix:a,server=maybe", Err("on or off")),
            ("unix:a,server=on,mux=on", Err("mux")),
            ("unix:,server=on", Err("unix:PATH")),
            ("tcp:localhost:4444,server=on", Err("unix:PATH")),
            ("", Err("unix:PATH")),
        ] {
            match (Place::parse(text), expected) {
                (Ok(place), Ok((path, waits))) => {
                    assert_eq!(place, Place { socket: Some(path.into()), waits }, "{text}");
                }
                (Err(said), Err(why)) => assert!(said.contains(why), "{text}: {said}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
