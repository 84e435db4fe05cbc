//! `--share TAG=FOLDER[,writable]`: folders of this computer that the guest can mount.

use crate::sandbox::Sandbox;
use crate::status::Usage;
use anyhow::anyhow;
use board::shared_folder::{self, Access};
use device::virtio::nine_p::{LONGEST_TAG, NineP};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    tag: String,
    folder: PathBuf,
    access: Access,
}

pub fn parse(text: &str) -> Result<Share, String> {
    let (rest, access) = match text.strip_suffix(",writable") {
        Some(rest) => (rest, Access::Writable),
        None => (text.strip_suffix(",readonly").unwrap_or(text), Access::ReadOnly),
    };
    let (tag, folder) = rest.split_once('=').ok_or("must be TAG=FOLDER or TAG=FOLDER,writable")?;
    if tag.is_empty() || tag.len() > LONGEST_TAG {
        return Err(format!("{tag:?}: a tag has 1 to {LONGEST_TAG} bytes"));
    }
    if folder.is_empty() {
        return Err("the folder is missing".into());
    }
    Ok(Share { tag: tag.to_owned(), folder: folder.into(), access })
}

/// What is wrong with them together.
pub fn check(shares: &[Share]) -> anyhow::Result<()> {
    let twice =
        (1..shares.len()).find(|one| shares[..*one].iter().any(|o| o.tag == shares[*one].tag));
    match twice {
        Some(one) => Err(Usage::of(anyhow!("--share {}: the tag is given twice", shares[one].tag))),
        None => Ok(()),
    }
}

impl Share {
    pub fn new(tag: String, folder: PathBuf, access: Access) -> Self {
        Self { tag, folder, access }
    }

    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The folder, for the sandbox.
    pub fn name_input(&self, sandbox: &mut Sandbox) {
        match self.access {
            Access::ReadOnly => sandbox.shows(&self.folder),
            Access::Writable => sandbox.shares(&self.folder),
        }
    }

    /// The device, with the folder open.
    pub fn device(&self) -> anyhow::Result<NineP> {
        let server = shared_folder::open(&self.folder, self.access)?;
        Ok(NineP::new(&self.tag, server))
    }
}

/// A guest may have thousands of files open, each of which is one of this process.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // With fewer, the guest is told that there are too many.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_only_unless_said_otherwise() {
        let share = |tag: &str, folder: &str, access| {
            Ok(Share { tag: tag.into(), folder: folder.into(), access })
        };
        for (text, expected) in [
            ("host=/srv", share("host", "/srv", Access::ReadOnly)),
            ("/dev/root=/", share("/dev/root", "/", Access::ReadOnly)),
            ("host=a=b,c", share("host", "a=b,c", Access::ReadOnly)),
            ("host=/srv,readonly", share("host", "/srv", Access::ReadOnly)),
            ("host=/srv,writable", share("host", "/srv", Access::Writable)),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        for text in ["", "host", "=/srv", "host=", "host=,writable", &"x".repeat(300)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
