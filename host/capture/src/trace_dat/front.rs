//! The front of the file: event descriptions, names, where each CPU's pages are.
//! [TRACECMD "trace-cmd.dat.v6", "trace-cmd.dat.v7"]

use super::MAGIC;
use super::compression::{Compression, Unpacker};
use super::option::{Clock, apply_option};
use crate::Error;
use crate::sink::Origin;
use crate::tracing_data::{Cursor, TracingData};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Header sections are a few megabytes, kernel symbols the largest of them.
pub const LARGEST_SECTION: u64 = 256 << 20;
const MOST_SECTIONS: usize = 4096;
const MOST_CPUS: u32 = 8192;

/// Where one CPU's pages lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
}

/// What the front of the file says.
#[derive(Debug, Default)]
pub struct Front {
    pub formats: TracingData,
    pub cpus: Vec<CpuData>,
    /// What packs sections, and whether it packs pages.
    pub compression: Compression,
    pub has_packed_pages: bool,
    pub clock: Clock,
    pub names: BTreeMap<u32, String>,
    pub origin: Origin,
}

/// Bytes of the front that are read at first, and at most: version 6 has all descriptions and the
/// kernel's symbols there.
const FRONT: (u64, u64) = (1 << 20, 64 << 20);

pub fn read_front(file: &File, length: u64) -> Result<Front, Error> {
    let mut wanted = FRONT.0.min(length);
    loop {
        let head = read_at(file, 0, wanted, length)?;
        match parse_front(&head, file, length) {
            // It may have ended within what is read.
            Err(_) if wanted < length.min(FRONT.1) => {
                wanted = (wanted * 4).min(length).min(FRONT.1)
            }
            other => return other,
        }
    }
}

fn parse_front(head: &[u8], file: &File, length: u64) -> Result<Front, Error> {
    let mut cursor = Cursor::new(head, "trace.dat header");
    if cursor.take(10)? != MAGIC {
        return Err(Error::UnknownFormat("the magic number of trace.dat is missing".into()));
    }
    let version = cursor.string()?.to_owned();
    if cursor.u8()? != 0 || cursor.u8()? != 8 {
        return Err(Error::Unsupported(
            "recordings of big-endian or 32-bit hosts are not read".into(),
        ));
    }
    let mut front = Front::default();
    front.formats.page_size = cursor.u32()?;
    if !is_page_size(front.formats.page_size) {
        return Err(cursor.error(format!("a page of {} bytes", front.formats.page_size)));
    }
    front.origin.format = format!("trace.dat version {version}");
    match version.as_str() {
        "6" => read_version_6(&mut front, &mut cursor)?,
        "7" => read_version_7(&mut front, &mut cursor, file, length)?,
        other => return Err(Error::Unsupported(format!("trace.dat version {other}"))),
    }
    Ok(front)
}

/// Events in a page begin at multiples of four bytes.
const fn is_page_size(size: u32) -> bool {
    size >= 512 && size <= 1 << 20 && size.is_multiple_of(4)
}

fn read_version_6(front: &mut Front, cursor: &mut Cursor<'_>) -> Result<(), Error> {
    front.formats.parse_formats(cursor)?;
    for _ in ["kernel symbols", "printk formats"] {
        let size = cursor.u32()?;
        cursor.take(u64::from(size))?;
    }
    let size = cursor.u64()?;
    front.names = thread_names(cursor.take(size)?);
    let cpus = cursor.u32()?.min(MOST_CPUS);
    let mut kind = cursor.array::<10>()?;
    if &kind == b"options  \0" {
        loop {
            let id = cursor.u16()?;
            if id == 0 {
                break;
            }
            let size = cursor.u32()?;
            let bytes = cursor.take(u64::from(size))?;
            apply_option(id, bytes, &mut front.origin, &mut front.clock);
        }
        kind = cursor.array::<10>()?;
    }
    if &kind != b"flyrecord\0" {
        return Err(Error::Unsupported("the file holds text, not ring-buffer pages".into()));
    }
    for cpu in 0..cpus {
        let (offset, size) = (cursor.u64()?, cursor.u64()?);
        front.cpus.push(CpuData { cpu, offset, size });
    }
    Ok(())
}

/// Section and option numbers of version 7.
mod section {
    pub const BUFFER: u16 = 3;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const COMMAND_LINES: u16 = 21;
}

