//! MOV, MOVZX, MOVSX, MOVSXD, MOVBE, MOVNTI, XCHG, BSWAP, LEA, CMOVcc, SETcc, sign extensions,
//! XLAT, LAHF, SAHF.

use crate::execute::arithmetic;
use crate::execute::binding::{Binding, Handler, sized};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::width::{RAX, RBX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use arch::control::rflags;
use arch::cpuid::Feature;
use iced_x86::{Code, Instruction, Mnemonic, Register};

fn mov_rr<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    W::from_register(&cpu.registers.gpr, op.b).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn mov_ri<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    W::truncate(op.immediate).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

#[inline(never)]
pub(super) fn mov_rm<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.read::<W>(bus, op)?.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

#[inline(never)]
pub(super) fn mov_mr<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = W::from_register(&cpu.registers.gpr, op.b);
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

#[inline(never)]
pub(super) fn mov_mi<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.write(bus, op, W::truncate(op.immediate))?;
    cpu.pending.after_store()
}

/// MOV between the accumulator and an absolute address.
fn absolute<W: Width, const STORES: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let access = if STORES { Access::Write } else { Access::Read };
    let offset = op.immediate & op.address_mask();
    let linear = cpu.operand_at(op, offset, W::BYTES, access)?;
    if STORES {
        let value = W::from_register(&cpu.registers.gpr, RAX as u8);
        cpu.write_linear(bus, linear, value)?;
        cpu.pending.after_store()
    } else {
        cpu.read_linear::<W>(bus, linear)?.to_register(&mut cpu.registers.gpr, RAX as u8);
        Ok(())
    }
}

fn mov(i: &Instruction) -> Option<Handler> {
    use Code::*;
    let is_special = |register: Register| {
        (Register::CR0..=Register::TR7).contains(&register) || register.is_segment_register()
    };
    let special = is_special(i.op_register(0)) || is_special(i.op_register(1));
    if special {
        return None;
    }
    let w = width(i, 0);
    Some(match i.code() {
        Mov_AL_moffs8 => absolute::<u8, false>,
        Mov_AX_moffs16 => absolute::<u16, false>,
        Mov_EAX_moffs32 => absolute::<u32, false>,
        Mov_RAX_moffs64 => absolute::<u64, false>,
        Mov_moffs8_AL => absolute::<u8, true>,
        Mov_moffs16_AX => absolute::<u16, true>,
        Mov_moffs32_EAX => absolute::<u32, true>,
        Mov_moffs64_RAX => absolute::<u64, true>,
        _ if is_memory(i, 1) => sized!(w, mov_rm),
        _ if is_memory(i, 0) && is_register(i, 1) => sized!(w, mov_mr),
        _ if is_memory(i, 0) => sized!(w, mov_mi),
        _ if is_register(i, 1) => sized!(w, mov_rr),
        _ => sized!(w, mov_ri),
    })
}

/// A source narrower than the destination.
fn extend_r<D: Width, S: Width, const SIGNED: bool>(
    cpu: &mut Cpu,
    _: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let source = S::from_register(&cpu.registers.gpr, op.b);
    let wide = if SIGNED { source.sign_extend() } else { source.zero_extend() };
    D::truncate(wide).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

#[inline(never)]
pub(super) fn extend_m<D: Width, S: Width, const SIGNED: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let source = cpu.read::<S>(bus, op)?;
    let wide = if SIGNED { source.sign_extend() } else { source.zero_extend() };
    D::truncate(wide).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn extend<const SIGNED: bool>(i: &Instruction) -> Handler {
    fn pick<D: Width, const SIGNED: bool>(i: &Instruction) -> Handler {
        match (is_memory(i, 1), width(i, 1)) {
            (true, 1) => extend_m::<D, u8, SIGNED>,
            (true, 2) => extend_m::<D, u16, SIGNED>,
            (true, _) => extend_m::<D, u32, SIGNED>,
            (false, 1) => extend_r::<D, u8, SIGNED>,
            (false, 2) => extend_r::<D, u16, SIGNED>,
            (false, _) => extend_r::<D, u32, SIGNED>,
        }
    }
    match width(i, 0) {
        2 => pick::<u16, SIGNED>(i),
        4 => pick::<u32, SIGNED>(i),
        _ => pick::<u64, SIGNED>(i),
    }
}

fn xchg_rr<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (a, b) =
        (W::from_register(&cpu.registers.gpr, op.a), W::from_register(&cpu.registers.gpr, op.b));
    b.to_register(&mut cpu.registers.gpr, op.a);
    a.to_register(&mut cpu.registers.gpr, op.b);
    Ok(())
}

