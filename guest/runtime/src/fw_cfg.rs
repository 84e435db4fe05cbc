//! QEMU's firmware configuration device: how many processors there are. [FWCFG "Ports"]

use crate::instruction::{in8, out16};

const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
const SIGNATURE: u16 = 0x0000;
const PROCESSORS: u16 = 0x0005;

/// How many processors are there at start; None without the device.
pub fn processor_count() -> Option<usize> {
    out16(SELECTOR, SIGNATURE);
    if b"QEMU".iter().any(|&letter| in8(DATA) != letter) {
        return None;
    }
    out16(SELECTOR, PROCESSORS);
    let count = u16::from_le_bytes([in8(DATA), in8(DATA)]);
    (count > 0).then_some(usize::from(count))
}
