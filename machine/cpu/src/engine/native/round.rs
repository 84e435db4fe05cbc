//! Loops that wait: rounds of reading the same memory and PAUSE, after each of which all registers
//! are as before.
//!
//! While a processor has its turn nobody else writes memory, so such a loop goes round until the
//! turn ends. One round is interpreted an instruction at a time to see what it does; the others are
//! skipped: they change the clock, the count of instructions and, in a guest, the count of PAUSEs,
//! and nothing else. Everything that comes after finds the processor where it would have been.
//!
//! Left out: turns that end after few rounds, as they do where several processors wait at the same
//! time, and loops that look at the time, whose registers differ each time.

use super::mode::translated_mode;
use super::policy::Native;
use crate::engine::blocks::Blocks;
use crate::engine::dispatch;
use crate::engine::ending;
use crate::engine::room::Room;
use crate::engine::runs::Classes;
use crate::guest::rounds::Rounds;
use crate::operation::decode::Cost;
use crate::state::Registers;
use crate::{Bus, Cpu};
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;
use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};
use translate::Mode;

/// Instructions of a round at most.
const LONGEST: usize = 24;

/// What one round does.
struct Round {
    time: u64,
    instructions: u64,
    /// Its instructions by class.
    classes: Classes,
    /// When it PAUSEs, from its start.
    pauses: Vec<u64>,
}

/// All that a round may change, but for time and counts.
#[derive(PartialEq, Eq)]
struct Point {
    ip: u64,
    registers: [u64; 16],
    flags: u64,
    is_guest: bool,
    epoch: u64,
}

/// If code was left for a loop that seems to wait: goes round it as often as there is room for,
/// if it does.
pub(crate) fn skip_rounds(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    native: &mut Native,
    bus: &mut Bus<'_>,
    room: Room,
) {
    if !native.spin.takes_waiting_loop() {
        return;
    }
    let Some(mode) = translated_mode(cpu, ending::code_size(cpu)) else { return };
    if !cpu.pending.is_quiet() {
        return;
    }
    let before = cpu.clock.instructions();
    if let Some(round) = interpret_round(cpu, blocks, bus, (mode, room)) {
        let fitting = room.clock.0.saturating_sub(cpu.clock.now().0) / round.time.max(1);
        let countable = (room.instructions - cpu.clock.instructions()) / round.instructions;
        let rounds = Rounds { time: round.time, pauses: &round.pauses };
        let rounds = cpu.pass_rounds(rounds, fitting.min(countable));
        cpu.clock.spend(Picoseconds(rounds * round.time));
        cpu.clock.count(rounds * round.instructions);
        blocks.note_classes(cpu.index, &round.classes, rounds);
    }
    let skipped = (cpu.clock.instructions() - before).saturating_sub(LONGEST as u64);
    native.spin.looked(skipped);
}

fn point(cpu: &Cpu) -> Point {
    let mut registers = [0; 16];
    registers.copy_from_slice(&cpu.registers.gpr[..16]);
    Point {
        ip: cpu.registers.ip,
        registers,
        flags: cpu.registers.flags.bits(),
        is_guest: cpu.is_guest(),
        epoch: cpu.translation.tlb.epoch,
    }
}

/// Interprets up to where all is as it is now; `None` if that does not happen, or if something
/// on the way does more than a loop that waits.
fn interpret_round(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    bus: &mut Bus<'_>,
    (mode, room): (Mode, Room),
) -> Option<Round> {
    let size = ending::code_size(cpu);
    let start = point(cpu);
    let (clock, instructions) = (cpu.clock.now().0, cpu.clock.instructions());
    let mut pauses = Vec::new();
    let mut classes = [0; Cost::COUNT];
    for _ in 0..LONGEST {
        let (next, offset) = next_instruction(cpu, blocks, bus, mode)?;
        if !only_waits(cpu, bus, &next) {
            return None;
        }
        if next.mnemonic() == Mnemonic::Pause {
            pauses.push(cpu.clock.now().0 - clock);
        }
        let before = cpu.clock.instructions();
        let one = Room { instructions: room.instructions.min(before + 1), ..room };
        dispatch::run_part(cpu, blocks, bus, one);
        if cpu.clock.instructions() != before + 1 || !cpu.pending.is_quiet() {
            return None;
        }
        // It has just been run, so it is decoded.
        if let Some(class) = blocks.class_at(bus.memory, offset, size) {
            classes[class as usize] += 1;
        }
        if point(cpu) == start {
            let time = cpu.clock.now().0 - clock;
            return Some(Round { time, instructions: before + 1 - instructions, classes, pauses });
        }
    }
    None
}

