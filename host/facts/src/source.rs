//! What a user names or hands in, opened and read with a bound.
//!
//! A file may be a device without an end, a pipe that nobody writes to, or a folder: reading ends
//! all the same, and says why. Errors leave out the name, which the caller knows how to show.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that tell what a file is.
pub const HEAD: u64 = 512;

/// Why a source gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not open it.
    #[error("{0}")]
    Open(io::Error),
    /// The system does not go on reading it.
    #[error("{0}")]
    Read(io::Error),
    /// A folder, where a file was asked for.
    #[error("a folder, not a file")]
    Folder,
    /// A pipe without a writer, or with one that wrote nothing.
    #[error("a pipe that nothing was written to")]
    Silent,
    /// It holds more than is accepted of its kind.
    #[error("too big: more than {}", amount(*most))]
    TooBig {
        /// Bytes that are accepted.
        most: u64,
    },
    /// It has NUL bytes, which no text has.
    #[error("not a text file: binary data at byte {at}")]
    Binary {
        /// The first byte that is not text.
        at: usize,
    },
    /// It has to be UTF-8, and is not.
    #[error("not UTF-8 text: byte {at} begins no character")]
    NotUtf8 {
        /// The first byte that is not text.
        at: usize,
    },
}

/// A text, and whether it is every byte of what was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Nothing had to be replaced.
    pub is_whole: bool,
}

/// A bound as people write it.
pub fn amount(bytes: u64) -> String {
    match bytes >> 20 {
        mebibytes if mebibytes > 0 && bytes & 0xF_FFFF == 0 => format!("{mebibytes} MiB"),
        _ => format!("{bytes} bytes"),
    }
}

/// Opens what is to be read. A pipe without a writer does not keep it waiting.
pub fn open(path: &Path) -> Result<File, Error> {
    // Without the flag, opening a pipe waits for the other end.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(Error::Open)?;
    if file.metadata().map_err(Error::Open)?.is_dir() {
        return Err(Error::Folder);
    }
    // One with a writer is waited for, as every program does.
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK))
        .map_err(|error| Error::Open(error.into()))?;
    Ok(file)
}

/// Opens an ordinary file; `None` for what is something else, which is not touched.
pub fn open_ordinary(path: &Path) -> io::Result<Option<File>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    match open(path) {
        // It may have become another meanwhile.
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(Error::Open(error) | Error::Read(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// All bytes of a stream, if they are not more than `most`.
pub fn bounded(stream: impl Read, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    stream.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::Read)?;
    match bytes.len() as u64 > most {
        true => Err(Error::TooBig { most }),
        false => Ok(bytes),
    }
}

/// All bytes of a file, if they are not more than `most`.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut file = open(path)?;
    let bytes = bounded(&mut file, most)?;
    let is_pipe = || file.metadata().is_ok_and(|status| status.file_type().is_fifo());
    if bytes.is_empty() && is_pipe() {
        return Err(Error::Silent);
    }
    Ok(bytes)
}

/// A file's text, which has to be UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, Error> {
    String::from_utf8(read(path, most)?)
        .map_err(|error| Error::NotUtf8 { at: error.utf8_error().valid_up_to() })
}

/// The first bytes of an ordinary file, to tell its kind by. What can be read only once, such as a
/// pipe, is left alone.
pub fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    open_ordinary(path).ok()??.take(HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Ordinary files in a folder and in those below it, in order.
pub struct Walk {
    /// At most as many as were asked for.
    pub files: Vec<PathBuf>,
    /// There are more, or they lie deeper.
    pub is_cut: bool,
}

/// Looks through a folder, without following links.
pub fn walk(folder: &Path, most_files: usize, most_depth: usize) -> Walk {
    let mut folders = vec![(folder.to_owned(), 0)];
    let (mut files, mut is_cut) = (Vec::new(), false);
    while let Some((folder, depth)) = folders.pop()
        && files.len() <= most_files
    {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < most_depth {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() {
                files.push(entry.path());
            }
            is_cut |= kind.is_dir() && depth >= most_depth;
        }
    }
    files.sort();
    is_cut |= files.len() > most_files;
    files.truncate(most_files);
    Walk { files, is_cut }
}

/// The text of bytes: single bytes of an older encoding do not keep one from being read.
pub fn text(bytes: Vec<u8>) -> Result<Text, Error> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Text { text, is_whole: true }),
        Err(error) if error.as_bytes().contains(&0) => {
            Err(Error::Binary { at: error.utf8_error().valid_up_to() })
        }
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Ok(Text { text, is_whole: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        path
    }

    #[test]
    fn each_kind_of_source_ends_with_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        for (path, expected) in [
            (write("fits", b"12345678"), Ok("12345678")),
            (write("empty", b""), Ok("")),
            (write("long", b"123456789"), Err("too big: more than 8 bytes")),
            (write("latin", b"gr\xFC\xDF"), Err("not UTF-8 text: byte 2 begins no character")),
            ("/dev/zero".into(), Err("too big: more than 8 bytes")),
            ("/dev/null".into(), Ok("")),
            (folder.path().to_owned(), Err("a folder, not a file")),
            (folder.path().join("none"), Err("No such file or directory (os error 2)")),
            (pipe(folder.path()), Err("a pipe that nothing was written to")),
        ] {
            let found = read_text(&path, 8).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{path:?}");
        }
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        // Held open for both, so that there is a writer before there is a reader.
        let held = File::options().read(true).write(true).open(&path).unwrap();
        assert!(open_ordinary(&path).unwrap().is_none());
        assert_eq!(head(&path), None);
        let late = path.clone();
        let writer = std::thread::spawn(move || {
            let mut end = File::options().write(true).open(late).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            end.write_all(b"late").unwrap();
            drop(held);
        });
        assert_eq!(read(&path, 100).unwrap(), b"late");
        writer.join().unwrap();
    }

    #[test]
    fn a_walk_finds_ordinary_files_alone_and_says_what_it_left() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for name in ["z", "a/one", "a/b/deep"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        pipe(root);
        std::os::unix::fs::symlink(root, root.join("a/loop")).unwrap();
        let names = |walk: &Walk| -> Vec<String> {
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            walk.files.iter().map(name).collect()
        };
        for (most, depth, expected, is_cut) in [
            (3, 2, &["a/b/deep", "a/one", "z"][..], false),
            (3, 1, &["a/one", "z"], true),
            (2, 2, &["a/b/deep", "a/one"], true),
        ] {
            let found = walk(root, most, depth);
            assert_eq!(
                (names(&found), found.is_cut),
                (expected.iter().map(|name| (*name).to_owned()).collect(), is_cut)
            );
        }
    }

    #[test]
    fn bytes_of_an_older_encoding_are_text_and_nul_is_not() {
        let whole = |text: &str, is_whole| Text { text: text.to_owned(), is_whole };
        assert_eq!(text(b"a\0b".to_vec()).unwrap(), whole("a\0b", true));
        assert_eq!(text(b"gr\xFCn".to_vec()).unwrap(), whole("gr\u{FFFD}n", false));
        let error = text(b"ab\xFF\0".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "not a text file: binary data at byte 2");
    }

    #[test]
    fn a_bound_is_shown_in_the_unit_it_was_set_in() {
        for (bytes, shown) in
            [(16 << 20, "16 MiB"), (1000, "1000 bytes"), ((1 << 20) + 1, "1048577 bytes")]
        {
            assert_eq!(amount(bytes), shown);
        }
    }
}
