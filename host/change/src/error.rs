//! What may go wrong.

use std::path::PathBuf;

/// Why a change could not be made or taken back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host's file system refuses.
    #[error("{path}: {source}")]
    File {
        /// As it is reached from here, the root included.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is no longer what the plan was made for.
    #[error("{path} changed since the plan was made; plan again")]
    Changed {
        /// As the plan has it.
        path: String,
    },
    /// A file is no longer what the change left there.
    #[error("{path} was edited after the change of record {record}; --force overwrites it")]
    Edited {
        /// As the record has it.
        path: String,
        /// Number of the record that is taken back.
        record: u64,
    },
    /// A path that would be followed to somewhere outside the root.
    #[error("{path} leads out of the root folder")]
    Outside {
        /// As the plan or the record has it.
        path: String,
    },
    /// A program of a plan failed, or could not be started.
    #[error("'{command}' failed: {reason}; avicenna rollback takes back what was done before it")]
    Command {
        /// Program and arguments, joined by spaces.
        command: String,
        /// What the program said, or how it ended.
        reason: String,
    },
    /// The opposite of one failed while a record was taken back.
    #[error("'{command}' failed: {reason}; the record stays, avicenna rollback tries again")]
    Opposite {
        /// Program and arguments, joined by spaces.
        command: String,
        /// What the program said, or how it ended.
        reason: String,
    },
    /// A result cannot be put where it is to go.
    #[error("cannot write {path}: {source}")]
    Output {
        /// As it was given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A link where a file is to be written, or on the way there, that another user may have put
    /// there.
    #[error("{path} is a symbolic link that others could have put there; name the file itself")]
    Link {
        /// As it was given.
        path: PathBuf,
    },
    /// Something that is written to or read in no ordinary way.
    #[error("{path} is {kind}, not a file")]
    Special {
        /// As it is reached from here, the root included.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Another process wrote the file at the same time.
    #[error("{path} was changed by another process meanwhile, and is left as it is")]
    Swapped {
        /// As it is reached from here, the root included.
        path: PathBuf,
    },
    /// Another run of this program changes the host.
    #[error("{path} is in use by another run of avicenna; wait for it to end")]
    Busy {
        /// The folder of the records.
        path: PathBuf,
    },
    /// Records that others wrote or could have written.
    #[error(
        "{path} belongs to user {user} with mode {mode:o}; only records of user {own} that nobody else writes are believed"
    )]
    Foreign {
        /// The folder of the records, or one of them.
        path: PathBuf,
        /// Number of its owner.
        user: u32,
        /// Its permission bits.
        mode: u32,
        /// Number of the user that runs this program.
        own: u32,
    },
    /// A record that is damaged, or of another version.
    #[error("{path}: not a record: {source}")]
    Record {
        /// The file of the record.
        path: PathBuf,
        /// What the reader of JSON says.
        source: serde_json::Error,
    },
    /// No record is left that was not taken back.
    #[error("there is nothing to roll back")]
    Nothing,
    /// No record has this number.
    #[error("no record {0}")]
    Unknown(u64),
}
