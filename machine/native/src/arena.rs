//! Published code: appended until there is no room, then cleared as a whole. What leads from block
//! to block is data beside it, so code is never changed.

use crate::gate;
use crate::mapping::{CODE, Mapping, SLOTS};
use crate::{Absence, Entry, Machine, Slot};
use std::sync::atomic::{AtomicU64, Ordering};
use translate::{Code, Exit, JUMPS, Mode, Reference, Routines};

/// Blocks begin at multiples of this.
const ALIGNMENT: usize = 16;
/// The key of a pair of the jump cache that no block has. What the TLB says can make it all the
/// same, so such a pair leads to where unknown addresses do.
const NO_KEY: u64 = u64::MAX;
/// Ages that arenas of this process have had: no two have the same, so that an entry of one is void
/// in every other.
static AGES: AtomicU64 = AtomicU64::new(0);

fn next_age() -> u64 {
    AGES.fetch_add(1, Ordering::Relaxed)
}

/// Code and what links it.
pub struct Arena {
    mapping: Mapping,
    kept: Box<gate::Kept>,
    routines: Routines,
    /// Bytes of code in use.
    used: usize,
    /// Where the first block may begin.
    first: usize,
    age: u64,
    /// Where code of earlier ages ends: below it the host may hold what has been written over.
    written: usize,
    /// Something there has been written over since code ran last.
    is_rewritten: bool,
    /// How many counters of runs published blocks reach.
    counters: usize,
    /// Per link in use: the address it holds while it is not linked.
    stubs: Vec<u64>,
    /// Links that are linked.
    linked: Vec<u32>,
    /// Pairs of a key and an address.
    jumps: Box<[[u64; 2]; JUMPS]>,
    /// Places of `jumps` in use.
    remembered: Vec<u32>,
}

impl Arena {
    pub fn new() -> Result<Self, Absence> {
        if !gate::host_has_lahf() {
            return Err(Absence::Host);
        }
        let mut mapping = Mapping::new()?;
        let routines = translate::routines();
        mapping.code_mut()[..routines.bytes.len()].copy_from_slice(&routines.bytes);
        let first = routines.bytes.len().next_multiple_of(ALIGNMENT);
        let no_entry = [NO_KEY, mapping.address(routines.unknown)];
        let jumps = vec![no_entry; JUMPS].into_boxed_slice();
        let jumps = jumps.try_into().unwrap_or_else(|_| unreachable!("as long as was asked for"));
        Ok(Self {
            mapping,
            kept: Box::default(),
            routines,
            used: first,
            first,
            age: next_age(),
            written: first,
            is_rewritten: false,
            counters: 0,
            stubs: Vec::new(),
            linked: Vec::new(),
            jumps,
            remembered: Vec::new(),
        })
    }

    /// Makes a block's code ready to be entered: its entry, and the first of its links, which have
    /// consecutive numbers. `None` if there is no room until everything is cleared.
    pub fn publish(&mut self, code: &Code) -> Option<(Entry, Slot)> {
        let (at, bytes, first_slot) = (self.used, code.bytes(), self.stubs.len());
        let end = at.checked_add(bytes.len())?;
        if end > CODE || first_slot + code.links().len() > SLOTS {
            return None;
        }
        let mut placed = bytes.to_vec();
        for (place, reference) in code.references() {
            let from = self.mapping.address(at + place + 4);
            let to = match reference {
                Reference::Leave => self.mapping.address(self.routines.leave),
                Reference::Call => self.mapping.address(self.routines.call),
                Reference::Find { is_write: false } => {
                    self.mapping.address(self.routines.find_read)
                }
                Reference::Find { is_write: true } => {
                    self.mapping.address(self.routines.find_write)
                }
                Reference::Jump(Mode::Long) => self.mapping.address(self.routines.jump),
                Reference::Jump(Mode::Flat) => self.mapping.address(self.routines.jump_flat),
                Reference::Slot(link) => self.mapping.slot_address(first_slot + link),
            };
            let distance = to.wrapping_sub(from) as i64;
            let distance = i32::try_from(distance).expect("the arena is smaller than 2 GiB");
            placed[*place..place + 4].copy_from_slice(&distance.to_le_bytes());
        }
        for (link, slot) in code.links().iter().zip(first_slot..) {
            let number = slot as u32 + Exit::LINKS;
            placed[link.number..link.number + 4].copy_from_slice(&number.to_le_bytes());
            let stub = self.mapping.address(at + link.stub);
            self.stubs.push(stub);
            self.mapping.slots_mut()[slot] = stub;
        }
        self.mapping.code_mut()[at..end].copy_from_slice(&placed);
        self.used = end.next_multiple_of(ALIGNMENT);
        self.is_rewritten |= at < self.written;
        self.counters = self.counters.max(code.counters());
        Some((Entry { offset: at as u32, age: self.age }, Slot(first_slot as u32)))
    }

