//! AVX: moves of XMM and YMM registers, and what AVX2 does with whole vectors of integers, each
//! half by an instruction of SSE2.
//!
//! The high halves lie where the processor has them, too ([`frame::HIGH_HALVES`]); an instruction
//! of 128 bits clears its destination's. Where AVX2 may not be executed there is no address of
//! them, and the handler does it.

use super::vector::{address, number, operation, register};
use crate::address::Access;
use crate::block::Mode;
use crate::encode::{Arithmetic, Condition, Memory, Register, Shift, Size, Vector};
use crate::frame;
use crate::operand::size;
use crate::register::general;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    match i.mnemonic() {
        Vmovaps | Vmovapd | Vmovdqa | Vmovntps | Vmovntpd | Vmovntdq => whole(t, i, true),
        Vmovups | Vmovupd | Vmovdqu | Vlddqu => whole(t, i, false),
        Vmovd => scalar(t, i, Size::Double),
        Vmovq => scalar(t, i, Size::Quad),
        Vpmovmskb => mask(t, i),
        Vzeroupper => zero_upper(t),
        Vpbroadcastb | Vpbroadcastw | Vpbroadcastd | Vpbroadcastq => broadcast(t, i),
        Vpshufd => permute(t, i),
        Vpand | Vpandn | Vpor | Vpxor | Vpcmpeqb | Vpcmpeqw | Vpcmpeqd | Vpcmpgtb | Vpcmpgtw
        | Vpcmpgtd | Vpaddb | Vpaddw | Vpaddd | Vpaddq | Vpsubb | Vpsubw | Vpsubd | Vpsubq
        | Vpaddusb | Vpaddusw | Vpsubusb | Vpsubusw | Vpminub | Vpmaxub | Vpminsw | Vpmaxsw
        | Vpmullw | Vpmulhw | Vpmulhuw | Vpmuludq | Vpmaddwd | Vpsadbw | Vpunpcklbw
        | Vpunpcklwd | Vpunpckldq | Vpunpcklqdq | Vpunpckhbw | Vpunpckhwd | Vpunpckhdq
        | Vpunpckhqdq | Vpacksswb | Vpackssdw | Vpackuswb | Vandps | Vandpd | Vandnps | Vandnpd
        | Vorps | Vorpd | Vxorps | Vxorpd | Vunpcklps | Vunpcklpd | Vunpckhps | Vunpckhpd => {
            compute(t, i)
        }
        _ => None,
    }
}

/// The high half of a register, behind the address of all in RDX.
fn high(number: i32) -> Memory {
    Memory::at(Register::RDX, 16 * number)
}

/// Whether it has vectors of 256 bits.
fn is_wide(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_register(n).is_ymm())
}

/// What lies 16 bytes behind.
fn behind(memory: Memory) -> Memory {
    Memory { displacement: memory.displacement + 16, ..memory }
}

impl Translator<'_> {
    /// The addresses of the low halves in RCX and of the high ones in RDX, if the instruction may
    /// be executed. The flags are saved before.
    fn halves(&mut self) {
        self.save();
        let slow = self.slow_path();
        self.e.load(Size::Quad, Register::RDX, frame::HIGH_HALVES);
        self.e.test(Size::Quad, Register::RDX, Register::RDX);
        self.e.jump_if(Condition::ZERO, slow);
        self.e.load(Size::Quad, Register::RCX, frame::VECTORS);
    }

    fn clear_high(&mut self, number: i32) {
        self.e.store_value(Size::Quad, high(number), 0);
        let upper = Memory { displacement: high(number).displacement + 8, ..high(number) };
        self.e.store_value(Size::Quad, upper, 0);
    }

    /// The low half from the host's first vector, and the high one from its second, or cleared.
    fn set(&mut self, to: i32, is_wide: bool) {
        self.e.vector_store(register(to, 0), Vector::Xmm0);
        match is_wide {
            true => self.e.vector_store(high(to), Vector::Xmm1),
            false => self.clear_high(to),
        }
    }

    /// RAX and zeros.
    fn set_scalar(&mut self, to: i32) {
        self.e.mov(Size::Quad, register(to, 0), Register::RAX);
        self.e.store_value(Size::Quad, register(to, 8), 0);
        self.clear_high(to);
    }
}

fn whole(t: &mut Translator<'_>, i: &Instruction, is_aligned: bool) -> Option<()> {
    let is_wide = is_wide(i);
    let bytes = if is_wide { 32 } else { 16 };
    let load = |t: &mut Translator<'_>, low: Memory, high: Memory| {
        t.e.vector_load(Vector::Xmm0, low);
        if is_wide {
            t.e.vector_load(Vector::Xmm1, high);
        }
    };
    match (number(i, 0), number(i, 1)) {
        (Some(to), Some(from)) => {
            t.halves();
            load(t, register(from, 0), high(from));
            t.set(to, is_wide);
        }
        (Some(to), None) => {
            let memory = t.vector_operand(address(i, 1)?, bytes, is_aligned, Access::Read);
            t.halves();
            load(t, memory, behind(memory));
            t.set(to, is_wide);
        }
        (None, Some(from)) => {
            let memory = t.vector_operand(address(i, 0)?, bytes, is_aligned, Access::Write);
            t.halves();
            load(t, register(from, 0), high(from));
            t.e.vector_store(memory, Vector::Xmm0);
            if is_wide {
                t.e.vector_store(behind(memory), Vector::Xmm1);
            }
        }
        (None, None) => return None,
    }
    Some(())
}

