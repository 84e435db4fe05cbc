//! The journal: what happened, a line each, so that nothing is lost and nothing is believed that
//! was not written whole.
//!
//! Lines are JSON. The last member of each, `sum`, is the CRC-32 of the line before it and of the
//! line's own text up to there, so a line that was changed, left out or moved is found. A line is
//! on the disk before anything that it announces is done. A last line that was cut off is what a
//! crash leaves; it is taken away when the journal is opened again, and anything else that does
//! not fit is refused.

use crate::place::{Change, Evidence, Exits, Remark};
use crate::plan::Setting;
use crate::proof::Void;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Of the form of lines.
pub const SCHEMA: u32 = 1;
/// The file in an experiment's folder.
pub const FILE: &str = "journal.jsonl";
/// Others may read it, and nobody else write it.
const MODE: u32 = 0o644;
/// A journal that is larger is none.
const MOST_BYTES: u64 = 4 << 30;

/// Why a journal cannot be written or believed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error("{path}: {source}")]
    File {
        /// Of the journal.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line that is not what was written.
    #[error(
        "{path}, line {line}: {why}; the lines before it are sound: cut the file off there to keep them"
    )]
    Damaged {
        /// Of the journal.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// What does not fit.
        why: String,
    },
    /// Another process has it.
    #[error("{0} is being written by another process: wait for it, or end it")]
    Busy(PathBuf),
    /// What it says would be done as this user, and another may have said it.
    #[error(
        "{path} is not believed: it has to be an ordinary file of user {own} with one name, which nobody else can write"
    )]
    Foreign {
        /// Of the journal.
        path: PathBuf,
        /// Who runs this program.
        own: u32,
    },
    /// There is one already.
    #[error(
        "{0} has a journal already: avicenna experiment resume goes on with it, or name another folder by --output"
    )]
    Exists(PathBuf),
}

/// What an experiment was begun with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Head {
    /// Of the journal's form.
    pub schema: u32,
    /// Of the program.
    pub version: String,
    /// The plan's file.
    pub plan: String,
    /// Of that text.
    pub hash: String,
    /// `lab` or `host`.
    pub place: String,
    /// Both arms have this level.
    pub same: Option<String>,
    /// Instead of the plan's.
    pub seed: Option<u64>,
    /// Instead of the plan's.
    pub blocks: Option<usize>,
    /// Which share of how many, from 0 on.
    pub shard: Option<(usize, usize)>,
    /// What is needed to reach the place again, such as the virtual machine's name.
    pub options: BTreeMap<String, String>,
    /// What results rest on.
    pub provenance: BTreeMap<String, String>,
    /// What was known before.
    pub remarks: Vec<Remark>,
}

/// What became of an attempt at a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Outcome {
    /// It counts.
    Done,
    /// It does not.
    Void(Void),
    /// It could not be run.
    Failed {
        /// What was said.
        why: String,
    },
}

/// What a trial saw, as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kept {
    /// By metric; whatever could be read, of a void trial too.
    pub figures: BTreeMap<String, f64>,
    /// By reason.
    pub exits: BTreeMap<String, Exits>,
    /// What it was.
    pub evidence: BTreeMap<String, Evidence>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Entry {
    /// The first.
    Begun(Box<Head>),
    /// A trial is about to be run.
    Started {
        /// Its index.
        trial: usize,
        /// From 0 on.
        attempt: u32,
        /// Of this attempt.
        seed: u64,
        /// All levels.
        setting: Setting,
    },
    /// Something is about to be changed.
    Changed {
        /// And how it is put back.
        change: Change,
    },
    /// A trial is over.
    Ended {
        /// Its index.
        trial: usize,
        /// From 0 on.
        attempt: u32,
        /// What became of it.
        #[serde(flatten)]
        outcome: Outcome,
        /// What it saw.
        #[serde(flatten)]
        kept: Kept,
    },
    /// All that was changed has been put back.
    Restored,
    /// It was stopped before its end.
    Stopped {
        /// By what.
        why: String,
    },
    /// Nothing is left to do.
    Finished,
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// From 0 on.
    sequence: u64,
    /// Seconds since 1970.
    time: u64,
    #[serde(flatten)]
    entry: Entry,
}

/// A line as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Seconds since 1970.
    pub time: u64,
    /// What it says.
    pub entry: Entry,
}

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    sequence: u64,
    sum: u32,
    /// Bytes of whole lines that are on the disk.
    sound: u64,
    /// More than those could not be taken away again: nothing may follow.
    is_torn: bool,
    clock: fn() -> u64,
}

