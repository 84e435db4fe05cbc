//! `apt` with a state of its own: lists, sources and a status that are not the system's.
//!
//! The scenarios of `xtask` include this file, too: it knows the standard library alone.

use std::io;
use std::path::Path;

/// Keys that the distribution signs with, as its own package installs them.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What apt reads besides the archives.
const FOLDERS: [&str; 3] = ["lists/partial", "cache/archives/partial", "empty"];

/// Makes the folder a state that knows one release, and that of its security updates if it has one.
pub fn prepare(folder: &Path, suite: &str, has_security: bool) -> io::Result<()> {
    for part in FOLDERS {
        std::fs::create_dir_all(folder.join(part))?;
    }
    std::fs::write(folder.join("status"), "")?;
    let signed = format!("deb [arch=amd64 signed-by={KEYRING}] http://deb.debian.org");
    let mut sources = format!("{signed}/debian {suite} main\n");
    if has_security {
        sources += &format!("{signed}/debian-security {suite}-security main\n");
    }
    std::fs::write(folder.join("sources.list"), sources)
}

/// What keeps apt to the folder.
pub fn settings(folder: &Path) -> [(&'static str, String); 8] {
    let at = |part: &str| folder.join(part).display().to_string();
    [
        ("Dir::Etc::sourcelist", at("sources.list")),
        ("Dir::Etc::sourceparts", at("empty")),
        ("Dir::State::lists", at("lists")),
        ("Dir::State::status", at("status")),
        ("Dir::Cache", at("cache")),
        ("APT::Architecture", "amd64".into()),
        ("APT::Architectures", "amd64".into()),
        ("APT::Sandbox::User", "root".into()),
    ]
}
