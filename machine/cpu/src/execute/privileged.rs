//! Control and debug registers, descriptor tables, MSRs, CPUID, time stamps, HLT, MONITOR, MWAIT,
//! TLB and cache control, FS/GS bases, random numbers, protection keys, SYSCALL and SYSENTER.

use crate::CpuModel;
use crate::execute::binding::{Binding, Boundary, Handler, sized};
use crate::guest::{Form, Sensitive, Table, Written};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, Cost, is_memory, is_register, width};
use crate::state::{Registers, TableRegister};
use crate::system::control;
use crate::system::cpuid;
use crate::system::debug;
use crate::system::msr;
use crate::system::syscall;
use crate::width::{RAX, RCX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::{Cr0, Cr4, rflags};
use arch::cpuid::Feature;
use arch::segment::SegmentRegister;
use iced_x86::{Instruction, Mnemonic, Register};

/// SGDT, SIDT, SLDT, STR and SMSW outside CPL 0 with CR4.UMIP. [APM2 "UMIP"]
pub(crate) fn check_umip(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.control.cr4().contains(Cr4::UMIP) && cpu.registers.cpl() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(())
}

fn mov_from_cr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let value = control::read_control(cpu, bus, op, op.b)?;
    cpu.registers.gpr[op.a as usize] = if op.has(Op::LONG) { value } else { value as u32 as u64 };
    Ok(())
}

fn mov_to_cr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let value = cpu.registers.gpr[op.b as usize];
    let value = if op.has(Op::LONG) { value } else { value as u32 as u64 };
    control::write_control(cpu, bus, op, op.a, value)
}

fn mov_from_dr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = debug::read_debug(cpu, bus, op, op.b)?;
    cpu.registers.gpr[op.a as usize] = if op.has(Op::LONG) { value } else { value as u32 as u64 };
    Ok(())
}

fn mov_to_dr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = cpu.registers.gpr[op.b as usize];
    let value = if op.has(Op::LONG) { value } else { value as u32 as u64 };
    debug::write_debug(cpu, bus, op, op.a, value)
}

fn smsw<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_umip(cpu)?;
    cpu.before(bus, op, Sensitive::ReadControl { number: 0, form: Form::MachineStatus })?;
    let value = cpu.shown_cr0();
    if op.has(Op::MEMORY) {
        cpu.write(bus, op, value as u16)?;
        return cpu.pending.after_store();
    }
    W::truncate(value).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// LMSW loads the low four bits and cannot clear PE. [APM3 "LMSW"]
fn lmsw(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::LoadMachineStatus)?;
    let value = if op.has(Op::MEMORY) {
        cpu.read::<u16>(bus, op)?
    } else {
        cpu.registers.gpr[op.a as usize] as u16
    };
    let old = cpu.control.cr0().bits();
    let new = old & !0xE | value as u64 & 0xF;
    control::write_machine_status(cpu, bus, op, new)
}

fn clts(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let value = cpu.control.cr0().difference(Cr0::TASK_SWITCHED);
    let form = Form::ClearTaskSwitched;
    cpu.before(bus, op, Sensitive::WriteControl { number: 0, value: value.bits(), form })?;
    cpu.control.set_cr0(Cr0::from_bits_retain(cpu.resulting_cr0(value.bits())));
    cpu.after_write(Written::Control { number: 0, value: value.bits() });
    Err(Stop::END_BLOCK)
}

fn store_table<const IDT: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_umip(cpu)?;
    cpu.before(bus, op, Sensitive::ReadTable(if IDT { Table::Idtr } else { Table::Gdtr }))?;
    let table = if IDT { cpu.control.idtr } else { cpu.control.gdtr };
    let bytes = if op.has(Op::LONG) { 8 } else { 4 };
    let at = cpu.registers.effective_address(op);
    let limit_at = cpu.operand_at(op, at, 2, Access::Write)?;
    let next = at.wrapping_add(2) & op.address_mask();
    let base_at = cpu.operand_at(op, next, bytes, Access::Write)?;
    let base = cpu.locate_linear(bus, base_at, bytes, Access::Write, op.segment)?;
    cpu.write_linear(bus, limit_at, table.limit)?;
    cpu.write_place(bus, base, table.base);
    cpu.pending.after_store()
}

