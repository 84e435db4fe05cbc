//! Coverage as bytes: a list of spans, or a map of counters.

use board::Covered;

/// Bytes of a span in the list.
pub const SPAN: usize = 16;
/// Counters of a map at most.
pub const LARGEST_MAP: usize = 1 << 24;

/// Address (8 bytes), length (2), instructions (2), runs (4), each little-endian.
pub fn list(covered: &[Covered]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(covered.len() * SPAN);
    for one in covered {
        bytes.extend(one.at.0.to_le_bytes());
        bytes.extend(one.length.to_le_bytes());
        bytes.extend(u16::from(one.instructions).to_le_bytes());
        bytes.extend(u32::try_from(one.runs).unwrap_or(u32::MAX).to_le_bytes());
    }
    bytes
}

/// Counters that stay at 255; a span counts in the place that its address and length give.
pub fn map(covered: &[Covered], size: usize) -> Vec<u8> {
    let mut map = vec![0u8; size];
    for one in covered {
        let key = one.at.0 << 5 ^ u64::from(one.instructions);
        // The high half of a product with 2^64 over the golden ratio.
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let Some(counter) = map.get_mut(spread as usize % size.max(1)) else { continue };
        *counter = counter.saturating_add(u8::try_from(one.runs).unwrap_or(u8::MAX));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::SystemPhysical;

    #[test]
    fn a_span_is_sixteen_bytes_and_one_counter_that_stays_at_its_most() {
        let one = |at, runs| Covered { at: SystemPhysical(at), length: 7, instructions: 3, runs };
        let spans = [one(0x10_0020, 5), one(0x10_0040, 1 << 40)];
        let bytes = list(&spans);
        assert_eq!(bytes.len(), 2 * SPAN);
        assert_eq!(bytes[..SPAN], [0x20, 0, 0x10, 0, 0, 0, 0, 0, 7, 0, 3, 0, 5, 0, 0, 0]);
        assert_eq!(bytes[SPAN + 12..], [0xFF; 4]);
        let mut counters = map(&spans, 4096);
        counters.sort_unstable();
        assert_eq!(counters[4093..], [0, 5, 255]);
        assert_eq!(map(&spans, 1), [255]);
    }
}
