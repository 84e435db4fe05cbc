//! Blocks that the host executes itself: which, when, and how processor and translated code hand
//! over to each other.
//!
//! The interpreter is the definition. Code runs blocks only as far as there is room for each,
//! counts time and instructions as the interpreter does, and has every instruction that it does not
//! know, and every access that the TLB does not know, done by its handler. So it shows nowhere but
//! in the host's time when a block is translated.

mod spin;
mod verify;

pub use verify::Verified;

use crate::dispatch::{Next, Room};
use crate::operation::Op;
use crate::operation::cache::{Block, BlockIndex, CodeCache, Exit};
use crate::operation::decode::Dialect;
use crate::width::BLOCK_IP;
use crate::{Access, Attention, Bus, Cpu, Flags, Stop};
use arch::control::rflags;
use arch::segment::SegmentRegister;
use bus::GuestMemory;
use iced_x86::Mnemonic;
use native::{Arena, Entry, Machine, Slot, Windows};
use std::collections::BTreeMap;
use translate::{State, Step, Translation, Wanted};

pub use native::Absence;

/// Times that a block is interpreted before it is translated.
pub const HEAT: u16 = 64;
/// The way into code and out of it takes as long as interpreting so many instructions.
const SHORT: u64 = 16;
/// Short entries at a block, one after the other, after which it rests.
const SHORTS: u8 = 4;
/// Runs of a resting block that are interpreted.
const REST: u8 = u8::MAX;
/// Room that no block has: the next one does not begin.
const NO_ROOM: i64 = i64::MIN / 2;

/// What has become of a decoded block.
#[derive(Clone, Copy)]
enum Place {
    /// It was interpreted so often.
    Cold(u16),
    Translated {
        entry: Entry,
        /// Entries here, of late, that have not repaid the way in and out.
        shorts: u8,
        /// Times to interpret it, though code that comes from other blocks runs it.
        rest: u8,
    },
    /// It cannot be translated, or there is no gain.
    Never,
}

/// An instruction whose handler code may call.
struct Call {
    op: Op,
    block: BlockIndex,
    /// Its place in the block.
    at: u8,
    is_pause: bool,
}

/// How code was left, and what the block that comes next may be linked to.
#[derive(Clone, Copy)]
enum Left {
    Nowhere,
    /// Through a link that is meant for the block at this index into RAM.
    Link(Slot),
    Jump,
}

/// The translated blocks of a board.
pub struct Native {
    arena: Arena,
    /// By the block's index in the cache.
    places: Vec<Place>,
    calls: Vec<Call>,
    /// Per link: the index into RAM of the block that it leads to.
    targets: Vec<u64>,
    left: Left,
    /// `GuestMemory::watched_writes` when links were last known to be right.
    writes: u64,
    /// The pages of translated blocks, and their generations then.
    pages: BTreeMap<u64, u32>,
    /// Pages in which an instruction of another page continues, and that page.
    crossings: Vec<(u64, u64)>,
    heat: u16,
    /// Instructions that have completed in code, those of handlers that it called among them.
    completed: u64,
    verification: verify::Verification,
    spin: spin::Spin,
}

/// After how many runs the environment wants blocks to be translated: `AVICENNA_NATIVE` is that
/// number, or `off`; without it [`HEAT`]. Tests are run with 0 and with `off`.
pub fn wanted_heat() -> Option<u16> {
    match std::env::var("AVICENNA_NATIVE").as_deref() {
        Ok("off") => None,
        Ok(runs) => Some(runs.parse().unwrap_or(HEAT)),
        Err(_) => Some(HEAT),
    }
}

impl CodeCache {
    /// Translates as the environment wants ([`wanted_heat`]) if the host allows.
    pub fn translate_as_wanted(&mut self) {
        if let Some(heat) = wanted_heat() {
            // Without an arena the interpreter runs, which `translates` says.
            let _ = self.translate(heat);
        }
    }

    /// From now on all is interpreted.
    pub fn interpret(&mut self) {
        self.native = None;
    }

