//! Loops that wait: rounds of reading the same memory and PAUSE, after each of which all registers
//! are as before.
//!
//! While nobody writes what it reads, such a loop goes round until an event. One round is
//! interpreted an instruction at a time to see what it does; others like it change the clock, the
//! count of instructions and, in a guest, the count of PAUSEs, and nothing else.

use super::native::translated_mode;
use crate::engine::blocks::Blocks;
use crate::engine::dispatch;
use crate::engine::ending;
use crate::engine::room::Room;
use crate::engine::runs::Classes;
use crate::operation::decode::Cost;
use crate::state::Registers;
use crate::{Bus, Cpu, Flags};
use arch::segment::SegmentRegister;
use bus::GuestMemory;
use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};
use translate::Mode;

/// Instructions of a round at most.
pub(crate) const LONGEST: usize = 24;

/// What one round does.
#[derive(Clone, Debug)]
pub struct Round {
    /// Picoseconds.
    pub(crate) time: u64,
    /// Where it comes by, an instruction each, in order; the first is where it begins.
    pub(crate) places: Vec<Place>,
    /// What it reads, each once.
    pub(crate) reads: Vec<Read>,
    /// The pages of its code and their generations.
    pub(crate) code: Vec<(usize, u32)>,
}

/// Before an instruction of a round: all that the round may change, but for time and counts.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Since the round began, in picoseconds.
    pub at: u64,
    /// What the instruction costs.
    pub class: Option<Cost>,
    pub is_pause: bool,
    pub state: Point,
}

/// All that a round may change, but for time and counts.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub ip: u64,
    pub registers: [u64; 16],
    pub flags: Flags,
}

impl PartialEq for Point {
    fn eq(&self, other: &Self) -> bool {
        self.ip == other.ip
            && self.registers == other.registers
            && self.flags.bits() == other.flags.bits()
    }
}

/// What an instruction reads of memory, as part of the eight bytes that begin there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// Index into RAM.
    offset: usize,
    mask: u64,
    value: u64,
}

impl Read {
    /// `None` at the end of RAM, and if it reads more.
    fn new(memory: &GuestMemory, offset: usize, length: usize) -> Option<Self> {
        let mask = u64::MAX.checked_shr(64_u32.checked_sub(8 * length as u32)?)?;
        let read = Self { offset, mask, value: 0 };
        Some(Self { value: read.eight(memory)? & mask, ..read })
    }

    /// Nothing has changed it.
    #[inline(always)]
    pub fn is_same(&self, memory: &GuestMemory) -> bool {
        self.eight(memory).is_some_and(|now| now & self.mask == self.value)
    }

    #[inline(always)]
    fn eight(&self, memory: &GuestMemory) -> Option<u64> {
        memory.ram.get(self.offset..)?.first_chunk().map(|eight| u64::from_le_bytes(*eight))
    }
}

/// Instructions by class.
pub(crate) fn classes(places: &[Place]) -> Classes {
    let mut classes = [0; Cost::COUNT];
    for class in places.iter().filter_map(|place| place.class) {
        classes[class as usize] += 1;
    }
    classes
}

/// When they PAUSE, from the round's start.
pub(crate) fn pauses(places: &[Place]) -> Vec<u64> {
    places.iter().filter(|place| place.is_pause).map(|place| place.at).collect()
}

impl Round {
    /// Whether its instructions are what they were.
    pub(crate) fn has_its_code(&self, memory: &GuestMemory) -> bool {
        // At the last number that a generation has, a further write would go unnoticed.
        self.code.iter().all(|(page, generation)| {
            *generation != u32::MAX && memory.generations.get(*page) == Some(generation)
        })
    }

    /// The same round, begun at its place `first`.
    pub(crate) fn begun_at(mut self, first: usize) -> Self {
        let Some(start) = self.places.get(first).map(|place| place.at) else { return self };
        self.places.rotate_left(first);
        for place in &mut self.places {
            place.at = (place.at + self.time - start) % self.time;
        }
        self
    }
}

pub(crate) fn point(cpu: &Cpu) -> Point {
    let mut registers = [0; 16];
    registers.copy_from_slice(&cpu.registers.gpr[..16]);
    Point { ip: cpu.registers.ip, registers, flags: cpu.registers.flags }
}

