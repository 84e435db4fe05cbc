//! What instructions compute with.

use super::x87::X87;
use crate::Flags;
use crate::width::{CLEAR, GeneralRegisters, RDX};
use arch::control::rflags;
use arch::segment::{Attributes, Segment, SegmentRegister};
use serde::{Deserialize, Serialize};

/// The registers of the application programming model, and the privilege they are used with.
///
/// Those that may hold any value, from which nothing else follows, are plain fields.
#[derive(Clone, Serialize, Deserialize)]
#[repr(C)]
pub struct Registers {
    /// The instruction pointer; up to date between blocks.
    pub ip: u64,
    /// RFLAGS.
    pub flags: Flags,
    /// Bases of ES, CS, SS, DS, FS, GS, then two zeros for addresses without a base.
    bases: [u64; 8],
    /// See [`GeneralRegisters`].
    #[serde(with = "crate::width::stored")]
    pub gpr: GeneralRegisters,
    /// With their hidden parts, whose bases are those of `bases`.
    segments: [Segment; 6],
    cpl: u8,
    /// SSE's control and status.
    pub mxcsr: u32,
    /// The low halves of the YMM registers.
    pub xmm: [u128; 16],
    /// x87's registers, which MMX shares.
    pub x87: X87,
    /// The high halves of the YMM registers; zeros where the model has no AVX.
    pub ymm_high: [u128; 16],
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            ip: 0xFFF0,
            flags: Flags::default(),
            bases: [0; 8],
            gpr: CLEAR,
            segments: [Segment::real(0); 6],
            cpl: 0,
            mxcsr: 0x1F80,
            xmm: [0; 16],
            x87: Default::default(),
            ymm_high: [0; 16],
        }
    }
}

impl Registers {
    /// After INIT, where the FPU's and SSE's stay. [APM2 "Processor Initialization State"]
    pub(crate) fn initialize(&mut self, signature: u32) {
        self.gpr = CLEAR;
        self.gpr[RDX] = signature.into();
        self.flags.set_bits(rflags::FIXED);
        self.set_segments([Segment::real(0); 6]);
        self.enter_real(0xF000, 0xFFFF_0000, 0xFFF0);
        self.cpl = 0;
    }

    /// Real-mode code at `ip` of a segment of 64 KiB.
    pub(crate) fn enter_real(&mut self, selector: u16, base: u64, ip: u64) {
        let code = Segment { selector, attributes: Attributes(0x9B), limit: 0xFFFF, base };
        self.set_segment(SegmentRegister::Cs, code);
        self.ip = ip;
    }

    /// RFLAGS.VM is set.
    pub fn is_virtual_8086(&self) -> bool {
        self.flags.has(rflags::VM)
    }

    /// 0 is the most privileged; 3 in virtual-8086 mode.
    #[inline(always)]
    pub fn cpl(&self) -> u8 {
        self.cpl
    }

    /// Changes the privilege, without what follows from it for accesses.
    pub fn set_cpl(&mut self, cpl: u8) {
        self.cpl = cpl;
    }

    /// A segment register with its hidden part.
    #[inline(always)]
    pub fn segment(&self, register: SegmentRegister) -> Segment {
        self.segments[register as usize]
    }

    /// Loads one.
    #[inline]
    pub fn set_segment(&mut self, register: SegmentRegister, segment: Segment) {
        self.segments[register as usize] = segment;
        self.bases[register as usize] = segment.base;
    }

    /// Loads all: ES, CS, SS, DS, FS, GS.
    pub fn set_segments(&mut self, segments: [Segment; 6]) {
        self.segments = segments;
        self.bases = [0; 8];
        for (base, segment) in self.bases.iter_mut().zip(&self.segments) {
            *base = segment.base;
        }
    }

    /// Loads the base alone, as instructions and MSRs of 64-bit mode do with FS and GS.
    pub fn set_segment_base(&mut self, register: SegmentRegister, base: u64) {
        self.segments[register as usize].base = base;
        self.bases[register as usize] = base;
    }

    /// Bases of ES, CS, SS, DS, FS, GS, then two zeros for addresses without a base.
    #[inline(always)]
    pub fn bases(&self) -> &[u64; 8] {
        &self.bases
    }

    /// The code segment's base.
    #[inline(always)]
    pub fn code_base(&self) -> u64 {
        self.bases[SegmentRegister::Cs as usize]
    }
}