fn read_version_7(
    front: &mut Front,
    cursor: &mut Cursor<'_>,
    file: &File,
    length: u64,
) -> Result<(), Error> {
    front.compression = Compression::of_name(cursor.string()?)?;
    cursor.string()?;
    let mut options_at = cursor.u64()?;
    let mut seen = Vec::new();
    // Each options section may name a next one.
    while options_at != 0 && seen.len() < MOST_SECTIONS && !seen.contains(&options_at) {
        seen.push(options_at);
        let (bytes, _) = read_section(file, options_at, length, front.compression)?;
        options_at = read_options(front, &bytes, file, length)?;
    }
    Ok(())
}

/// Reads one options section; returns where the next is.
fn read_options(front: &mut Front, bytes: &[u8], file: &File, length: u64) -> Result<u64, Error> {
    let mut cursor = Cursor::new(bytes, "options of trace.dat");
    for _ in 0..MOST_SECTIONS {
        let (id, size) = (cursor.u16()?, cursor.u32()?);
        let data = cursor.take(u64::from(size))?;
        let mut option = Cursor::new(data, "option of trace.dat");
        match id {
            0 => return option.u64(),
            section::BUFFER => read_buffer_option(front, &mut option, file, length)?,
            section::HEADER_INFO => {}
            section::FTRACE_EVENTS => {}
            section::EVENT_FORMATS => {
                let (bytes, _) = read_section(file, option.u64()?, length, front.compression)?;
                front.formats.parse_systems(&mut Cursor::new(&bytes, "event formats"))?;
            }
            section::COMMAND_LINES => {
                let (bytes, _) = read_section(file, option.u64()?, length, front.compression)?;
                let mut lines = Cursor::new(&bytes, "command lines");
                let size = lines.u64()?;
                front.names = thread_names(lines.take(size)?);
            }
            other => apply_option(other, data, &mut front.origin, &mut front.clock),
        }
    }
    Ok(0)
}

fn read_buffer_option(
    front: &mut Front,
    option: &mut Cursor<'_>,
    file: &File,
    length: u64,
) -> Result<(), Error> {
    let at = option.u64()?;
    option.string()?;
    let clock = option.string()?;
    front.clock.name(clock);
    let page_size = option.u32()?;
    if is_page_size(page_size) {
        front.formats.page_size = page_size;
    }
    let header = read_at(file, at, 16, length)?;
    let flags = Cursor::new(&header[2..], "section header").u16()?;
    front.has_packed_pages = flags & 1 != 0;
    for _ in 0..option.u32()?.min(MOST_CPUS) {
        let cpu = option.u32()?;
        let (offset, size) = (option.u64()?, option.u64()?);
        front.cpus.push(CpuData { cpu, offset, size });
    }
    Ok(())
}

/// The content of a section, decompressed.
fn read_section(
    file: &File,
    at: u64,
    length: u64,
    compression: Compression,
) -> Result<(Vec<u8>, u16), Error> {
    let header = read_at(file, at, 16, length)?;
    let mut cursor = Cursor::new(&header, "section header");
    let (id, flags) = (cursor.u16()?, cursor.u16()?);
    cursor.u32()?;
    let size = cursor.u64()?;
    let bytes = read_at(file, at + 16, size, length)?;
    if flags & 1 == 0 {
        return Ok((bytes, id));
    }
    let mut cursor = Cursor::new(&bytes, "compressed section");
    let (packed, unpacked) = (cursor.u32()?, cursor.u32()?);
    let packed = cursor.take(u64::from(packed))?;
    let mut bytes = Vec::new();
    Unpacker::default()
        .unpack(compression, packed, unpacked as usize, &mut bytes)
        .map_err(|error| Error::malformed("compressed section", at, error.to_string()))?;
    Ok((bytes, id))
}

fn read_at(file: &File, at: u64, size: u64, length: u64) -> Result<Vec<u8>, Error> {
    if at.checked_add(size).is_none_or(|end| end > length) || size > LARGEST_SECTION {
        return Err(Error::malformed(
            "section of trace.dat",
            at,
            format!("its {size} bytes do not fit the file's {length}"),
        ));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// Lines of a number and a name.
fn thread_names(bytes: &[u8]) -> BTreeMap<u32, String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| {
            let (number, name) = line.trim_end_matches('\0').split_once(' ')?;
            Some((number.parse().ok()?, name.to_owned()))
        })
        .collect()
}
