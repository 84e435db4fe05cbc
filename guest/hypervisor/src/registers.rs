//! The registers that a world switch loads and stores by plain instructions.

/// A guest's general and vector registers.
#[repr(C, align(16))]
pub struct Registers {
    /// The image of FXSAVE.
    vector: [u8; 512],
    /// By number. RSP is here while the guest does not run only.
    pub general: [u64; 16],
}

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;

/// Where the general registers are.
pub const GENERAL: usize = core::mem::offset_of!(Registers, general);

impl Registers {
    pub const fn zero() -> Self {
        Self { vector: [0; 512], general: [0; 16] }
    }

    /// All zero, but for the control words of x87 (at 0) and SSE (at 24) as after reset.
    pub const fn reset() -> Self {
        let mut registers = Self::zero();
        [registers.vector[0], registers.vector[1]] = 0x037Fu16.to_le_bytes();
        [registers.vector[24], registers.vector[25]] = 0x1F80u16.to_le_bytes();
        registers
    }
}