    /// Lets blocks that have run `heat` times be translated, if the host allows.
    pub fn translate(&mut self, heat: u16) -> Result<(), Absence> {
        self.native = Some(Box::new(Native {
            arena: Arena::new()?,
            places: Vec::new(),
            calls: Vec::new(),
            targets: Vec::new(),
            left: Left::Nowhere,
            writes: 0,
            pages: BTreeMap::new(),
            crossings: Vec::new(),
            heat,
            completed: 0,
            verification: verify::Verification::default(),
            spin: spin::Spin::default(),
        }));
        Ok(())
    }

    /// Whether no block is to be interpreted first.
    pub(crate) fn translates_at_once(&self) -> bool {
        self.native.as_ref().is_some_and(|native| native.heat == 0)
    }

    /// Instructions that have completed in translated code.
    pub fn completed_translated(&self) -> u64 {
        self.native.as_ref().map_or(0, |native| native.completed)
    }

    /// Whether blocks are translated.
    pub fn translates(&self) -> bool {
        self.native.is_some()
    }
}

impl Native {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.places.clear();
        self.calls.clear();
        self.targets.clear();
        self.pages.clear();
        self.crossings.clear();
        self.left = Left::Nowhere;
    }

    /// Forgets what leads to blocks whose code has changed. Blocks themselves are found by their
    /// page's generation, but what leads from one to another compares nothing.
    #[inline(never)]
    fn unlink_changed(&mut self, memory: &GuestMemory) {
        self.writes = memory.watched_writes;
        let mut changed = Vec::new();
        for (page, generation) in &mut self.pages {
            let now = memory.generations.get(*page as usize).copied().unwrap_or(0);
            if std::mem::replace(generation, now) != now {
                changed.push(*page);
            }
        }
        for (second, first) in &self.crossings {
            if changed.contains(second) {
                changed.push(*first);
            }
        }
        if changed.is_empty() {
            return;
        }
        let targets = &self.targets;
        let is_stale = |offset: u64| changed.contains(&(offset >> 12));
        self.arena.unlink_where(
            |slot| targets.get(slot.number() as usize).is_none_or(|target| is_stale(*target)),
            is_stale,
        );
    }

    /// Remembers which pages a block lies in.
    fn note_pages(&mut self, memory: &GuestMemory, block: &Block, offset: u64) {
        let first = offset >> 12;
        let generation = |page: u64| memory.generations.get(page as usize).copied().unwrap_or(0);
        self.pages.insert(first, generation(first));
        if let Some((second, _)) = block.second_page() {
            let second = u64::from(second);
            self.pages.insert(second, generation(second));
            self.crossings.push((second, first));
        }
    }

    /// The code of the block that begins at the index `offset` into RAM, if it has any by now. What
    /// leads there is linked to it.
    fn entry(
        &mut self,
        cache: &CodeCache,
        memory: &GuestMemory,
        index: BlockIndex,
        offset: u64,
    ) -> Option<Entry> {
        if self.writes != memory.watched_writes {
            self.unlink_changed(memory);
        }
        let left = std::mem::replace(&mut self.left, Left::Nowhere);
        let number = index.number();
        if number >= self.places.len() {
            self.places.resize(number + 1, Place::Cold(0));
        }
        let mut is_resting = false;
        let entry = match &mut self.places[number] {
            Place::Never => return None,
            Place::Translated { entry, rest, .. } => {
                is_resting = *rest != 0;
                *rest = rest.saturating_sub(1);
                *entry
            }
            Place::Cold(runs) if *runs < self.heat => {
                *runs += 1;
                return None;
            }
            Place::Cold(_) => self.translate(cache, memory, index, offset)?,
        };
        match left {
            Left::Nowhere => {}
            Left::Link(slot) => {
                if self.targets.get(slot.number() as usize) == Some(&offset) {
                    self.arena.link(slot, entry);
                }
            }
            Left::Jump => self.arena.remember(offset, entry),
        }
        (!is_resting).then_some(entry)
    }

    /// An entry at a block has completed so many instructions before code was left. Where that is
    /// seldom many, as in loops that wait, the interpreter is faster.
    fn note_entry(&mut self, index: BlockIndex, instructions: u64) {
        let Some(Place::Translated { shorts, rest, .. }) = self.places.get_mut(index.number())
        else {
            return;
        };
        if instructions >= SHORT || self.heat == 0 {
            *shorts = 0;
            return;
        }
        *shorts += 1;
        if *shorts == SHORTS {
            *shorts = SHORTS / 2;
            *rest = REST;
        }
    }

    #[inline(never)]
    fn translate(
        &mut self,
        cache: &CodeCache,
        memory: &GuestMemory,
        index: BlockIndex,
        offset: u64,
    ) -> Option<Entry> {
        let number = index.number();
        let block = cache.block(index);
        self.places[number] = Place::Never;
        let kind = cache.kinds(block).next()?;
        let only_looks = looks_at_time(kind.mnemonic());
        // Others that stand alone change what code means, and are left at once.
        if !block.is_plain() && block.count == 1 && !only_looks {
            return None;
        }
        let is_pause = kind.mnemonic() == Mnemonic::Pause;
        let calls: Vec<Call> = (0..block.count)
            .map_while(|at| {
                let op = cache.alone(block, at.into())?;
                Some(Call { op, block: index, at, is_pause })
            })
            .collect();
        let steps: Vec<Step> = calls
            .iter()
            .map(|call| Step {
                length: call.op.length,
                end_time: cache.time_of(block, usize::from(call.at) + 1) as u32,
                call: self.calls.len() as u32 + u32::from(call.at),
            })
            .collect();
        let code = translate::translate(translate::Block {
            bytes: &bytes(memory, block, offset)?,
            steps: &steps,
            offset: (offset & 0xFFF) as u16,
            second_page: block.second_page().map(|(page, _)| u64::from(page) << 12),
            is_plain: block.is_plain() || only_looks,
            is_amd: cache.dialect() == Dialect::Amd,
        })?;
        let Some((entry, first)) = self.arena.publish(&code) else {
            // There is no room left: all is translated anew as it is needed.
            self.clear();
            return None;
        };
        debug_assert_eq!(first.number() as usize, self.targets.len());
        self.note_pages(memory, block, offset);
        let page = offset & !0xFFF;
        self.targets.extend(code.links().iter().map(|link| page | u64::from(link.target)));
        self.calls.extend(calls);
        self.places[number] = Place::Translated { entry, shorts: 0, rest: 0 };
        Some(entry)
    }
}

