//! IN and OUT. [APM1 "Input/Output"]

use crate::execute::binding::{Binding, Boundary, Handler};
use crate::guest::{Io, Sensitive};
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_register};
use crate::width::{RAX, RDX, Width};
use crate::{Attention, Bus, Cpu, Stop};
use arch::segment::system;
use iced_x86::{Instruction, Mnemonic, Register};

impl Cpu {
    /// #GP(0) unless CPL ≤ IOPL or the TSS's bitmap permits the ports.
    /// [APM2 "I/O-Permission Bitmap"]
    pub(crate) fn check_port(
        &mut self,
        bus: &mut Bus<'_>,
        port: u16,
        size: u8,
    ) -> Result<(), Stop> {
        let iopl = (self.registers.flags.system >> 12 & 3) as u8;
        let unrestricted = self.control.is_real()
            || (!self.registers.is_virtual_8086() && self.registers.cpl <= iopl);
        if unrestricted {
            return Ok(());
        }
        let is_32_bit = matches!(
            self.control.tr.attributes.kind(),
            system::TSS32_AVAILABLE | system::TSS32_BUSY
        );
        if !is_32_bit || self.control.tr.limit < 0x67 {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let bitmap = self.read_system(bus, self.control.tr.base.wrapping_add(0x66), 2)? as u32;
        let at = bitmap + port as u32 / 8;
        if at + 1 > self.control.tr.limit {
            return Err(Stop::GENERAL_PROTECTION);
        }
        let bits = self.read_system(bus, self.control.tr.base.wrapping_add(at as u64), 2)? as u32;
        let wanted = ((1 << size) - 1) << (port % 8);
        if bits & wanted != 0 { Err(Stop::GENERAL_PROTECTION) } else { Ok(()) }
    }

    pub(crate) fn port_in(&mut self, bus: &mut Bus<'_>, port: u16, size: u8) -> u32 {
        self.pending.attention |= Attention::YIELD;
        bus.platform.port_in(bus.memory, self.visit(), port, size)
    }

    pub(crate) fn port_out(&mut self, bus: &mut Bus<'_>, port: u16, size: u8, value: u32) {
        self.pending.attention |= Attention::YIELD;
        bus.platform.port_out(bus.memory, self.visit(), port, size, value);
    }
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
    cpu.check_port(bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::In })?;
    let value = cpu.port_in(bus, port, W::BYTES as u8);
    W::truncate(value as u64).to_register(&mut cpu.registers.gpr, RAX as u8);
    Ok(())
}

fn output<W: Width, const IN_DX: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let port = port(cpu, op, IN_DX);
    cpu.check_port(bus, port, W::BYTES as u8)?;
    cpu.before(bus, op, Sensitive::Port { port, size: W::BYTES as u8, io: Io::Out })?;
    let value = W::from_register(&cpu.registers.gpr, RAX as u8).zero_extend();
    cpu.port_out(bus, port, W::BYTES as u8, value as u32);
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
