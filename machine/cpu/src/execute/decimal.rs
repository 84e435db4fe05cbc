//! AAA, AAS, AAM, AAD, DAA, DAS: decimal adjustment, outside 64-bit mode only. [APM3 "AAA"]

use crate::execute::binding::{Binding, Handler};
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::state::Registers;
use crate::width::{HIGH_BYTE, RAX, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use iced_x86::{Instruction, Mnemonic};

/// AAA (`SIGN` = 1) and AAS (`SIGN` = -1).
fn ascii_adjust<const SUBTRACT: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    let ax = cpu.registers.gpr[RAX] as u16;
    let adjust = ax as u8 & 15 > 9 || cpu.registers.flags.auxiliary();
    let adjusted = match (adjust, SUBTRACT) {
        (false, _) => ax,
        (true, false) => ax.wrapping_add(0x106),
        (true, true) => ax.wrapping_sub(0x106),
    };
    let result = adjusted & 0xFF0F;
    result.to_register(&mut cpu.registers.gpr, RAX as u8);
    cpu.registers.set_decimal_flags(result as u8, adjust, adjust);
    Ok(())
}

fn aam(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (al, base) = (cpu.registers.gpr[RAX] as u8, op.immediate as u8);
    let (high, low) = match (al.checked_div(base), al.checked_rem(base)) {
        (Some(high), Some(low)) => (high, low),
        _ => return Err(Stop::DIVIDE_ERROR),
    };
    low.to_register(&mut cpu.registers.gpr, RAX as u8);
    high.to_register(&mut cpu.registers.gpr, HIGH_BYTE);
    cpu.registers.set_decimal_flags(low, false, false);
    Ok(())
}

fn aad(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (al, ah) = (cpu.registers.gpr[RAX] as u8, (cpu.registers.gpr[RAX] >> 8) as u8);
    let result = al.wrapping_add(ah.wrapping_mul(op.immediate as u8));
    (result as u16).to_register(&mut cpu.registers.gpr, RAX as u8);
    cpu.registers.set_decimal_flags(result, false, false);
    Ok(())
}

/// DAA and DAS.
fn decimal_adjust<const SUBTRACT: bool>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    _: &Op,
) -> Result<(), Stop> {
    let old = cpu.registers.gpr[RAX] as u8;
    let old_carry = cpu.registers.flags.carry();
    let step = |value: u8, by: u8| {
        if SUBTRACT { value.overflowing_sub(by) } else { value.overflowing_add(by) }
    };
    let (mut al, mut carry) = (old, false);
    let auxiliary = old & 15 > 9 || cpu.registers.flags.auxiliary();
    if auxiliary {
        let (adjusted, wrapped) = step(al, 6);
        al = adjusted;
        carry = old_carry || wrapped;
    }
    if old > 0x99 || old_carry {
        al = step(al, 0x60).0;
        carry = true;
    } else if !SUBTRACT {
        carry = false;
    }
    al.to_register(&mut cpu.registers.gpr, RAX as u8);
    cpu.registers.set_decimal_flags(al, carry, auxiliary);
    Ok(())
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Aaa => ascii_adjust::<false>,
        Mnemonic::Aas => ascii_adjust::<true>,
        Mnemonic::Aam => aam,
        Mnemonic::Aad => aad,
        Mnemonic::Daa => decimal_adjust::<false>,
        Mnemonic::Das => decimal_adjust::<true>,
        _ => return None,
    };
    Binding::within(handler)
}

impl Registers {
    fn set_decimal_flags(&mut self, result: u8, carry: bool, auxiliary: bool) {
        self.flags.shift(result, carry, false);
        let status = self.flags.status() & !rflags::AF | if auxiliary { rflags::AF } else { 0 };
        self.flags.set_status(status);
    }
}
