//! ADD, ADC, SUB, SBB, AND, OR, XOR, CMP, TEST, INC, DEC, NEG, NOT, XADD, CMPXCHG*, ADCX, ADOX.

use crate::execute::binding::{Binding, Handler, sized};
use crate::flags::Flags;
use crate::memory::Place;
use crate::operation::Op;
use crate::operation::decode::{CodeSize, is_memory, is_register, width};
use crate::width::{RAX, RBX, RCX, RDX, Width};
use crate::{Bus, Cpu, Stop};
use arch::cpuid::Feature;
use iced_x86::{Instruction, Mnemonic};

/// A two-operand operation on the status flags.
pub(super) trait Binary {
    const STORES: bool = true;
    fn apply<W: Width>(flags: &mut Flags, a: W, b: W) -> W;
}

macro_rules! binary {
    ($name:ident, |$flags:ident, $a:ident, $b:ident| $result:expr, $set:ident $(, $stores:literal)?) => {
        pub(super) struct $name;
        impl Binary for $name {
            $(const STORES: bool = $stores;)?
            #[inline(always)]
            fn apply<W: Width>($flags: &mut Flags, a: W, b: W) -> W {
                let ($a, $b) = (a.zero_extend(), b.zero_extend());
                let result = W::truncate($result);
                binary!(@$set $flags, $a, $b, result);
                result
            }
        }
    };
    (@add $flags:ident, $a:ident, $b:ident, $result:ident) => { $flags.add($a, $b, $result) };
    (@subtract $flags:ident, $a:ident, $b:ident, $result:ident) => {
        $flags.subtract($a, $b, $result)
    };
    (@logic $flags:ident, $a:ident, $b:ident, $result:ident) => { $flags.logic($result) };
}

binary!(Add, |flags, a, b| a.wrapping_add(b), add);
binary!(Adc, |flags, a, b| a.wrapping_add(b).wrapping_add(flags.carry() as u64), add);
binary!(Sub, |flags, a, b| a.wrapping_sub(b), subtract);
binary!(Sbb, |flags, a, b| a.wrapping_sub(b).wrapping_sub(flags.carry() as u64), subtract);
binary!(And, |flags, a, b| a & b, logic);
binary!(Or, |flags, a, b| a | b, logic);
binary!(Xor, |flags, a, b| a ^ b, logic);
binary!(Cmp, |flags, a, b| a.wrapping_sub(b), subtract, false);
binary!(Test, |flags, a, b| a & b, logic, false);

fn rr<W: Width, O: Binary>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let b = W::from_register(&cpu.registers.gpr, op.b);
    let result = O::apply(&mut cpu.registers.flags, a, b);
    if O::STORES {
        result.to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

fn ri<W: Width, O: Binary>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let result = O::apply(&mut cpu.registers.flags, a, W::truncate(op.immediate));
    if O::STORES {
        result.to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

#[inline(never)]
pub(super) fn rm<W: Width, O: Binary>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let b = cpu.read::<W>(bus, op)?;
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let result = O::apply(&mut cpu.registers.flags, a, b);
    if O::STORES {
        result.to_register(&mut cpu.registers.gpr, op.a);
    }
    Ok(())
}

#[inline(never)]
pub(super) fn mr<W: Width, O: Binary>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    let b = W::from_register(&cpu.registers.gpr, op.b);
    memory_operand::<W, O>(cpu, bus, op, b)
}

#[inline(never)]
pub(super) fn mi<W: Width, O: Binary>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    memory_operand::<W, O>(cpu, bus, op, W::truncate(op.immediate))
}

#[inline(always)]
fn memory_operand<W: Width, O: Binary>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    b: W,
) -> Result<(), Stop> {
    if !O::STORES {
        let a = cpu.read::<W>(bus, op)?;
        O::apply(&mut cpu.registers.flags, a, b);
        return Ok(());
    }
    let place = cpu.locate::<W>(bus, op)?;
    let a = load::<W>(cpu, bus, place);
    let result = O::apply(&mut cpu.registers.flags, a, b);
    store(cpu, bus, place, result)
}

fn binary<O: Binary>(i: &Instruction) -> Handler {
    let w = width(i, 0);
    match (is_memory(i, 0), is_memory(i, 1), is_register(i, 1)) {
        (false, false, true) => sized!(w, rr, O),
        (false, true, _) => sized!(w, rm, O),
        (true, _, true) => sized!(w, mr, O),
        (true, _, _) => sized!(w, mi, O),
        _ => sized!(w, ri, O),
    }
}

