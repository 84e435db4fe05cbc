//! Operands: registers and memory before an instruction, so that what it accesses lies in the
//! window, and its results and faults are of every kind.

use super::coverage::is_amd;
use super::undefined::is_result_undefined;
use super::{CODE, Form, Pair, RAX, RBP, RCX, RDI, RDX, RSI, RSP, State, WINDOW, WINDOW_BYTES};
use crate::operands::Random;
use arch::control::rflags;
use iced_x86::{Mnemonic, OpKind, Register};

const BOUNDARY: [u64; 28] = [
    0,
    1,
    2,
    7,
    8,
    0x0F,
    0x10,
    0x7F,
    0x80,
    0x81,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x7FFF_FFFF_FFFF,
    0x8000_0000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xFFFF_FFFF_8000_0000,
    0xFFFF_FFFF_FFFF_FF80,
    0xFFFF_FFFF_FFFF_FFFE,
];

/// A boundary value, long runs of equal bits, or anything.
pub fn value(random: &mut Random) -> u64 {
    match random.below(8) {
        0..=2 => BOUNDARY[random.below(BOUNDARY.len() as u64) as usize],
        3 => u64::MAX,
        4 => random.below(100),
        5 => BOUNDARY[random.below(BOUNDARY.len() as u64) as usize] << 8 | random.below(256),
        6 => random.runs(),
        _ => random.next_u64(),
    }
}

/// The general register that `register` is part of.
fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

/// A place in the window, mostly; at its edges or outside every address sometimes.
fn target(random: &mut Random) -> u64 {
    let end = WINDOW + WINDOW_BYTES as u64;
    match random.below(40) {
        0 => end - 1 - random.below(16),
        1 => WINDOW - random.below(16),
        2 => end + random.below(0xF00),
        3 => 0x8000_0000_0000 - random.below(32) + random.below(2) * (random.next_u64() >> 16),
        4..=7 => WINDOW + 0x1000 * (1 + random.below(3)) - random.below(16),
        8..=15 => WINDOW + random.below(WINDOW_BYTES as u64),
        _ => WINDOW + 0x1800 + (random.below(0x1000) & !15),
    }
}

/// Where a jump may go.
fn jump_target(form: &Form, random: &mut Random) -> u64 {
    match random.below(8) {
        0 => WINDOW + random.below(0x4000),
        1 => 0x8000_0000_0000 | random.next_u64() << 20,
        2 => form.end(),
        3 => random.below(0x1_0000),
        _ => CODE + random.below(0x1F00),
    }
}

/// A start for `form`; `None` where the operands would reach beyond the test's memory.
pub fn prepare(form: &Form, pair: &mut Pair, random: &mut Random) -> Option<State> {
    let mut start = background(random);
    start.ip = form.at;
    special_operands(form, &mut start, random);
    let accesses_memory = form.accesses_memory();
    if accesses_memory {
        memory_operand(form, &mut start, random);
    }
    implied_memory(form, &mut start, pair, random)?;
    if accesses_memory {
        check_reach(form, &start)?;
        fill_operand(form, &start, pair, random);
    }
    check_jump(form, &start, pair)?;
    let is_defined = is_amd() || !is_result_undefined(form, &start);
    is_defined.then_some(start)
}

fn background(random: &mut Random) -> State {
    let mut start = State::default();
    let kind = random.below(8);
    for register in &mut start.gpr {
        *register = match kind {
            0 => 0,
            1 => u64::MAX,
            _ => value(random),
        };
    }
    let direction = if random.below(4) == 0 { rflags::DF } else { 0 };
    let alignment = if random.below(16) == 0 { rflags::AC } else { 0 };
    start.flags = random.next_u64() & rflags::STATUS | rflags::FIXED | rflags::IF;
    start.flags |= direction | alignment;
    start
}

/// Values that make the interesting outcomes of an instruction likely.
fn special_operands(form: &Form, start: &mut State, random: &mut Random) {
    use Mnemonic::*;
    let i = &form.instruction;
    match i.mnemonic() {
        Div | Idiv if random.below(4) != 0 => {
            // Otherwise nearly every quotient is too large.
            let bits = if i.op_kind(0) == OpKind::Register { i.op0_register().size() } else { 0 };
            let bits = 8 * bits.max(i.memory_size().size());
            let upper = [0, u64::MAX, 1, random.below(8)][random.below(4) as usize];
            if bits == 8 {
                start.gpr[RAX] = start.gpr[RAX] & !0xFF00 | (upper & 0xFF) << 8;
            } else {
                start.gpr[RDX] = upper;
            }
        }
        Shl | Sal | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd | Loop | Loope | Loopne
        | Jecxz | Jrcxz
            if random.below(2) == 0 =>
        {
            start.gpr[RCX] = start.gpr[RCX] & !0xFF | random.below(70);
        }
        Bextr | Bzhi | Shlx | Shrx | Sarx => {
            if let Some(control) = number(i.op2_register()) {
                start.gpr[control] = random.below(72) | random.below(72) << 8;
            }
        }
        Bt | Bts | Btr | Btc if i.op_kind(1) == OpKind::Register && form.has_memory_operand() => {
            if let Some(bits) = number(i.op1_register()) {
                let near = random.below(0x1_0000).wrapping_sub(0x8000);
                let above = if i.op1_register().size() == 4 { random.next_u64() << 32 } else { 0 };
                start.gpr[bits] = if above == 0 { near } else { near & 0xFFFF_FFFF | above };
            }
        }
        _ => {}
    }
}

