//! Extended attributes: access control lists, security labels, what users keep there.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;

/// Names and values; values as hexadecimal digits.
pub type Attributes = BTreeMap<String, String>;

/// Bounds of the kernel (XATTR_LIST_MAX, XATTR_SIZE_MAX).
const MOST: usize = 65_536;

/// Those that tell about the old content, and are wrong for another.
const OF_CONTENT: [&str; 3] = ["security.ima", "security.evm", "security.capability"];

/// All that a file has.
pub fn of(file: &File) -> Result<Attributes, Errno> {
    let mut list = vec![0; MOST];
    let length = match rustix::fs::flistxattr(file, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(Attributes::new()),
        Err(error) => return Err(error),
    };
    let mut value = vec![0; MOST];
    let mut found = Attributes::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if OF_CONTENT.contains(&name) {
            continue;
        }
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Ok(length) => {
                let digits = value[..length].iter().map(|byte| format!("{byte:02x}")).collect();
                found.insert(name.to_owned(), digits);
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Gives a new file these, and those alone; the names of those that only the system sets and did
/// not let us. An access control list that cannot be set is an error: it says who may read.
pub fn put(file: &File, wanted: &Attributes) -> Result<Vec<String>, Errno> {
    let present = of(file)?;
    for name in present.keys().filter(|name| name.starts_with("system.posix_acl")) {
        if !wanted.contains_key(name) {
            rustix::fs::fremovexattr(file, name.as_str())?;
        }
    }
    let mut lost = vec![];
    for (name, digits) in wanted.iter().filter(|one| present.get(one.0) != Some(one.1)) {
        let Some(value) = bytes(digits) else { continue };
        let is_systems = name.starts_with("security.") || name.starts_with("trusted.");
        match rustix::fs::fsetxattr(file, name.as_str(), &value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::ACCESS | Errno::INVAL) if is_systems => {
                lost.push(name.clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(lost)
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
