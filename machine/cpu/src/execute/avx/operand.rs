//! What AVX instructions have in common: when they are allowed, their operands and their results.

use crate::operation::{Extension, Op};
use crate::state::Registers;
use crate::{Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4};
use arch::cpuid::Feature;

/// SSE's and AVX's state, which the operating system has to have enabled.
const STATE: u64 = 6;

/// A vector of 256 bits: its low half, its high half.
pub(super) type Halves = [u128; 2];

impl Cpu {
    /// #UD unless the model has the instruction's extension and the operating system manages AVX's
    /// state, #NM while it belongs to another task. CR0.EM has no say.
    /// [APM1 "Enabling Extended SSE Instruction Execution"]
    #[inline(always)]
    pub(crate) fn check_extension(&self, extension: Extension) -> Result<(), Stop> {
        let has_all = self.control.xcr0 & STATE == STATE
            && self.control.cr4().contains(Cr4::OSXSAVE)
            && self.model.has(Feature::Avx)
            && self.model.has(extension.feature())
            && self.is_protected();
        if !has_all {
            return Err(Stop::INVALID_OPCODE);
        }
        if self.control.cr0().contains(Cr0::TASK_SWITCHED) {
            return Err(Stop::DEVICE_NOT_AVAILABLE);
        }
        Ok(())
    }

    /// The same of an operation's own extension.
    #[inline(always)]
    pub(super) fn check_avx(&self, op: &Op) -> Result<(), Stop> {
        self.check_extension(Extension::of_op(op))
    }
}

impl Registers {
    #[inline(always)]
    pub(super) fn ymm(&self, register: u8) -> Halves {
        let register = usize::from(register & 15);
        [self.xmm[register], self.ymm_high[register]]
    }

    #[inline(always)]
    pub(super) fn set_ymm(&mut self, register: u8, [low, high]: Halves) {
        let register = usize::from(register & 15);
        self.xmm[register] = low;
        self.ymm_high[register] = high;
    }
}

/// An operand of the instruction's length: a register, or memory at any alignment.
#[inline(always)]
pub(super) fn source(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    register: u8,
) -> Result<Halves, Stop> {
    match (op.has(Op::MEMORY), op.has(Op::WIDE)) {
        (false, _) => Ok(cpu.registers.ymm(register)),
        (true, true) => cpu.read_256(bus, op),
        (true, false) => Ok([cpu.read_128(bus, op)?, 0]),
    }
}

/// An operand of 128 bits whatever the instruction's length.
#[inline(always)]
pub(super) fn source_128(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    register: u8,
) -> Result<u128, Stop> {
    if op.has(Op::MEMORY) { cpu.read_128(bus, op) } else { Ok(cpu.registers.xmm(register)) }
}

/// Both halves of a result, or the low one where the instruction has 128 bits.
#[inline(always)]
pub(super) fn halves(op: &Op, mut half: impl FnMut(usize) -> u128) -> Halves {
    let low = half(0);
    [low, if op.has(Op::WIDE) { half(1) } else { 0 }]
}

/// Replaces the low `bits` of a vector.
#[inline(always)]
pub(super) fn merged(value: u128, low: u128, bits: u32) -> u128 {
    let mask = u128::MAX >> (128 - bits);
    value & !mask | low & mask
}
