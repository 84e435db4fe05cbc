//! Every so many entries into translated code are repeated in the interpreter, from a copy of the
//! processor and of RAM, and the two results are compared.
//!
//! A repetition must not be seen from outside: an entry during which a handler has reached a
//! device, or has told the board of something, is not repeated. Where the results differ the
//! interpreter's is kept, since it is the definition.

use super::Native;
use crate::dispatch::{Next, Room};
use crate::operation::cache::{BlockIndex, CodeCache};
use crate::{Bus, Cpu};
use arch::address::SystemPhysical;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use native::Entry;

/// What came of repeating entries into translated code in the interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries into translated code.
    pub entries: u64,
    /// Those that were repeated, and compared.
    pub compared: u64,
    /// Those that were due but have reached something outside processor and RAM.
    pub unrepeatable: u64,
    /// Those in which interpreter and translated code differ.
    pub disagreements: u64,
    /// Where and how they first differed.
    pub first: Option<String>,
}

/// The state of it.
#[derive(Default)]
pub(super) struct Verification {
    /// Every entry of which number is repeated; zero: none.
    pub every: u64,
    pub result: Verified,
    before: Before,
}

/// Guest memory as it was.
#[derive(Default)]
struct Before {
    ram: Vec<u8>,
    watched_lines: Vec<u64>,
    generations: Vec<u32>,
    watched_writes: u64,
}

impl Before {
    fn keep(&mut self, memory: &GuestMemory) {
        self.ram.clone_from(&memory.ram);
        self.watched_lines.clone_from(&memory.watched_lines);
        self.generations.clone_from(&memory.generations);
        self.watched_writes = memory.watched_writes;
    }

    fn exchange(&mut self, memory: &mut GuestMemory) {
        std::mem::swap(&mut self.ram, &mut memory.ram);
        std::mem::swap(&mut self.watched_lines, &mut memory.watched_lines);
        std::mem::swap(&mut self.generations, &mut memory.generations);
        std::mem::swap(&mut self.watched_writes, &mut memory.watched_writes);
    }

    fn difference(&self, memory: &GuestMemory) -> Option<String> {
        if self.ram == memory.ram {
            let is_watched_alike = self.watched_lines == memory.watched_lines
                && self.generations == memory.generations
                && self.watched_writes == memory.watched_writes;
            return (!is_watched_alike).then(|| "watched lines".to_owned());
        }
        let at = self.ram.iter().zip(&memory.ram).position(|(a, b)| a != b).unwrap_or(0);
        let translated = self.ram.get(at..(at + 8).min(self.ram.len()));
        let interpreted = memory.ram.get(at..(at + 8).min(memory.ram.len()));
        Some(format!("RAM at index {at:#x}: {translated:02x?}, interpreted {interpreted:02x?}"))
    }
}

/// Stands before the platform and notes whether anybody comes.
struct Witness<'a> {
    /// Nobody in a repetition.
    platform: Option<&'a mut dyn Platform>,
    was_visited: bool,
}

impl Witness<'_> {
    fn pass<R: Default>(&mut self, visit: impl FnOnce(&mut dyn Platform) -> R) -> R {
        self.was_visited = true;
        match &mut self.platform {
            Some(platform) => visit(&mut **platform),
            None => R::default(),
        }
    }
}

impl Platform for Witness<'_> {
    fn read(&mut self, memory: &mut GuestMemory, v: Visit, at: SystemPhysical, size: u8) -> u64 {
        self.pass(|platform| platform.read(memory, v, at, size))
    }

    fn write(&mut self, m: &mut GuestMemory, v: Visit, at: SystemPhysical, size: u8, value: u64) {
        self.pass(|platform| platform.write(m, v, at, size, value));
    }

    fn port_in(&mut self, memory: &mut GuestMemory, visit: Visit, port: u16, size: u8) -> u32 {
        self.pass(|platform| platform.port_in(memory, visit, port, size))
    }

    fn port_out(&mut self, m: &mut GuestMemory, visit: Visit, port: u16, size: u8, value: u32) {
        self.pass(|platform| platform.port_out(m, visit, port, size, value));
    }

    fn acknowledge_legacy(&mut self, visit: Visit) -> u8 {
        self.pass(|platform| platform.acknowledge_legacy(visit))
    }

    fn effect(&mut self, visit: Visit, effect: Effect) {
        self.pass(|platform| platform.effect(visit, effect));
    }

    fn record(&mut self, visit: Visit, happening: Happening) {
        self.pass(|platform| platform.record(visit, happening));
    }
}

impl CodeCache {
    /// Has every `every`th entry into translated code repeated in the interpreter and compared, at
    /// the price of two copies of RAM. Zero: none.
    pub fn verify(&mut self, every: u64) {
        if let Some(native) = &mut self.native {
            native.verification.every = every;
        }
    }

    /// What came of [`CodeCache::verify`], if entries are repeated.
    pub fn verified(&self) -> Option<&Verified> {
        let verification = &self.native.as_ref()?.verification;
        (verification.every != 0).then_some(&verification.result)
    }
}

