//! Interrupt remapping entries as debugfs shows them, which few distributions' kernels offer.
//!
//! VT-d: `ir_translation_struct` has one table of remapped and one of posted entries for each unit.
//! AMD-Vi (6.17 and later): `irqtbl` has the raw entries of the one function whose address was
//! written into `devid`; nothing is written there to find out.

use crate::inputs::Inputs;
use reading::{Fact, RemappingEntry};

/// Where the kernels have them.
const INTEL: &str = "sys/kernel/debug/iommu/intel/ir_translation_struct";
const AMD: &str = "sys/kernel/debug/iommu/amd/irqtbl";
/// Most entries that are kept.
const ENTRIES_LIMIT: usize = 65_536;
/// [IOMMU "Interrupt Remapping Tables, Guest Virtual APIC Enabled"]: GuestMode, in the low half.
const GUEST_MODE: u64 = 1 << 7;

pub fn entries(inputs: &Inputs) -> Fact<Vec<RemappingEntry>> {
    let intel = inputs.text(INTEL);
    if intel.get().is_some() {
        return intel.map(|text| of_intel(&text));
    }
    inputs.text(AMD).and_then(|text| of_amd(&text))
}

/// ` 0     3b:00.1 00000001 0a2b3c40 41  IRTE_high  IRTE_low` below a heading; the column of the
/// vector is the one that the heading says.
fn of_intel(text: &str) -> Vec<RemappingEntry> {
    let mut vector_column = None;
    let mut is_posted = false;
    let mut entries = vec![];
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Entry") {
            vector_column = words.iter().position(|word| *word == "Vct");
            is_posted = words.contains(&"PDA_high");
            continue;
        }
        let vector = vector_column.and_then(|column| words.get(column));
        let vector = vector.and_then(|word| u8::from_str_radix(word, 16).ok());
        if let (Some(source), Some(vector)) = (words.get(1).filter(|one| is_address(one)), vector)
            && entries.len() < ENTRIES_LIMIT
        {
            entries.push(RemappingEntry { source: source.to_string(), is_posted, vector });
        }
    }
    entries
}

/// `DeviceId 0000:3b:00.1` and then `IRT[0003] HIGH LOW` for each valid entry.
fn of_amd(text: &str) -> Result<Vec<RemappingEntry>, String> {
    let mut source = None;
    let mut entries = vec![];
    for line in text.lines().take(ENTRIES_LIMIT) {
        if let Some(address) = line.strip_prefix("DeviceId ") {
            source = Some(address.trim()).filter(|one| is_address(one));
        }
        let Some(rest) = line.strip_prefix("IRT[").and_then(|rest| rest.split_once(']')) else {
            continue;
        };
        let words = rest.1.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        // A single word is an entry of the 32-bit form, which is never posted.
        let (is_posted, vector) = match words.collect::<Option<Vec<u64>>>().as_deref() {
            Some([high, low]) => (low & GUEST_MODE != 0, *high as u8),
            Some([entry]) => (false, (entry >> 16) as u8),
            _ => continue,
        };
        if let Some(source) = source {
            entries.push(RemappingEntry { source: source.to_owned(), is_posted, vector });
        }
    }
    match source {
        Some(_) => Ok(entries),
        None => Err("no function is chosen in devid beside it".into()),
    }
}

/// A PCI function's address with its domain, `0000:3b:00.1`, of that or of `3b:00.1`.
pub fn pci_address(text: &str) -> Option<String> {
    let domain = if text.len() == "3b:00.1".len() { "0000:" } else { "" };
    is_address(text).then(|| format!("{domain}{text}"))
}

/// `3b:00.1` or `0000:3b:00.1`.
fn is_address(text: &str) -> bool {
    let is_hexadecimal =
        |part: &str, digits| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((front, function)) = text.rsplit_once('.') else { return false };
    let parts: Vec<&str> = front.split(':').collect();
    let has_device = match parts.as_slice() {
        [bus, device] => is_hexadecimal(bus, 2) && is_hexadecimal(device, 2),
        [domain, bus, device] => {
            is_hexadecimal(domain, 4) && is_hexadecimal(bus, 2) && is_hexadecimal(device, 2)
        }
        _ => false,
    };
    has_device && matches!(function.as_bytes(), [b'0'..=b'7'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entries: &[RemappingEntry]) -> Vec<(&str, bool, u8)> {
        entries.iter().map(|one| (one.source.as_str(), one.is_posted, one.vector)).collect()
    }

    #[test]
    fn vt_d_tells_remapped_entries_from_posted_ones_by_their_headings() {
        let text = "Remapped Interrupt supported on IOMMU: dmar0\n IR table address:100a00000\n \
                    Entry SrcID   DstID    Vct IRTE_high\t\tIRTE_low\n 0     f0:1f.0 00000001 30  \
                    000000000004f0f8\t0000000100300009\n\n****\n\nPosted Interrupt supported on \
                    IOMMU: dmar0\n IR table address:100a00000\n Entry SrcID   PDA_high PDA_low  Vct \
                    IRTE_high\t\tIRTE_low\n 7     3b:00.1 00000001 0a2b3c40 e1  \
                    0000000100043b01\t0a2b3c4000e18001\n";
        let entries = of_intel(text);
        assert_eq!(shown(&entries), [("f0:1f.0", false, 0x30), ("3b:00.1", true, 0xE1)]);
        assert_eq!(of_intel("Interrupt Remapping is not enabled\n"), []);
    }

    #[test]
    fn amd_vi_shows_the_function_that_was_chosen() {
        let text = "DeviceId 0000:3b:00.1\nIRT[0000] 0000000000000035 0000000100000001\n\
                    IRT[0001] 00000001234560e1 00000101000001c5\n\n";
        let entries = of_amd(text).expect("a function was chosen");
        let source = "0000:3b:00.1";
        assert_eq!(shown(&entries), [(source, false, 0x35), (source, true, 0xE1)]);
        let short = of_amd("DeviceId 0000:3b:00.1\nIRT[0000] 00350001\n").expect("the same");
        assert_eq!(shown(&short), [(source, false, 0x35)]);
        assert!(of_amd("Enter a valid device ID to 'devid' file\n").is_err());
    }

    #[test]
    fn addresses_are_written_with_all_their_digits() {
        for (text, is) in [
            ("0000:3b:00.1", true),
            ("3b:00.1", true),
            ("3b:00.8", false),
            ("b:00.1", false),
            ("0x0", false),
            ("pci.4", false),
            ("00:16:3e:00:00:01", false),
        ] {
            assert_eq!(is_address(text), is, "{text}");
            let whole = pci_address(text);
            assert_eq!(whole.as_deref(), is.then_some("0000:3b:00.1"), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,300}") {
            of_intel(&text);
            let _ = of_amd(&text);
            is_address(&text);
        }
    }
}
