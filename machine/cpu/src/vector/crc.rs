//! CRC32: the polynomial 11EDC6F41h (CRC-32C), bits reflected, no inversion.

const REFLECTED_POLYNOMIAL: u32 = 0x82F6_3B78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            let feedback = if value & 1 == 0 { 0 } else { REFLECTED_POLYNOMIAL };
            value = value >> 1 ^ feedback;
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// Accumulates the bytes of an operand, lowest first.
pub fn crc32c(initial: u32, operand: &[u8]) -> u32 {
    operand.iter().fold(initial, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}