impl Native {
    /// Whether the entry that comes is to be repeated.
    pub(super) fn is_to_verify(&mut self, cache: &CodeCache) -> bool {
        let Verification { every, result, .. } = &mut self.verification;
        result.entries += 1;
        // Decoding must not begin anew while places in the cache are held.
        *every != 0 && result.entries.is_multiple_of(*every) && cache.has_room_for_blocks()
    }
}

impl Cpu {
    /// As `enter`, then once more in the interpreter.
    #[inline(never)]
    pub(super) fn enter_verified(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        native: &mut Native,
        (entry, index): (Entry, BlockIndex),
        room: Room,
    ) -> Option<Next> {
        let mut other = self.clone();
        native.verification.before.keep(bus.memory);
        let mut witness = Witness { platform: Some(bus.platform), was_visited: false };
        let mut witnessed = Bus { memory: bus.memory, platform: &mut witness };
        let next = self.enter(cache, &mut witnessed, native, entry, room)?;
        let Verification { result, before, .. } = &mut native.verification;
        if witness.was_visited {
            result.unrepeatable += 1;
            return Some(next);
        }
        before.exchange(bus.memory);
        let start = self.start_of(cache, index, &other);
        let difference = other
            .repeat(cache, bus.memory, self, room)
            .or_else(|| self.difference(&other))
            .or_else(|| before.difference(bus.memory));
        result.compared += 1;
        let Some(difference) = difference else {
            before.exchange(bus.memory);
            return Some(next);
        };
        result.disagreements += 1;
        result.first.get_or_insert_with(|| format!("{start}: {difference}"));
        *self = other;
        Some(Next::Leave)
    }

    /// Where an entry began, for people.
    fn start_of(&self, cache: &CodeCache, index: BlockIndex, before: &Cpu) -> String {
        let kinds: Vec<_> = cache.kinds(cache.block(index)).map(|kind| kind.code()).collect();
        format!(
            "processor {} from {:#x} on, {} instructions, first {kinds:?}",
            self.index.0,
            before.registers.ip,
            self.instructions - before.instructions,
        )
    }

    /// Interprets up to where `translated` has come; what is wrong if that is not reached.
    fn repeat(
        &mut self,
        cache: &mut CodeCache,
        memory: &mut GuestMemory,
        translated: &Cpu,
        room: Room,
    ) -> Option<String> {
        /// A handler leaves code at once; what it has delivered takes few more steps.
        const STEPS: usize = 64;
        let mut witness = Witness { platform: None, was_visited: false };
        let mut left = STEPS + (translated.instructions - self.instructions) as usize;
        while self.instructions < translated.instructions || self.clock < translated.clock {
            // One more than completed is the one that has faulted.
            let instructions = translated.instructions.max(self.instructions + 1);
            let mut bus = Bus { memory, platform: &mut witness };
            self.run_blocks(cache, &mut bus, Room { clock: room.clock, instructions });
            left -= 1;
            if left == 0 {
                return Some("the interpreter does not get there".to_owned());
            }
        }
        witness.was_visited.then(|| "the interpreter reaches a device".to_owned())
    }

    /// What differs from the interpreted processor `other`, which holds at most one thing that code
    /// leaves otherwise: what the steps of the interpreter tell each other.
    fn difference(&self, other: &Cpu) -> Option<String> {
        let (a, b) = (self.described(), other.described());
        let (name, translated, interpreted) = a
            .into_iter()
            .zip(b)
            .find(|((_, a), (_, b))| a != b)
            .map(|((name, a), (_, b))| (name, a, b))?;
        Some(format!("{name}: {translated}, interpreted {interpreted}"))
    }

    fn described(&self) -> Vec<(&'static str, String)> {
        let r = &self.registers;
        let mut pending = self.pending.clone();
        pending.has_branched = false;
        let entries = self.tlb.entries().iter().fold(0u64, |hash, entry| {
            [entry.read, entry.write, entry.execute, entry.offset]
                .iter()
                .fold(hash, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9))
        });
        vec![
            ("instructions", self.instructions.to_string()),
            ("instruction pointer", format!("{:#x}", r.ip)),
            ("general registers", format!("{:x?}", &r.gpr[..16])),
            ("RFLAGS", format!("{:#x}", r.flags.bits())),
            ("clock", format!("{:?}", self.clock)),
            ("pending", format!("{pending:?}")),
            ("SSE", format!("{:x?} {:#x}", r.xmm, r.mxcsr)),
            ("x87", format!("{:?}", r.x87)),
            ("segments", format!("{:?} {:?} {}", r.segments, r.segment_base, r.cpl)),
            ("control", format!("{:?} {:?}", self.control, self.debug)),
            ("local APIC", format!("{:?}", self.apic)),
            ("guest", format!("{:?}", self.guest)),
            ("TLB", format!("{:#x} {:#x} {entries:x}", self.tlb.context, self.tlb.epoch)),
            ("generator", format!("{:#x} {:#x}", self.random.0, self.tsc_offset)),
        ]
    }
}
