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

use super::Native;
use crate::dispatch::Room;
use crate::guest::pause::Rounds;
use crate::operation::cache::CodeCache;
use crate::operation::decode::CodeSize;
use crate::{Bus, Cpu};
use arch::identity::CpuIndex;
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;
use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};
use translate::{General, State};

/// PAUSEs with the same registers, one after the other, before a round is looked at.
const ALIKE: u32 = 4;
/// The same, where looking has been in vain again and again.
const MOST_ALIKE: u32 = 1 << 16;
/// Rounds that must fit into what is left of the turn, to repay the look.
const WORTH: u64 = 32;
/// Instructions of a round at most.
const LONGEST: usize = 24;

/// PAUSEs of translated code, of late.
#[derive(Default)]
pub(super) struct Spin {
    last: Option<Last>,
    /// PAUSEs since then with the same registers.
    alike: u32,
    /// How many of them are wanted.
    wanted: u32,
    /// A round is to be looked at, which code has been left for.
    pub is_due: bool,
    /// Instructions that were skipped.
    skipped: u64,
}

struct Last {
    cpu: CpuIndex,
    /// The number of the handler's call.
    call: u32,
    registers: General,
    clock: Picoseconds,
}

impl Spin {
    /// A processor does a PAUSE with `left` picoseconds to go; whether a round is to be looked at.
    pub fn pauses(&mut self, cpu: &Cpu, call: u32, state: &State, left: u64) -> bool {
        let now = cpu.clock;
        let Some(last) = self.last.as_mut().filter(|last| {
            last.cpu == cpu.index && last.call == call && last.registers == state.registers
        }) else {
            self.wanted = ALIKE;
            self.alike = 0;
            let registers = state.registers;
            self.last = Some(Last { cpu: cpu.index, call, registers, clock: now });
            return false;
        };
        let round = now.0.saturating_sub(last.clock.0);
        last.clock = now;
        self.alike += 1;
        if self.alike < self.wanted || left / WORTH < round {
            return false;
        }
        self.alike = 0;
        self.is_due = true;
        true
    }
}

/// What one round does.
struct Round {
    time: u64,
    instructions: u64,
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

impl CodeCache {
    /// Whether code was left for a loop that seems to wait.
    pub(crate) fn takes_waiting_loop(&mut self) -> bool {
        let native = self.native.as_deref_mut();
        native.is_some_and(|native| std::mem::take(&mut native.spin.is_due))
    }

    /// Instructions of loops that wait which were skipped.
    pub fn skipped(&self) -> u64 {
        self.native.as_ref().map_or(0, |native| native.spin.skipped)
    }
}

impl Native {
    fn looked(&mut self, skipped: u64) {
        self.spin.skipped += skipped;
        self.spin.wanted =
            if skipped == 0 { (4 * self.spin.wanted).clamp(1, MOST_ALIKE) } else { 1 };
    }
}

impl Cpu {
    /// Goes round a loop that waits as often as there is room for, if it is one.
    pub(crate) fn skip_rounds(&mut self, cache: &mut CodeCache, bus: &mut Bus<'_>, room: Room) {
        if !self.pending.attention.is_empty() || self.code_size() != CodeSize::Bits64 {
            return;
        }
        let before = self.instructions;
        if let Some(round) = self.interpret_round(cache, bus, room) {
            let fitting = room.clock.0.saturating_sub(self.clock.0) / round.time.max(1);
            let countable = (room.instructions - self.instructions) / round.instructions;
            let rounds = Rounds { time: round.time, pauses: &round.pauses };
            let rounds = self.pass_rounds(rounds, fitting.min(countable));
            self.clock.0 += rounds * round.time;
            self.instructions += rounds * round.instructions;
        }
        let skipped = (self.instructions - before).saturating_sub(LONGEST as u64);
        if let Some(native) = &mut cache.native {
            native.looked(skipped);
        }
    }

