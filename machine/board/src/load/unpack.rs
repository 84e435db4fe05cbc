//! Unpacking of compressed kernels on the host, which saves the guest from doing it.
//!
//! The formats are those of the kernel's own build. LZO and bzip2 are left to the guest.

use super::error::LoadError;
use super::source::Source;
use std::io::Read;

pub(super) const GZIP: &[u8] = &[0x1F, 0x8B];
/// No kernel unpacks to more than this.
pub(super) const LARGEST_KERNEL: u64 = 1 << 30;

/// What is unpacked of so many bytes at most: kernels are packed to a fifth, not to a thousandth.
const START: u64 = 16 << 20;
const RATIO: u64 = 64;
/// Most memory of a decoder: kernels are packed with dictionaries of up to 128 MiB.
const DECODER: u64 = 160 << 20;

/// What the first bytes say about the format of the rest.
const FORMATS: &[(&[u8], &str)] = &[
    (GZIP, "gzip"),
    (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
    (&[0x02, 0x21, 0x4C, 0x18], "lz4"),
    (&[0x5D, 0, 0], "lzma"),
];

/// The name of the compression format of `data`, if it is known.
pub(super) fn format(data: &[u8]) -> Option<&'static str> {
    FORMATS.iter().find(|(magic, _)| data.starts_with(magic)).map(|(_, format)| *format)
}

/// The unpacked bytes of `data`, which lies at `offset` in `file`; none if the format is unknown.
/// Bytes that follow the compressed stream are ignored.
pub(super) fn unpack(
    file: Source,
    offset: u64,
    data: &[u8],
    limit: u64,
) -> Result<Option<Vec<u8>>, LoadError> {
    let Some(format) = format(data) else { return Ok(None) };
    let limit = limit.min(START + RATIO * data.len() as u64);
    let result = match format {
        "gzip" => read_limited(flate2::read::GzDecoder::new(data), limit),
        "xz" => xz(data, limit),
        "zstd" => zstd(data, limit),
        "lz4" => lz4(data, limit),
        _ => lzma(data, limit),
    };
    result.map(Some).map_err(|error| LoadError::Unpack {
        file: file.name.into(),
        format,
        offset,
        reason: error.to_string(),
    })
}

fn read_limited(reader: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = reader.take(limit + 1).read_to_end(&mut bytes)?;
    if read as u64 > limit {
        return Err(std::io::Error::other(format!("more than {limit} bytes come out")));
    }
    Ok(bytes)
}

fn zstd(data: &[u8], limit: u64) -> std::io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::new(data)?.single_frame();
    // The kernel is packed with a window of up to 128 MiB.
    decoder.window_log_max(27)?;
    read_limited(decoder, limit)
}

fn xz(data: &[u8], limit: u64) -> std::io::Result<Vec<u8>> {
    let stream = liblzma::stream::Stream::new_stream_decoder(DECODER, 0)?;
    read_limited(liblzma::read::XzDecoder::new_stream(data, stream), limit)
}

fn lzma(data: &[u8], limit: u64) -> std::io::Result<Vec<u8>> {
    let stream = liblzma::stream::Stream::new_lzma_decoder(DECODER)?;
    read_limited(liblzma::read::XzDecoder::new_stream(data, stream), limit)
}

/// The legacy frame: blocks of at most 8 MiB, each after its compressed size.
fn lz4(data: &[u8], limit: u64) -> std::io::Result<Vec<u8>> {
    const LARGEST_BLOCK: usize = 8 << 20;
    let mut unpacked = Vec::new();
    let mut rest = &data[4..];
    while let Some((size, tail)) = rest.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size) as usize;
        // The kernel's build appends the unpacked size, which no block follows.
        if tail.is_empty() {
            break;
        }
        let block = tail.get(..size).ok_or_else(|| {
            std::io::Error::other(format!("a block of {size} bytes, {} are left", tail.len()))
        })?;
        let bytes =
            lz4_flex::block::decompress(block, LARGEST_BLOCK).map_err(std::io::Error::other)?;
        unpacked.extend_from_slice(&bytes);
        if unpacked.len() as u64 > limit {
            return Err(std::io::Error::other(format!("more than {limit} bytes come out")));
        }
        rest = &tail[size..];
    }
    Ok(unpacked)
}
