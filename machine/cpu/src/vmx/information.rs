//! What exits of instructions say of their operands.
//! [SDM3 "Information for VM Exits Due to Instruction Execution"]

use crate::Cpu;
use crate::operation::Op;
use crate::width::{BLOCK_IP, RBP, RSP, ZERO};
use arch::segment::SegmentRegister;
use arch::vmx::instruction::InstructionInformation;

/// 0 is 16 bits, 1 is 32, 2 is 64.
fn address_size(op: &Op) -> u8 {
    match op.address_shift {
        48 => 0,
        32 => 1,
        _ => 2,
    }
}

/// The segment of the memory operand, where operations of 64-bit mode have none.
fn segment(op: &Op) -> u8 {
    match op.segment {
        segment @ 0..6 => segment,
        _ if matches!(usize::from(op.base), RSP | RBP) => SegmentRegister::Ss as u8,
        _ => SegmentRegister::Ds as u8,
    }
}

/// `register` is the operand that memory could be, `second` the other one or the instruction's
/// identity.
pub fn operand_information(op: &Op, register: u8, second: u8) -> InstructionInformation {
    let information = InstructionInformation::new().with_second_register(second & 15);
    if !op.has(Op::MEMORY) {
        return information.with_is_register_operand(true).with_first_register(register & 15);
    }
    let has_no = |number: u8| number == ZERO || number == BLOCK_IP;
    let named = |number: u8| if has_no(number) { 0 } else { number & 15 };
    information
        .with_address_size(address_size(op))
        .with_segment(segment(op))
        .with_scale(op.scale & 3)
        .with_index_register(named(op.index))
        .with_has_no_index(has_no(op.index))
        .with_base_register(named(op.base))
        .with_has_no_base(has_no(op.base))
}

/// INS and OUTS.
pub fn string_information(op: &Op, segment: u8) -> InstructionInformation {
    InstructionInformation::new().with_address_size(address_size(op)).with_segment(segment)
}

/// The qualification of an instruction with a memory operand; of one that is relative to the
/// instruction pointer, the sum.
pub fn displacement(cpu: &Cpu, op: &Op) -> u64 {
    let displacement = i64::from(op.displacement) as u64;
    if op.has(Op::MEMORY) && op.is_ip_relative() {
        return cpu.registers.gpr[BLOCK_IP as usize].wrapping_add(displacement);
    }
    if op.has(Op::MEMORY) { displacement } else { 0 }
}
