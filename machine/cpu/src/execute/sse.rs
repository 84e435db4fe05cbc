//! What SSE instructions have in common: when they are allowed, their operands, and how numeric
//! exceptions end them. The families build their handlers from these with the macros below.

use crate::CpuModel;
use crate::float::{Context, Exceptions};
use crate::operation::Op;
use crate::state::{Control, Registers};
use crate::{Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4};
use arch::cpuid::Feature;
use arch::exception;

/// MXCSR.MM: misaligned operands are allowed (with MISALIGNSSE).
const MISALIGNED_MASK: u32 = 1 << 17;

/// The source of an instruction that computes: an aligned operand in memory.
#[inline(always)]
pub(super) fn read_aligned(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u128, Stop> {
    if cpu.registers.mxcsr & MISALIGNED_MASK == 0 {
        cpu.registers.check_aligned(op)?;
    }
    cpu.read_128(bus, op)
}

/// Records what an instruction raised. An unmasked exception is #XM, or #UD if the operating
/// system has not said that it handles it; the destination then keeps its value.
#[inline(always)]
pub(super) fn conclude(cpu: &mut Cpu, context: &Context) -> Result<(), Stop> {
    cpu.registers.mxcsr |= u32::from(context.reported().bits());
    if context.unmasked() == Exceptions::empty() {
        Ok(())
    } else {
        Err(cpu.control.simd_exception())
    }
}

/// A handler from a function of `(cpu, bus, op)` and further arguments.
macro_rules! handler {
    ($body:path $(, $argument:expr)*) => {
        (|cpu: &mut crate::Cpu, bus: &mut crate::Bus<'_>, op: &crate::Op| {
            $body(cpu, bus, op $(, $argument)*)
        }) as crate::execute::binding::Handler
    };
}
pub(super) use handler;

/// A two-operand source: the register `op.b` or 16 aligned bytes.
#[inline(always)]
pub(super) fn source(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u128, Stop> {
    if op.has(Op::MEMORY) { read_aligned(cpu, bus, op) } else { Ok(cpu.registers.xmm(op.b)) }
}

/// The low quadword of the source: memory needs no alignment.
#[inline(always)]
pub(super) fn source_64(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    if op.has(Op::MEMORY) { cpu.read(bus, op) } else { Ok(cpu.registers.xmm(op.b) as u64) }
}

#[inline(always)]
pub(super) fn source_32(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u32, Stop> {
    if op.has(Op::MEMORY) { cpu.read(bus, op) } else { Ok(cpu.registers.xmm(op.b) as u32) }
}

/// `destination = function(destination, source)`
#[inline(always)]
pub(super) fn binary(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128) -> u128,
) -> Result<(), Stop> {
    cpu.control.check_sse()?;
    let b = source(cpu, bus, op)?;
    let a = cpu.registers.xmm(op.a);
    cpu.registers.set_xmm(op.a, function(a, b));
    Ok(())
}

/// The same with an immediate.
#[inline(always)]
pub(super) fn binary_immediate(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    function: impl Fn(u128, u128, u8) -> u128,
) -> Result<(), Stop> {
    binary(cpu, bus, op, |a, b| function(a, b, op.immediate as u8))
}

/// The same for instructions of an optional extension.
#[inline(always)]
pub(super) fn binary_of(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    feature: Feature,
    function: impl Fn(u128, u128, u8) -> u128,
) -> Result<(), Stop> {
    cpu.model.check_feature(feature)?;
    binary_immediate(cpu, bus, op, function)
}

impl Registers {
    #[inline(always)]
    pub(super) fn xmm(&self, register: u8) -> u128 {
        self.xmm[(register & 15) as usize]
    }

    #[inline(always)]
    pub(super) fn set_xmm(&mut self, register: u8, value: u128) {
        self.xmm[(register & 15) as usize] = value;
    }

    /// Replaces the low `bits` of a register.
    #[inline(always)]
    pub(super) fn merge_xmm(&mut self, register: u8, value: u128, bits: u32) {
        let mask = u128::MAX >> (128 - bits);
        let held = &mut self.xmm[(register & 15) as usize];
        *held = *held & !mask | value & mask;
    }
}

impl Control {
    #[cold]
    fn simd_exception(&self) -> Stop {
        if self.cr4().contains(Cr4::OSXMMEXCPT) {
            return Stop::exception(exception::SIMD);
        }
        Stop::INVALID_OPCODE
    }
}

impl Control {
    #[cold]
    fn sse_refusal(&self) -> Stop {
        if self.cr0().contains(Cr0::EMULATION) || !self.cr4().contains(Cr4::OSFXSR) {
            return Stop::INVALID_OPCODE;
        }
        Stop::DEVICE_NOT_AVAILABLE
    }
}

impl CpuModel {
    /// #UD on a model without the feature.
    #[inline(always)]
    pub(super) fn check_feature(&self, feature: Feature) -> Result<(), Stop> {
        if self.has(feature) { Ok(()) } else { Err(Stop::INVALID_OPCODE) }
    }

    /// The MXCSR bits that may be set.
    pub(super) fn mxcsr_mask(&self) -> u32 {
        let misaligned = if self.has(Feature::Misalignsse) { MISALIGNED_MASK } else { 0 };
        0xFFFF | misaligned
    }
}

impl Registers {
    /// #GP(0) for a 16-byte operand that is not on a 16-byte boundary, unless MXCSR.MM allows it.
    #[inline(always)]
    pub(super) fn check_aligned(&self, op: &Op) -> Result<(), Stop> {
        let offset = self.effective_address(op);
        let base = self.bases()[(op.segment & 7) as usize];
        if base.wrapping_add(offset) & 15 != 0 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        Ok(())
    }
}

impl Control {
    /// #UD unless the operating system manages SSE state, #NM while it belongs to another task.
    /// [APM2 "Enabling SSE Instructions"]
    #[inline(always)]
    pub(crate) fn check_sse(&self) -> Result<(), Stop> {
        if self.cr0().intersects(Cr0::EMULATION.union(Cr0::TASK_SWITCHED))
            || !self.cr4().contains(Cr4::OSFXSR)
        {
            return Err(self.sse_refusal());
        }
        Ok(())
    }
}
