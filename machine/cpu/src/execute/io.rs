//! IN and OUT. [APM1 "Input/Output"]

use crate::execute::binding::{Binding, Boundary, Handler};
use crate::guest::{Io, Sensitive};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_register};
use crate::width::{RAX, RDX, Width};
use crate::{Attention, Bus, Cpu, Stop};
use arch::segment::system;
use iced_x86::{Instruction, Mnemonic, Register};

/// #GP(0) unless CPL ≤ IOPL or the TSS's bitmap permits the ports.
/// [APM2 "I/O-Permission Bitmap"]
pub(crate) fn check_port(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    port: u16,
    size: u8,
) -> Result<(), Stop> {
    let iopl = (cpu.registers.flags.system >> 12 & 3) as u8;
    let unrestricted =
        cpu.control.is_real() || (!cpu.registers.is_virtual_8086() && cpu.registers.cpl() <= iopl);
    if unrestricted {
        return Ok(());
    }
    let is_32_bit =
        matches!(cpu.control.tr.attributes.kind(), system::TSS32_AVAILABLE | system::TSS32_BUSY);
    if !is_32_bit || cpu.control.tr.limit < 0x67 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let bitmap = cpu.read_system(bus, cpu.control.tr.base.wrapping_add(0x66), 2)? as u32;
    let at = bitmap + port as u32 / 8;
    if at + 1 > cpu.control.tr.limit {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let bits = cpu.read_system(bus, cpu.control.tr.base.wrapping_add(at as u64), 2)? as u32;
    let wanted = ((1 << size) - 1) << (port % 8);
    if bits & wanted != 0 { Err(Stop::GENERAL_PROTECTION) } else { Ok(()) }
}

pub(crate) fn port_in(cpu: &mut Cpu, bus: &mut Bus<'_>, port: u16, size: u8) -> u32 {
    cpu.pending.raise(Attention::YIELD);
    bus.platform.port_in(bus.memory, cpu.visit(), port, size)
}

pub(crate) fn port_out(cpu: &mut Cpu, bus: &mut Bus<'_>, port: u16, size: u8, value: u32) {
    cpu.pending.raise(Attention::YIELD);
    bus.platform.port_out(bus.memory, cpu.visit(), port, size, value);
}

fn port(cpu: &Cpu, op: &Op, in_dx: bool) -> u16 {
    if in_dx { cpu.registers.gpr[RDX] as u16 } else { op.immediate as u8 as u16 }
}

fn input<W: Width, const IN_DX: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let port = port(cpu, op, IN_DX);
    check_port(cpu, bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::In })?;
    let value = port_in(cpu, bus, port, W::BYTES as u8);
    W::truncate(value as u64).to_register(&mut cpu.registers.gpr, RAX as u8);
    Ok(())
}

fn output<W: Width, const IN_DX: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let port = port(cpu, op, IN_DX);
    check_port(cpu, bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::Out })?;
    let value = W::from_register(&cpu.registers.gpr, RAX as u8).zero_extend();
    port_out(cpu, bus, port, W::BYTES as u8, value as u32);
    Ok(())
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler: Handler = match i.mnemonic() {
        Mnemonic::In => match (i.op_register(0), is_register(i, 1)) {
            (Register::AL, true) => input::<u8, true>,
            (Register::AL, false) => input::<u8, false>,
            (Register::AX, true) => input::<u16, true>,
            (Register::AX, false) => input::<u16, false>,
            (_, true) => input::<u32, true>,
            (_, false) => input::<u32, false>,
        },
        Mnemonic::Out => match (i.op_register(1), is_register(i, 0)) {
            (Register::AL, true) => output::<u8, true>,
            (Register::AL, false) => output::<u8, false>,
            (Register::AX, true) => output::<u16, true>,
            (Register::AX, false) => output::<u16, false>,
            (_, true) => output::<u32, true>,
            (_, false) => output::<u32, false>,
        },
        _ => return None,
    };
    Some(Binding { handler, boundary: Boundary::Alone, cost: Cost::Port })
}