fn load_table<const IDT: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::WriteTable(if IDT { Table::Idtr } else { Table::Gdtr }))?;
    let bytes = if op.has(Op::LONG) { 8 } else { 4 };
    let at = cpu.registers.effective_address(op);
    let linear = cpu.operand_at(op, at, 2, Access::Read)?;
    let limit = cpu.read_linear::<u16>(bus, linear)?;
    let next = at.wrapping_add(2) & op.address_mask();
    let linear = cpu.operand_at(op, next, bytes, Access::Read)?;
    let base = if op.has(Op::LONG) {
        cpu.read_linear::<u64>(bus, linear)?
    } else {
        let base = cpu.read_linear::<u32>(bus, linear)? as u64;
        // With a 16-bit operand size the base has 24 bits.
        if op.has(Op::SIZE_16) || op.c == 1 { base & 0xFF_FFFF } else { base }
    };
    if op.has(Op::LONG) && (base as i64) << 16 >> 16 != base as i64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let table = TableRegister { base, limit };
    if IDT {
        cpu.control.idtr = table
    } else {
        cpu.control.gdtr = table
    }
    Ok(())
}

fn load_table_16<const IDT: bool>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    load_table::<IDT>(cpu, bus, &Op { c: 1, ..*op })
}

fn cpuid(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Cpuid)?;
    let result = cpuid::cpuid(cpu, cpu.registers.gpr[RAX] as u32, cpu.registers.gpr[RCX] as u32);
    cpu.registers.gpr[RAX] = result.eax as u64;
    cpu.registers.gpr[crate::width::RBX] = result.ebx as u64;
    cpu.registers.gpr[RCX] = result.ecx as u64;
    cpu.registers.gpr[RDX] = result.edx as u64;
    Ok(())
}

fn check_time_stamp(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.control.cr4().contains(Cr4::TSD) && cpu.registers.cpl() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(())
}

/// The counters of all processors advance together, and software compares what it read on
/// one with what another wrote to memory. So nobody reads ahead of a processor that is behind.
fn in_order_of_time(cpu: &Cpu) -> Result<(), Stop> {
    if cpu.clock.now() > cpu.clock.others() { Err(Stop::DEFER) } else { Ok(()) }
}

fn rdtsc(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check_time_stamp(cpu)?;
    cpu.before(bus, op, Sensitive::Rdtsc)?;
    in_order_of_time(cpu)?;
    let tsc = cpu.guest_tsc();
    cpu.registers.set_edx_eax(tsc);
    Ok(())
}

fn rdtscp(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Rdtscp)?;
    check_time_stamp(cpu)?;
    cpu.before(bus, op, Sensitive::Rdtscp)?;
    in_order_of_time(cpu)?;
    let tsc = cpu.guest_tsc();
    cpu.registers.set_edx_eax(tsc);
    cpu.registers.gpr[RCX] = cpu.control.msr.tsc_aux & 0xFFFF_FFFF;
    Ok(())
}

fn rdpid(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Rdpid)?;
    cpu.before(bus, op, Sensitive::Rdpid)?;
    cpu.registers.gpr[op.a as usize] = cpu.control.msr.tsc_aux & 0xFFFF_FFFF;
    Ok(())
}

/// The performance counters read zero: none is modelled. [APM3 "RDPMC"]
fn rdpmc(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.registers.cpl() != 0 && !cpu.control.cr4().contains(Cr4::PCE) {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let check = |cpu: &mut Cpu| refuse(cpu.registers.gpr[RCX] as u32 > 3);
    cpu.before_checked(bus, op, Sensitive::Rdpmc, check)?;
    check(cpu)?;
    cpu.registers.set_edx_eax(0);
    Ok(())
}

fn rdmsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let number = cpu.registers.gpr[RCX] as u32;
    cpu.before(bus, op, Sensitive::ReadMsr { number })?;
    let value = msr::read_msr(cpu, bus, number)?;
    cpu.registers.set_edx_eax(value);
    Ok(())
}

fn wrmsr(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let number = cpu.registers.gpr[RCX] as u32;
    cpu.before(bus, op, Sensitive::WriteMsr { number })?;
    let value = cpu.registers.edx_eax();
    msr::write_msr(cpu, bus, number, value)?;
    Err(Stop::END_BLOCK)
}