/// `REGISTER` says whether the register is the first operand.
fn xchg_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let place = cpu.locate::<W>(bus, op)?;
    let held = arithmetic::load::<W>(cpu, bus, place);
    let value = W::from_register(&cpu.registers.gpr, op.b);
    held.to_register(&mut cpu.registers.gpr, op.b);
    arithmetic::store(cpu, bus, place, value)
}

fn lea<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    W::truncate(cpu.registers.effective_address(op)).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// BSWAP of 16 bits is undefined; it gives zero, as processors do. [APM3 "BSWAP"]
fn bswap<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = W::from_register(&cpu.registers.gpr, op.a).zero_extend();
    let swapped = if W::BITS == 16 { 0 } else { value.swap_bytes() >> (64 - W::BITS) };
    W::truncate(swapped).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn movbe<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !cpu.model.has(Feature::Movbe) {
        return Err(Stop::INVALID_OPCODE);
    }
    let swap = |value: W| W::truncate(value.zero_extend().swap_bytes() >> (64 - W::BITS));
    if op.c == 1 {
        let value = swap(W::from_register(&cpu.registers.gpr, op.b));
        cpu.write(bus, op, value)?;
        return cpu.pending.after_store();
    }
    swap(cpu.read::<W>(bus, op)?).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn movbe_store<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    movbe::<W>(cpu, bus, &Op { c: 1, ..*op })
}

fn cmov_r<W: Width, const CODE: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let source = if cpu.registers.flags.condition(CODE) { op.b } else { op.a };
    W::from_register(&cpu.registers.gpr, source).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

/// The source is read, and may fault, whatever the condition. [APM3 "CMOVcc"]
fn cmov_m<W: Width, const CODE: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = cpu.read::<W>(bus, op)?;
    let kept = W::from_register(&cpu.registers.gpr, op.a);
    let result = if cpu.registers.flags.condition(CODE) { value } else { kept };
    result.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn set_r<const CODE: u8>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    (cpu.registers.flags.condition(CODE) as u8).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn set_m<const CODE: u8>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let value = cpu.registers.flags.condition(CODE) as u8;
    cpu.write(bus, op, value)?;
    cpu.pending.after_store()
}

/// Expands to a match over the 16 condition codes.
macro_rules! by_condition {
    ($code:expr, $handler:ident $(, $argument:ty)*) => {
        match $code & 15 {
            0 => $handler::<$($argument,)* 0>,
            1 => $handler::<$($argument,)* 1>,
            2 => $handler::<$($argument,)* 2>,
            3 => $handler::<$($argument,)* 3>,
            4 => $handler::<$($argument,)* 4>,
            5 => $handler::<$($argument,)* 5>,
            6 => $handler::<$($argument,)* 6>,
            7 => $handler::<$($argument,)* 7>,
            8 => $handler::<$($argument,)* 8>,
            9 => $handler::<$($argument,)* 9>,
            10 => $handler::<$($argument,)* 10>,
            11 => $handler::<$($argument,)* 11>,
            12 => $handler::<$($argument,)* 12>,
            13 => $handler::<$($argument,)* 13>,
            14 => $handler::<$($argument,)* 14>,
            _ => $handler::<$($argument,)* 15>,
        }
    };
}
pub(super) use by_condition;

/// The condition code of a conditional instruction, as its opcode's low nibble has it.
pub(super) fn condition_code(i: &Instruction) -> Option<u8> {
    use iced_x86::ConditionCode::*;
    Some(match i.condition_code() {
        o => 0,
        no => 1,
        b => 2,
        ae => 3,
        e => 4,
        ne => 5,
        be => 6,
        a => 7,
        s => 8,
        ns => 9,
        p => 10,
        np => 11,
        l => 12,
        ge => 13,
        le => 14,
        g => 15,
        None => return Option::None,
    })
}

fn conditional(i: &Instruction) -> Option<Handler> {
    use Mnemonic::*;
    let code = condition_code(i)?;
    let m = |operand| is_memory(i, operand);
    Some(match i.mnemonic() {
        Cmovo | Cmovno | Cmovb | Cmovae | Cmove | Cmovne | Cmovbe | Cmova | Cmovs | Cmovns
        | Cmovp | Cmovnp | Cmovl | Cmovge | Cmovle | Cmovg => match (m(1), width(i, 0)) {
            (false, 2) => by_condition!(code, cmov_r, u16),
            (false, 4) => by_condition!(code, cmov_r, u32),
            (false, _) => by_condition!(code, cmov_r, u64),
            (true, 2) => by_condition!(code, cmov_m, u16),
            (true, 4) => by_condition!(code, cmov_m, u32),
            (true, _) => by_condition!(code, cmov_m, u64),
        },
        Seto | Setno | Setb | Setae | Sete | Setne | Setbe | Seta | Sets | Setns | Setp | Setnp
        | Setl | Setge | Setle | Setg => {
            if m(0) {
                by_condition!(code, set_m)
            } else {
                by_condition!(code, set_r)
            }
        }
        _ => return None,
    })
}

