//! Sections and pages that trace-cmd packed. [TRACECMD "COMPRESSION FORMAT OF THE FILE SECTIONS"]

use super::LARGEST_SECTION;
use crate::Error;
use std::io::{Error as IoError, Read as _, Result as IoResult};

/// What a file was packed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    Zlib,
    Zstd,
}

impl Compression {
    pub fn of_name(name: &str) -> Result<Self, Error> {
        match name {
            "none" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            _ => Err(Error::Unsupported(format!(
                "sections packed with {name}; none, zlib and zstd are read"
            ))),
        }
    }

    /// Unpacks what is announced to have a size, which it must not exceed.
    pub fn unpack(self, packed: &[u8], size: usize) -> IoResult<Vec<u8>> {
        if size as u64 > LARGEST_SECTION {
            return Err(IoError::other(format!("{size} bytes are announced")));
        }
        match self {
            Self::None => Err(IoError::other("the file says that nothing is packed")),
            Self::Zlib => {
                let mut bytes = Vec::new();
                let decoder = flate2::read::ZlibDecoder::new(packed);
                decoder.take(size as u64 + 1).read_to_end(&mut bytes)?;
                if bytes.len() > size {
                    return Err(IoError::other(format!("more than the announced {size} bytes")));
                }
                Ok(bytes)
            }
            Self::Zstd => zstd::bulk::decompress(packed, size),
        }
    }
}