/// #GP(0) if an operand is reserved.
fn refuse(is_reserved: bool) -> Result<(), Stop> {
    if is_reserved { Err(Stop::GENERAL_PROTECTION) } else { Ok(()) }
}

fn hlt(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::Hlt)?;
    Err(Stop::HALT)
}

/// MONITOR watches the 64-byte line at rAX. [APM3 "MONITOR"]
fn monitor(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Monitor)?;
    if cpu.registers.cpl() != 0 {
        return Err(Stop::INVALID_OPCODE);
    }
    let check = |cpu: &mut Cpu| refuse(cpu.registers.gpr[RCX] as u32 != 0);
    cpu.before_checked(bus, op, Sensitive::Monitor, check)?;
    check(cpu)?;
    let offset = cpu.registers.gpr[RAX] & if op.has(Op::LONG) { u64::MAX } else { 0xFFFF_FFFF };
    let linear = cpu.operand_at(op, offset, 1, Access::Read)?;
    let place = cpu.locate_linear(bus, linear, 1, Access::Read, op.segment)?;
    cpu.pending.monitor(bus.memory, place.ram_offset());
    Ok(())
}

fn mwait(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Monitor)?;
    if cpu.registers.cpl() != 0 {
        return Err(Stop::INVALID_OPCODE);
    }
    // Bit 0 lets masked interrupts wake; others are reserved.
    let check = |cpu: &mut Cpu| refuse(cpu.registers.gpr[RCX] as u32 & !1 != 0);
    cpu.before_checked(bus, op, Sensitive::Mwait, check)?;
    check(cpu)?;
    if !cpu.pending.monitor_is_armed(bus.memory) {
        cpu.pending.disarm();
        return Err(Stop::END_BLOCK);
    }
    cpu.pending.wait(cpu.registers.gpr[RCX] & 1 != 0);
    Err(Stop::END_BLOCK)
}

fn invlpg(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    let offset = cpu.registers.effective_address(op);
    let linear = match cpu.registers.bases().get(op.segment as usize) {
        Some(base) => base.wrapping_add(offset),
        None => offset,
    };
    cpu.before(bus, op, Sensitive::Invlpg { linear })?;
    cpu.translation.tlb.flush_page(linear);
    Err(Stop::END_BLOCK)
}

/// [SDM2 "INVPCID"]
fn invpcid(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Invpcid)?;
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::Invpcid)?;
    let linear = cpu.operand(op, 16, Access::Read)?;
    let pcid = cpu.read_linear::<u64>(bus, linear)?;
    let address = cpu.read_linear::<u64>(bus, linear.wrapping_add(8))?;
    let kind =
        cpu.registers.gpr[op.a as usize] & if op.has(Op::LONG) { u64::MAX } else { 0xFFFF_FFFF };
    let has_pcid = cpu.control.cr4().contains(Cr4::PCIDE);
    let canonical = (address as i64) << 16 >> 16 == address as i64;
    let bad = match kind {
        0 => pcid >> 12 != 0 || !canonical || (!has_pcid && pcid != 0),
        1 => pcid >> 12 != 0 || (!has_pcid && pcid != 0),
        2 | 3 => pcid >> 12 != 0,
        _ => true,
    };
    if bad {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let asid = cpu.translation.tlb.asid();
    match kind {
        0 => cpu.translation.tlb.flush_page(address),
        1 => cpu.translation.tlb.flush_pcid(asid, pcid as u16),
        _ => cpu.translation.tlb.flush_asid(asid),
    }
    Err(Stop::END_BLOCK)
}

/// INVD, WBINVD: caches are not modelled.
fn wbinvd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::Wbinvd)
}

fn invd(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::Invd)
}

/// CLFLUSH and kin fault as a read of one byte would.
fn flush_line(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.read::<u8>(bus, op).map(|_| ())
}

fn clzero(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Clzero)?;
    let offset =
        cpu.registers.gpr[RAX] & if op.has(Op::LONG) { u64::MAX } else { 0xFFFF_FFFF } & !63;
    for at in (0..64).step_by(8) {
        let linear = cpu.operand_at(op, offset + at, 8, Access::Write)?;
        cpu.write_linear(bus, linear, 0u64)?;
    }
    cpu.pending.after_store()
}

