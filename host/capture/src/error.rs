//! Why a recording could not be read.

use std::path::PathBuf;

/// What ends a reader, or a writer of sums.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be opened.
    #[error("cannot access {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Reading broke off.
    #[error("cannot read the recording")]
    Read(#[from] std::io::Error),
    /// Writing broke off.
    #[error("cannot write the recording")]
    Write(#[source] std::io::Error),
    /// Bytes that no recorder writes.
    #[error("{what} at offset {offset:#x}: {why}")]
    Malformed {
        /// The part of the format that is damaged.
        what: &'static str,
        /// Bytes into the file, or into what it was decompressed to.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// The kernel's tracing directory refuses.
    #[error(transparent)]
    Tracing(#[from] tracefs::Error),
    /// A recording that is whole, but not of a kind that says anything about VM exits.
    #[error("{0}")]
    Unsupported(String),
    /// No format that is known begins like this.
    #[error("not a recording known here: {0}")]
    UnknownFormat(String),
    /// What would make figures wrong without anybody noticing.
    #[error(
        "{what} at {:.9} s comes behind later ones that were counted already: the order in which \
         buffers were emptied is not marked in the recording, or wrongly, and no more than {most} \
         events are kept to put them in order; perf kvm stat report keeps all of them in memory",
        *.time_ns as f64 / 1e9
    )]
    Disordered {
        /// The record that comes too late.
        what: &'static str,
        /// Its time, in nanoseconds of the recording's clock.
        time_ns: u64,
        /// Events that are kept to put them in order.
        most: usize,
    },
    /// The caller asked for the reading's end.
    #[error("stopped on request before the packed file was unpacked")]
    Stopped,
}

impl Error {
    /// [`Self::Malformed`], from any text.
    pub fn malformed(what: &'static str, offset: u64, why: impl Into<String>) -> Self {
        Self::Malformed { what, offset, why: why.into() }
    }
}
