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
    #[error(transparent)]
    Tracing(#[from] tracefs::Error),
    #[error("{0}")]
    Unsupported(String),
    #[error("not a recording known here: {0}")]
    UnknownFormat(String),
    /// What would make figures wrong without anybody noticing.
    #[error(
        "{what} at {:.9} s comes behind later ones that were counted already: the order in which \
         buffers were emptied is not marked in the recording, or wrongly, and no more than {most} \
         events are kept to put them in order; perf kvm stat report keeps all of them in memory",
        *.time_ns as f64 / 1e9
    )]
    Disordered { what: &'static str, time_ns: u64, most: usize },
    #[error("stopped on request before the packed file was unpacked")]
    Stopped,
}

impl Error {
    pub fn malformed(what: &'static str, offset: u64, why: impl Into<String>) -> Self {
        Self::Malformed { what, offset, why: why.into() }
    }
}
