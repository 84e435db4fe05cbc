//! BT, BTS, BTR, BTC, BSF, BSR, LZCNT, TZCNT, POPCNT, CRC32 and the bit instructions of BMI1/2.

use crate::execute::arithmetic;
use crate::execute::binding::{Binding, Handler, sized};
use crate::flags::Flags;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// What happens to the tested bit: 0 nothing, 1 set, 2 reset, 3 complement.
fn change<const KIND: u8>(value: u64, bit: u64) -> u64 {
    match KIND {
        0 => value,
        1 => value | bit,
        2 => value & !bit,
        _ => value ^ bit,
    }
}

fn bt_register<W: Width, const KIND: u8>(cpu: &mut Cpu, op: &Op, number: u64) {
    let bit = 1u64 << (number & (W::BITS as u64 - 1));
    let value = W::from_register(&cpu.registers.gpr, op.a).zero_extend();
    cpu.registers.flags.set_carry(value & bit != 0);
    if KIND != 0 {
        W::truncate(change::<KIND>(value, bit)).to_register(&mut cpu.registers.gpr, op.a);
    }
}

fn bt_rr<W: Width, const KIND: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let number = cpu.registers.gpr[op.b as usize];
    bt_register::<W, KIND>(cpu, op, number);
    Ok(())
}

fn bt_ri<W: Width, const KIND: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    bt_register::<W, KIND>(cpu, op, op.immediate);
    Ok(())
}

fn bt_memory<W: Width, const KIND: u8>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    offset: u64,
    number: u64,
) -> Result<(), Stop> {
    let access = if KIND == 0 { Access::Read } else { Access::Write };
    let linear = cpu.operand_at(op, offset & op.address_mask(), W::BYTES, access)?;
    let place = cpu.locate_linear(bus, linear, W::BYTES, access, op.segment)?;
    let bit = 1u64 << (number & (W::BITS as u64 - 1));
    let value = arithmetic::load::<W>(cpu, bus, place).zero_extend();
    cpu.registers.flags.set_carry(value & bit != 0);
    if KIND == 0 {
        return Ok(());
    }
    arithmetic::store(cpu, bus, place, W::truncate(change::<KIND>(value, bit)))
}

/// The register's value reaches beyond the operand: it addresses a string of bits. [APM3 "BT"]
fn bt_mr<W: Width, const KIND: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let number = W::from_register(&cpu.registers.gpr, op.b).sign_extend() as i64;
    let units = number >> W::BITS.trailing_zeros();
    let offset = cpu.registers.effective_address(op).wrapping_add((units * W::BYTES as i64) as u64);
    bt_memory::<W, KIND>(cpu, bus, op, offset, number as u64)
}

fn bt_mi<W: Width, const KIND: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let offset = cpu.registers.effective_address(op);
    bt_memory::<W, KIND>(cpu, bus, op, offset, op.immediate)
}

fn bit_test<const KIND: u8>(i: &Instruction) -> Handler {
    macro_rules! wide {
        ($handler:ident) => {
            match width(i, 0) {
                2 => $handler::<u16, KIND>,
                4 => $handler::<u32, KIND>,
                _ => $handler::<u64, KIND>,
            }
        };
    }
    match (is_memory(i, 0), is_register(i, 1)) {
        (false, true) => wide!(bt_rr),
        (false, false) => wide!(bt_ri),
        (true, true) => wide!(bt_mr),
        (true, false) => wide!(bt_mi),
    }
}

/// A function of one operand into a register.
trait Count {
    const FEATURE: Option<Feature> = None;
    /// Encoded with a VEX prefix: undefined in real and virtual-8086 mode.
    const IS_VEX: bool = false;
    /// `None` leaves the destination unchanged.
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W>;
}

struct Bsf;
struct Bsr;
struct Tzcnt;
struct Lzcnt;
struct Popcnt;
struct Blsr;
struct Blsi;
struct Blsmsk;

impl Count for Bsf {
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let value = source.zero_extend();
        flags.set_zero(value == 0);
        (value != 0).then(|| W::truncate(value.trailing_zeros() as u64))
    }
}

impl Count for Bsr {
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let value = source.zero_extend();
        flags.set_zero(value == 0);
        (value != 0).then(|| W::truncate(63 - value.leading_zeros() as u64))
    }
}

fn counted<W: Width>(flags: &mut Flags, count: u32) -> Option<W> {
    flags.shift(W::truncate(count as u64), count == W::BITS, false);
    Some(W::truncate(count as u64))
}