/// VMOVD and VMOVQ.
fn scalar(t: &mut Translator<'_>, i: &Instruction, size: Size) -> Option<()> {
    let rax = Register::RAX;
    match (number(i, 0), number(i, 1)) {
        (Some(to), Some(from)) => {
            t.halves();
            t.e.load(size, rax, register(from, 0));
            t.set_scalar(to);
        }
        (Some(to), None) if i.op_kind(1) == OpKind::Memory => {
            let memory = t.known_operand(address(i, 1)?, size, Access::Read);
            t.halves();
            t.e.load(size, rax, memory);
            t.set_scalar(to);
        }
        (Some(to), None) => {
            let from = general(i.op_register(1), size)?;
            t.halves();
            let held = t.read(from, rax);
            t.e.mov(size, rax, held);
            t.set_scalar(to);
        }
        (None, Some(from)) if i.op_kind(0) == OpKind::Memory => {
            let memory = t.known_operand(address(i, 0)?, size, Access::Write);
            t.halves();
            t.e.load(size, Register::RDX, register(from, 0));
            t.e.mov(size, memory, Register::RDX);
        }
        (None, Some(from)) => {
            let to = general(i.op_register(0), size)?;
            t.halves();
            let a = t.target(to, Register::RDX);
            t.e.load(size, a, register(from, 0));
            t.write_back(to, Register::RDX);
        }
        (None, None) => return None,
    }
    Some(())
}

fn mask(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let from = number(i, 1)?;
    let to = general(i.op_register(0), size(i, 0)?)?;
    t.halves();
    t.e.vector_load(Vector::Xmm0, register(from, 0));
    if is_wide(i) {
        t.e.vector_load(Vector::Xmm1, high(from));
    }
    let a = t.target(to, Register::RDX);
    t.e.vector_mask(a, Vector::Xmm0);
    if is_wide(i) {
        t.e.vector_mask(Register::RCX, Vector::Xmm1);
        t.e.shift(Shift::Shl, Size::Double, Register::RCX, 16);
        t.e.arithmetic(Arithmetic::Or, Size::Double, a, Register::RCX);
    }
    t.write_back(to, Register::RDX);
    Some(())
}

fn zero_upper(t: &mut Translator<'_>) -> Option<()> {
    t.halves();
    t.e.vector(operation(Mnemonic::Pxor)?, Vector::Xmm0, Vector::Xmm0);
    // Outside 64-bit mode there are eight.
    let registers = if t.mode() == Mode::Long { 16 } else { 8 };
    (0..registers).for_each(|number| t.e.vector_store(high(number), Vector::Xmm0));
    Some(())
}

/// From a register; from memory the handler does it.
fn broadcast(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    let (to, from) = (number(i, 0)?, number(i, 1)?);
    let doublings: &[Mnemonic] = match i.mnemonic() {
        Vpbroadcastb => &[Punpcklbw, Punpcklwd],
        Vpbroadcastw => &[Punpcklwd],
        Vpbroadcastq => &[Punpcklqdq],
        _ => &[],
    };
    t.halves();
    t.e.vector_load(Vector::Xmm0, register(from, 0));
    for mnemonic in doublings {
        t.e.vector(operation(*mnemonic)?, Vector::Xmm0, Vector::Xmm0);
    }
    if i.mnemonic() != Vpbroadcastq {
        t.e.vector_value(operation(Pshufd)?, Vector::Xmm0, Vector::Xmm0, 0);
    }
    t.e.vector_store(register(to, 0), Vector::Xmm0);
    match is_wide(i) {
        true => t.e.vector_store(high(to), Vector::Xmm0),
        false => t.clear_high(to),
    }
    Some(())
}

/// Where an operand's halves are: a register, or memory of the instruction's length. Then the
/// addresses of the registers' halves.
fn halves_of(t: &mut Translator<'_>, i: &Instruction, n: u32) -> Option<(Memory, Memory)> {
    if let Some(from) = number(i, n) {
        t.halves();
        return Some((register(from, 0), high(from)));
    }
    let bytes = if is_wide(i) { 32 } else { 16 };
    let memory = t.vector_operand(address(i, n)?, bytes, false, Access::Read);
    t.halves();
    Some((memory, behind(memory)))
}

fn compute(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let operation = operation(i.mnemonic())?;
    let (to, first) = (number(i, 0)?, number(i, 1)?);
    let second = halves_of(t, i, 2)?;
    t.e.vector_load(Vector::Xmm1, second.0);
    t.e.vector_load(Vector::Xmm0, register(first, 0));
    t.e.vector(operation, Vector::Xmm0, Vector::Xmm1);
    t.e.vector_store(register(to, 0), Vector::Xmm0);
    if !is_wide(i) {
        t.clear_high(to);
        return Some(());
    }
    t.e.vector_load(Vector::Xmm1, second.1);
    t.e.vector_load(Vector::Xmm0, high(first));
    t.e.vector(operation, Vector::Xmm0, Vector::Xmm1);
    t.e.vector_store(high(to), Vector::Xmm0);
    Some(())
}

/// VPSHUFD: the same choice in each half.
fn permute(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let operation = operation(Mnemonic::Pshufd)?;
    let to = number(i, 0)?;
    let (low, upper) = halves_of(t, i, 1)?;
    t.e.vector_load(Vector::Xmm0, low);
    t.e.vector_value(operation, Vector::Xmm0, Vector::Xmm0, i.immediate8());
    if is_wide(i) {
        t.e.vector_load(Vector::Xmm1, upper);
        t.e.vector_value(operation, Vector::Xmm1, Vector::Xmm1, i.immediate8());
    }
    t.set(to, is_wide(i));
    Some(())
}
