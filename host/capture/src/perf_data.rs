//! `perf.data`: a header, attributes of the recorded events, records, and features.
//!
//! Follows the format of the Linux tools (`tools/perf/Documentation/perf.data-file-format.txt`):
//! files and pipes, compressed or not, of little-endian hosts. A file is read with positioned
//! reads into one small buffer per thread; a mapping was measured three times and gained nothing.

mod attribute;
mod buffer;
mod chunk;
mod directory;
mod fixed;
mod frequent;
mod header;
mod joiner;
mod kind;
mod layout;
mod learn;
mod record;
mod sample;
mod stream;

pub use attribute::Attribute;
pub use chunk::fold;
pub use directory::{Directory, Divided};
pub use header::Header;
pub use layout::Layouts;
pub use record::{Break, Walk};
pub use stream::read_stream;

/// Magic of little-endian files and pipes.
pub const MAGIC: &[u8; 8] = b"PERFILE2";