/// Whether an instruction stands alone in its block for no reason but that its handler looks at the
/// clock, which handlers find exact in code as well.
fn looks_at_time(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Pause | Mnemonic::Rdtsc | Mnemonic::Rdtscp)
}

/// The bytes of a block, of which the last may lie in another page.
fn bytes(memory: &GuestMemory, block: &Block, offset: u64) -> Option<Vec<u8>> {
    let (start, length) = (offset as usize, usize::from(block.length));
    let in_page = length.min(0x1000 - (start & 0xFFF));
    let mut bytes = memory.ram.get(start..start + in_page)?.to_vec();
    if let Some((page, _)) = block.second_page() {
        let second = (page as usize) << 12;
        bytes.extend(memory.ram.get(second..second + length - in_page)?);
    }
    Some(bytes)
}

/// What code runs in: the processor and its bus, for the time that it runs.
struct Session<'a, 'b> {
    cpu: &'a mut Cpu,
    bus: &'a mut Bus<'b>,
    cache: &'a CodeCache,
    calls: &'a [Call],
    spin: &'a mut spin::Spin,
    /// When the room ends.
    limit: u64,
    /// The TLB's epoch and the writes to watched lines when code was entered.
    epoch: u64,
    writes: u64,
    /// What comes after the instruction that a handler did not simply complete.
    next: Option<Next>,
}

/// The status word of translated code.
fn status_word(flags: &Flags) -> u64 {
    let status = flags.status();
    (status & !rflags::OF) << 8 | u64::from(status & rflags::OF != 0)
}