/// A one-operand operation.
trait Unary {
    fn apply<W: Width>(flags: &mut Flags, a: W) -> W;
}

struct Inc;
struct Dec;
struct Neg;
struct Not;

impl Unary for Inc {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: W) -> W {
        let carry = flags.carry();
        let result = Add::apply(flags, a, W::truncate(1));
        flags.keep_carry(carry);
        result
    }
}

impl Unary for Dec {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: W) -> W {
        let carry = flags.carry();
        let result = Sub::apply(flags, a, W::truncate(1));
        flags.keep_carry(carry);
        result
    }
}

impl Unary for Neg {
    #[inline(always)]
    fn apply<W: Width>(flags: &mut Flags, a: W) -> W {
        Sub::apply(flags, W::truncate(0), a)
    }
}

impl Unary for Not {
    #[inline(always)]
    fn apply<W: Width>(_: &mut Flags, a: W) -> W {
        W::truncate(!a.zero_extend())
    }
}

fn unary_r<W: Width, O: Unary>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let a = W::from_register(&cpu.registers.gpr, op.a);
    O::apply(&mut cpu.registers.flags, a).to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn unary_m<W: Width, O: Unary>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let place = cpu.locate::<W>(bus, op)?;
    let a = load::<W>(cpu, bus, place);
    let result = O::apply(&mut cpu.registers.flags, a);
    store(cpu, bus, place, result)
}

fn unary<O: Unary>(i: &Instruction) -> Handler {
    let w = width(i, 0);
    if is_memory(i, 0) { sized!(w, unary_m, O) } else { sized!(w, unary_r, O) }
}

/// Reads a located operand.
#[inline(always)]
pub(crate) fn load<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, place: Place) -> W {
    if let Some(at) = place.ram_offset()
        && let Some(bytes) = bus.memory.ram.get(at..at + W::BYTES)
    {
        return W::from_bytes(bytes);
    }
    W::truncate(cpu.read_place(bus, place))
}

/// Writes a located operand; the last act of an operation.
#[inline(always)]
pub(crate) fn store<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    place: Place,
    value: W,
) -> Result<(), Stop> {
    if let Some(at) = place.ram_offset()
        && let Some(bytes) = bus.memory.ram_mut(at, W::BYTES)
    {
        value.to_bytes(bytes);
        cpu.pending.note_ram_write(bus, at, W::BYTES);
    } else {
        cpu.write_place(bus, place, value.zero_extend());
    }
    cpu.pending.after_store()
}

fn xadd_r<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (a, b) =
        (W::from_register(&cpu.registers.gpr, op.a), W::from_register(&cpu.registers.gpr, op.b));
    let sum = Add::apply(&mut cpu.registers.flags, a, b);
    a.to_register(&mut cpu.registers.gpr, op.b);
    sum.to_register(&mut cpu.registers.gpr, op.a);
    Ok(())
}

fn xadd_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let place = cpu.locate::<W>(bus, op)?;
    let (a, b) = (load::<W>(cpu, bus, place), W::from_register(&cpu.registers.gpr, op.b));
    let sum = Add::apply(&mut cpu.registers.flags, a, b);
    a.to_register(&mut cpu.registers.gpr, op.b);
    store(cpu, bus, place, sum)
}

fn cmpxchg_r<W: Width>(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let (held, accumulator) = (
        W::from_register(&cpu.registers.gpr, op.a),
        W::from_register(&cpu.registers.gpr, RAX as u8),
    );
    Cmp::apply(&mut cpu.registers.flags, accumulator, held);
    if accumulator == held {
        W::from_register(&cpu.registers.gpr, op.b).to_register(&mut cpu.registers.gpr, op.a);
    } else {
        held.to_register(&mut cpu.registers.gpr, RAX as u8);
    }
    Ok(())
}

/// Writes the destination in either case, as the processor does. [APM3 "CMPXCHG"]
fn cmpxchg_m<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let place = cpu.locate::<W>(bus, op)?;
    let (held, accumulator) =
        (load::<W>(cpu, bus, place), W::from_register(&cpu.registers.gpr, RAX as u8));
    Cmp::apply(&mut cpu.registers.flags, accumulator, held);
    if accumulator == held {
        let new = W::from_register(&cpu.registers.gpr, op.b);
        store(cpu, bus, place, new)
    } else {
        held.to_register(&mut cpu.registers.gpr, RAX as u8);
        store(cpu, bus, place, held)
    }
}

