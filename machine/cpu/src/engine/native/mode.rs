//! Which code may be translated: 64-bit code, and 32-bit code whose segments can refuse nothing.

use crate::Cpu;
use crate::memory::segment::{grants_all, is_flat};
use crate::operation::decode::CodeSize;
use crate::state::Registers;
use arch::control::rflags;
use arch::segment::SegmentRegister;
use translate::{Mode, Windows};

/// What translated code takes the next instruction for; `None` if the interpreter must run it. It
/// stays so until a segment register is loaded or the mode changes, either of which ends a block
/// that is not followed by another.
pub(crate) fn translated_mode(cpu: &Cpu, size: CodeSize) -> Option<Mode> {
    match size {
        CodeSize::Bits64 => Some(Mode::Long),
        CodeSize::Bits32 => (cpu.is_protected() && cpu.registers.are_flat()).then_some(Mode::Flat),
        CodeSize::Bits16 => None,
    }
}

impl Registers {
    /// Whether CS, DS and SS are what [`Mode::Flat`] says.
    fn are_flat(&self) -> bool {
        let [cs, ds, ss] = [SegmentRegister::Cs, SegmentRegister::Ds, SegmentRegister::Ss]
            .map(|register| self.segment(register));
        let is_whole = cs.base == 0 && cs.limit == u32::MAX;
        is_whole && is_flat(ds) && is_flat(ss) && ss.attributes.is_big()
    }

    /// Whether string instructions go upwards, to what nothing but paging can refuse.
    #[inline(always)]
    pub(super) fn goes_up(&self, mode: Mode) -> bool {
        !self.flags.has(rflags::DF)
            && (mode == Mode::Long || is_flat(self.segment(SegmentRegister::Es)))
    }

    /// What code adds to the addresses of a segment.
    #[inline(always)]
    pub(super) fn shown_base(&self, register: SegmentRegister, mode: Mode) -> u64 {
        let base = self.bases()[register as usize];
        match mode {
            Mode::Long => base,
            Mode::Flat if grants_all(self.segment(register)) => base & u64::from(u32::MAX),
            Mode::Flat => Windows::NOT_FLAT,
        }
    }
}
