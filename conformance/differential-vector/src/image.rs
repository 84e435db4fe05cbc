//! The 512-byte FXSAVE area of the 64-bit form [SDM1 "Non-64-Bit/64-Bit Mode FXSAVE Layout"].

use cpu::float::extended::Extended;

/// An FXSAVE area with names for its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Image(pub [u8; 512]);

impl Image {
    /// FNINIT and a default MXCSR.
    pub fn initial() -> Image {
        let mut image = Image([0; 512]);
        image.set_control_word(0x37F);
        image.set_mxcsr(0x1F80);
        image
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    pub fn control_word(&self) -> u16 {
        self.word(0)
    }

    pub fn set_control_word(&mut self, value: u16) {
        self.0[..2].copy_from_slice(&value.to_le_bytes());
    }

    pub fn status_word(&self) -> u16 {
        self.word(2)
    }

    pub fn set_status_word(&mut self, value: u16) {
        self.0[2..4].copy_from_slice(&value.to_le_bytes());
    }

    /// One bit per physical register, set when it is not empty.
    pub fn tags(&self) -> u8 {
        self.0[4]
    }

    pub fn set_tags(&mut self, value: u8) {
        self.0[4] = value;
    }

    pub fn mxcsr(&self) -> u32 {
        u32::from_le_bytes([self.0[24], self.0[25], self.0[26], self.0[27]])
    }

    pub fn set_mxcsr(&mut self, value: u32) {
        self.0[24..28].copy_from_slice(&value.to_le_bytes());
    }

    /// ST(i), relative to the top.
    pub fn st(&self, index: usize) -> Extended {
        let mut bytes = [0; 10];
        bytes.copy_from_slice(&self.0[32 + 16 * index..][..10]);
        Extended::from_bytes(bytes)
    }

    pub fn set_st(&mut self, index: usize, value: Extended) {
        self.0[32 + 16 * index..][..10].copy_from_slice(&value.to_bytes());
    }

    pub fn xmm(&self, index: usize) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[160 + 16 * index..][..16]);
        u128::from_le_bytes(bytes)
    }

    pub fn set_xmm(&mut self, index: usize, value: u128) {
        self.0[160 + 16 * index..][..16].copy_from_slice(&value.to_le_bytes());
    }

    /// Pushes two valid operands as ST0 and ST1 onto an empty stack.
    pub fn set_stack(&mut self, st0: Extended, st1: Extended) {
        const TOP_6: u16 = 6 << 11;
        self.set_status_word(TOP_6);
        self.set_tags(0xC0);
        self.set_st(0, st0);
        self.set_st(1, st1);
    }
}
