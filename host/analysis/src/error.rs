//! Why a recording did not become a profile.

use std::path::PathBuf;

/// What ends an analysis.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A reader's refusal, with the file that it is about.
    #[error("{}", path.display())]
    Recording {
        /// The file as it was given.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// What the reader of the format says.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// Reading broke off.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// A trace of the emulated machine is not as the machine writes it.
    #[error(transparent)]
    Machine(#[from] trace::file::ReadError),
    /// Two passes over one file found different records.
    #[error("the recording changed while it was being read")]
    Changing,
}