fn fence(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Ok(())
}

fn swapgs(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !op.has(Op::LONG) {
        return Err(Stop::INVALID_OPCODE);
    }
    cpu.registers.needs_cpl0()?;
    let hidden = cpu.control.syscall.kernel_gs_base;
    cpu.control.syscall.kernel_gs_base = cpu.registers.segment(SegmentRegister::Gs).base;
    cpu.registers.set_segment_base(SegmentRegister::Gs, hidden);
    Ok(())
}

fn segment_base<W: Width, const GS: bool, const WRITE: bool>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    if !cpu.control.cr4().contains(Cr4::FSGSBASE) || !op.has(Op::LONG) {
        return Err(Stop::INVALID_OPCODE);
    }
    let register = if GS { SegmentRegister::Gs } else { SegmentRegister::Fs };
    if !WRITE {
        W::truncate(cpu.registers.segment(register).base).to_register(&mut cpu.registers.gpr, op.a);
        return Ok(());
    }
    let base = W::from_register(&cpu.registers.gpr, op.a).zero_extend();
    if (base as i64) << 16 >> 16 != base as i64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.set_segment_base(register, base);
    Ok(())
}

fn random<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let number = cpu.random.next();
    W::truncate(number).to_register(&mut cpu.registers.gpr, op.a);
    cpu.registers.flags.set_status(rflags::CF);
    Ok(())
}

fn rdrand<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Rdrand)?;
    cpu.before(bus, op, Sensitive::Rdrand { size: W::BYTES as u8 })?;
    random::<W>(cpu, bus, op)
}

fn rdseed<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.model.needs(Feature::Rdseed)?;
    cpu.before(bus, op, Sensitive::Rdseed { size: W::BYTES as u8 })?;
    random::<W>(cpu, bus, op)
}

fn rdpkru(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    if !cpu.control.cr4().contains(Cr4::PKE) {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.registers.gpr[RCX] as u32 != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.set_edx_eax(cpu.control.pkru as u64);
    Ok(())
}

fn wrpkru(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    if !cpu.control.cr4().contains(Cr4::PKE) {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.registers.gpr[RCX] as u32 != 0 || cpu.registers.gpr[RDX] as u32 != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.control.pkru = cpu.registers.gpr[RAX] as u32;
    cpu.translation.tlb.flush_asid(cpu.translation.tlb.asid());
    Err(Stop::END_BLOCK)
}

fn syscall(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    syscall::system_call(cpu, bus, op)
}

fn sysret<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    syscall::system_return(cpu, bus, op, W::BYTES == 8)
}

fn sysenter(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    syscall::system_enter(cpu, bus, op)
}

fn sysexit<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    syscall::system_exit(cpu, bus, op, W::BYTES == 8)
}

fn rsm(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.before(bus, op, Sensitive::Rsm)?;
    // DEVIATION(APM2 "System-Management Mode"): there is no SMM, so RSM is always outside it.
    Err(Stop::INVALID_OPCODE)
}

fn moves(i: &Instruction) -> Option<Handler> {
    if i.mnemonic() != Mnemonic::Mov {
        return None;
    }
    let is = |operand, first: Register, last: Register| {
        is_register(i, operand) && (first..=last).contains(&i.op_register(operand))
    };
    if is(1, Register::CR0, Register::CR15) {
        Some(mov_from_cr)
    } else if is(0, Register::CR0, Register::CR15) {
        Some(mov_to_cr)
    } else if is(1, Register::DR0, Register::DR15) {
        Some(mov_from_dr)
    } else if is(0, Register::DR0, Register::DR15) {
        Some(mov_to_dr)
    } else {
        None
    }
}

