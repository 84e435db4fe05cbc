//! Why a recording could not be read.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot access {path}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("cannot read the recording")]
    Read(#[from] std::io::Error),
    #[error("cannot write the recording")]
    Write(#[source] std::io::Error),
    /// The place is an offset into the file, or into what it was decompressed to.
    #[error("{what} at offset {offset:#x}: {why}")]
    Malformed { what: &'static str, offset: u64, why: String },
    #[error("{0}")]
    Unsupported(String),
    #[error("not a recording known here: {0}")]
    UnknownFormat(String),
    #[error("stopped on request before the packed file was unpacked")]
    Stopped,
}

impl Error {
    pub fn malformed(what: &'static str, offset: u64, why: impl Into<String>) -> Self {
        Self::Malformed { what, offset, why: why.into() }
    }
}
