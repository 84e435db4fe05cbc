//! SSE: moves of XMM registers, and what instructions of SSE2 do with whole vectors of integers,
//! of which nothing depends on MXCSR and nothing is undefined.
//!
//! The guest's registers stay where the processor has them ([`frame::VECTORS`]); an instruction
//! takes them through the host's first two. Where no such instruction may be executed, as CR0 and
//! CR4 say, there is no address of them, and the handler does it.

use crate::address::{Access, Address};
use crate::encode::{Condition, Memory, Register, Size, Vector, VectorOperation};
use crate::frame;
use crate::operand::size;
use crate::register::general;
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic, OpKind};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    match i.mnemonic() {
        Movaps | Movapd | Movdqa | Movntps | Movntpd | Movntdq => whole(t, i, true),
        Movups | Movupd | Movdqu | Lddqu => whole(t, i, false),
        Movss | Movd => scalar(t, i, Size::Double),
        Movsd | Movq => scalar(t, i, Size::Quad),
        Movlps | Movlpd | Movhps | Movhpd => half(t, i),
        Movlhps | Movhlps => cross(t, i),
        Pmovmskb => mask(t, i),
        Psrlw | Psraw | Psllw | Psrld | Psrad | Pslld | Psrlq | Psllq | Psrldq | Pslldq => {
            shift(t, i)
        }
        _ => compute(t, i),
    }
}

/// The number of an XMM or YMM register.
pub(super) fn number(i: &Instruction, n: u32) -> Option<i32> {
    let name = i.op_register(n);
    (i.op_kind(n) == OpKind::Register && name.is_vector_register()).then(|| name.number() as i32)
}

pub(super) fn address(i: &Instruction, n: u32) -> Option<Address> {
    if i.op_kind(n) == OpKind::Memory { Address::of(i) } else { None }
}

/// A register behind the address of all in RCX, from a byte of it on.
pub(super) fn register(number: i32, byte: i32) -> Memory {
    Memory::at(Register::RCX, 16 * number + byte)
}

impl Translator<'_> {
    /// The address of the XMM registers in RCX, if the instruction may be executed. The flags are
    /// saved before.
    fn vectors(&mut self) {
        self.save();
        let slow = self.slow_path();
        self.e.load(Size::Quad, Register::RCX, frame::VECTORS);
        self.e.test(Size::Quad, Register::RCX, Register::RCX);
        self.e.jump_if(Condition::ZERO, slow);
    }
}

fn whole(t: &mut Translator<'_>, i: &Instruction, is_aligned: bool) -> Option<()> {
    match (number(i, 0), number(i, 1)) {
        (Some(to), Some(from)) => {
            t.vectors();
            t.e.vector_load(Vector::Xmm0, register(from, 0));
            t.e.vector_store(register(to, 0), Vector::Xmm0);
        }
        (Some(to), None) => {
            let memory = t.vector_operand(address(i, 1)?, 16, is_aligned, Access::Read);
            t.vectors();
            t.e.vector_load(Vector::Xmm0, memory);
            t.e.vector_store(register(to, 0), Vector::Xmm0);
        }
        (None, Some(from)) => {
            let memory = t.vector_operand(address(i, 0)?, 16, is_aligned, Access::Write);
            t.vectors();
            t.e.vector_load(Vector::Xmm0, register(from, 0));
            t.e.vector_store(memory, Vector::Xmm0);
        }
        (None, None) => return None,
    }
    Some(())
}