/// CBW, CWDE, CDQE: the accumulator's lower half into the whole.
fn widen<D: Width, S: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    let value = S::from_register(&cpu.registers.gpr, RAX as u8).sign_extend();
    D::truncate(value).to_register(&mut cpu.registers.gpr, RAX as u8);
    Ok(())
}

/// CWD, CDQ, CQO: the accumulator's sign into rDX.
fn spread<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    let sign = W::from_register(&cpu.registers.gpr, RAX as u8).sign_extend() as i64 >> 63;
    W::truncate(sign as u64).to_register(&mut cpu.registers.gpr, RDX as u8);
    Ok(())
}

fn xlat(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let offset =
        cpu.registers.gpr[RBX].wrapping_add(cpu.registers.gpr[RAX] & 0xFF) & op.address_mask();
    let linear = cpu.operand_at(op, offset, 1, Access::Read)?;
    cpu.read_linear::<u8>(bus, linear)?.to_register(&mut cpu.registers.gpr, RAX as u8);
    Ok(())
}

const LAHF: u64 = rflags::SF | rflags::ZF | rflags::AF | rflags::PF | rflags::CF;

fn lahf(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if op.has(Op::LONG) && !cpu.model.has(Feature::LahfLm) {
        return Err(Stop::INVALID_OPCODE);
    }
    let flags = cpu.registers.flags.status() & LAHF | rflags::FIXED;
    cpu.registers.gpr[RAX] = cpu.registers.gpr[RAX] & !0xFF00 | flags << 8;
    Ok(())
}

/// Sets AL from the carry flag; no manual has it, every processor does outside 64-bit mode.
fn salc(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    let filled = if cpu.registers.flags.carry() { 0xFF } else { 0 };
    cpu.registers.gpr[RAX] = cpu.registers.gpr[RAX] & !0xFF | filled;
    Ok(())
}

fn sahf(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if op.has(Op::LONG) && !cpu.model.has(Feature::LahfLm) {
        return Err(Stop::INVALID_OPCODE);
    }
    let flags = cpu.registers.flags.status() & rflags::OF | cpu.registers.gpr[RAX] >> 8 & LAHF;
    cpu.registers.flags.set_status(flags);
    Ok(())
}

fn nop(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Ok(())
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let w = width(i, 0);
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Mov => mov(i)?,
        Mnemonic::Movnti => sized!(w, mov_mr),
        Mnemonic::Movzx => extend::<false>(i),
        Mnemonic::Movsx => extend::<true>(i),
        // AMD's processors read 32 bits of memory even for a 16-bit destination.
        Mnemonic::Movsxd if w == 2 && is_memory(i, 1) => extend_m::<u16, u32, true>,
        Mnemonic::Movsxd if width(i, 1) == w && is_memory(i, 1) => sized!(w, mov_rm),
        Mnemonic::Movsxd if width(i, 1) == w => sized!(w, mov_rr),
        Mnemonic::Movsxd => extend::<true>(i),
        Mnemonic::Xchg if is_memory(i, 0) => {
            return Binding::costing(sized!(w, xchg_m), crate::operation::decode::Cost::Locked);
        }
        Mnemonic::Xchg => sized!(w, xchg_rr),
        Mnemonic::Lea => sized!(w, lea),
        Mnemonic::Bswap => sized!(w, bswap),
        Mnemonic::Movbe if is_memory(i, 0) => sized!(w, movbe_store),
        Mnemonic::Movbe => sized!(w, movbe),
        Mnemonic::Cbw => widen::<u16, u8>,
        Mnemonic::Cwde => widen::<u32, u16>,
        Mnemonic::Cdqe => widen::<u64, u32>,
        Mnemonic::Cwd => spread::<u16>,
        Mnemonic::Cdq => spread::<u32>,
        Mnemonic::Cqo => spread::<u64>,
        Mnemonic::Xlatb => xlat,
        Mnemonic::Lahf => lahf,
        Mnemonic::Sahf => sahf,
        Mnemonic::Salc => salc,
        Mnemonic::Nop
        | Mnemonic::Reservednop
        | Mnemonic::Endbr32
        | Mnemonic::Endbr64
        | Mnemonic::Rdsspd
        | Mnemonic::Rdsspq => nop,
        Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2
        | Mnemonic::Prefetchw
        | Mnemonic::Prefetch
        | Mnemonic::Prefetchwt1 => nop,
        _ => conditional(i)?,
    };
    Binding::within(handler)
}
