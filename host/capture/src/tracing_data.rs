//! The description of all recorded tracepoints that perf.data and trace.dat carry alike: a
//! sequence of length-prefixed copies of tracefs files.

use crate::error::Error;
use crate::format::EventFormat;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// A cursor over untrusted bytes; every step is checked.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`; `what` names them in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, at: 0, what }
    }

    /// Bytes that were taken.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Bytes that were not.
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// An error at this place.
    pub fn error(&self, why: impl Into<String>) -> Error {
        Error::malformed(self.what, self.at as u64, why)
    }

    /// The next bytes. Fails where fewer are left, as do all that follow.
    pub fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let slice = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| {
            let left = self.bytes.len() - self.at;
            self.error(format!("{length} bytes are announced and {left} are there"))
        })?;
        self.at += slice.len();
        Ok(slice)
    }

    /// The next bytes, as many as the type says.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, low one first.
    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, low one first.
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, low one first.
    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A string that ends with a zero byte.
    pub fn string(&mut self) -> Result<&'a str, Error> {
        let length = self
            .remaining()
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| self.error("a name has no end"))?;
        let text = self.take(length as u64)?;
        self.take(1)?;
        std::str::from_utf8(text).map_err(|_| self.error("a name is not text"))
    }
}

/// What the section says.
#[derive(Clone, Debug, Default)]
pub struct TracingData {
    /// Bytes of a page of the machine that recorded.
    pub page_size: u32,
    /// The layout of a ring buffer's page, for trace.dat.
    pub header_page: String,
    /// Formats of the systems `kvm` and `kvmmmu` only; the rest is read past.
    pub events: Vec<EventFormat>,
}

impl TracingData {
    /// Reads the section from its magic on, up to the last tracepoint.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes, "tracing data");
        if cursor.take(MAGIC.len() as u64)? != MAGIC {
            return Err(cursor.error("the magic number is missing"));
        }
        cursor.string()?;
        if cursor.u8()? != 0 {
            return Err(Error::Unsupported("recordings of big-endian hosts are not read".into()));
        }
        cursor.u8()?;
        let page_size = cursor.u32()?;
        let mut data = Self { page_size, ..Self::default() };
        data.parse_formats(&mut cursor)?;
        Ok(data)
    }

    /// The part that trace.dat has after a header of its own.
    pub fn parse_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        for name in ["header_page", "header_event"] {
            if cursor.string()? != name {
                return Err(cursor.error(format!("{name} is missing")));
            }
            let length = cursor.u64()?;
            let text = cursor.take(length)?;
            if name == "header_page" {
                self.header_page = String::from_utf8_lossy(text).into_owned();
            }
        }
        self.parse_ftrace_events(cursor)?;
        self.parse_systems(cursor)
    }

    /// Reads past ftrace's own events, of which none is used.
    pub fn parse_ftrace_events(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        for _ in 0..cursor.u32()? {
            let length = cursor.u64()?;
            cursor.take(length)?;
        }
        Ok(())
    }

    /// Takes the formats of KVM's events out of those of all systems.
    pub fn parse_systems(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        for _ in 0..cursor.u32()? {
            let system = cursor.string()?;
            for _ in 0..cursor.u32()? {
                let length = cursor.u64()?;
                let text = cursor.take(length)?;
                if system == "kvm" {
                    let text = String::from_utf8_lossy(text);
                    self.events.extend(EventFormat::parse(system, &text));
                }
            }
        }
        Ok(())
    }

    /// The format with this number.
    pub fn event(&self, id: u32) -> Option<&EventFormat> {
        self.events.iter().find(|event| event.id == id)
    }
}
