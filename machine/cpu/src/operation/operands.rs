//! Laying out operands: registers by position, the memory operand, the immediate.

use super::code::CodeSize;
use super::extension::Extension;
use super::op::{FLAT, FLAT_STACK, Op};
use crate::width::{BLOCK_IP, HIGH_BYTE, ZERO};
use iced_x86::{Instruction, OpKind, Register};

pub fn is_memory(instruction: &Instruction, operand: u32) -> bool {
    operand < instruction.op_count()
        && matches!(
            instruction.op_kind(operand),
            OpKind::Memory
                | OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemorySegDI
                | OpKind::MemorySegEDI
                | OpKind::MemorySegRDI
                | OpKind::MemoryESDI
                | OpKind::MemoryESEDI
                | OpKind::MemoryESRDI
        )
}

pub fn is_register(instruction: &Instruction, operand: u32) -> bool {
    operand < instruction.op_count() && instruction.op_kind(operand) == OpKind::Register
}

/// Bytes of an operand: of the register, or of the memory operand.
pub fn width(instruction: &Instruction, operand: u32) -> usize {
    if is_register(instruction, operand) {
        instruction.op_register(operand).size()
    } else {
        instruction.memory_size().size()
    }
}

/// The number of a register in its file, as operations name it.
fn number(register: Register) -> u8 {
    if register == Register::None {
        return ZERO;
    }
    if register == Register::RIP || register == Register::EIP {
        return BLOCK_IP;
    }
    if matches!(register, Register::AH | Register::CH | Register::DH | Register::BH) {
        return HIGH_BYTE + (register as u8 - Register::AH as u8);
    }
    // The decoder numbers byte registers by their place in its own list.
    register.full_register().number() as u8
}

pub fn fill(op: &mut Op, instruction: &Instruction, size: CodeSize) {
    for operand in 0..instruction.op_count().min(4) {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let number = number(instruction.op_register(operand));
                match operand {
                    0 => op.a = number,
                    1 => op.b = number,
                    2 => op.c = number,
                    // The bits of an immediate name it in the encoding, too.
                    _ => op.immediate = number.into(),
                }
            }
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                // The decoder is at address 0, so the target is relative to the instruction.
                let relative = instruction.near_branch_target() as i64;
                let relative = match instruction.op_kind(operand) {
                    OpKind::NearBranch16 => relative as i16 as i64,
                    OpKind::NearBranch32 => relative as i32 as i64,
                    _ => relative,
                };
                op.immediate = relative.wrapping_sub(instruction.len() as i64) as u64;
            }
            OpKind::FarBranch16 => {
                op.immediate = (instruction.far_branch_selector() as u64) << 32
                    | instruction.far_branch16() as u64;
            }
            OpKind::FarBranch32 => {
                op.immediate = (instruction.far_branch_selector() as u64) << 32
                    | instruction.far_branch32() as u64;
            }
            OpKind::Immediate8_2nd => op.c = instruction.immediate8_2nd(),
            OpKind::Memory => memory(op, instruction, size),
            kind if is_memory(instruction, operand) => implied_memory(op, instruction, kind),
            _ => op.immediate = instruction.immediate(operand),
        }
    }
    if instruction.op_count() == 0 {
        implicit_segment(op, instruction);
    }
    prefixes(op, instruction, size);
    if let Some(extension) = Extension::of(instruction) {
        extension.note(op);
        if is_wide(instruction) {
            op.flags |= Op::WIDE;
        }
    }
}

/// Whether an AVX instruction works on 256 bits: a register or the memory operand says so.
fn is_wide(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_ymm())
        || instruction.memory_index().is_ymm()
        || instruction.memory_size().size() == 32
}

fn prefixes(op: &mut Op, instruction: &Instruction, size: CodeSize) {
    let mut set = |on: bool, flag: u8| {
        if on {
            op.flags |= flag;
        }
    };
    set(instruction.has_lock_prefix(), Op::LOCK);
    set(instruction.has_rep_prefix(), Op::REP);
    set(instruction.has_repne_prefix(), Op::REPNE);
    set(size == CodeSize::Bits64, Op::LONG);
    set(size != CodeSize::Bits64, Op::SEGMENTED);
    match operand_bytes(instruction) {
        2 => op.flags |= Op::SIZE_16,
        8 => op.flags |= Op::SIZE_64,
        _ => {}
    }
}

/// The operand size as the first operand shows it; 4 where there is none.
fn operand_bytes(instruction: &Instruction) -> usize {
    if instruction.op_count() == 0 {
        return 4;
    }
    match instruction.op_kind(0) {
        OpKind::NearBranch16 | OpKind::FarBranch16 => 2,
        OpKind::NearBranch64 => 8,
        _ if is_register(instruction, 0) || is_memory(instruction, 0) => width(instruction, 0),
        _ => 4,
    }
}

