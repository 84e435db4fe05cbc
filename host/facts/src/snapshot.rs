//! Writes the raw inputs of a host as a zstd-packed tar, redacted.
//!
//! Paths are the host's own. `avicenna/manifest.json` says which version wrote it, which folders
//! were looked through, and what could not be read and why: without it, "not there" and "not
//! recorded" would look the same.

use crate::inputs::{Content, Inputs};
use crate::redact::{self, Redactor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Where a snapshot keeps its [`Manifest`].
pub const MANIFEST: &str = "avicenna/manifest.json";

/// Format of the manifest; raised when a reader of an older one would misunderstand.
pub const FORMAT: u32 = 1;

/// What a snapshot says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name and version of that program.
    pub tool: String,
    /// Folders that were looked through completely.
    pub searched: Vec<String>,
    /// Path to reason.
    pub unreadable: BTreeMap<String, String>,
    /// Rules of redaction that were applied: kind and how it is known.
    pub redaction: Vec<String>,
    /// What the operator calls the host; nothing if nobody said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When the host was read, in seconds since 1970; older programs did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

/// Who writes a snapshot, of what and when.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Name and version of the program.
    pub tool: &'a str,
    /// What the operator calls the host.
    pub host: Option<&'a str>,
    /// When the host was read, in seconds since 1970.
    pub time: Option<u64>,
}

impl Manifest {
    fn of(inputs: &Inputs, stamp: &Stamp<'_>, redactor: &mut Redactor) -> Manifest {
        let mut searched = vec![];
        for folder in inputs.searched() {
            searched.push(redactor.path(folder));
        }
        let mut unreadable = vec![];
        for (path, content) in inputs.files() {
            if let Content::Unreadable(why) = content {
                unreadable.push((redactor.path(path), why.clone()));
            }
        }
        Manifest {
            format: FORMAT,
            tool: stamp.tool.into(),
            searched,
            unreadable: unreadable.into_iter().collect(),
            redaction: redact::RULES
                .iter()
                .map(|rule| format!("{}: {}", rule.kind, rule.what))
                .collect(),
            host: stamp.host.map(str::to_owned),
            time: stamp.time,
        }
    }
}

/// What the snapshot that these inputs are of says about itself.
pub fn manifest(inputs: &Inputs) -> Option<Manifest> {
    let manifest: Manifest = serde_json::from_slice(inputs.bytes(MANIFEST).get()?).ok()?;
    (manifest.format <= FORMAT).then_some(manifest)
}

/// Takes what a manifest says into the inputs of the archive it came from.
pub fn apply_manifest(inputs: &mut Inputs) {
    let Some(manifest) = manifest(inputs) else { return };
    for folder in manifest.searched {
        inputs.mark_searched(folder);
    }
    for (path, why) in manifest.unreadable {
        inputs.insert_unreadable(path, why);
    }
}

/// What goes out of a host: every file by its new place and with its new content.
pub fn members(inputs: &Inputs, stamp: &Stamp<'_>) -> io::Result<Vec<Member>> {
    let mut redactor = Redactor::new(inputs.files().map(|(path, _)| path))?;
    let manifest = Manifest::of(inputs, stamp, &mut redactor);
    let bytes = serde_json::to_vec_pretty(&manifest)?;
    let mut members = vec![Member { path: MANIFEST.into(), bytes, replaced: 0 }];
    for (path, content) in inputs.files() {
        if let Content::Bytes(bytes) = content
            && path != MANIFEST
        {
            let before = redactor.replaced;
            let bytes = redactor.file(path, bytes);
            let replaced = redactor.replaced - before;
            members.push(Member { path: redactor.path(path), bytes, replaced });
        }
    }
    Ok(members)
}

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it stands.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// How many words, numbers and addresses others stand for.
    pub replaced: usize,
}

/// Writes the inputs.
pub fn write(inputs: &Inputs, stamp: &Stamp<'_>, target: impl Write) -> io::Result<()> {
    let packer = zstd::stream::write::Encoder::new(target, 9)?;
    let mut archive = tar::Builder::new(packer);
    for member in members(inputs, stamp)? {
        append(&mut archive, &member.path, &member.bytes)?;
    }
    archive.into_inner()?.finish()?.flush()
}

fn append(archive: &mut tar::Builder<impl Write>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(&mut header, path, bytes)
}