/// The instruction that comes next and its index into RAM, if the TLB knows its page and all of it
/// is there.
fn next_instruction(
    cpu: &Cpu,
    blocks: &Blocks,
    bus: &Bus<'_>,
    mode: Mode,
) -> Option<(Instruction, u64)> {
    let ip = cpu.registers.ip;
    let entry = cpu.translation.tlb.entry(cpu.registers.access_set(), ip);
    if entry.execute != cpu.translation.tlb.tag(ip) {
        return None;
    }
    let first = (entry.offset + (ip & 0xFFF)) as usize;
    let page_end = (entry.offset | 0xFFF) as usize + 1;
    let bytes = bus.memory.ram.get(first..page_end.min(first + 15))?;
    let instruction = Decoder::with_ip(mode.bits(), bytes, ip, blocks.dialect().options()).decode();
    (!instruction.is_invalid()).then_some((instruction, first as u64))
}

/// Whether an instruction changes general registers and status flags alone, and of memory only
/// reads what the TLB knows for reading.
fn only_waits(cpu: &Cpu, bus: &Bus<'_>, i: &Instruction) -> bool {
    use Mnemonic::*;
    let only_reads = match i.mnemonic() {
        Pause | Nop => return true,
        Cmp | Test => true,
        Mov | Movzx | Movsx | Movsxd | Add | Sub | And | Or | Xor | Inc | Dec => false,
        _ => return i.is_jcc_short_or_near() || i.is_jmp_short_or_near(),
    };
    (0..i.op_count()).all(|n| match i.op_kind(n) {
        OpKind::Register => i.op_register(n).is_gpr(),
        OpKind::Memory => (only_reads || n != 0) && knows_operand(cpu, bus, i, n),
        _ => true,
    })
}

fn knows_operand(cpu: &Cpu, bus: &Bus<'_>, i: &Instruction, n: u32) -> bool {
    let is_flat = i.code_size() == iced_x86::CodeSize::Code32;
    let is_whole = |register: Register| match register {
        Register::None | Register::RIP => true,
        _ if is_flat => register.is_gpr32(),
        _ => register.is_gpr64(),
    };
    let is_known = !is_flat || matches!(i.memory_segment(), Register::DS | Register::SS);
    let is_whole = is_known && is_whole(i.memory_base()) && is_whole(i.memory_index());
    let bytes = i.memory_size().size() as u64;
    if !is_whole || !(1..=8).contains(&bytes) {
        return false;
    }
    let Some(linear) =
        i.virtual_address(n, 0, |register, _, _| cpu.registers.address_part(register))
    else {
        return false;
    };
    let entry = cpu.translation.tlb.entry(cpu.registers.access_set(), linear);
    entry.read == cpu.translation.tlb.tag(linear)
        && (linear & 0xFFF) + bytes <= 0x1000
        && entry.offset < bus.memory.ram.len() as u64
}

impl Registers {
    /// What a register adds to an address of 64-bit code, or of flat segments.
    fn address_part(&self, register: Register) -> Option<u64> {
        let bases = self.bases();
        match register {
            Register::FS => Some(bases[SegmentRegister::Fs as usize]),
            Register::GS => Some(bases[SegmentRegister::Gs as usize]),
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            _ => self.gpr[..16].get(register.number()).copied(),
        }
    }
}
