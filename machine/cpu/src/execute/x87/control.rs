//! FINIT, FCLEX, FLDCW, FSTCW, FSTSW, FFREE, FINCSTP, FDECSTP, FNOP and FWAIT. The names with N do
//! not wait; the ones without are an FWAIT and the former.

use crate::execute::binding::{Binding, Handler};
use crate::execute::x87::unit;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory};
use crate::state::x87::{C1, STACK_FAULT, X87};
use crate::width::{RAX, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::Cr0;
use iced_x86::{Instruction, Mnemonic};

/// Bit 6 of the control word always reads one; bits 15:13 and 7 zero.
const CONTROL_RESERVED: u16 = 0xE080;
const CONTROL_FIXED: u16 = 1 << 6;
/// The exception flags, the stack fault, ES and B.
const CLEARED_BY_FCLEX: u16 = 0x80FF;

impl X87 {
    pub(crate) fn set_control(&mut self, control: u16) {
        self.control = control & !CONTROL_RESERVED | CONTROL_FIXED;
        self.refresh_pending();
    }

    /// FNINIT keeps the registers' contents but calls them empty.
    pub(crate) fn reset(&mut self) {
        *self = X87 { registers: self.registers, ..X87::default() };
    }
}

/// #NM if both CR0.MP and CR0.TS are set, whatever CR0.EM says.
fn fwait(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    if cpu.control.cr0().contains(Cr0::MONITOR_COPROCESSOR | Cr0::TASK_SWITCHED) {
        return Err(Stop::DEVICE_NOT_AVAILABLE);
    }
    unit::check_pending(cpu)
}

fn fninit(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    cpu.registers.x87.reset();
    Ok(())
}

fn fnclex(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    cpu.registers.x87.set_codes(CLEARED_BY_FCLEX | STACK_FAULT, 0);
    Ok(())
}

fn fldcw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let control = cpu.read::<u16>(bus, op)?;
    cpu.registers.x87.set_control(control);
    Ok(())
}

fn fnstcw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let control = cpu.registers.x87.control;
    cpu.write(bus, op, control)?;
    cpu.pending.after_store()
}

fn fnstsw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()?;
    let status = cpu.registers.x87.status;
    if !op.has(Op::MEMORY) {
        status.to_register(&mut cpu.registers.gpr, RAX as u8);
        return Ok(());
    }
    cpu.write(bus, op, status)?;
    cpu.pending.after_store()
}

fn ffree<const POPS: bool>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    cpu.registers.x87.release(op.a);
    cpu.registers.x87.set_codes(C1, 0);
    if POPS {
        let next = cpu.registers.x87.top().wrapping_add(1);
        cpu.registers.x87.set_top(next);
    }
    cpu.registers.note_x87(op);
    Ok(())
}

/// FINCSTP and FDECSTP turn the stack without emptying anything.
fn rotate<const STEP: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)?;
    let top = cpu.registers.x87.top().wrapping_add(STEP);
    cpu.registers.x87.set_top(top);
    cpu.registers.x87.set_codes(C1, 0);
    cpu.registers.note_x87(op);
    Ok(())
}

/// FNOP, and what the 8087 and 287 knew: FENI, FDISI, FSETPM.
fn fnop(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    unit::enter_x87(cpu)
}

fn fnop_of_old(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    cpu.control.check_x87()
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    const FORWARD: u8 = 1;
    const BACK: u8 = 7;
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Wait => fwait,
        Mnemonic::Fninit => fninit,
        Mnemonic::Fnclex => fnclex,
        Mnemonic::Fldcw => fldcw,
        Mnemonic::Fnstcw => fnstcw,
        Mnemonic::Fnstsw => fnstsw,
        Mnemonic::Ffree => ffree::<false>,
        Mnemonic::Ffreep => ffree::<true>,
        Mnemonic::Fincstp => rotate::<FORWARD>,
        Mnemonic::Fdecstp => rotate::<BACK>,
        Mnemonic::Fnop => fnop,
        Mnemonic::Fneni | Mnemonic::Fndisi | Mnemonic::Fnsetpm => fnop_of_old,
        _ => return None,
    };
    Binding::costing(handler, if is_memory(i, 0) { Cost::Store } else { Cost::Simple })
}