/// MOVSS, MOVSD, MOVD, MOVQ: from memory and general registers the rest is cleared.
fn scalar(t: &mut Translator<'_>, i: &Instruction, size: Size) -> Option<()> {
    let keeps_rest = matches!(i.mnemonic(), Mnemonic::Movss | Mnemonic::Movsd);
    match (number(i, 0), number(i, 1)) {
        (Some(to), Some(from)) => {
            t.vectors();
            t.e.load(size, Register::RDX, register(from, 0));
            if keeps_rest {
                t.e.mov(size, register(to, 0), Register::RDX);
            } else {
                set_low(t, to);
            }
        }
        (Some(to), None) if i.op_kind(1) == OpKind::Memory => {
            let memory = t.known_operand(address(i, 1)?, size, Access::Read);
            t.vectors();
            t.e.load(size, Register::RDX, memory);
            set_low(t, to);
        }
        (Some(to), None) => {
            let from = general(i.op_register(1), size)?;
            t.vectors();
            let held = t.read(from, Register::RDX);
            t.e.mov(size, Register::RDX, held);
            set_low(t, to);
        }
        (None, Some(from)) if i.op_kind(0) == OpKind::Memory => {
            let memory = t.known_operand(address(i, 0)?, size, Access::Write);
            t.vectors();
            t.e.load(size, Register::RDX, register(from, 0));
            t.e.mov(size, memory, Register::RDX);
        }
        (None, Some(from)) => {
            let to = general(i.op_register(0), size)?;
            t.vectors();
            let a = t.target(to, Register::RDX);
            t.e.load(size, a, register(from, 0));
            t.write_back(to, Register::RDX);
        }
        (None, None) => return None,
    }
    Some(())
}

/// RDX is the lower half of a register, whose upper half is cleared.
fn set_low(t: &mut Translator<'_>, to: i32) {
    t.e.mov(Size::Quad, register(to, 0), Register::RDX);
    t.e.store_value(Size::Quad, register(to, 8), 0);
}

/// One half between register and memory; the other stays.
fn half(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let is_high = matches!(i.mnemonic(), Mnemonic::Movhps | Mnemonic::Movhpd);
    let byte = if is_high { 8 } else { 0 };
    if let Some(to) = number(i, 0) {
        let memory = t.known_operand(address(i, 1)?, Size::Quad, Access::Read);
        t.vectors();
        t.e.load(Size::Quad, Register::RDX, memory);
        t.e.mov(Size::Quad, register(to, byte), Register::RDX);
    } else {
        let from = number(i, 1)?;
        let memory = t.known_operand(address(i, 0)?, Size::Quad, Access::Write);
        t.vectors();
        t.e.load(Size::Quad, Register::RDX, register(from, byte));
        t.e.mov(Size::Quad, memory, Register::RDX);
    }
    Some(())
}

/// From one half of a register to the other half of another.
fn cross(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let (to, from) = (number(i, 0)?, number(i, 1)?);
    let (to_byte, from_byte) = if i.mnemonic() == Mnemonic::Movlhps { (8, 0) } else { (0, 8) };
    t.vectors();
    t.e.load(Size::Quad, Register::RDX, register(from, from_byte));
    t.e.mov(Size::Quad, register(to, to_byte), Register::RDX);
    Some(())
}

fn mask(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let from = number(i, 1)?;
    let to = general(i.op_register(0), size(i, 0)?)?;
    t.vectors();
    t.e.vector_load(Vector::Xmm0, register(from, 0));
    let a = t.target(to, Register::RDX);
    t.e.vector_mask(a, Vector::Xmm0);
    t.write_back(to, Register::RDX);
    Some(())
}

/// By a value; by a register the handler does it.
fn shift(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    use Mnemonic::*;
    let (opcode, reg) = match i.mnemonic() {
        Psrlw => (0x71, 2),
        Psraw => (0x71, 4),
        Psllw => (0x71, 6),
        Psrld => (0x72, 2),
        Psrad => (0x72, 4),
        Pslld => (0x72, 6),
        Psrlq => (0x73, 2),
        Psrldq => (0x73, 3),
        Psllq => (0x73, 6),
        _ => (0x73, 7),
    };
    let of = number(i, 0)?;
    if i.op_kind(1) != OpKind::Immediate8 {
        return None;
    }
    t.vectors();
    t.e.vector_load(Vector::Xmm0, register(of, 0));
    t.e.vector_shift(opcode, reg, Vector::Xmm0, i.immediate8());
    t.e.vector_store(register(of, 0), Vector::Xmm0);
    Some(())
}