impl Count for Tzcnt {
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        counted(flags, source.zero_extend().trailing_zeros().min(W::BITS))
    }
}

impl Count for Lzcnt {
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        counted(flags, source.zero_extend().leading_zeros() - (64 - W::BITS))
    }
}

impl Count for Popcnt {
    const FEATURE: Option<Feature> = Some(Feature::Popcnt);
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let count = source.zero_extend().count_ones();
        flags.set_status(if source.zero_extend() == 0 { arch::control::rflags::ZF } else { 0 });
        Some(W::truncate(count as u64))
    }
}

fn lowest<W: Width>(flags: &mut Flags, result: u64, carry: bool) -> Option<W> {
    let result = W::truncate(result);
    flags.shift(result, carry, false);
    Some(result)
}

impl Count for Blsr {
    const FEATURE: Option<Feature> = Some(Feature::Bmi1);
    const IS_VEX: bool = true;
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let s = source.zero_extend();
        lowest(flags, s & s.wrapping_sub(1), s == 0)
    }
}

impl Count for Blsi {
    const FEATURE: Option<Feature> = Some(Feature::Bmi1);
    const IS_VEX: bool = true;
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let s = source.zero_extend();
        lowest(flags, s & s.wrapping_neg(), s != 0)
    }
}

impl Count for Blsmsk {
    const FEATURE: Option<Feature> = Some(Feature::Bmi1);
    const IS_VEX: bool = true;
    fn apply<W: Width>(flags: &mut Flags, source: W) -> Option<W> {
        let s = source.zero_extend();
        lowest(flags, s ^ s.wrapping_sub(1), s == 0)
    }
}

/// LZCNT and TZCNT are BSR and BSF where the processor lacks them: the prefix is ignored.
fn count<W: Width, O: Count>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let is_known = O::FEATURE.is_none_or(|feature| cpu.model.has(feature));
    if !is_known || (O::IS_VEX && !cpu.is_protected()) {
        return Err(Stop::INVALID_OPCODE);
    }
    let source = if op.has(Op::MEMORY) {
        cpu.read::<W>(bus, op)?
    } else {
        W::from_register(&cpu.registers.gpr, op.b)
    };
    if let Some(result) = O::apply(&mut cpu.registers.flags, source) {
        result.to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

fn lzcnt<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.model.has(Feature::Abm) {
        count::<W, Lzcnt>(cpu, bus, op)
    } else {
        count::<W, Bsr>(cpu, bus, op)
    }
}

fn tzcnt<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.model.has(Feature::Bmi1) {
        count::<W, Tzcnt>(cpu, bus, op)
    } else {
        count::<W, Bsf>(cpu, bus, op)
    }
}

impl Cpu {
    /// #UD unless the model has the feature of an instruction with a VEX prefix on general registers,
    /// which no one is in real and virtual-8086 mode. [APM1 "VEX and XOP Prefixes"]
    pub(super) fn check_vex_general(&self, feature: Feature) -> Result<(), Stop> {
        let is_known = self.model.has(feature) && self.is_protected();
        if is_known { Ok(()) } else { Err(Stop::INVALID_OPCODE) }
    }
}

/// BMI1 group: the destination of BLSR, BLSI, BLSMSK is the VEX operand, laid out first.
fn single<O: Count>(i: &Instruction) -> Handler {
    match width(i, 0) {
        2 => count::<u16, O>,
        4 => count::<u32, O>,
        _ => count::<u64, O>,
    }
}

/// Three-operand BMI instructions: (a, b = operand 1, c = operand 2).
fn three<W: Width, const KIND: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let feature = if matches!(KIND, ANDN | BEXTR) { Feature::Bmi1 } else { Feature::Bmi2 };
    cpu.check_vex_general(feature)?;
    // ANDN, PDEP, PEXT have memory as the last operand; BEXTR and BZHI as the middle one.
    let memory_is_last = matches!(KIND, ANDN | PDEP | PEXT);
    let (mut x, mut y) = (
        W::from_register(&cpu.registers.gpr, op.b & 31),
        W::from_register(&cpu.registers.gpr, op.c & 31),
    );
    if op.has(Op::MEMORY) {
        let value = cpu.read::<W>(bus, op)?;
        if memory_is_last { y = value } else { x = value }
    }
    let (x, y) = (x.zero_extend(), y.zero_extend());
    let result = match KIND {
        ANDN => !x & y,
        BEXTR => extract::<W>(x, y),
        BZHI => {
            let index = (y & 0xFF) as u32;
            if index < W::BITS { x & ((1u64 << index) - 1) } else { x }
        }
        PDEP => deposit(x, y),
        _ => gather(x, y),
    };
    let result = W::truncate(result);
    match KIND {
        ANDN | BEXTR => cpu.registers.flags.shift(result, false, false),
        BZHI => cpu.registers.flags.shift(result, (y & 0xFF) as u32 >= W::BITS, false),
        _ => {}
    }
    result.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