/// Points the explicit memory operand somewhere.
fn memory_operand(form: &Form, start: &mut State, random: &mut Random) {
    let i = &form.instruction;
    if form.fixed_target.is_some() {
        if let Some(index) = number(i.memory_index()) {
            start.gpr[index] = form.fixed_index;
        }
    } else if let Some(base) = number(i.memory_base()) {
        let mask = form.address_mask();
        let wanted = target(random).wrapping_sub(form.segment_base());
        start.gpr[base] = 0;
        let rest = effective_address(form, start);
        let short_rest = wanted.wrapping_sub(rest);
        start.gpr[base] = if mask == u64::MAX {
            short_rest
        } else {
            short_rest & mask | random.next_u64() & !mask
        };
    }
}

fn effective_address(form: &Form, state: &State) -> u64 {
    let i = &form.instruction;
    let read = |register: Register| match register {
        Register::AL => state.gpr[RAX] & 0xFF,
        Register::RIP | Register::EIP | Register::None => 0,
        register => number(register).map_or(0, |number| state.gpr[number]),
    };
    // The decoder gives RIP-relative displacements as the target.
    read(i.memory_base())
        .wrapping_add(read(i.memory_index()).wrapping_mul(i.memory_index_scale().into()))
        .wrapping_add(i.memory_displacement64())
        & form.address_mask()
}

