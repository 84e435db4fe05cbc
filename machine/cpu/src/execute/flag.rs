//! CLC, STC, CMC, CLD, STD, CLI, STI, CLAC, STAC.

use crate::execute::binding::Binding;
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::{Cr4, rflags};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

fn clc(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.registers.flags.set_carry(false);
    Ok(())
}

fn stc(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.registers.flags.set_carry(true);
    Ok(())
}

fn cmc(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    let carry = cpu.registers.flags.carry();
    cpu.registers.flags.set_carry(!carry);
    Ok(())
}

fn cld(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.registers.flags.system &= !rflags::DF;
    Ok(())
}

fn std(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.registers.flags.system |= rflags::DF;
    Ok(())
}

/// Which flag CLI and STI change. [APM2 "Virtual Interrupts"]
enum InterruptFlag {
    If,
    Vif,
}

fn interrupt_flag(cpu: &Cpu) -> Result<InterruptFlag, Stop> {
    let iopl = (cpu.registers.flags.system >> 12 & 3) as u8;
    if cpu.control.is_real() || iopl >= cpu.registers.cpl() {
        return Ok(InterruptFlag::If);
    }
    let is_virtual = if cpu.registers.is_virtual_8086() {
        cpu.control.cr4().contains(Cr4::VME)
    } else {
        cpu.registers.cpl() == 3 && cpu.control.cr4().contains(Cr4::PVI)
    };
    if is_virtual { Ok(InterruptFlag::Vif) } else { Err(Stop::GENERAL_PROTECTION) }
}

fn cli(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    match interrupt_flag(cpu)? {
        InterruptFlag::If => cpu.registers.flags.system &= !rflags::IF,
        InterruptFlag::Vif => cpu.registers.flags.system &= !rflags::VIF,
    }
    Ok(())
}

/// The instruction after STI runs before an interrupt is taken, if IF was clear. [APM3 "STI"]
fn sti(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    match interrupt_flag(cpu)? {
        InterruptFlag::If if !cpu.registers.flags.has(rflags::IF) => {
            cpu.registers.flags.system |= rflags::IF;
            cpu.pending.raise(Attention::SHADOW);
            cpu.open_to_interrupts();
        }
        InterruptFlag::If => {}
        InterruptFlag::Vif if cpu.registers.flags.has(rflags::VIP) => {
            return Err(Stop::GENERAL_PROTECTION);
        }
        InterruptFlag::Vif => cpu.registers.flags.system |= rflags::VIF,
    }
    Err(Stop::END_BLOCK)
}

fn set_ac(cpu: &mut Cpu, on: bool) -> Result<(), Stop> {
    if !cpu.model.has(Feature::Smap) || cpu.registers.cpl() != 0 {
        return Err(Stop::INVALID_OPCODE);
    }
    cpu.registers.flags.system =
        cpu.registers.flags.system & !rflags::AC | if on { rflags::AC } else { 0 };
    cpu.update_access_mode();
    Ok(())
}

fn clac(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    set_ac(cpu, false)
}

fn stac(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    set_ac(cpu, true)
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    match i.mnemonic() {
        Mnemonic::Clc => Binding::within(clc),
        Mnemonic::Stc => Binding::within(stc),
        Mnemonic::Cmc => Binding::within(cmc),
        Mnemonic::Cld => Binding::within(cld),
        Mnemonic::Std => Binding::within(std),
        Mnemonic::Cli => Binding::within(cli),
        Mnemonic::Sti => Binding::ends(sti),
        Mnemonic::Clac => Binding::within(clac),
        Mnemonic::Stac => Binding::within(stac),
        _ => None,
    }
}
