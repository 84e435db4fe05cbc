//! Versions of kernels, QEMU, libvirt and machine types, compared by their leading numbers.
//!
//! Distribution suffixes (`6.1.0-56-amd64`, `5.15.0-204.el8uek`) are cut off, since they carry no
//! order.

use serde::{Serialize, Serializer};
use std::fmt;

/// What an input is judged for that does not say: the newest that the rules were written against.
pub const NEWEST_KERNEL: Version = Version::new(7, 3, 0);
/// See [`NEWEST_KERNEL`].
pub const NEWEST_QEMU: Version = Version::new(10, 2, 0);

/// `major.minor.patch`; missing numbers are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Version {
    /// The first number.
    pub major: u16,
    /// The second number; zero where it is missing.
    pub minor: u16,
    /// The third number; zero where it is missing.
    pub patch: u16,
}

impl Version {
    /// From its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Reads the leading `a.b.c` of a text; `None` when it does not start with a number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = [0u16; 3];
        let mut rest = text;
        for (index, number) in numbers.iter_mut().enumerate() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            match rest[..digits].parse() {
                Ok(value) => *number = value,
                Err(_) if index == 0 => return None,
                Err(_) => break,
            }
            match rest[digits..].strip_prefix('.') {
                Some(after) => rest = after,
                None => break,
            }
        }
        let [major, minor, patch] = numbers;
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_leading_numbers() {
        for (text, expected) in [
            ("6.18", Some((6, 18, 0))),
            ("v6.1.192", Some((6, 1, 192))),
            ("6.1.0-56-amd64", Some((6, 1, 0))),
            ("5.15.0-204.147.6.el8uek.x86_64", Some((5, 15, 0))),
            ("7", Some((7, 0, 0))),
            ("10.0.13 (Debian 1:10.0.13)", Some((10, 0, 13))),
            ("7.0.0-rc3", Some((7, 0, 0))),
            ("99999999.1", None),
            ("", None),
            ("next", None),
        ] {
            let read = Version::parse(text).map(|v| (v.major, v.minor, v.patch));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn versions_order_by_number_not_by_text() {
        assert!(Version::parse("6.18") > Version::parse("6.2"));
        assert!(Version::parse("10.0") > Version::parse("9.2"));
    }
}