impl Journal {
    /// A new one in a folder, which is made; `clock` gives seconds since 1970.
    pub fn create(folder: &Path, head: Head, clock: fn() -> u64) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let failed = |source| Error::File { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = open(File::options().read(true).append(true).create_new(true).mode(MODE), &path);
        let file = match file {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists(folder.into()));
            }
            other => other.map_err(failed)?,
        };
        lock(&file, &path)?;
        // The name must survive a crash, too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        let mut journal =
            Self { file, path: path.clone(), sequence: 0, sum: 0, sound: 0, is_torn: false, clock };
        journal.write(&Entry::Begun(Box::new(head))).inspect_err(|_| {
            // Without its first line it is none, and would be in the way of another.
            let _ = std::fs::remove_file(&path);
        })?;
        Ok(journal)
    }

    /// One that is there, to go on with, and what it says. A cut-off last line is taken away.
    pub fn open(folder: &Path, clock: fn() -> u64) -> Result<(Self, Vec<Written>), Error> {
        let path = folder.join(FILE);
        let failed = |source| Error::File { path: path.clone(), source };
        let mut file = open(File::options().read(true).append(true), &path).map_err(failed)?;
        believe(&file, &path)?;
        lock(&file, &path)?;
        let text = text(&mut file, &path)?;
        let (written, sum, sound) = parse(&text, &path)?;
        if sound < text.len() {
            file.set_len(sound as u64).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let sequence = written.len() as u64;
        let sound = sound as u64;
        Ok((Self { file, path, sequence, sum, sound, is_torn: false, clock }, written))
    }

    /// Writes a line and waits until it is on the disk.
    pub fn write(&mut self, entry: &Entry) -> Result<(), Error> {
        let line = Line { sequence: self.sequence, time: (self.clock)(), entry: entry.clone() };
        let failed = |source: std::io::Error| Error::File { path: self.path.clone(), source };
        let json = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
        let begin = json.strip_suffix('}').unwrap_or(&json);
        let sum = checksum(self.sum, begin);
        let text = format!("{begin},\"sum\":\"{sum:08x}\"}}\n");
        if self.is_torn {
            return Err(failed(std::io::Error::other("a line before was not written whole")));
        }
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // What follows it would not be believed.
            self.is_torn = self.file.set_len(self.sound).is_err();
            return Err(failed(source));
        }
        self.sound += text.len() as u64;
        (self.sum, self.sequence) = (sum, self.sequence + 1);
        Ok(())
    }
}

/// What a journal says, even while it is written.
pub fn read(folder: &Path) -> Result<Vec<Written>, Error> {
    let path = folder.join(FILE);
    let mut file = open(File::options().read(true), &path)
        .map_err(|source| Error::File { path: path.clone(), source })?;
    let text = text(&mut file, &path)?;
    Ok(parse(&text, &path)?.0)
}

/// Opens an ordinary file, and nothing that stands in its place: no link, no pipe that would wait.
fn open(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("not an ordinary file")),
    }
}

/// Who goes on with a journal, or puts back what it says was changed, does what it says.
fn believe(file: &File, path: &Path) -> Result<(), Error> {
    let facts = file.metadata().map_err(|source| Error::File { path: path.to_owned(), source })?;
    let own = rustix::process::geteuid().as_raw();
    match facts.uid() == own && facts.mode() & 0o022 == 0 && facts.nlink() == 1 {
        true => Ok(()),
        false => Err(Error::Foreign { path: path.to_owned(), own }),
    }
}

fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(path.into())),
        Err(TryLockError::Error(source)) => Err(Error::File { path: path.into(), source }),
    }
}

fn text(file: &mut File, path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let size = file.metadata().map_err(failed)?.len();
    if size > MOST_BYTES {
        let why = format!("{size} bytes are too many for a journal");
        return Err(Error::Damaged { path: path.into(), line: 1, why });
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

fn checksum(before: u32, text: &str) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&before.to_le_bytes());
    sum.update(text.as_bytes());
    sum.finalize()
}

/// The lines, the last sum, and how many bytes are sound.
fn parse(text: &[u8], path: &Path) -> Result<(Vec<Written>, u32, usize), Error> {
    let (mut written, mut sum, mut sound) = (Vec::new(), 0, 0);
    while sound < text.len() {
        let rest = &text[sound..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { break };
        let is_last = sound + length + 1 == text.len();
        match line(&rest[..length], sum, written.len() as u64) {
            Ok((entry, own)) => {
                written.push(entry);
                sum = own;
            }
            // A crash may leave a last line whose end is there and whose middle is not.
            Err(_) if is_last && !written.is_empty() => break,
            Err(why) => {
                return Err(Error::Damaged { path: path.into(), line: written.len() + 1, why });
            }
        }
        sound += length + 1;
    }
    if written.is_empty() {
        let why = "there is no whole line".to_owned();
        return Err(Error::Damaged { path: path.into(), line: 1, why });
    }
    Ok((written, sum, sound))
}

fn line(bytes: &[u8], before: u32, sequence: u64) -> Result<(Written, u32), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not text".to_owned())?;
    let (begin, end) = text.rsplit_once(",\"sum\":\"").ok_or("the line has no sum")?;
    let own = end.strip_suffix("\"}").and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let own = own.ok_or("the line's sum is not a number")?;
    let sum = checksum(before, begin);
    if sum != own {
        return Err(format!(
            "the sum is {own:08x}, and that of the line and those before {sum:08x}"
        ));
    }
    let line: Line =
        serde_json::from_str(&format!("{begin}}}")).map_err(|error| error.to_string())?;
    if line.sequence != sequence {
        return Err(format!("the line's number is {}, not {sequence}", line.sequence));
    }
    Ok((Written { time: line.time, entry: line.entry }, own))
}

#[cfg(test)]
mod tests;
