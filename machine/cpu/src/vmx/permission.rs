//! The I/O, MSR, VMREAD and VMWRITE bitmaps. [SDM3 "I/O-Bitmap Addresses"]
//! [SDM3 "MSR-Bitmap Address"] [SDM3 "VMCS Shadowing Bitmap Addresses"]

use super::state::{Guest, Shadowing};
use arch::address::SystemPhysical;
use arch::vmx::PrimaryControls;
use arch::vmx::msr::bitmap_bit;
use bus::GuestMemory;

impl Guest {
    /// Whether an access of `size` bytes at `port` exits: the bitmaps take precedence over the
    /// unconditional exit, and an access that wraps around the port space always exits.
    pub(super) fn exits_for_port(&self, memory: &GuestMemory, port: u16, size: u8) -> bool {
        let primary = self.controls.primary;
        if !primary.contains(PrimaryControls::IO_BITMAPS) {
            return primary.contains(PrimaryControls::UNCONDITIONAL_IO_EXITING);
        }
        let [low, high] = self.io_bitmaps;
        (0..u32::from(size)).any(|byte| match u32::from(port) + byte {
            at @ 0..0x8000 => bit(memory, low, at),
            at @ 0x8000..0x1_0000 => bit(memory, high, at - 0x8000),
            _ => true,
        })
    }

    /// Whether RDMSR or WRMSR of `number` exits.
    pub(super) fn exits_for_msr(&self, memory: &GuestMemory, number: u32, is_write: bool) -> bool {
        !self.controls.primary.contains(PrimaryControls::MSR_BITMAPS)
            || bitmap_bit(number, is_write).is_none_or(|at| bit(memory, self.msr_bitmaps, at))
    }
}

/// Bits of an encoding that the bitmaps look at.
const ENCODING_BITS: u64 = 0x7FFF;

impl Shadowing {
    /// Whether VMREAD or VMWRITE of an encoding exits: one beyond the bitmaps always does.
    pub(super) fn exits(&self, memory: &GuestMemory, encoding: u64, is_write: bool) -> bool {
        let bitmap = if is_write { self.writes } else { self.reads };
        encoding & !ENCODING_BITS != 0 || bit(memory, bitmap, encoding as u32)
    }
}

/// What is not memory reads as ones and so exits.
fn bit(memory: &GuestMemory, bitmap: SystemPhysical, number: u32) -> bool {
    let at = bitmap.offset(u64::from(number / 8));
    memory.slice(at, 1).map_or(true, |byte| byte[0] >> (number % 8) & 1 != 0)
}
