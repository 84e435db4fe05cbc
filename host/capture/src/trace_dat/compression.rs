//! Sections and pages that trace-cmd packed. [TRACECMD "COMPRESSION FORMAT OF THE FILE SECTIONS"]

use super::front::LARGEST_SECTION;
use crate::Error;
use std::io::{Error as IoError, Read as _, Result as IoResult};
use zstd::bulk::Decompressor;

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
}

/// Unpacks one piece after the other.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<Decompressor<'static>>,
}

impl Unpacker {
    /// Unpacks in place of what was there what is announced to have a size, which it must not
    /// exceed.
    pub fn unpack(
        &mut self,
        compression: Compression,
        packed: &[u8],
        size: usize,
        bytes: &mut Vec<u8>,
    ) -> IoResult<()> {
        bytes.clear();
        if size as u64 > LARGEST_SECTION {
            return Err(IoError::other(format!("{size} bytes are announced")));
        }
        match compression {
            Compression::None => Err(IoError::other("the file says that nothing is packed")),
            Compression::Zlib => {
                let decoder = flate2::read::ZlibDecoder::new(packed);
                decoder.take(size as u64 + 1).read_to_end(bytes)?;
                if bytes.len() > size {
                    return Err(IoError::other(format!("more than the announced {size} bytes")));
                }
                Ok(())
            }
            Compression::Zstd => {
                let decoder = match &mut self.zstd {
                    Some(decoder) => decoder,
                    None => self.zstd.insert(Decompressor::new()?),
                };
                bytes.reserve_exact(size);
                let unpacked = decoder.decompress_to_buffer(packed, bytes)?;
                match unpacked <= size {
                    true => Ok(()),
                    false => Err(IoError::other(format!("more than the announced {size} bytes"))),
                }
            }
        }
    }
}