fn compute(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let operation = operation(i.mnemonic())?;
    let to = number(i, 0)?;
    match number(i, 1) {
        Some(from) => {
            t.vectors();
            t.e.vector_load(Vector::Xmm1, register(from, 0));
        }
        None => {
            let memory = t.vector_operand(address(i, 1)?, 16, true, Access::Read);
            t.vectors();
            t.e.vector_load(Vector::Xmm1, memory);
        }
    }
    t.e.vector_load(Vector::Xmm0, register(to, 0));
    match i.op_count() {
        2 => t.e.vector(operation, Vector::Xmm0, Vector::Xmm1),
        _ => t.e.vector_value(operation, Vector::Xmm0, Vector::Xmm1, i.immediate8()),
    }
    t.e.vector_store(register(to, 0), Vector::Xmm0);
    Some(())
}

/// Of integers and bits: what SSE2 does, and AVX2 in each half. [SDM2 "Instruction Set Reference"]
pub(super) fn operation(mnemonic: Mnemonic) -> Option<VectorOperation> {
    use Mnemonic::*;
    let plain = |opcode| Some(VectorOperation { opcode, is_prefixed: false });
    let opcode = match mnemonic {
        Andps | Vandps => return plain(0x54),
        Andnps | Vandnps => return plain(0x55),
        Orps | Vorps => return plain(0x56),
        Xorps | Vxorps => return plain(0x57),
        Unpcklps | Vunpcklps => return plain(0x14),
        Unpckhps | Vunpckhps => return plain(0x15),
        Shufps | Vshufps => return plain(0xC6),
        Andpd | Vandpd => 0x54,
        Andnpd | Vandnpd => 0x55,
        Orpd | Vorpd => 0x56,
        Xorpd | Vxorpd => 0x57,
        Unpcklpd | Vunpcklpd => 0x14,
        Unpckhpd | Vunpckhpd => 0x15,
        Shufpd | Vshufpd => 0xC6,
        Punpcklbw | Vpunpcklbw => 0x60,
        Punpcklwd | Vpunpcklwd => 0x61,
        Punpckldq | Vpunpckldq => 0x62,
        Packsswb | Vpacksswb => 0x63,
        Pcmpgtb | Vpcmpgtb => 0x64,
        Pcmpgtw | Vpcmpgtw => 0x65,
        Pcmpgtd | Vpcmpgtd => 0x66,
        Packuswb | Vpackuswb => 0x67,
        Punpckhbw | Vpunpckhbw => 0x68,
        Punpckhwd | Vpunpckhwd => 0x69,
        Punpckhdq | Vpunpckhdq => 0x6A,
        Packssdw | Vpackssdw => 0x6B,
        Punpcklqdq | Vpunpcklqdq => 0x6C,
        Punpckhqdq | Vpunpckhqdq => 0x6D,
        Pshufd | Vpshufd => 0x70,
        Pcmpeqb | Vpcmpeqb => 0x74,
        Pcmpeqw | Vpcmpeqw => 0x75,
        Pcmpeqd | Vpcmpeqd => 0x76,
        Paddq | Vpaddq => 0xD4,
        Pmullw | Vpmullw => 0xD5,
        Psubusb | Vpsubusb => 0xD8,
        Psubusw | Vpsubusw => 0xD9,
        Pminub | Vpminub => 0xDA,
        Pand | Vpand => 0xDB,
        Paddusb | Vpaddusb => 0xDC,
        Paddusw | Vpaddusw => 0xDD,
        Pmaxub | Vpmaxub => 0xDE,
        Pandn | Vpandn => 0xDF,
        Pmulhuw | Vpmulhuw => 0xE4,
        Pmulhw | Vpmulhw => 0xE5,
        Pminsw | Vpminsw => 0xEA,
        Por | Vpor => 0xEB,
        Pmaxsw | Vpmaxsw => 0xEE,
        Pxor | Vpxor => 0xEF,
        Pmuludq | Vpmuludq => 0xF4,
        Pmaddwd | Vpmaddwd => 0xF5,
        Psadbw | Vpsadbw => 0xF6,
        Psubb | Vpsubb => 0xF8,
        Psubw | Vpsubw => 0xF9,
        Psubd | Vpsubd => 0xFA,
        Psubq | Vpsubq => 0xFB,
        Paddb | Vpaddb => 0xFC,
        Paddw | Vpaddw => 0xFD,
        Paddd | Vpaddd => 0xFE,
        _ => return None,
    };
    Some(VectorOperation { opcode, is_prefixed: true })
}
