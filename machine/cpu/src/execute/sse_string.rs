//! PCMPESTRI, PCMPESTRM, PCMPISTRI, PCMPISTRM. Their memory operands need no alignment.

use crate::execute::binding::{Binding, Handler};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost};
use crate::vector::string::{self, Comparison};
use crate::width::{RAX, RCX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use iced_x86::{Code, Instruction, Mnemonic};

fn second(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u128, Stop> {
    cpu.control.check_sse()?;
    if op.has(Op::MEMORY) { cpu.read_128(bus, op) } else { Ok(cpu.registers.xmm(op.b)) }
}

/// `W` is the width of the lengths in rAX and rDX.
fn explicit<W: Width, const MASK: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let b = second(cpu, bus, op)?;
    let length = |register: usize| W::truncate(cpu.registers.gpr[register]).sign_extend() as i64;
    let lengths = (length(RAX), length(RDX));
    let comparison = string::explicit(cpu.registers.xmm(op.a), b, lengths, op.immediate as u8);
    conclude::<MASK>(cpu, op, comparison);
    Ok(())
}

fn implicit<const MASK: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let b = second(cpu, bus, op)?;
    let comparison = string::implicit(cpu.registers.xmm(op.a), b, op.immediate as u8);
    conclude::<MASK>(cpu, op, comparison);
    Ok(())
}

fn conclude<const MASK: bool>(cpu: &mut Cpu, op: &Op, comparison: Comparison) {
    let immediate = op.immediate as u8;
    if MASK {
        cpu.registers.set_xmm(0, comparison.mask(immediate));
    } else {
        comparison.index(immediate).to_register(&mut cpu.registers.gpr, RCX as u8);
    }
    cpu.registers.flags.set_status(comparison.status());
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Pcmpistri => implicit::<false>,
        Mnemonic::Pcmpistrm => implicit::<true>,
        Mnemonic::Pcmpestri64 => explicit::<u64, false>,
        Mnemonic::Pcmpestrm64 => explicit::<u64, true>,
        Mnemonic::Pcmpestri => match i.code() {
            Code::Pcmpestri64_xmm_xmmm128_imm8 => explicit::<u64, false>,
            _ => explicit::<u32, false>,
        },
        Mnemonic::Pcmpestrm => match i.code() {
            Code::Pcmpestrm64_xmm_xmmm128_imm8 => explicit::<u64, true>,
            _ => explicit::<u32, true>,
        },
        _ => return None,
    };
    Binding::costing(handler, Cost::Vector)
}