/// The status flags of a status word.
fn status_flags(word: u64) -> u64 {
    word >> 8 & rflags::STATUS & !rflags::OF | if word & 1 != 0 { rflags::OF } else { 0 }
}

impl Session<'_, '_> {
    /// The processor's state at an instruction boundary of code; `taken` picoseconds have been
    /// taken off the room for instructions that have not completed.
    fn give(&mut self, state: &State, taken: u32) {
        let cpu = &mut *self.cpu;
        (0..16).for_each(|number| cpu.registers.gpr[number] = state.registers[number]);
        cpu.registers.gpr[BLOCK_IP as usize] = state.ip;
        cpu.registers.ip = state.ip;
        cpu.registers.flags.set_status(status_flags(state.status));
        let left = (state.room as u64).wrapping_add(taken.into());
        cpu.clock.0 = self.limit.wrapping_sub(left);
        cpu.instructions = state.instructions;
    }

    /// What a handler has changed.
    fn take(&mut self, state: &mut State) {
        (0..16).for_each(|number| state.registers[number] = self.cpu.registers.gpr[number]);
        state.status = status_word(&self.cpu.registers.flags);
    }

    /// A handler has taken time of its own, such as for a device's answer.
    fn spend(&mut self, state: &mut State, time: u64) {
        if state.room == NO_ROOM {
            self.limit = self.limit.wrapping_add(time);
        } else {
            state.room = state.room.saturating_sub_unsigned(time);
        }
    }

    /// The TLB's entry for fetches from the running page.
    fn page(&self, state: &State) -> Translation {
        *self.cpu.tlb.entry(self.cpu.access_set(), state.ip)
    }

    /// Whether something must be looked at before the next block begins. `page` is what
    /// [`Session::page`] was before the TLB may have changed: while the running page stays where it
    /// is, links within it stay right, and all else is found by the TLB.
    fn is_due(&mut self, state: &State, page: &Translation) -> bool {
        if self.cpu.tlb.epoch != self.epoch {
            let now = self.page(state);
            let stays = now.execute == page.execute && now.offset == page.offset;
            if !stays || now.execute != self.cpu.tlb.tag(state.ip) {
                return true;
            }
            self.epoch = self.cpu.tlb.epoch;
        }
        !self.cpu.pending.attention.is_empty()
            || self.cpu.extra_cost != 0
            || self.bus.memory.watched_writes != self.writes
    }

    /// The next block has no room; the clock stays.
    fn withdraw_room(&mut self, state: &mut State) {
        let by = state.room.wrapping_sub(NO_ROOM);
        state.room = NO_ROOM;
        self.limit = self.limit.wrapping_sub(by as u64);
    }

    fn stopped(&mut self, call: &Call, block: &Block, stop: Stop) -> Next {
        if stop == Stop::BRANCH {
            return self.cpu.complete(self.cache, block, usize::from(call.at) + 1);
        }
        let op = (&call.op, usize::from(call.at));
        self.cpu.leave_block(self.cache, self.bus, block, op, stop);
        Next::Leave
    }
}

impl Machine for Session<'_, '_> {
    fn begin(&mut self, state: &mut State) {
        let cpu = &*self.cpu;
        (0..16).for_each(|number| state.registers[number] = cpu.registers.gpr[number]);
        state.ip = cpu.registers.ip;
        state.room = self.limit.wrapping_sub(cpu.clock.0) as i64;
        state.instructions = cpu.instructions;
        state.status = status_word(&cpu.registers.flags);
    }

    fn end(&mut self, state: &State) {
        // A handler that has stopped code has left the processor as it is to be.
        if self.next.is_none() {
            self.give(state, 0);
        }
    }