fn linear(form: &Form, state: &State) -> u64 {
    let i = &form.instruction;
    let mut state = state.clone();
    if i.mnemonic() == Mnemonic::Pop && number(i.memory_base()) == Some(RSP) {
        // The address is that of the stack after the pop.
        state.gpr[RSP] = state.gpr[RSP].wrapping_add(i.memory_size().size() as u64);
    }
    let mut offset = effective_address(form, &state);
    let tests_bits =
        matches!(i.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
    if tests_bits && let (OpKind::Register, Some(bits)) = (i.op_kind(1), number(i.op1_register())) {
        let bit = match i.op1_register().size() {
            2 => state.gpr[bits] as i16 as i64,
            4 => state.gpr[bits] as i32 as i64,
            _ => state.gpr[bits] as i64,
        };
        let bytes = i.memory_size().size() as i64;
        let moved = (bit >> (bytes * 8).trailing_zeros()) * bytes;
        offset = offset.wrapping_add(moved as u64) & form.address_mask();
    }
    offset.wrapping_add(form.segment_base())
}

/// What came after the choice of an address may have changed its registers.
fn check_reach(form: &Form, start: &State) -> Option<()> {
    let now = linear(form, start);
    let size = form.instruction.memory_size().size().max(1) as u64;
    // AMD's processors want the offset canonical as well, which the manuals do not say.
    let offset = now.wrapping_sub(form.segment_base());
    let is_hidden = (offset as i64) << 16 >> 16 != offset as i64 && now >> 47 == 0;
    (Form::is_safe_access(now, size) && !is_hidden).then_some(())
}

/// Memory worth reading: boundary values, what the accumulator holds, where to jump.
fn fill_operand(form: &Form, start: &State, pair: &mut Pair, random: &mut Random) {
    let at = linear(form, start);
    pair.poke(at, &value(random).to_le_bytes());
    pair.poke(at.wrapping_add(8), &value(random).to_le_bytes());
    match form.instruction.mnemonic() {
        Mnemonic::Jmp | Mnemonic::Call => {
            pair.poke(at, &jump_target(form, random).to_le_bytes());
        }
        Mnemonic::Cmpxchg if random.below(2) == 0 => {
            pair.poke(at, &start.gpr[RAX].to_le_bytes());
        }
        Mnemonic::Cmpxchg8b if random.below(2) == 0 => {
            pair.poke(at, &start.gpr[RAX].to_le_bytes()[..4]);
            pair.poke(at.wrapping_add(4), &start.gpr[RDX].to_le_bytes()[..4]);
        }
        Mnemonic::Cmpxchg16b if random.below(2) == 0 => {
            pair.poke(at, &start.gpr[RAX].to_le_bytes());
            pair.poke(at.wrapping_add(8), &start.gpr[RDX].to_le_bytes());
        }
        _ => {}
    }
}

/// Stack, string and table instructions address memory by registers of their own.
fn implied_memory(
    form: &Form,
    start: &mut State,
    pair: &mut Pair,
    random: &mut Random,
) -> Option<()> {
    use Mnemonic::*;
    let i = &form.instruction;
    match i.mnemonic() {
        Push | Pushf | Pushfq | Call => start.gpr[RSP] = target(random),
        Pop => {
            start.gpr[RSP] = target(random);
            pair.poke(start.gpr[RSP], &value(random).to_le_bytes());
        }
        Popf | Popfq => {
            start.gpr[RSP] = target(random);
            let flags = random.next_u64() & !rflags::TF;
            pair.poke(start.gpr[RSP], &flags.to_le_bytes());
            // Single-stepping would go on in the trampoline.
            let end = WINDOW + WINDOW_BYTES as u64;
            let stacked = pair.peek(start.gpr[RSP]).unwrap_or(0);
            let is_split = (end - 8..end).contains(&start.gpr[RSP]);
            (stacked & rflags::TF == 0 && !is_split).then_some(())?;
        }
        Ret => {
            start.gpr[RSP] = target(random);
            pair.poke(start.gpr[RSP], &jump_target(form, random).to_le_bytes());
            // Beyond the window it faults before it jumps.
            if let Some(back) = pair.peek(start.gpr[RSP]) {
                form.is_safe_target(back).then_some(())?;
            }
        }
        Enter => {
            start.gpr[RSP] = target(random);
            start.gpr[RBP] = target(random);
        }
        Leave => {
            start.gpr[RBP] = target(random);
            pair.poke(start.gpr[RBP], &value(random).to_le_bytes());
        }
        _ if i.is_string_instruction() => return string(form, start, pair, random),
        _ => {}
    }
    Some(())
}

fn string(form: &Form, start: &mut State, pair: &mut Pair, random: &mut Random) -> Option<()> {
    let i = &form.instruction;
    let is_short = (0..i.op_count()).any(|operand| {
        matches!(
            i.op_kind(operand),
            OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI
        )
    });
    let above = if is_short { random.next_u64() << 32 } else { 0 };
    let close = random.below(2) == 0;
    let first = target(random);
    let second = if close { first.wrapping_add(random.below(64)) } else { target(random) };
    start.gpr[RSI] = first.wrapping_sub(form.segment_base());
    start.gpr[RDI] = second;
    if is_short {
        start.gpr[RSI] = start.gpr[RSI] & 0xFFFF_FFFF | above;
        start.gpr[RDI] = start.gpr[RDI] & 0xFFFF_FFFF | above;
    }
    let most = [2, 8, 40, 700][random.below(4) as usize];
    start.gpr[RCX] = random.below(most) | above;
    if random.below(2) == 0 {
        // A run of equal elements for the comparisons.
        let low = random.below(2) * 0xFF;
        let run = [low as u8; 64];
        pair.poke(first, &run);
        pair.poke(second, &run);
        start.gpr[RAX] = low.wrapping_mul(0x0101_0101_0101_0101);
    }
    let mask = if is_short { 0xFFFF_FFFF } else { u64::MAX };
    let source = (start.gpr[RSI] & mask).wrapping_add(form.segment_base());
    let is_hidden = form.segment_base() != 0 && source >> 12 == 0x7_FFFF_FFFF;
    let is_safe = !is_hidden
        && Form::is_safe_access(source, 8)
        && Form::is_safe_access(start.gpr[RDI] & mask, 8);
    is_safe.then_some(())
}

/// Indirect jumps must go where nothing of this process is.
fn check_jump(form: &Form, start: &State, pair: &mut Pair) -> Option<()> {
    let i = &form.instruction;
    if !matches!(i.mnemonic(), Mnemonic::Jmp | Mnemonic::Call) {
        return Some(());
    }
    let target = match i.op_kind(0) {
        OpKind::Register => number(i.op0_register()).map(|number| start.gpr[number]),
        OpKind::Memory => pair.peek(linear(form, start)),
        _ => return Some(()),
    };
    // Memory beyond the window faults before the jump.
    let Some(target) = target else { return Some(()) };
    let bytes = match i.op_kind(0) {
        OpKind::Register => i.op0_register().size(),
        _ => i.memory_size().size(),
    };
    let target = if bytes == 2 { target & 0xFFFF } else { target };
    form.is_safe_target(target).then_some(())
}