const ANDN: u8 = 0;
const BEXTR: u8 = 1;
const BZHI: u8 = 2;
const PDEP: u8 = 3;
const PEXT: u8 = 4;

fn extract<W: Width>(source: u64, control: u64) -> u64 {
    let (start, length) = (control as u32 & 0xFF, (control >> 8) as u32 & 0xFF);
    let shifted = if start >= W::BITS { 0 } else { source >> start };
    if length >= 64 { shifted } else { shifted & ((1u64 << length) - 1) }
}

fn deposit(source: u64, mut mask: u64) -> u64 {
    let (mut result, mut bit) = (0, 1);
    while mask != 0 {
        let lowest = mask & mask.wrapping_neg();
        if source & bit != 0 {
            result |= lowest;
        }
        mask ^= lowest;
        bit = u64::wrapping_shl(bit, 1);
    }
    result
}

fn gather(source: u64, mut mask: u64) -> u64 {
    let (mut result, mut bit) = (0, 1);
    while mask != 0 {
        let lowest = mask & mask.wrapping_neg();
        if source & lowest != 0 {
            result |= bit;
        }
        mask ^= lowest;
        bit = u64::wrapping_shl(bit, 1);
    }
    result
}

/// CRC32 with the Castagnoli polynomial, bit-reflected. [APM3 "CRC32"]
fn crc32<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !cpu.model.has(Feature::Sse42) {
        return Err(Stop::INVALID_OPCODE);
    }
    let source = if op.has(Op::MEMORY) {
        cpu.read::<W>(bus, op)?
    } else {
        W::from_register(&cpu.registers.gpr, op.b)
    };
    let mut crc = cpu.registers.gpr[op.a as usize] as u32;
    for byte in &source.zero_extend().to_le_bytes()[..W::BYTES] {
        crc ^= *byte as u32;
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0x82F6_3B78 } else { 0 };
        }
    }
    cpu.registers.gpr[op.a as usize] = crc as u64;
    Ok(())
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let w = width(i, 0);
    macro_rules! wide {
        ($kind:ident) => {
            if w == 8 { three::<u64, $kind> } else { three::<u32, $kind> }
        };
    }
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Bt => bit_test::<0>(i),
        Mnemonic::Bts => bit_test::<1>(i),
        Mnemonic::Btr => bit_test::<2>(i),
        Mnemonic::Btc => bit_test::<3>(i),
        Mnemonic::Bsf => single::<Bsf>(i),
        Mnemonic::Bsr => single::<Bsr>(i),
        Mnemonic::Popcnt => single::<Popcnt>(i),
        Mnemonic::Lzcnt => sized!(w, lzcnt),
        Mnemonic::Tzcnt => sized!(w, tzcnt),
        Mnemonic::Blsr => single::<Blsr>(i),
        Mnemonic::Blsi => single::<Blsi>(i),
        Mnemonic::Blsmsk => single::<Blsmsk>(i),
        Mnemonic::Andn => wide!(ANDN),
        Mnemonic::Bextr => wide!(BEXTR),
        Mnemonic::Bzhi => wide!(BZHI),
        Mnemonic::Pdep => wide!(PDEP),
        Mnemonic::Pext => wide!(PEXT),
        Mnemonic::Crc32 => sized!(width(i, 1), crc32),
        _ => return None,
    };
    Binding::within(handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deposit_and_gather_are_inverse_on_the_mask() {
        let mask = 0xF0F0_1234_8000_0001;
        for source in [0, 1, 0x155, u64::MAX] {
            let width = mask_width(mask);
            assert_eq!(gather(deposit(source, mask), mask), source & width);
        }
    }

    fn mask_width(mask: u64) -> u64 {
        u64::MAX >> (64 - mask.count_ones())
    }
}
