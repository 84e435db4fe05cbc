//! What `perf record --threads` leaves: a directory with a file that has the header, and one of
//! nothing but records for each thread of the recorder, compressed or not.
//! [PERF "perf.data directory format"]
//!
//! A recorder's thread serves one CPU unless it was told otherwise, so each file is in the order of
//! time, and there are no marks of rounds. Several files are read at a time, by several threads,
//! and always the one goes on that is behind.

mod merge;
mod part;
mod stretch;

use super::header::Header;
use super::layout::Layouts;
use crate::parallel::{self, Complaints};
use crate::sink::{Origin, Sink, Stretched};
use crate::{Error, Reading};
use part::Part;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stretch::Stretch;

/// Name of the file with the header; the others have a number behind it.
const HEADER_FILE: &str = "data";
const MOST_FILES: usize = 1 << 16;

/// The opened files of a directory.
#[derive(Debug)]
pub struct Directory {
    header: File,
    /// Name, file and length.
    parts: Vec<(String, File, u64)>,
    /// Of all files.
    length: u64,
}

impl Directory {
    /// Opens the header's file and the data files beside it. Fails where the folder has no
    /// header or a file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let header = path.join(HEADER_FILE);
        if !header.is_file() {
            return Err(Error::Unsupported(format!(
                "{} is a directory without the file {HEADER_FILE} that perf record --threads \
                 writes",
                path.display()
            )));
        }
        let mut numbers: Vec<u32> = std::fs::read_dir(path)
            .map_err(failed(path))?
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                name.to_str()?.strip_prefix(HEADER_FILE)?.strip_prefix('.')?.parse().ok()
            })
            .collect();
        numbers.sort_unstable();
        let mut parts = Vec::new();
        for number in numbers.into_iter().take(MOST_FILES) {
            let name = format!("{HEADER_FILE}.{number}");
            let path = path.join(&name);
            let file = File::open(&path).map_err(failed(&path))?;
            let length = file.metadata().map_err(failed(&path))?.len();
            parts.push((name, file, length));
        }
        let header_file = File::open(&header).map_err(failed(&header))?;
        let own = header_file.metadata().map_err(failed(&header))?.len();
        let length = parts.iter().fold(own, |sum, part| sum.saturating_add(part.2));
        Ok(Self { header: header_file, parts, length })
    }

    /// Bytes of all its files.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Reads what the header says.
    pub fn into_recording(self) -> Result<Divided, Error> {
        let Self { header, parts, length } = self;
        let own = header.metadata()?.len();
        let Header { layouts, mut origin, data, .. } = Header::read_of_directory(&header, own)?;
        origin.format = "perf.data directory".into();
        origin.bytes = length;
        // What the header's own file holds was put together by perf before and after recording.
        let first =
            Part { name: HEADER_FILE.into(), file: header, start: data.start, end: data.end };
        let parts = parts.into_iter().map(|(name, file, end)| Part { name, file, start: 0, end });
        Ok(Divided { layouts, origin, parts: std::iter::once(first).chain(parts).collect() })
    }
}

/// A recording that is divided into files.
#[derive(Debug)]
pub struct Divided {
    layouts: Layouts,
    origin: Origin,
    parts: Vec<Part>,
}

impl Divided {
    /// Where it was made.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Reads all files with several threads: see [`parallel::fold`]. Gives the sinks of all threads
    /// and what is wrong with the recording.
    pub fn fold<S: Stretched + Send>(
        &self,
        reading: &Reading<'_>,
        make: &(impl Fn() -> S + Sync),
        join: impl FnMut(S::Edges, u64) + Send,
    ) -> Result<(Vec<S>, Vec<String>), Error> {
        let complaints = Complaints::default();
        let size = parallel::stretch_of(reading, self.origin.bytes);
        let streams = self.parts.iter().enumerate().map(|(index, part)| {
            Stretch::new(&self.layouts, part, (index, &complaints), reading.progress, size)
        });
        let sinks = parallel::fold(streams.collect(), reading, make, join)?;
        Ok((sinks, complaints.into_warnings(reading.stop.load(Ordering::Relaxed))))
    }

    /// Reads all files with one thread into a sink, which has to put threads in order that moved
    /// between CPUs of one file.
    pub fn read<S: Sink>(
        &self,
        stop: &AtomicBool,
        progress: &AtomicU64,
        sink: &mut S,
    ) -> Result<Vec<String>, Error> {
        merge::read(&self.layouts, &self.parts, stop, progress, sink)
    }
}
