//! Reads the wanted files of an archive: a snapshot, a sosreport, any tar of a host.
//!
//! The archive may be hostile. Nothing is written to disk; paths are taken apart and may not climb;
//! what is kept and what is unpacked is bounded, as is the memory of each decompressor; an archive
//! that ends too early gives what came before and says so.

use crate::inputs::{FILE_LIMIT, FILES_LIMIT, Inputs};
use crate::wanted::{
    PATTERNS, PROCESSES, arguments, fixed_folder, is_monitor, is_of_host, is_process, is_wanted,
};
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// Most bytes that are unpacked in all, most entries that are looked at.
const UNPACKED_LIMIT: u64 = 8 << 30;
const ENTRIES_LIMIT: usize = 2_000_000;

/// Most memory that the xz decoder may take, most window of zstd (as a power of two).
const XZ_MEMORY: u64 = 96 << 20;
const ZSTD_WINDOW: u32 = 26;

/// How an archive is packed, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Zstandard frames, as `avicenna snapshot` writes.
    Zstd,
    /// gzip members.
    Gzip,
    /// xz streams.
    Xz,
    /// A ustar archive that is not packed at all.
    Tar,
}

impl Packing {
    /// By magic numbers; 262 bytes tell them all.
    pub fn detect(head: &[u8]) -> Option<Packing> {
        match head {
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Packing::Zstd),
            [0x1F, 0x8B, ..] => Some(Packing::Gzip),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            _ if head.get(257..262) == Some(b"ustar") => Some(Packing::Tar),
            _ => None,
        }
    }

    /// Of an ordinary file.
    pub fn of(path: &Path) -> Option<Packing> {
        Packing::detect(&crate::source::head(path)?)
    }
}

/// Unpacks a stream, bounded.
pub fn unpacked<'a>(packing: Packing, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let source = BufReader::new(source);
    Ok(match packing {
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(ZSTD_WINDOW)?;
            Box::new(decoder.take(UNPACKED_LIMIT))
        }
        Packing::Gzip => {
            Box::new(flate2::bufread::MultiGzDecoder::new(source).take(UNPACKED_LIMIT))
        }
        Packing::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, 0)
                .map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream).take(UNPACKED_LIMIT))
        }
        Packing::Tar => Box::new(source.take(UNPACKED_LIMIT)),
    })
}

/// Reads everything wanted into `inputs`. An error means that nothing at all could be read.
pub fn read_into(source: impl Read, packing: Packing, inputs: &mut Inputs) -> io::Result<()> {
    let zeros = Rc::new(Cell::new(0));
    let packed = Rc::new(Cell::new(0));
    let source = CountsBytes { inner: source, bytes: packed.clone() };
    let source = CountsZeros { inner: unpacked(packing, source)?, zeros: zeros.clone() };
    let mut archive = tar::Archive::new(source);
    let mut entries = 0;
    let mut said = Said::default();
    // Raw: the library would take extended headers of any length into memory.
    for entry in archive.entries()?.raw(true) {
        let outcome = entry.and_then(|mut entry| {
            entries += 1;
            if said.take(&mut entry)? {
                return Ok(());
            }
            let Some(path) = host_path(&said.path(&entry)?) else { return Ok(()) };
            note_folder(&path, inputs);
            // A recorder of one process recorded all.
            if is_process(&path) {
                inputs.mark_searched(PROCESSES);
            }
            if entry.header().entry_type().is_file() && is_wanted(&path) {
                let size = entry.size();
                let bytes = read_entry(&mut entry, size)?;
                if (bytes.len() as u64) < size.min(FILE_LIMIT as u64) {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "a file ends too early",
                    ));
                }
                inputs.bound_by_packed(packed.get());
                let is_kept = !is_process(&path) || is_monitor(&arguments(&bytes));
                if is_kept && !inputs.insert(path, bytes) {
                    return Err(refused(format!(
                        "{} bytes of it hold more than is read of so many",
                        packed.get()
                    )));
                }
            }
            Ok(())
        });
        if let Err(error) = outcome {
            if entries <= 1 && inputs.files().next().is_none() {
                return Err(error);
            }
            inputs.mark_incomplete(format!("the archive is broken or cut off: {error}"));
            break;
        }
        if entries >= ENTRIES_LIMIT || inputs.len() >= FILES_LIMIT {
            inputs.mark_incomplete("the archive has more files than are read");
            break;
        }
    }
    // The end of an archive is a block of zeros: without it, it was cut between two files.
    if zeros.get() < BLOCK {
        inputs.mark_incomplete("the archive is broken or cut off: it has no end");
    }
    Ok(())
}