fn cmpxchg8b(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let place = cpu.locate::<u64>(bus, op)?;
    let held = load::<u64>(cpu, bus, place);
    let expected = cpu.registers.gpr[RDX] << 32 | cpu.registers.gpr[RAX] & 0xFFFF_FFFF;
    let equal = held == expected;
    cpu.registers.flags.set_zero(equal);
    if equal {
        let new = cpu.registers.gpr[RCX] << 32 | cpu.registers.gpr[RBX] & 0xFFFF_FFFF;
        store(cpu, bus, place, new)
    } else {
        cpu.registers.gpr[RAX] = held & 0xFFFF_FFFF;
        cpu.registers.gpr[RDX] = held >> 32;
        store(cpu, bus, place, held)
    }
}

fn cmpxchg16b(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    use crate::memory::Access;
    if !cpu.model.has(Feature::Cx16) {
        return Err(Stop::INVALID_OPCODE);
    }
    let linear = cpu.operand(op, 16, Access::Write)?;
    if linear & 15 != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let low = cpu.locate_linear(bus, linear, 8, Access::Write, op.segment)?;
    let high = cpu.locate_linear(bus, linear + 8, 8, Access::Write, op.segment)?;
    let held = (load::<u64>(cpu, bus, low), load::<u64>(cpu, bus, high));
    let equal = held == (cpu.registers.gpr[RAX], cpu.registers.gpr[RDX]);
    cpu.registers.flags.set_zero(equal);
    let new = if equal { (cpu.registers.gpr[RBX], cpu.registers.gpr[RCX]) } else { held };
    if !equal {
        (cpu.registers.gpr[RAX], cpu.registers.gpr[RDX]) = held;
    }
    cpu.write_place(bus, low, new.0);
    cpu.write_place(bus, high, new.1);
    cpu.pending.after_store()
}

/// ADCX and ADOX: an addition through one flag alone. [APM3 "ADCX"]
fn add_through<W: Width, const OVERFLOW: bool>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
) -> Result<(), Stop> {
    if !cpu.model.has(Feature::Adx) {
        return Err(Stop::INVALID_OPCODE);
    }
    let b = if op.has(Op::MEMORY) {
        cpu.read::<W>(bus, op)?
    } else {
        W::from_register(&cpu.registers.gpr, op.b)
    };
    let a = W::from_register(&cpu.registers.gpr, op.a);
    let flag = if OVERFLOW { cpu.registers.flags.overflow() } else { cpu.registers.flags.carry() };
    let wide = a.zero_extend() as u128 + b.zero_extend() as u128 + flag as u128;
    let carry = wide >> W::BITS != 0;
    W::truncate(wide as u64).to_register(&mut cpu.registers.gpr, op.a);
    if OVERFLOW {
        let kept = cpu.registers.flags.carry();
        cpu.registers.flags.set_carry_overflow(kept, carry);
    } else {
        cpu.registers.flags.set_carry(carry);
    }
    Ok(())
}

fn adcx<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    add_through::<W, false>(cpu, bus, op)
}

fn adox<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    add_through::<W, true>(cpu, bus, op)
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let w = width(i, 0);
    let m = is_memory(i, 0);
    let handler = match i.mnemonic() {
        Mnemonic::Add => binary::<Add>(i),
        Mnemonic::Adc => binary::<Adc>(i),
        Mnemonic::Sub => binary::<Sub>(i),
        Mnemonic::Sbb => binary::<Sbb>(i),
        Mnemonic::And => binary::<And>(i),
        Mnemonic::Or => binary::<Or>(i),
        Mnemonic::Xor => binary::<Xor>(i),
        Mnemonic::Cmp => binary::<Cmp>(i),
        Mnemonic::Test => binary::<Test>(i),
        Mnemonic::Inc => unary::<Inc>(i),
        Mnemonic::Dec => unary::<Dec>(i),
        Mnemonic::Neg => unary::<Neg>(i),
        Mnemonic::Not => unary::<Not>(i),
        Mnemonic::Xadd if m => sized!(w, xadd_m),
        Mnemonic::Xadd => sized!(w, xadd_r),
        Mnemonic::Cmpxchg if m => sized!(w, cmpxchg_m),
        Mnemonic::Cmpxchg => sized!(w, cmpxchg_r),
        Mnemonic::Cmpxchg8b => cmpxchg8b,
        Mnemonic::Cmpxchg16b => cmpxchg16b,
        Mnemonic::Adcx => sized!(w, adcx),
        Mnemonic::Adox => sized!(w, adox),
        _ => return None,
    };
    Binding::within(handler)
}
