//! FST, FSTP, FIST, FISTP, FISTTP and FBSTP.

use crate::execute::binding::{Binding, Handler};
use crate::execute::x87::unit;
use crate::float::extended::{Extended, store};
use crate::float::scalar::Interchange;
use crate::float::{Context, Exceptions, Rounding};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory, width};
use crate::state::x87::C1;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

/// Exceptions that keep a store from memory when unmasked.
const FORBIDDING: Exceptions =
    Exceptions::INVALID.union(Exceptions::OVERFLOW).union(Exceptions::UNDERFLOW);

/// Converts ST0 and writes it; then pops if `POPS`. A fault of the write comes before any change.
#[inline(always)]
fn store_bytes<const N: usize, const POPS: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    indefinite: [u8; N],
    convert: impl FnOnce(Extended, &mut Context) -> [u8; N],
) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let linear = cpu.operand(op, N, Access::Write)?;
    let is_empty = cpu.registers.x87.is_empty(0);
    let mut context = cpu.registers.x87.context();
    let bytes = if is_empty { indefinite } else { convert(cpu.registers.x87.st(0), &mut context) };
    let is_forbidden = match is_empty {
        true => !context.masks(Exceptions::INVALID),
        false => context.unmasked().intersects(FORBIDDING),
    };
    if !is_forbidden {
        cpu.write_area(bus, linear, &bytes, op.segment)?;
    }
    let unit = &mut cpu.registers.x87;
    if is_empty {
        unit.stack_fault(false);
    } else {
        unit.raise(&context, FORBIDDING);
    }
    if !is_forbidden && POPS {
        unit.pop();
    }
    cpu.registers.note_x87(op);
    cpu.pending.after_store()
}

fn single<const POPS: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let indefinite = u32::indefinite().to_le_bytes();
    store_bytes::<4, POPS>(cpu, bus, op, indefinite, |value, context| {
        store::store::<u32>(value, context).to_le_bytes()
    })
}

fn double<const POPS: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let indefinite = u64::indefinite().to_le_bytes();
    store_bytes::<8, POPS>(cpu, bus, op, indefinite, |value, context| {
        store::store::<u64>(value, context).to_le_bytes()
    })
}

fn extended(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let indefinite = Extended::INDEFINITE.to_bytes();
    store_bytes::<10, true>(cpu, bus, op, indefinite, |value, _| value.to_bytes())
}

fn decimal(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let indefinite = store::DECIMAL_INDEFINITE;
    store_bytes::<10, true>(cpu, bus, op, indefinite, store::store_decimal)
}

#[inline(always)]
fn integer<const N: usize, const POPS: bool, const TRUNCATES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let low = |value: i64| {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&value.to_le_bytes()[..N]);
        bytes
    };
    let bits = 8 * N as u32;
    let indefinite = low(i64::MIN >> (64 - bits));
    store_bytes::<N, POPS>(cpu, bus, op, indefinite, |value, context| {
        let rounding = if TRUNCATES { Rounding::Zero } else { context.rounding };
        low(store::store_integer(value, bits, rounding, context))
    })
}

/// FST ST(i) and FSTP ST(i): a copy without conversion.
fn register<const POPS: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let unit = &mut cpu.registers.x87;
    let is_stored = if unit.is_empty(0) {
        let is_stored = !unit.stack_fault(false);
        if is_stored {
            unit.set_st(op.a, Extended::INDEFINITE);
        }
        is_stored
    } else {
        unit.set_codes(C1, 0);
        let value = unit.st(0);
        unit.set_st(op.a, value);
        true
    };
    if is_stored && POPS {
        unit.pop();
    }
    cpu.registers.note_x87(op);
    Ok(())
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let handler: Handler = match (i.mnemonic(), is_memory(i, 0), width(i, 0)) {
        (Mnemonic::Fst, false, _) => register::<false>,
        (Mnemonic::Fstp | Mnemonic::Fstpnce, false, _) => register::<true>,
        (Mnemonic::Fst, true, 4) => single::<false>,
        (Mnemonic::Fst, true, _) => double::<false>,
        (Mnemonic::Fstp, true, 4) => single::<true>,
        (Mnemonic::Fstp, true, 8) => double::<true>,
        (Mnemonic::Fstp, true, _) => extended,
        (Mnemonic::Fist, _, 2) => integer::<2, false, false>,
        (Mnemonic::Fist, _, _) => integer::<4, false, false>,
        (Mnemonic::Fistp, _, 2) => integer::<2, true, false>,
        (Mnemonic::Fistp, _, 4) => integer::<4, true, false>,
        (Mnemonic::Fistp, _, _) => integer::<8, true, false>,
        (Mnemonic::Fisttp, _, 2) => integer::<2, true, true>,
        (Mnemonic::Fisttp, _, 4) => integer::<4, true, true>,
        (Mnemonic::Fisttp, _, _) => integer::<8, true, true>,
        (Mnemonic::Fbstp, ..) => decimal,
        _ => return None,
    };
    Binding::costing(handler, if is_memory(i, 0) { Cost::Store } else { Cost::Simple })
}
