//! Tables as text: what `acpidump` prints, and the raw data at the end of a disassembly by
//! `iasl -d`.
//!
//! ```text
//! DMAR @ 0x0000000000000000
//!     0000: 44 4D 41 52 88 00 00 00 02 FE 49 4E 54 45 4C 20  DMAR......INTEL
//! ```

use super::SIGNATURES;
use std::collections::BTreeMap;

/// Longest table that is kept, and longest line that is looked at.
const TABLE_LIMIT: usize = 1 << 20;
const LINE_LIMIT: usize = 200;

/// The tables of a text that concern interrupts, by signature; the first of each.
pub fn tables(text: &str) -> BTreeMap<&'static str, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut current = vec![];
    for line in text.lines().chain([""]) {
        let row = (line.len() <= LINE_LIMIT).then(|| row(line)).flatten();
        match row {
            Some((offset, bytes)) if offset == current.len() && offset < TABLE_LIMIT => {
                current.extend(bytes);
            }
            Some((0, bytes)) => {
                keep(&mut found, &current);
                current = bytes;
            }
            _ => {
                keep(&mut found, &current);
                current.clear();
            }
        }
    }
    found
}

fn keep(found: &mut BTreeMap<&'static str, Vec<u8>>, bytes: &[u8]) {
    if let Some(signature) = SIGNATURES.iter().find(|name| bytes.starts_with(name.as_bytes())) {
        found.entry(signature).or_insert_with(|| bytes.to_vec());
    }
}

/// An offset, a colon, and up to sixteen bytes; characters follow after two spaces.
fn row(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, rest) = line.trim_start().split_once(": ")?;
    let is_number = offset.len() >= 4 && offset.bytes().all(|byte| byte.is_ascii_hexdigit());
    let offset = is_number.then(|| usize::from_str_radix(offset, 16).ok()).flatten()?;
    let words = rest.split("  ").next()?.split(' ');
    let mut bytes = vec![];
    for word in words.take_while(|word| !word.is_empty()) {
        let is_byte = word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(is_byte.then(|| u8::from_str_radix(word, 16).ok()).flatten()?);
    }
    (1..=16).contains(&bytes.len()).then_some((offset, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_a_dump_come_by_signature() {
        let text = "SSDT @ 0x0000000000000000\n    0000: 53 53 44 54 12 00 00 00  SSDT....\n\n\
            DMAR @ 0x00000000AABBCCDD\n\
            \x20   0000: 44 4D 41 52 12 00 00 00 01 02 03 04 05 06 07 08  DMAR............\n\
            \x20   0010: 09 0A                                            ..\n\n\
            APIC @ 0x1\n    0000: 41 50 49 43  APIC\n    0000: 49 56 52 53 01  // IVRS.\n";
        let found = tables(text);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["APIC", "DMAR", "IVRS"]);
        assert_eq!(found["DMAR"].len(), 18);
        assert_eq!(found["DMAR"][16..], [9, 10]);
        assert_eq!(found["IVRS"], b"IVRS\x01");
    }

    #[test]
    fn what_does_not_continue_ends_the_table() {
        let rows = [
            ("0000: 44 4D 41 52\n0010: 01\n", 4),
            ("0000: 44 4D 41 52\nother\n0004: 01\n", 4),
            ("0000: 44 4D 41 52\n0004: 01\n", 5),
            ("0000: 44 4D 41 52\n0004: 1\n", 4),
            ("0000: 44 4D 41 52\n0004: 01 XX\n", 4),
        ];
        for (text, length) in rows {
            assert_eq!(tables(text).get("DMAR").map(Vec::len), Some(length), "{text}");
        }
        for text in ["", "0000:", "0000: ", "00: 44 4D 41 52", "0000: 44 4D 41", "DMAR @ 0x0"] {
            assert!(tables(text).is_empty(), "{text}");
        }
    }
}
