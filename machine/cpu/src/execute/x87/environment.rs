//! FSTENV, FLDENV, FSAVE and FRSTOR: the environment in its four formats, and the full tag word.
//! [SDM1 "Saving the x87 FPU's State with FSTENV/FNSTENV and FSAVE/FNSAVE"]

use crate::execute::binding::{Binding, Handler};
use crate::execute::x87::unit;
use crate::float::extended::{Class, Extended};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost};
use crate::state::X87;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Code, Instruction};

const REGISTERS: usize = 80;
const EMPTY: u16 = 3;

/// The tag word with two bits per register: valid, zero, special, empty.
fn tag_word(unit: &X87) -> u16 {
    (0..8).rev().fold(0, |word, register: usize| {
        let tag = match unit.registers[register].class() {
            _ if unit.valid >> register & 1 == 0 => EMPTY,
            Class::Normal => 0,
            Class::Zero => 1,
            _ => 2,
        };
        word << 2 | tag
    })
}

/// Which registers a full tag word calls not empty.
fn valid_from_tag_word(word: u16) -> u8 {
    (0..8).fold(0, |valid, register| {
        valid | u8::from(word >> (2 * register) & 3 != EMPTY) << register
    })
}

/// The environment: 14 bytes in the formats of 16-bit code, else 28.
fn environment<const WIDE: bool>(cpu: &Cpu) -> Vec<u8> {
    let unit = &cpu.registers.x87;
    let heads = [unit.control, unit.status, tag_word(unit)];
    let is_real = cpu.control.is_real() || cpu.registers.is_virtual_8086();
    let linear = |segment: u16, offset: u64| {
        (u64::from(segment) << 4).wrapping_add(offset & 0xFFFF_FFFF) as u32
    };
    let code = linear(unit.instruction_segment, unit.instruction_pointer);
    let data = linear(unit.data_segment, unit.data_pointer);
    let (ip, dp) = (unit.instruction_pointer as u32, unit.data_pointer as u32);
    let (cs, ds) = (u32::from(unit.instruction_segment), u32::from(unit.data_segment));
    let opcode = u32::from(unit.opcode);
    if WIDE {
        const RESERVED: u32 = 0xFFFF_0000;
        let tail = match is_real {
            true => [
                code & 0xFFFF | RESERVED,
                code >> 16 << 12 | opcode,
                data & 0xFFFF | RESERVED,
                data >> 16 << 12,
            ],
            false => [ip, cs | opcode << 16, dp, ds | RESERVED],
        };
        let heads = heads.map(|word| u32::from(word) | RESERVED);
        return heads.iter().chain(&tail).flat_map(|dword| dword.to_le_bytes()).collect();
    }
    let tail = match is_real {
        true => [code, code >> 16 << 12 | opcode, data, data >> 16 << 12],
        false => [ip, cs, dp, ds],
    };
    let tail = tail.map(|dword| dword as u16);
    heads.iter().chain(&tail).flat_map(|word| word.to_le_bytes()).collect()
}

/// Loads an environment, and says how long it was.
fn load_environment<const WIDE: bool>(cpu: &mut Cpu, bytes: &[u8]) {
    let is_real = cpu.control.is_real() || cpu.registers.is_virtual_8086();
    let size = if WIDE { 4 } else { 2 };
    let field = |index: usize| {
        let mut value = [0; 4];
        value[..size].copy_from_slice(&bytes[size * index..][..size]);
        u32::from_le_bytes(value)
    };
    let unit = &mut cpu.registers.x87;
    unit.status = field(1) as u16;
    unit.valid = valid_from_tag_word(field(2) as u16);
    unit.set_control(field(0) as u16);
    let [ip, cs, dp, ds] = [3, 4, 5, 6].map(field);
    if is_real {
        let pointer = |low: u32, high: u32| u64::from(low & 0xFFFF | (high >> 12 & 0xFFFF) << 16);
        (unit.instruction_pointer, unit.instruction_segment) = (pointer(ip, cs), 0);
        (unit.data_pointer, unit.data_segment) = (pointer(dp, ds), 0);
        unit.opcode = cs as u16 & 0x7FF;
        return;
    }
    (unit.instruction_pointer, unit.instruction_segment) = (ip.into(), cs as u16);
    (unit.data_pointer, unit.data_segment) = (dp.into(), ds as u16);
    if WIDE {
        unit.opcode = (cs >> 16) as u16 & 0x7FF;
    }
}

const fn length(is_wide: bool) -> usize {
    if is_wide { 28 } else { 14 }
}

/// FNSTENV masks all exceptions after it has stored.
fn fnstenv<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let linear = cpu.operand(op, length(WIDE), Access::Write)?;
    let bytes = environment::<WIDE>(cpu);
    cpu.write_area(bus, linear, &bytes, op.segment)?;
    let control = cpu.registers.x87.control | 0x3F;
    cpu.registers.x87.set_control(control);
    cpu.pending.after_store()
}

/// FNSAVE stores the registers too, ST0 first, and initializes the unit.
fn fnsave<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let linear = cpu.operand(op, length(WIDE) + REGISTERS, Access::Write)?;
    let mut bytes = environment::<WIDE>(cpu);
    (0..8).for_each(|index| bytes.extend(cpu.registers.x87.st(index).to_bytes()));
    cpu.write_area(bus, linear, &bytes, op.segment)?;
    cpu.registers.x87.reset();
    cpu.pending.after_store()
}

fn fldenv<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let linear = cpu.operand(op, length(WIDE), Access::Read)?;
    let mut bytes = [0; 28];
    cpu.read_area(bus, linear, &mut bytes[..length(WIDE)], op.segment)?;
    load_environment::<WIDE>(cpu, &bytes);
    Ok(())
}

fn frstor<const WIDE: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let all = length(WIDE) + REGISTERS;
    let linear = cpu.operand(op, all, Access::Read)?;
    let mut bytes = [0; 28 + REGISTERS];
    cpu.read_area(bus, linear, &mut bytes[..all], op.segment)?;
    load_environment::<WIDE>(cpu, &bytes);
    let valid = cpu.registers.x87.valid;
    for (index, register) in bytes[length(WIDE)..all].chunks_exact(10).enumerate() {
        let mut value = [0; 10];
        value.copy_from_slice(register);
        cpu.registers.x87.set_st(index as u8, Extended::from_bytes(value));
    }
    cpu.registers.x87.valid = valid;
    Ok(())
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler: Handler = match i.code() {
        Code::Fnstenv_m14byte => fnstenv::<false>,
        Code::Fnstenv_m28byte => fnstenv::<true>,
        Code::Fldenv_m14byte => fldenv::<false>,
        Code::Fldenv_m28byte => fldenv::<true>,
        Code::Fnsave_m94byte => fnsave::<false>,
        Code::Fnsave_m108byte => fnsave::<true>,
        Code::Frstor_m94byte => frstor::<false>,
        Code::Frstor_m108byte => frstor::<true>,
        _ => return None,
    };
    Binding::costing(handler, Cost::System)
}
