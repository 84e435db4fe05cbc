//! Archives of cpio's new form, as the kernel unpacks them: headers of hexadecimal digits, names
//! and data to multiples of four bytes.
//!
//! Documentation/driver-api/early-userspace/buffer-format.rst of Linux.

use std::io::{self, Read};

/// How a member begins, with and without a checksum.
pub const MAGICS: [&[u8; 6]; 2] = [b"070701", b"070702"];

/// Its header's length, and the longest name that is read.
const HEADER: usize = 110;
const NAME_LIMIT: usize = 4096;

/// Most members of an archive.
const MEMBERS_LIMIT: usize = 1_000_000;

/// A member's name, length and data; what is not read of these is passed over.
pub type Visit<'v> = &'v mut dyn FnMut(&str, u64, &mut dyn Read) -> io::Result<()>;

/// Gives every ordinary file of an archive to `visit`, from its first header to behind its trailer.
pub fn members(stream: &mut dyn Read, visit: Visit<'_>) -> io::Result<()> {
    for _ in 0..MEMBERS_LIMIT {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        if !MAGICS.iter().any(|magic| header.starts_with(*magic)) {
            return Err(invalid("a member of cpio begins otherwise"));
        }
        let field = |number: usize| -> io::Result<u32> {
            let digits = &header[6 + 8 * number..14 + 8 * number];
            let digits = std::str::from_utf8(digits).map_err(io::Error::other)?;
            u32::from_str_radix(digits, 16).map_err(|_| invalid("a member of cpio has no number"))
        };
        let (mode, size, length) = (field(1)?, u64::from(field(6)?), field(11)? as usize);
        if length > NAME_LIMIT {
            return Err(invalid("a name of cpio is too long"));
        }
        let mut name = vec![0; (HEADER + length).next_multiple_of(4) - HEADER];
        stream.read_exact(&mut name)?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(length));
        let name = String::from_utf8_lossy(&name).into_owned();
        if name == "TRAILER!!!" {
            return Ok(());
        }
        let mut data = (&mut *stream).take(size);
        if mode & 0o170_000 == 0o100_000 {
            visit(name.trim_start_matches("./").trim_start_matches('/'), size, &mut data)?;
        }
        io::copy(&mut data, &mut io::sink())?;
        if data.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let rest = size.next_multiple_of(4) - size;
        io::copy(&mut (&mut *stream).take(rest), &mut io::sink())?;
    }
    Err(invalid("more members than are read"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
