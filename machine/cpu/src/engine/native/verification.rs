//! What is kept to repeat an entry into translated code, and what came of it.

use arch::address::SystemPhysical;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};

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
    pub before: Before,
}

/// Guest memory as it was.
#[derive(Default)]
pub(super) struct Before {
    ram: Vec<u8>,
    watched_lines: Vec<u64>,
    generations: Vec<u32>,
    watched_writes: u64,
}

impl Before {
    pub fn keep(&mut self, memory: &GuestMemory) {
        self.ram.clone_from(&memory.ram);
        self.watched_lines.clone_from(&memory.watched_lines);
        self.generations.clone_from(&memory.generations);
        self.watched_writes = memory.watched_writes;
    }

    pub fn exchange(&mut self, memory: &mut GuestMemory) {
        std::mem::swap(&mut self.ram, &mut memory.ram);
        std::mem::swap(&mut self.watched_lines, &mut memory.watched_lines);
        memory.watches.change();
        std::mem::swap(&mut self.generations, &mut memory.generations);
        std::mem::swap(&mut self.watched_writes, &mut memory.watched_writes);
    }

    pub fn difference(&self, memory: &GuestMemory) -> Option<String> {
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
pub(super) struct Witness<'a> {
    /// Nobody in a repetition.
    pub platform: Option<&'a mut dyn Platform>,
    pub was_visited: bool,
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
