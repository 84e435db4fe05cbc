//! Segment limits and types of operands outside 64-bit mode. [APM2 "Segment-Limit Checks"]

use super::access::Access;
use crate::{Cpu, Stop};
use arch::segment::{Segment, SegmentRegister};

/// Index of SS: its faults are #SS.
const SS: u8 = 2;

impl Cpu {
    /// The linear address of `[offset, offset + size)` in a segment, checked.
    #[inline(never)]
    pub(crate) fn segmented(
        &self,
        register: u8,
        offset: u64,
        size: usize,
        access: Access,
    ) -> Result<u64, Stop> {
        let fault = if register == SS { Stop::STACK } else { Stop::GENERAL_PROTECTION };
        let Some(segment) = SegmentRegister::from_encoding(register) else { return Ok(offset) };
        let segment = &self.registers.segment(segment);
        let attributes = segment.attributes;
        if self.is_protected() {
            let usable = attributes.is_present() && attributes.is_code_or_data();
            let right = match access {
                Access::Read => attributes.is_readable(),
                Access::Write => attributes.is_writable_data(),
                Access::Execute => attributes.is_code(),
            };
            if !usable || !right {
                return Err(fault);
            }
        }
        if !within_limit(segment, offset, size as u64) {
            return Err(fault);
        }
        Ok(segment.base.wrapping_add(offset) & 0xFFFF_FFFF)
    }
}

/// Whether data may be read and written from the segment's first byte to that at 4 GiB - 1: only an
/// access that wraps is refused.
pub(crate) fn grants_all(segment: Segment) -> bool {
    let attributes = segment.attributes;
    attributes.is_present()
        && attributes.is_writable_data()
        && !attributes.is_expand_down()
        && segment.limit == u32::MAX
}

/// Whether besides an offset in it is the linear address.
pub(crate) fn is_flat(segment: Segment) -> bool {
    segment.base == 0 && grants_all(segment)
}

/// Whether `[offset, offset + size)` lies in the segment.
pub(crate) fn within_limit(segment: &Segment, offset: u64, size: u64) -> bool {
    let last = offset + (size - 1);
    let limit = segment.limit as u64;
    if segment.attributes.is_expand_down() {
        let top = if segment.attributes.is_big() { 0xFFFF_FFFF } else { 0xFFFF };
        offset > limit && last <= top
    } else {
        last <= limit
    }
}
