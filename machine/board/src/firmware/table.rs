//! The common header of ACPI tables and their checksum. [ACPI "System Description Table Header"]

pub(super) const OEM: &[u8; 6] = b"AVICEN";
const OEM_TABLE: &[u8; 8] = b"MACHINE ";
const CREATOR: &[u8; 4] = b"AVIC";
pub(super) const HEADER_SIZE: usize = 36;

/// The byte that makes the sum of `bytes` and itself zero.
pub(super) fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}

/// A table under construction: bytes are appended, length and checksum come last.
pub(super) struct Table {
    bytes: Vec<u8>,
}

impl Table {
    pub fn new(signature: &[u8; 4], revision: u8) -> Self {
        let mut table = Self { bytes: Vec::new() };
        table.put(signature).u32(0).u8(revision).u8(0).put(OEM).put(OEM_TABLE).u32(1);
        table.put(CREATOR).u32(1);
        table
    }

    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// A Generic Address Structure in system I/O space: a block of `bytes` bytes, accessed in
    /// units of `access` bytes. [ACPI "Generic Address Structure"]
    pub fn port(&mut self, port: u16, bytes: u8, access: u8) -> &mut Self {
        const SYSTEM_IO: u8 = 1;
        let access_code = access.trailing_zeros() as u8 + 1;
        self.u8(SYSTEM_IO).u8(bytes * 8).u8(0).u8(access_code).u64(port.into())
    }

    /// A Generic Address Structure of a register that is not there.
    pub fn no_register(&mut self) -> &mut Self {
        self.put(&[0; 12])
    }

    /// The bytes with length and checksum filled in.
    pub fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[4..8].copy_from_slice(&length.to_le_bytes());
        self.bytes[9] = checksum(&self.bytes);
        self.bytes
    }
}
