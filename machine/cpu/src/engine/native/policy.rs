//! Which blocks are translated, and when.

use super::spin::Spin;
use super::verification::Verification;
use crate::engine::blocks::{BLOCK_INSTRUCTIONS, Block, BlockIndex, Blocks};
use crate::execute::binding::Bound;
use crate::width::{RAX, RCX, RDX};
use bus::GuestMemory;
use iced_x86::Mnemonic;
use native::{Absence, Arena, Entry, Slot};
use std::collections::BTreeMap;
use translate::{Link, Mode, Step};

/// Times that a block is interpreted before it is translated.
pub const HEAT: u16 = 64;
/// The way into code and out of it takes as long as interpreting so many instructions.
const SHORT: u64 = 8;
/// Short entries at a block, one after the other, after which it rests.
const SHORTS: u8 = 4;
/// Times that a handler asks that its instruction be executed by itself before code is made that
/// does not try.
const ASKED: u8 = 8;
/// A block's instructions have a bit each.
const _: () = assert!(BLOCK_INSTRUCTIONS <= u32::BITS as usize);
/// Runs of a resting block that are interpreted.
const REST: u8 = u8::MAX;
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
pub(super) struct Call {
    pub bound: Bound,
    pub block: BlockIndex,
    /// Its place in the block.
    pub at: u8,
    pub light: Option<Light>,
    /// Times that it has asked to be executed by itself.
    pub asked: u8,
}

/// An instruction whose handler reaches no memory, changes nothing that code may touch, and of the
/// registers at most some that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Light {
    Pause,
    /// CLI.
    Flags,
    /// RDTSC: EDX and EAX.
    TimeStamp,
    /// RDTSCP: ECX as well.
    TimeStampAndAux,
}

impl Light {
    fn of(mnemonic: Mnemonic) -> Option<Self> {
        Some(match mnemonic {
            Mnemonic::Pause => Self::Pause,
            Mnemonic::Cli => Self::Flags,
            Mnemonic::Rdtsc => Self::TimeStamp,
            Mnemonic::Rdtscp => Self::TimeStampAndAux,
            _ => return None,
        })
    }

    /// The general registers that it changes, by number.
    pub fn changes(self) -> &'static [usize] {
        match self {
            Self::Pause | Self::Flags => &[],
            Self::TimeStamp => &[RAX, RDX],
            Self::TimeStampAndAux => &[RAX, RDX, RCX],
        }
    }
}

/// How code was left, and what the block that comes next may be linked to.
#[derive(Clone, Copy)]
pub(super) enum Left {
    Nowhere,
    /// Through a link that is meant for the block at this index into RAM.
    Link(Slot),
    Jump,
}

/// The translated blocks of a board.
pub struct Native {
    pub(super) arena: Arena,
    /// By the block's index in the cache.
    places: Vec<Place>,
    pub(super) calls: Vec<Call>,
    /// Per link: the key of the block that it leads to.
    targets: Vec<u64>,
    pub(super) left: Left,
    /// `GuestMemory::watched_writes` when links were last known to be right.
    writes: u64,
    /// The pages of translated blocks, and their generations then.
    pages: BTreeMap<u64, u32>,
    /// Pages in which an instruction of another page continues, and that page.
    crossings: Vec<(u64, u64)>,
    /// Per block, a bit for each instruction that asks to be executed by itself.
    asking: BTreeMap<usize, u32>,
    heat: u16,
    /// Instructions that have completed in code, those of handlers that it called among them.
    pub(super) completed: u64,
    pub(super) verification: Verification,
    pub(super) spin: Spin,
    /// [`Blocks::clears`] when places were last known to be right.
    clears: u64,
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

impl Native {
    /// How often blocks run before they are translated.
    pub fn heat(&self) -> u16 {
        self.heat
    }

    /// Nothing is translated yet; blocks that have run `heat` times are going to be.
    pub fn new(heat: u16) -> Result<Self, Absence> {
        Ok(Self {
            arena: Arena::new()?,
            places: Vec::new(),
            calls: Vec::new(),
            targets: Vec::new(),
            left: Left::Nowhere,
            writes: 0,
            pages: BTreeMap::new(),
            crossings: Vec::new(),
            asking: BTreeMap::new(),
            heat,
            completed: 0,
            verification: Verification::default(),
            spin: Spin::default(),
            clears: 0,
        })
    }

    /// Whether no block is to be interpreted first.
    pub fn translates_at_once(&self) -> bool {
        self.heat == 0
    }

    /// Instructions of loops that wait which were skipped.
    pub fn skipped(&self) -> u64 {
        self.spin.skipped()
    }

    /// Instructions that have completed in translated code.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Forgets everything.
    fn clear(&mut self) {
        self.arena.clear();
        self.places.clear();
        self.calls.clear();
        self.targets.clear();
        self.pages.clear();
        self.crossings.clear();
        self.asking.clear();
        self.left = Left::Nowhere;
    }

