//! What instructions compute with.

use super::x87::X87;
use crate::Flags;
use crate::width::{CLEAR, GeneralRegisters};
use arch::control::rflags;
use arch::segment::{Segment, SegmentRegister};
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// The registers of the application programming model, and the privilege they are used with.
#[derive(Clone, Serialize, Deserialize)]
#[repr(C)]
pub struct Registers {
    /// The instruction pointer; up to date between blocks.
    pub ip: u64,
    /// RFLAGS.
    pub flags: Flags,
    /// Bases of ES, CS, SS, DS, FS, GS, then two zeros for addresses without a base.
    pub segment_base: [u64; 8],
    /// See [`GeneralRegisters`].
    #[serde(with = "crate::width::stored")]
    pub gpr: GeneralRegisters,
    /// The segment registers with their hidden parts.
    pub segments: Segments,
    /// 0 is the most privileged; 3 in virtual-8086 mode.
    pub cpl: u8,
    /// SSE's control and status.
    pub mxcsr: u32,
    /// Without AVX there are no upper halves.
    pub xmm: [u128; 16],
    /// x87's registers, which MMX shares.
    pub x87: X87,
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            ip: 0xFFF0,
            flags: Flags::default(),
            segment_base: [0; 8],
            gpr: CLEAR,
            segments: Segments::default(),
            cpl: 0,
            mxcsr: 0x1F80,
            xmm: [0; 16],
            x87: Default::default(),
        }
    }
}

impl Registers {
    /// RFLAGS.VM is set.
    pub fn is_virtual_8086(&self) -> bool {
        self.flags.has(rflags::VM)
    }

    /// The code segment's base.
    #[inline(always)]
    pub fn code_base(&self) -> u64 {
        self.segment_base[SegmentRegister::Cs as usize]
    }

    /// Loads the base of FS or GS alone, as instructions and MSRs of 64-bit mode do.
    pub fn set_segment_base(&mut self, register: SegmentRegister, base: u64) {
        self.segments[register].base = base;
        self.segment_base[register as usize] = base;
    }

    /// Copies what the fast path needs out of the segment registers.
    pub fn refresh_segments(&mut self) {
        for (base, segment) in self.segment_base.iter_mut().zip(&self.segments.0) {
            *base = segment.base;
        }
    }
}

/// The segment registers with their hidden parts, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments(pub [Segment; 6]);

impl Default for Segments {
    fn default() -> Self {
        Self([Segment::real(0); 6])
    }
}

impl Index<SegmentRegister> for Segments {
    type Output = Segment;

    #[inline(always)]
    fn index(&self, register: SegmentRegister) -> &Segment {
        &self.0[register as usize]
    }
}

impl IndexMut<SegmentRegister> for Segments {
    #[inline(always)]
    fn index_mut(&mut self, register: SegmentRegister) -> &mut Segment {
        &mut self.0[register as usize]
    }
}
