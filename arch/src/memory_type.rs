//! Encodings of memory types. [APM2 "Memory Types", "Page-Attribute Table Mechanism";
//! SDM3 "Memory Cache Control"]

/// Whether a range register (MTRR) may name this memory type: UC 0, WC 1, WT 4, WP 5, WB 6.
pub const fn is_of_range(encoding: u8) -> bool {
    matches!(encoding, 0 | 1 | 4..=6)
}

/// Whether each of a PAT's eight fields is a memory type; UC− (7) is one there alone.
pub fn is_legal_pat(pat: u64) -> bool {
    pat.to_le_bytes().into_iter().all(|encoding| is_of_range(encoding) || encoding == 7)
}