    /// Forgets what leads to blocks whose code has changed. Blocks themselves are found by their
    /// page's generation, but what leads from one to another compares nothing.
    #[inline(never)]
    fn unlink_changed(&mut self, memory: &GuestMemory) {
        self.writes = memory.watched_writes;
        let mut changed = Vec::new();
        for (page, generation) in &mut self.pages {
            if memory.generations.get(*page as usize) != Some(generation) {
                *generation = memory.generation_to_remember(*page as usize);
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
        let is_stale = |key: u64| changed.contains(&(translate::jump_index(key) >> 12));
        self.arena.unlink_where(
            |slot| targets.get(slot.number() as usize).is_none_or(|target| is_stale(*target)),
            is_stale,
        );
    }

    /// Remembers which pages a block lies in.
    fn note_pages(&mut self, memory: &GuestMemory, block: &Block, offset: u64) {
        let first = offset >> 12;
        let generation = |page: u64| memory.generation_to_remember(page as usize);
        self.pages.insert(first, generation(first));
        if let Some((second, _)) = block.second_page() {
            let second = u64::from(second);
            self.pages.insert(second, generation(second));
            self.crossings.push((second, first));
        }
    }

    /// The code of the block that begins at the index `offset` into RAM, if it has any by now. What
    /// leads there is linked to it; the same bytes may be a block of another mode as well.
    pub(super) fn entry(
        &mut self,
        blocks: &Blocks,
        memory: &GuestMemory,
        index: BlockIndex,
        (offset, mode): (u64, Mode),
    ) -> Option<Entry> {
        if self.clears != blocks.clears() {
            self.clear();
            self.clears = blocks.clears();
        }
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
            Place::Cold(_) => self.translate(blocks, memory, index, (offset, mode))?,
        };
        let key = translate::jump_key(offset, mode);
        match left {
            Left::Nowhere => {}
            Left::Link(slot) => {
                if self.targets.get(slot.number() as usize) == Some(&key) {
                    self.arena.link(slot, entry);
                }
            }
            Left::Jump => self.arena.remember(key, entry),
        }
        (!is_resting).then_some(entry)
    }

    /// An entry at a block has completed so many instructions before code was left. Where that is
    /// seldom many, as in loops that wait, the interpreter is faster.
    pub(super) fn note_entry(&mut self, index: BlockIndex, instructions: u64) {
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

    /// A handler has asked that its instruction be executed by itself. Where it does so again and
    /// again, the block is translated once more, to code that is left there at once.
    pub(super) fn note_asked(&mut self, call: u32, blocks: &Blocks) {
        let Some(call) = self.calls.get_mut(call as usize) else { return };
        call.asked = call.asked.saturating_add(1);
        // An entry that is repeated by the interpreter is compared with one that tries.
        if call.asked != ASKED || self.verification.every != 0 {
            return;
        }
        let (block, number, at) = (call.block, call.block.number(), call.at);
        *self.asking.entry(number).or_default() |= 1 << at;
        self.places[number] = Place::Cold(self.heat);
        let (key, targets) = (blocks.jump_key(block), &self.targets);
        self.arena.unlink_where(
            |slot| targets.get(slot.number() as usize).is_none_or(|target| *target == key),
            |target| target == key,
        );
    }

    #[inline(never)]
    fn translate(
        &mut self,
        blocks: &Blocks,
        memory: &GuestMemory,
        index: BlockIndex,
        (offset, mode): (u64, Mode),
    ) -> Option<Entry> {
        let number = index.number();
        let block = blocks.block(index);
        self.places[number] = Place::Never;
        let kind = blocks.kinds(block).next()?;
        let only_looks = looks_at_time(kind.mnemonic());
        // Others that stand alone change what code means, and are left at once.
        if !block.is_plain() && block.count == 1 && !only_looks {
            return None;
        }
        let calls: Vec<Call> = (0..block.count)
            .map_while(|at| {
                let bound = blocks.alone(block, at.into())?;
                let light = Light::of(blocks.kind(block, at.into()).mnemonic());
                Some(Call { bound, block: index, at, light, asked: 0 })
            })
            .collect();
        let asking = self.asking.get(&number).copied().unwrap_or(0);
        let steps: Vec<Step> = calls
            .iter()
            .map(|call| Step {
                length: call.bound.op.length,
                end_time: blocks.time_of(block, usize::from(call.at) + 1) as u32,
                call: self.calls.len() as u32 + u32::from(call.at),
                asks: asking >> call.at & 1 != 0,
            })
            .collect();
        let code = translate::translate(translate::Block {
            mode,
            bytes: &bytes(memory, block, offset)?,
            steps: &steps,
            offset: (offset & 0xFFF) as u16,
            second_page: block.second_page().map(|(page, _)| u64::from(page) << 12),
            is_plain: block.is_plain() || only_looks,
            first_counter: blocks.first_counter(block),
            options: blocks.dialect().options(),
        })?;
        let Some((entry, first)) = self.arena.publish(&code) else {
            // There is no room left: all is translated again as it is needed.
            self.clear();
            return None;
        };
        debug_assert_eq!(first.number() as usize, self.targets.len());
        self.note_pages(memory, block, offset);
        let page = offset & !0xFFF;
        let target = |link: &Link| translate::jump_key(page | u64::from(link.target), mode);
        self.targets.extend(code.links().iter().map(target));
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