/// A block of an archive.
const BLOCK: usize = 512;

/// Longest extended header (a long name, a list of PAX records): it is taken into memory whole.
const HEADER_LIMIT: u64 = 64 << 10;

/// What extended headers say of the member behind them.
#[derive(Debug, Default)]
struct Said {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Said {
    /// Takes in a member that describes the next; false if it is a member of its own.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        let is_name = kind.is_gnu_longname();
        let is_list = kind.is_pax_local_extensions();
        if !(is_name || is_list || kind.is_gnu_longlink() || kind.is_pax_global_extensions()) {
            return Ok(false);
        }
        let size = entry.size();
        if size > HEADER_LIMIT {
            return Err(refused(format!(
                "an extended header of {size} bytes, at most {HEADER_LIMIT} are read"
            )));
        }
        let mut bytes = vec![];
        entry.read_to_end(&mut bytes)?;
        if is_name {
            bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
            self.path = Some(bytes);
        } else if is_list {
            for record in tar::PaxExtensions::new(&bytes) {
                let record = record?;
                match record.key_bytes() {
                    b"path" => self.path = Some(record.value_bytes().to_vec()),
                    b"size" => self.size = record.value().ok().and_then(|text| text.parse().ok()),
                    _ => {}
                }
            }
        }
        Ok(true)
    }

    /// The path of a member of its own, once what was said of it is known to hold.
    fn path(&mut self, entry: &tar::Entry<'_, impl Read>) -> io::Result<PathBuf> {
        let Said { path, size } = std::mem::take(self);
        if size.is_some_and(|size| size != entry.size()) {
            return Err(refused("a member with two different sizes".into()));
        }
        if entry.header().as_gnu().is_some_and(|header| header.is_extended()) {
            return Err(refused("a sparse file of many parts".into()));
        }
        Ok(match path {
            Some(path) => OsString::from_vec(path).into(),
            None => entry.path()?.into_owned(),
        })
    }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Counts what is read.
struct CountsBytes<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountsBytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + length as u64);
        Ok(length)
    }
}

/// Counts the zeros with which what was read so far ends.
struct CountsZeros<R> {
    inner: R,
    zeros: Rc<Cell<usize>>,
}

impl<R: Read> Read for CountsZeros<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let trailing = buffer[..length].iter().rev().take_while(|byte| **byte == 0).count();
        let before = if trailing == length { self.zeros.get() } else { 0 };
        self.zeros.set(before.saturating_add(trailing));
        Ok(length)
    }
}

/// A file's bytes: all of it, or its end when it is too long.
fn read_entry(entry: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    if size > FILE_LIMIT as u64 {
        io::copy(&mut entry.take(size - FILE_LIMIT as u64), &mut io::sink())?;
    }
    let mut bytes = vec![];
    entry.take(FILE_LIMIT as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A folder of the host that appears in the archive was recorded: what is missing in it does not
/// exist.
fn note_folder(path: &str, inputs: &mut Inputs) {
    for pattern in PATTERNS {
        let folder = fixed_folder(pattern);
        if !folder.is_empty()
            && pattern.contains('*')
            && is_of_host(pattern)
            && path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        {
            inputs.mark_searched(folder);
        }
    }
}

/// The path on the host. The archive's own top folder (`sosreport-HOST-DATE`) goes; `..` refuses
/// the entry.
fn host_path(path: &Path) -> Option<String> {
    let mut parts = vec![];
    for component in path.components().take(64) {
        match component {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    const TOP: &[&str] = &[
        "proc",
        "sys",
        "etc",
        "usr",
        "lib",
        "run",
        "var",
        "boot",
        "avicenna",
        "sos_commands",
        "sos_logs",
        "sos_reports",
    ];
    let first = *parts.first()?;
    let is_wrapped = parts.len() > 1 && !TOP.contains(&first) && TOP.contains(&parts[1]);
    Some(parts[usize::from(is_wrapped)..].join("/"))
}

#[cfg(test)]
mod tests;