    fn is_current(&self, entry: Entry) -> bool {
        entry.age == self.age
    }

    /// Lets a link lead to a block; nothing happens if that is from before a `clear`. The link has
    /// to be of a block of the present age, since its number is given again to another.
    pub fn link(&mut self, slot: Slot, to: Entry) {
        if self.is_current(to) && (slot.0 as usize) < self.stubs.len() {
            self.mapping.slots_mut()[slot.0 as usize] = self.mapping.address(to.offset as usize);
            self.linked.push(slot.0);
        }
    }

    /// Has computed jumps to what [`translate::jump_key`] made a key of find a block.
    pub fn remember(&mut self, key: u64, to: Entry) {
        if self.is_current(to) && key != NO_KEY {
            let place = translate::jump_place(key);
            if self.jumps[place][0] == NO_KEY {
                self.remembered.push(place as u32);
            }
            self.jumps[place] = [key, self.mapping.address(to.offset as usize)];
        }
    }

    fn no_entry(&self) -> [u64; 2] {
        [NO_KEY, self.mapping.address(self.routines.unknown)]
    }

    /// Forgets which block follows which.
    pub fn unlink(&mut self) {
        let no_entry = self.no_entry();
        for slot in self.linked.drain(..) {
            self.mapping.slots_mut()[slot as usize] = self.stubs[slot as usize];
        }
        for place in self.remembered.drain(..) {
            self.jumps[place as usize] = no_entry;
        }
    }

    /// Forgets what leads to certain blocks: the links and the keys that are to go.
    pub fn unlink_where(&mut self, slot: impl Fn(Slot) -> bool, key: impl Fn(u64) -> bool) {
        let no_entry = self.no_entry();
        let Self { mapping, stubs, linked, jumps, remembered, .. } = self;
        linked.retain(|&number| {
            let goes = slot(Slot(number));
            if goes {
                mapping.slots_mut()[number as usize] = stubs[number as usize];
            }
            !goes
        });
        remembered.retain(|&place| {
            let pair = &mut jumps[place as usize];
            let goes = key(pair[0]);
            if goes {
                *pair = no_entry;
            }
            !goes
        });
    }

    /// Forgets all blocks; their entries are void.
    pub fn clear(&mut self) {
        self.unlink();
        self.stubs.clear();
        self.written = self.written.max(self.used);
        self.used = self.first;
        self.counters = 0;
        self.age = next_age();
    }

    /// Runs code from a block on until it is left. A void entry leaves at once, for lack of room,
    /// before the machine is asked for anything. There are at least as many counters of runs, for
    /// blocks that count, as [`translate::Code::counters`] says.
    pub fn enter<M: Machine>(
        &mut self,
        entry: Entry,
        counters: &[AtomicU64],
        machine: &mut M,
    ) -> Exit {
        if !self.is_current(entry) {
            return Exit::Room;
        }
        if std::mem::take(&mut self.is_rewritten) {
            gate::serialize();
        }
        let enter = self.mapping.address(self.routines.enter);
        let code = self.mapping.address(entry.offset as usize);
        assert!(counters.len() >= self.counters, "a block has no counter");
        let kept = &mut *self.kept;
        let way = gate::Way { mapping: &mut self.mapping, kept, enter, code, counters };
        gate::enter(way, &self.jumps, machine)
    }
}

#[cfg(test)]
mod tests;