/// Instructions that stand alone in their block.
fn alone(i: &Instruction) -> Option<Handler> {
    use iced_x86::Code;
    let w = width(i, 0);
    if let Some(handler) = moves(i) {
        return Some(handler);
    }
    Some(match i.mnemonic() {
        Mnemonic::Lmsw => lmsw,
        Mnemonic::Clts => clts,
        Mnemonic::Lgdt if i.code() == Code::Lgdt_m1632_16 => load_table_16::<false>,
        Mnemonic::Lgdt => load_table::<false>,
        Mnemonic::Lidt if i.code() == Code::Lidt_m1632_16 => load_table_16::<true>,
        Mnemonic::Lidt => load_table::<true>,
        Mnemonic::Cpuid => cpuid,
        Mnemonic::Rdtsc => rdtsc,
        Mnemonic::Rdtscp => rdtscp,
        Mnemonic::Rdpmc => rdpmc,
        Mnemonic::Rdmsr => rdmsr,
        Mnemonic::Wrmsr => wrmsr,
        Mnemonic::Hlt => hlt,
        Mnemonic::Monitor => monitor,
        Mnemonic::Mwait => mwait,
        Mnemonic::Invlpg => invlpg,
        Mnemonic::Invpcid => invpcid,
        Mnemonic::Wbinvd | Mnemonic::Wbnoinvd => wbinvd,
        Mnemonic::Invd => invd,
        Mnemonic::Rdpkru => rdpkru,
        Mnemonic::Wrpkru => wrpkru,
        Mnemonic::Syscall => syscall,
        Mnemonic::Sysret => sysret::<u32>,
        Mnemonic::Sysretq => sysret::<u64>,
        Mnemonic::Sysenter => sysenter,
        Mnemonic::Sysexit => sysexit::<u32>,
        Mnemonic::Sysexitq => sysexit::<u64>,
        Mnemonic::Rsm => rsm,
        Mnemonic::Rdrand => sized!(w, rdrand),
        Mnemonic::Rdseed => sized!(w, rdseed),
        _ => return None,
    })
}

fn within(i: &Instruction) -> Option<(Handler, Cost)> {
    let w = width(i, 0);
    let is_wide = w == 8;
    macro_rules! bases {
        ($segment:literal, $write:literal) => {
            if is_wide {
                segment_base::<u64, $segment, $write>
            } else {
                segment_base::<u32, $segment, $write>
            }
        };
    }
    Some(match i.mnemonic() {
        Mnemonic::Smsw if is_memory(i, 0) => (smsw::<u16>, Cost::Store),
        Mnemonic::Smsw => (sized!(w, smsw), Cost::Simple),
        Mnemonic::Sgdt => (store_table::<false>, Cost::Store),
        Mnemonic::Sidt => (store_table::<true>, Cost::Store),
        Mnemonic::Rdpid => (rdpid, Cost::Simple),
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => (flush_line, Cost::Store),
        Mnemonic::Clzero => (clzero, Cost::Store),
        Mnemonic::Mfence | Mnemonic::Sfence => (fence, Cost::Fence),
        Mnemonic::Lfence => (fence, Cost::LoadFence),
        Mnemonic::Swapgs => (swapgs, Cost::Simple),
        Mnemonic::Rdfsbase => (bases!(false, false), Cost::Simple),
        Mnemonic::Rdgsbase => (bases!(true, false), Cost::Simple),
        Mnemonic::Wrfsbase => (bases!(false, true), Cost::Simple),
        Mnemonic::Wrgsbase => (bases!(true, true), Cost::Simple),
        _ => return None,
    })
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    if let Some(handler) = alone(i) {
        let cost = match i.mnemonic() {
            Mnemonic::Rdtsc | Mnemonic::Rdtscp => Cost::TimeStamp,
            _ => Cost::Serializing,
        };
        return Some(Binding { handler, boundary: Boundary::Alone, cost });
    }
    let (handler, cost) = within(i)?;
    Binding::costing(handler, cost)
}

impl Registers {
    pub(crate) fn needs_cpl0(&self) -> Result<(), Stop> {
        if self.cpl() == 0 { Ok(()) } else { Err(Stop::GENERAL_PROTECTION) }
    }

    fn set_edx_eax(&mut self, value: u64) {
        self.gpr[RAX] = value & 0xFFFF_FFFF;
        self.gpr[RDX] = value >> 32;
    }

    fn edx_eax(&self) -> u64 {
        self.gpr[RDX] << 32 | self.gpr[RAX] & 0xFFFF_FFFF
    }
}

impl CpuModel {
    fn needs(&self, feature: Feature) -> Result<(), Stop> {
        if self.has(feature) { Ok(()) } else { Err(Stop::INVALID_OPCODE) }
    }
}
