//! The raw inputs of a host, in memory: what a live host, a directory and an archive have in
//! common.
//!
//! Paths are those of the host without the leading slash. What the host has in no file (CPUID,
//! registers, the kernel log) stands under `avicenna/`. Bounded: [`FILE_LIMIT`] for each file,
//! [`FILES_LIMIT`] files.

use reading::Fact;
use std::collections::{BTreeMap, BTreeSet};

/// Longest file that is kept; longer ones keep their end, where logs have what is new.
pub const FILE_LIMIT: usize = 4 << 20;

/// Most files that are kept.
pub const FILES_LIMIT: usize = 50_000;

/// Most bytes that are kept.
pub const TOTAL_LIMIT: usize = 512 << 20;

/// Most bytes that are kept of a packed archive: so many, and so many for each byte of it. Logs and
/// listings of many machines are packed to a thirtieth, not to a thousandth.
const PACKED_START: usize = 16 << 20;
const PACKED_RATIO: u64 = 32;

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// As they were read; of a long file, the last [`FILE_LIMIT`].
    Bytes(Vec<u8>),
    /// It is there; the text says why it was not read.
    Unreadable(String),
}

/// Files of a host.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// What was read, in words: "live host", a path.
    pub origin: String,
    files: BTreeMap<String, Content>,
    /// Folders that were looked through: what is missing below them does not exist.
    searched: BTreeSet<String>,
    bytes: usize,
    /// Most bytes that are kept, if fewer than [`TOTAL_LIMIT`].
    most_bytes: Option<usize>,
    /// Why more may have been there: an archive that is cut off, a limit that was reached.
    incomplete: Option<String>,
    /// What a reader knows a file by, where that is not its place on a host.
    names: BTreeMap<String, String>,
    /// What stands under `avicenna/` was read from this machine just now.
    is_live: bool,
}

impl Inputs {
    /// No files yet; `origin` is what reports call the input.
    pub fn new(origin: impl Into<String>) -> Inputs {
        Inputs { origin: origin.into(), ..Inputs::default() }
    }

    /// Of the machine this runs on: places are those of the machine, not of a snapshot.
    pub fn live() -> Inputs {
        Inputs { is_live: true, ..Inputs::new("live host") }
    }

    /// Says that more was there than could be read: what is missing may exist.
    pub fn mark_incomplete(&mut self, why: impl Into<String>) {
        self.incomplete.get_or_insert_with(|| why.into());
    }

    /// Why more may have been there than could be read.
    pub fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// So many bytes of an archive were read: what is kept is bounded by that.
    pub(crate) fn bound_by_packed(&mut self, packed: u64) {
        let more = usize::try_from(packed.saturating_mul(PACKED_RATIO)).unwrap_or(usize::MAX);
        self.most_bytes = Some(PACKED_START.saturating_add(more).min(TOTAL_LIMIT));
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// No file was kept.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Keeps a file; false when the limits are reached.
    pub fn insert(&mut self, path: impl Into<String>, mut bytes: Vec<u8>) -> bool {
        if bytes.len() > FILE_LIMIT {
            bytes.drain(..bytes.len() - FILE_LIMIT);
        }
        if self.files.len() >= FILES_LIMIT
            || self.bytes + bytes.len() > self.most_bytes.unwrap_or(TOTAL_LIMIT)
        {
            return false;
        }
        self.bytes += bytes.len();
        self.files.insert(path.into(), Content::Bytes(bytes));
        true
    }

    /// Keeps a file that was given by itself: it is cited by the name it was given with.
    pub fn insert_as(&mut self, path: impl Into<String>, name: impl Into<String>, bytes: Vec<u8>) {
        let path = path.into();
        if self.insert(path.clone(), bytes) {
            self.names.insert(path, name.into());
        }
    }

    /// What a file is cited by, if not by its place on a host.
    pub fn name(&self, path: &str) -> Option<&str> {
        self.names.get(path).map(String::as_str)
    }

    /// A file that is there and could not be read. One that could be is not replaced.
    pub fn insert_unreadable(&mut self, path: impl Into<String>, why: impl Into<String>) {
        if self.files.len() < FILES_LIMIT {
            self.files.entry(path.into()).or_insert_with(|| Content::Unreadable(why.into()));
        }
    }

    /// Says that a folder was looked through completely.
    pub fn mark_searched(&mut self, folder: impl Into<String>) {
        if self.searched.len() < FILES_LIMIT {
            self.searched.insert(folder.into());
        }
    }

    /// Whether a file that is not here was not there either.
    pub fn was_searched(&self, path: &str) -> bool {
        if self.incomplete.is_some() {
            return false;
        }
        above(path)
            .take_while(|folder| !matches!(self.files.get(*folder), Some(Content::Unreadable(_))))
            .any(|folder| self.searched.contains(folder))
    }

    /// Why what is not here may be there all the same.
    fn why_unknown(&self, path: &str) -> &str {
        let of_folder = above(path).find_map(|folder| match self.files.get(folder)? {
            Content::Unreadable(why) => Some(why.as_str()),
            Content::Bytes(_) => None,
        });
        let whole = self.incomplete.as_deref();
        of_folder.or(whole).unwrap_or("not recorded in this input")
    }

    /// Folders that were looked through completely.
    pub fn searched(&self) -> impl Iterator<Item = &str> {
        self.searched.iter().map(String::as_str)
    }

    /// Every file, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Content)> {
        self.files.iter().map(|(path, content)| (path.as_str(), content))
    }

    /// The files whose path begins with `prefix`.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Content)> {
        self.files
            .range(prefix.to_string()..)
            .take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, content)| (path.as_str(), content))
    }

    /// Whether any file's path begins with `prefix`.
    pub fn has_below(&self, prefix: &str) -> bool {
        self.below(prefix).next().is_some()
    }

    /// A file as it is. Absent only where the folder was looked through.
    pub fn bytes(&self, path: &str) -> Fact<&[u8]> {
        let place = match (self.names.get(path), path.strip_prefix("avicenna/")) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) if self.is_live => place_of_live(name),
            (None, Some(_)) => path.to_string(),
            (None, None) => format!("/{path}"),
        };
        match self.files.get(path) {
            Some(Content::Bytes(bytes)) => Fact::value(place, bytes),
            Some(Content::Unreadable(why)) => Fact::unreadable(place, why),
            None if self.was_searched(path) => Fact::absent(place),
            None => Fact::unreadable(place, self.why_unknown(path)),
        }
    }

    /// A file as text, ends trimmed; bytes that are not UTF-8 are replaced.
    pub fn text(&self, path: &str) -> Fact<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(bytes).trim().to_string())
    }

    /// The first of several places that has a text; otherwise what the first one says.
    pub fn first_text(&self, paths: &[&str]) -> Fact<String> {
        paths
            .iter()
            .map(|path| self.text(path))
            .find(|fact| fact.get().is_some())
            .unwrap_or_else(|| self.text(paths.first().copied().unwrap_or_default()))
    }
}

/// A path and the folders above it, from the inside out.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind('/').map(|slash| &path[..slash]))
}

/// Where a live host has what a snapshot keeps under `avicenna/`.
fn place_of_live(name: &str) -> String {
    match name.split('/').next() {
        Some("msr") => "/dev/cpu/*/msr".into(),
        Some("cpuid") => "the CPUID instruction".into(),
        Some("dmesg.txt") => "/dev/kmsg".into(),
        Some("kvm-holders.txt" | "vfio-functions.txt") => "/proc/*/fd".into(),
        Some("programs.txt") => "/usr/sbin, /usr/bin".into(),
        _ => format!("avicenna/{name}"),
    }
}
