//! Byte lanes: the part of a wide register that a narrower or shifted access touches.

/// All bits that an access of `size` bytes carries; unclaimed reads answer with them.
pub const fn all_ones(size: u8) -> u64 {
    if size >= 8 { u64::MAX } else { (1 << (size as u32 * 8)) - 1 }
}

/// The `size` bytes at byte `at` of a 64-bit register. Bytes beyond it read as zero.
pub const fn extract(register: u64, at: u64, size: u8) -> u64 {
    if at >= 8 { 0 } else { register >> (at as u32 * 8) & all_ones(size) }
}

/// The register after `size` bytes at byte `at` were replaced. Bytes beyond it are dropped.
pub const fn insert(register: u64, at: u64, size: u8, value: u64) -> u64 {
    if at >= 8 {
        return register;
    }
    let mask = all_ones(size) << (at as u32 * 8);
    register & !mask | value << (at as u32 * 8) & mask
}

/// Reads `size` bytes at `offset` from `bytes`; what lies beyond the end reads as zero.
pub fn load(bytes: &[u8], offset: u64, size: u8) -> u64 {
    (0..u64::from(size)).fold(0, |value, i| {
        let byte = usize::try_from(offset.saturating_add(i)).ok().and_then(|at| bytes.get(at));
        value | u64::from(byte.copied().unwrap_or(0)) << (i * 8)
    })
}

/// Writes `size` bytes at `offset` into `bytes`; what lies beyond the end is dropped.
pub fn store(bytes: &mut [u8], offset: u64, size: u8, value: u64) {
    for i in 0..u64::from(size) {
        if let Some(byte) =
            usize::try_from(offset.saturating_add(i)).ok().and_then(|at| bytes.get_mut(at))
        {
            *byte = (value >> (i * 8)) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_beyond_the_register_read_zero_and_ignore_writes() {
        let register = 0x8877_6655_4433_2211;
        for (at, size, read, written) in [
            (0, 8, register, u64::MAX),
            (0, 4, 0x4433_2211, 0x8877_6655_FFFF_FFFF),
            (3, 2, 0x5544, 0x8877_66FF_FF33_2211),
            (7, 2, 0x88, 0xFF77_6655_4433_2211),
            (8, 1, 0, register),
            (u64::MAX, 8, 0, register),
        ] {
            assert_eq!(extract(register, at, size), read, "{size} bytes at {at}");
            assert_eq!(insert(register, at, size, u64::MAX), written, "{size} bytes at {at}");
        }
    }

    #[test]
    fn loads_and_stores_stop_at_the_end_of_the_bytes() {
        let mut bytes = [1, 2, 3, 4];
        assert_eq!(load(&bytes, 2, 4), 0x0403);
        store(&mut bytes, 3, 8, u64::MAX);
        assert_eq!(bytes, [1, 2, 3, 0xFF]);
        assert_eq!(load(&bytes, u64::MAX, 8), 0);
    }
}
