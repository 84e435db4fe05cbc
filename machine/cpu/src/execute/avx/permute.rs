//! What crosses the halves of a vector: broadcasts, insertion and extraction of halves, and
//! permutations; and permutations within them by a vector of choices.

use super::integer::{binary, unary};
use super::operand::{Halves, halves, source, source_128};
use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::handler;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory};
use crate::vector::{dwords, from_dwords, from_qwords, qwords, shuffle};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};
use std::array::from_fn;

/// VBROADCASTSS and its kin: the lowest lane of a register, or one in memory, in all lanes.
fn broadcast<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let lane = match op.has(Op::MEMORY) {
        true => cpu.read::<W>(bus, op)?,
        false => W::truncate(cpu.registers.xmm(op.b) as u64),
    };
    let lane = u128::from(lane.zero_extend());
    let half = (0..128 / W::BITS).fold(0, |half, at| half | lane << (at * W::BITS));
    cpu.registers.set_ymm(op.a, [half, if op.has(Op::WIDE) { half } else { 0 }]);
    Ok(())
}

fn vbroadcast128(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let half = cpu.read_128(bus, op)?;
    cpu.registers.set_ymm(op.a, [half; 2]);
    Ok(())
}

/// VINSERTF128 and VINSERTI128.
fn vinsert128(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let half = source_128(cpu, bus, op, op.c)?;
    let mut value = cpu.registers.ymm(op.b);
    value[(op.immediate & 1) as usize] = half;
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// VEXTRACTF128 and VEXTRACTI128.
fn vextract128(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let half = cpu.registers.ymm(op.b)[(op.immediate & 1) as usize];
    if op.has(Op::MEMORY) {
        cpu.write_128(bus, op, half)?;
        return cpu.pending.after_store();
    }
    cpu.registers.set_ymm(op.a, [half, 0]);
    Ok(())
}

/// VPERM2F128 and VPERM2I128: four bits of the immediate for each half, the fourth clears it.
fn vperm2x128(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let second = source(cpu, bus, op, op.c)?;
    let first = cpu.registers.ymm(op.b);
    let choices = [first[0], first[1], second[0], second[1]];
    let value = from_fn(|half| match op.immediate >> (4 * half) {
        control if control & 8 != 0 => 0,
        control => choices[(control & 3) as usize],
    });
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

fn all_dwords([low, high]: Halves) -> [u32; 8] {
    let (low, high) = (dwords(low), dwords(high));
    from_fn(|lane| if lane < 4 { low[lane] } else { high[lane - 4] })
}

/// VPERMD and VPERMPS: the first source chooses dwords of the second.
fn vpermd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let lanes = all_dwords(source(cpu, bus, op, op.c)?);
    let choices = all_dwords(cpu.registers.ymm(op.b));
    let chosen =
        |half: usize| from_dwords(from_fn(|lane| lanes[(choices[4 * half + lane] & 7) as usize]));
    cpu.registers.set_ymm(op.a, [chosen(0), chosen(1)]);
    Ok(())
}

/// VPERMQ and VPERMPD: two bits of the immediate choose each quadword.
fn vpermq(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let [low, high] = source(cpu, bus, op, op.b)?.map(qwords);
    let lanes = [low[0], low[1], high[0], high[1]];
    let chosen = |at: u32| lanes[(op.immediate >> (2 * at) & 3) as usize];
    let value = [from_qwords([chosen(0), chosen(1)]), from_qwords([chosen(2), chosen(3)])];
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// VPERMILPS by a vector: the low two bits of each dword choose one of its half.
fn permuted_singles(lanes: u128, choices: u128) -> u128 {
    let lanes = dwords(lanes);
    from_dwords(dwords(choices).map(|choice| lanes[(choice & 3) as usize]))
}

/// VPERMILPD by a vector: bit 1 of each quadword chooses.
fn permuted_doubles(lanes: u128, choices: u128) -> u128 {
    let lanes = qwords(lanes);
    from_qwords(qwords(choices).map(|choice| lanes[(choice >> 1 & 1) as usize]))
}

/// VPERMILPD by an immediate: a bit for each quadword.
fn vpermilpd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let b = source(cpu, bus, op, op.b)?;
    let value =
        halves(op, |half| shuffle::shufpd(b[half], b[half], (op.immediate >> (2 * half)) as u8));
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

fn vpermilps(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unary(cpu, bus, op, |_, b| shuffle::pshufd(b, op.immediate as u8))
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let has_immediate = !is_memory(i, 2) && !i.op_register(2).is_vector_register();
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Vbroadcastss | Mnemonic::Vpbroadcastd => broadcast::<u32>,
        Mnemonic::Vbroadcastsd | Mnemonic::Vpbroadcastq => broadcast::<u64>,
        Mnemonic::Vpbroadcastb => broadcast::<u8>,
        Mnemonic::Vpbroadcastw => broadcast::<u16>,
        Mnemonic::Vbroadcastf128 | Mnemonic::Vbroadcasti128 => vbroadcast128,
        Mnemonic::Vinsertf128 | Mnemonic::Vinserti128 => vinsert128,
        Mnemonic::Vextractf128 | Mnemonic::Vextracti128 => vextract128,
        Mnemonic::Vperm2f128 | Mnemonic::Vperm2i128 => vperm2x128,
        Mnemonic::Vpermd | Mnemonic::Vpermps => vpermd,
        Mnemonic::Vpermq | Mnemonic::Vpermpd => vpermq,
        Mnemonic::Vpermilps if has_immediate => vpermilps,
        Mnemonic::Vpermilps => handler!(binary, permuted_singles),
        Mnemonic::Vpermilpd if has_immediate => vpermilpd,
        Mnemonic::Vpermilpd => handler!(binary, permuted_doubles),
        _ => return None,
    };
    Binding::costing(handler, Cost::Vector)
}