fn address_shift(bytes: usize) -> u8 {
    match bytes {
        2 => 48,
        4 => 32,
        _ => 0,
    }
}

fn memory(op: &mut Op, instruction: &Instruction, size: CodeSize) {
    let base = instruction.memory_base();
    let index = instruction.memory_index();
    op.flags |= Op::MEMORY;
    op.base = number(base);
    op.index = number(index);
    op.scale = instruction.memory_index_scale().trailing_zeros() as u8;
    op.displacement = instruction.memory_displacement64() as i32;
    op.segment = segment_index(instruction.memory_segment(), size);
    let is_on_stack = matches!(base.full_register(), Register::RSP | Register::RBP);
    if op.segment == FLAT && is_on_stack {
        op.segment = FLAT_STACK;
    }
    let bytes = if base != Register::None && !instruction.is_ip_rel_memory_operand() {
        base.size()
    } else if index != Register::None && !instruction.is_vsib() {
        index.size()
    } else if instruction.is_ip_rel_memory_operand() {
        if base == Register::EIP { 4 } else { 8 }
    } else {
        instruction.memory_displ_size().max(if size == CodeSize::Bits16 { 2 } else { 4 }) as usize
    };
    op.address_shift = address_shift(bytes);
    if instruction.is_ip_rel_memory_operand() {
        // The displacement that iced gives is the target relative to address 0; ours is relative to
        // the start of the block.
        let before = op.end as i32 - op.length as i32;
        op.base = BLOCK_IP;
        op.displacement = (instruction.ip_rel_memory_address() as i32).wrapping_add(before);
    } else if is_absolute(instruction) {
        // MOV to and from an absolute 64-bit address: too wide for a displacement.
        op.immediate = instruction.memory_displacement64();
    }
}

/// MOV AL/AX/EAX/RAX, moffs and back.
pub fn is_absolute(instruction: &Instruction) -> bool {
    use iced_x86::Code::*;
    matches!(
        instruction.code(),
        Mov_AL_moffs8
            | Mov_AX_moffs16
            | Mov_EAX_moffs32
            | Mov_RAX_moffs64
            | Mov_moffs8_AL
            | Mov_moffs16_AX
            | Mov_moffs32_EAX
            | Mov_moffs64_RAX
    )
}

/// The segment whose base is added. In 64-bit mode only FS and GS have one, and the prefixes of the
/// others are ignored: they do not make a #GP an #SS or the reverse. [APM1 "64-Bit Mode"]
fn segment_index(register: Register, size: CodeSize) -> u8 {
    let encoding = match register {
        Register::ES => 0,
        Register::CS => 1,
        Register::SS => 2,
        Register::DS => 3,
        Register::FS => 4,
        Register::GS => 5,
        _ => FLAT,
    };
    match (size, encoding) {
        (CodeSize::Bits64, 0..=3) => FLAT,
        _ => encoding,
    }
}

/// String instructions and XLAT name their memory implicitly; the segment prefix applies to the
/// source only.
fn implied_memory(op: &mut Op, instruction: &Instruction, kind: OpKind) {
    op.flags |= Op::MEMORY;
    op.address_shift = match kind {
        OpKind::MemorySegSI | OpKind::MemoryESDI | OpKind::MemorySegDI => 48,
        OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegEDI => 32,
        _ => 0,
    };
    if !matches!(kind, OpKind::MemoryESDI | OpKind::MemoryESEDI | OpKind::MemoryESRDI) {
        op.segment = segment_of_source(instruction);
    }
}

fn segment_of_source(instruction: &Instruction) -> u8 {
    let size = match instruction.code_size() {
        iced_x86::CodeSize::Code16 => CodeSize::Bits16,
        iced_x86::CodeSize::Code32 => CodeSize::Bits32,
        _ => CodeSize::Bits64,
    };
    segment_index(instruction.memory_segment(), size)
}

/// MONITOR and CLZERO address memory by rAX without an operand.
fn implicit_segment(op: &mut Op, instruction: &Instruction) {
    let size = match instruction.code_size() {
        iced_x86::CodeSize::Code64 => CodeSize::Bits64,
        _ => CodeSize::Bits32,
    };
    let register = match instruction.segment_prefix() {
        Register::None => Register::DS,
        prefix => prefix,
    };
    op.segment = segment_index(register, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_registers_are_numbered_as_their_full_registers() {
        let rows = [
            (Register::AL, 0),
            (Register::BL, 3),
            (Register::AH, HIGH_BYTE),
            (Register::BH, HIGH_BYTE + 3),
            (Register::SPL, 4),
            (Register::DIL, 7),
            (Register::R8L, 8),
            (Register::R15L, 15),
            (Register::R13W, 13),
            (Register::RSP, 4),
            (Register::XMM9, 9),
            (Register::CR8, 8),
        ];
        for (register, expected) in rows {
            assert_eq!(number(register), expected, "{register:?}");
        }
    }
}