    fn point(&self) -> Point {
        let mut registers = [0; 16];
        registers.copy_from_slice(&self.registers.gpr[..16]);
        Point {
            ip: self.registers.ip,
            registers,
            flags: self.registers.flags.bits(),
            is_guest: self.is_guest(),
            epoch: self.tlb.epoch,
        }
    }

    /// Interprets up to where all is as it is now; `None` if that does not happen, or if something
    /// on the way does more than a loop that waits.
    fn interpret_round(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        room: Room,
    ) -> Option<Round> {
        let start = self.point();
        let (clock, instructions) = (self.clock.0, self.instructions);
        let mut pauses = Vec::new();
        for _ in 0..LONGEST {
            let next = self.next_instruction(cache, bus)?;
            if !self.only_waits(bus, &next) {
                return None;
            }
            if next.mnemonic() == Mnemonic::Pause {
                pauses.push(self.clock.0 - clock);
            }
            let before = self.instructions;
            let one = Room { instructions: room.instructions.min(before + 1), ..room };
            self.run_part(cache, bus, one);
            if self.instructions != before + 1 || !self.pending.attention.is_empty() {
                return None;
            }
            if self.point() == start {
                let time = self.clock.0 - clock;
                return Some(Round { time, instructions: before + 1 - instructions, pauses });
            }
        }
        None
    }

    /// The instruction that comes next, if the TLB knows its page and all of it is there.
    fn next_instruction(&self, cache: &CodeCache, bus: &Bus<'_>) -> Option<Instruction> {
        let ip = self.registers.ip;
        let entry = self.tlb.entry(self.access_set(), ip);
        if entry.execute != self.tlb.tag(ip) {
            return None;
        }
        let first = (entry.offset + (ip & 0xFFF)) as usize;
        let page_end = (entry.offset | 0xFFF) as usize + 1;
        let bytes = bus.memory.ram.get(first..page_end.min(first + 15))?;
        let instruction = Decoder::with_ip(64, bytes, ip, cache.dialect().options()).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Whether an instruction changes general registers and status flags alone, and of memory only
    /// reads what the TLB knows for reading.
    fn only_waits(&self, bus: &Bus<'_>, i: &Instruction) -> bool {
        use Mnemonic::*;
        let only_reads = match i.mnemonic() {
            Pause | Nop => return true,
            Cmp | Test => true,
            Mov | Movzx | Movsx | Movsxd | Add | Sub | And | Or | Xor | Inc | Dec => false,
            _ => return i.is_jcc_short_or_near() || i.is_jmp_short_or_near(),
        };
        (0..i.op_count()).all(|n| match i.op_kind(n) {
            OpKind::Register => i.op_register(n).is_gpr(),
            OpKind::Memory => (only_reads || n != 0) && self.knows_operand(bus, i, n),
            _ => true,
        })
    }

    fn knows_operand(&self, bus: &Bus<'_>, i: &Instruction, n: u32) -> bool {
        let is_wide = |register: Register| {
            register == Register::None || register == Register::RIP || register.is_gpr64()
        };
        let bytes = i.memory_size().size() as u64;
        if !is_wide(i.memory_base()) || !is_wide(i.memory_index()) || !(1..=8).contains(&bytes) {
            return false;
        }
        let Some(linear) = i.virtual_address(n, 0, |register, _, _| self.address_part(register))
        else {
            return false;
        };
        let entry = self.tlb.entry(self.access_set(), linear);
        entry.read == self.tlb.tag(linear)
            && (linear & 0xFFF) + bytes <= 0x1000
            && entry.offset < bus.memory.ram.len() as u64
    }

    /// What a register adds to an address of 64 bits.
    fn address_part(&self, register: Register) -> Option<u64> {
        let bases = &self.registers.segment_base;
        match register {
            Register::FS => Some(bases[SegmentRegister::Fs as usize]),
            Register::GS => Some(bases[SegmentRegister::Gs as usize]),
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            _ => self.registers.gpr[..16].get(register.number()).copied(),
        }
    }
}
