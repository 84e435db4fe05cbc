//! FLD, FILD, FBLD, the constants, FXCH and FCMOVcc.

use crate::execute::binding::{Binding, Handler};
use crate::execute::sse::handler;
use crate::execute::x87::unit;
use crate::float::extended::constant::Constant;
use crate::float::extended::{Extended, store};
use crate::float::scalar::Interchange;
use crate::float::{Context, Exceptions};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, width};
use crate::state::Registers;
use crate::state::x87::C1;
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use iced_x86::{Instruction, Mnemonic};

/// An 80-bit operand.
fn read_80(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<[u8; 10], Stop> {
    let linear = cpu.operand(op, 10, Access::Read)?;
    let mut bytes = [0; 10];
    cpu.read_area(bus, linear, &mut bytes, op.segment)?;
    Ok(bytes)
}

fn real<W: Width + Interchange>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let bits = cpu.read::<W>(bus, op)?;
    cpu.registers.push_loaded(op, |context| store::load(bits, context))
}

fn extended(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let bytes = read_80(cpu, bus, op)?;
    cpu.registers.push_loaded(op, |_| Extended::from_bytes(bytes))
}

fn decimal(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let bytes = read_80(cpu, bus, op)?;
    cpu.registers.push_loaded(op, |_| store::load_decimal(bytes))
}

fn integer<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let value = cpu.read::<W>(bus, op)?;
    cpu.registers.push_loaded(op, |_| Extended::from_unpacked(super::arithmetic::integer(value)))
}

#[inline(always)]
fn constant(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op, constant: Constant) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    cpu.registers.push_loaded(op, |context| constant.rounded(context.rounding))
}

/// FLD ST(i).
fn register(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    if cpu.registers.x87.is_empty(op.a) {
        if !cpu.registers.x87.stack_fault(false) {
            cpu.registers.x87.push(Extended::INDEFINITE);
        }
        cpu.registers.note_x87(op);
        return Ok(());
    }
    let value = cpu.registers.x87.st(op.a);
    cpu.registers.push_loaded(op, |_| value)
}

/// FXCH: an empty register counts as the indefinite.
fn fxch(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let empty = [0, op.b].map(|index| unit.is_empty(index));
    unit.set_codes(C1, 0);
    if !empty.contains(&true) || !unit.stack_fault(false) {
        let held = |index: u8, is_empty: bool| {
            if is_empty { Extended::INDEFINITE } else { unit.st(index) }
        };
        let (top, other) = (held(0, empty[0]), held(op.b, empty[1]));
        unit.set_st(0, other);
        unit.set_st(op.b, top);
    }
    cpu.registers.note_x87(op);
    Ok(())
}

/// FCMOVcc: both registers must hold something, whether or not the condition does.
#[inline(always)]
fn conditional(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
    flags: u64,
    wanted: bool,
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let holds = (cpu.registers.flags.status() & flags != 0) == wanted;
    let unit = &mut cpu.registers.x87;
    if unit.is_empty(0) || unit.is_empty(op.b) {
        if !unit.stack_fault(false) {
            unit.set_st(0, Extended::INDEFINITE);
        }
    } else if holds {
        let value = unit.st(op.b);
        unit.set_st(0, value);
    }
    cpu.registers.note_x87(op);
    Ok(())
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Fld if !is_memory(i, 0) => register,
        Mnemonic::Fld => match width(i, 0) {
            4 => real::<u32>,
            8 => real::<u64>,
            _ => extended,
        },
        Mnemonic::Fild => match width(i, 0) {
            2 => integer::<u16>,
            4 => integer::<u32>,
            _ => integer::<u64>,
        },
        Mnemonic::Fbld => decimal,
        Mnemonic::Fld1 => handler!(constant, Constant::One),
        Mnemonic::Fldl2t => handler!(constant, Constant::Log2Of10),
        Mnemonic::Fldl2e => handler!(constant, Constant::Log2OfE),
        Mnemonic::Fldpi => handler!(constant, Constant::Pi),
        Mnemonic::Fldlg2 => handler!(constant, Constant::Log10Of2),
        Mnemonic::Fldln2 => handler!(constant, Constant::LnOf2),
        Mnemonic::Fldz => handler!(constant, Constant::Zero),
        Mnemonic::Fxch => fxch,
        Mnemonic::Fcmovb => handler!(conditional, rflags::CF, true),
        Mnemonic::Fcmove => handler!(conditional, rflags::ZF, true),
        Mnemonic::Fcmovbe => handler!(conditional, rflags::CF | rflags::ZF, true),
        Mnemonic::Fcmovu => handler!(conditional, rflags::PF, true),
        Mnemonic::Fcmovnb => handler!(conditional, rflags::CF, false),
        Mnemonic::Fcmovne => handler!(conditional, rflags::ZF, false),
        Mnemonic::Fcmovnbe => handler!(conditional, rflags::CF | rflags::ZF, false),
        Mnemonic::Fcmovnu => handler!(conditional, rflags::PF, false),
        _ => return None,
    };
    Binding::costing(handler, if is_memory(i, 0) { Cost::Load } else { Cost::Simple })
}

impl Registers {
    /// Pushes what a load produces. The register that becomes the top must be empty.
    #[inline(always)]
    fn push_loaded(
        &mut self,
        op: &Op,
        value: impl FnOnce(&mut Context) -> Extended,
    ) -> Result<(), Stop> {
        const LAST: u8 = 7;
        let unit = &mut self.x87;
        if !unit.is_empty(LAST) {
            if !unit.stack_fault(true) {
                unit.push(Extended::INDEFINITE);
            }
        } else {
            let mut context = unit.context();
            let value = value(&mut context);
            if !unit.raise(&context, Exceptions::INVALID) {
                unit.push(value);
            }
        }
        self.note_x87(op);
        Ok(())
    }
}