    fn windows(&mut self) -> Windows<'_> {
        let cpu = &mut *self.cpu;
        let bases = cpu.registers.segment_base;
        let sets = (cpu.tlb_set, cpu.access_set());
        let may_use_vectors = cpu.check_sse().is_ok();
        Windows {
            ram: &mut self.bus.memory.ram,
            watched: &self.bus.memory.watched_lines,
            tlb: cpu.tlb.entries(),
            sets,
            context: cpu.tlb.context,
            fs_base: bases[SegmentRegister::Fs as usize],
            gs_base: bases[SegmentRegister::Gs as usize],
            vectors: may_use_vectors.then_some(&mut cpu.registers.xmm),
        }
    }

    fn call(&mut self, state: &mut State, number: u32) -> bool {
        let calls = self.calls;
        let Some(call) = calls.get(number as usize) else { return false };
        let block = self.cache.block(call.block);
        self.give(state, block.cost);
        let before = self.cpu.clock.0;
        let page = self.page(state);
        let waits = call.is_pause && {
            let left = self.limit.saturating_sub(before);
            self.spin.pauses(self.cpu, number, state, left)
        };
        let is_last = call.at + 1 == block.count;
        match (call.op.handler)(self.cpu, self.bus, &call.op) {
            Ok(()) => {}
            // The block ends here anyway.
            Err(Stop::END_BLOCK) if is_last && block.is_plain() => {
                self.cpu.pending.software_length = call.op.length.into();
            }
            Err(stop) => {
                self.next = Some(self.stopped(call, block, stop));
                return false;
            }
        }
        if is_last {
            self.cpu.charge_extra();
        }
        self.take(state);
        self.spend(state, self.cpu.clock.0 - before);
        if (waits || self.is_due(state, &page)) && state.room != NO_ROOM {
            self.withdraw_room(state);
        }
        true
    }

    fn fill(&mut self, state: &mut State, linear: u64, wanted: Wanted) -> bool {
        let access = if wanted.is_write { Access::Write } else { Access::Read };
        let page = self.page(state);
        if !self.cpu.fill_settled(self.bus, linear, wanted.bytes.into(), access) {
            return false;
        }
        // The entry may have taken the place of the running page's.
        if self.is_due(state, &page) && state.room != NO_ROOM {
            self.withdraw_room(state);
        }
        true
    }
}

impl Cpu {
    /// Runs translated code from a block on, if the block has any and the room allows; `None` if
    /// the block is the interpreter's.
    pub(crate) fn run_translated(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        mut native: Box<Native>,
        (index, offset): (BlockIndex, u64),
        room: Room,
    ) -> Option<Next> {
        let entry = native.entry(cache, bus.memory, index, offset);
        let before = self.instructions;
        let next = entry.and_then(|entry| {
            if native.is_to_verify(cache) {
                return self.enter_verified(cache, bus, &mut native, (entry, index), room);
            }
            self.enter(cache, bus, &mut native, entry, room)
        });
        if entry.is_some() {
            native.completed += self.instructions - before;
            native.note_entry(index, self.instructions - before);
        }
        cache.native = Some(native);
        next
    }

    fn enter(
        &mut self,
        cache: &CodeCache,
        bus: &mut Bus<'_>,
        native: &mut Native,
        entry: Entry,
        room: Room,
    ) -> Option<Next> {
        // Time that no more instructions can take than there is room for.
        let most = (room.instructions - self.instructions).saturating_mul(cache.least_cost());
        let left = (room.clock.0 - self.clock.0).min(most).min(i64::MAX as u64 / 4);
        let before = self.instructions;
        let Native { arena, calls, spin, .. } = native;
        let mut session = Session {
            limit: self.clock.0 + left,
            epoch: self.tlb.epoch,
            writes: bus.memory.watched_writes,
            cpu: self,
            bus,
            cache,
            calls,
            spin,
            next: None,
        };
        let exit = arena.enter(entry, &mut session);
        if let Some(next) = session.next {
            return Some(next);
        }
        if self.instructions == before {
            // The block's own room, counted by instructions, was too small.
            return None;
        }
        self.charge_extra();
        native.left = match exit {
            translate::Exit::Link(number) => Left::Link(Slot::of(number)),
            translate::Exit::Jump => Left::Jump,
            _ => Left::Nowhere,
        };
        let goes_on = exit != translate::Exit::End
            && !native.spin.is_due
            && self.pending.attention == Attention::empty();
        Some(if goes_on { Next::Chain(Exit::NONE) } else { Next::Leave })
    }
}