/// What a round leaves as it is.
fn surroundings(cpu: &Cpu) -> (bool, u64, crate::state::Spent) {
    (cpu.is_guest(), cpu.translation.tlb.epoch, *cpu.clock.spent())
}

/// Interprets up to where all is as it is now; `None` if that does not happen, or if something
/// on the way does more than a loop that waits.
pub(crate) fn interpret_round(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    bus: &mut Bus<'_>,
    room: Room,
) -> Option<Round> {
    let size = ending::code_size(cpu);
    let mode = translated_mode(cpu, size)?;
    let (start, around) = (point(cpu), surroundings(cpu));
    let clock = cpu.clock.now().0;
    let (mut places, mut reads, mut code) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LONGEST {
        let (next, offset) = next_instruction(cpu, blocks, bus, mode)?;
        if !only_waits(cpu, bus, &next, &mut reads) {
            return None;
        }
        let (state, at) = (point(cpu), cpu.clock.now().0 - clock);
        let before = cpu.clock.instructions();
        let one = Room { instructions: room.instructions.min(before + 1), ..room };
        dispatch::run_part(cpu, blocks, bus, one);
        if cpu.clock.instructions() != before + 1 || !cpu.pending.is_quiet() {
            return None;
        }
        // It has just been run, so it is decoded.
        let class = blocks.class_at(bus.memory, offset, size);
        places.push(Place { at, class, is_pause: next.mnemonic() == Mnemonic::Pause, state });
        note_page(&mut code, bus.memory, offset);
        if point(cpu) == start {
            let time = cpu.clock.now().0 - clock;
            return (surroundings(cpu) == around && time != 0).then_some(Round {
                time,
                places,
                reads,
                code,
            });
        }
    }
    None
}

fn note_page(code: &mut Vec<(usize, u32)>, memory: &GuestMemory, offset: u64) {
    let page = (offset >> 12) as usize;
    if let Some(generation) = memory.generations.get(page)
        && code.last().is_none_or(|(last, _)| *last != page)
    {
        code.push((page, *generation));
    }
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
/// reads what the TLB knows for reading, which is added to `reads`.
fn only_waits(cpu: &Cpu, bus: &Bus<'_>, i: &Instruction, reads: &mut Vec<Read>) -> bool {
    use Mnemonic::*;
    let only_reads = match i.mnemonic() {
        Pause | Nop => return true,
        Cmp | Test => true,
        Mov | Movzx | Movsx | Movsxd | Add | Sub | And | Or | Xor | Inc | Dec => false,
        _ => return i.is_jcc_short_or_near() || i.is_jmp_short_or_near(),
    };
    (0..i.op_count()).all(|n| match i.op_kind(n) {
        OpKind::Register => i.op_register(n).is_gpr(),
        OpKind::Memory if only_reads || n != 0 => {
            let read = operand(cpu, bus, i, n);
            reads.extend(read.filter(|read| !reads.contains(read)));
            read.is_some()
        }
        OpKind::Memory => false,
        _ => true,
    })
}

fn operand(cpu: &Cpu, bus: &Bus<'_>, i: &Instruction, n: u32) -> Option<Read> {
    let is_flat = i.code_size() == iced_x86::CodeSize::Code32;
    let is_whole = |register: Register| match register {
        Register::None | Register::RIP => true,
        _ if is_flat => register.is_gpr32(),
        _ => register.is_gpr64(),
    };
    let is_known = !is_flat || matches!(i.memory_segment(), Register::DS | Register::SS);
    let is_whole = is_known && is_whole(i.memory_base()) && is_whole(i.memory_index());
    let bytes = i.memory_size().size();
    if !is_whole || !(1..=8).contains(&bytes) {
        return None;
    }
    let linear = i.virtual_address(n, 0, |register, _, _| cpu.registers.address_part(register))?;
    let entry = cpu.translation.tlb.entry(cpu.registers.access_set(), linear);
    let is_known = entry.read == cpu.translation.tlb.tag(linear)
        && (linear & 0xFFF) as usize + bytes <= 0x1000
        && entry.offset < bus.memory.ram.len() as u64;
    let offset = (entry.offset + (linear & 0xFFF)) as usize;
    is_known.then(|| Read::new(bus.memory, offset, bytes)).flatten()
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
