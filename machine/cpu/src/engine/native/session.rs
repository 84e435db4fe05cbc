//! How processor and translated code hand over to each other.

use super::policy::{Call, Left, Light, Native};
use super::spin::Spin;
use crate::engine::blocks::{self, Block, BlockIndex, Blocks};
use crate::engine::ending;
use crate::engine::native::verify;
use crate::engine::room::{Next, Room};
use crate::operation::Extension;
use crate::width::BLOCK_IP;
use crate::{Access, Bus, Cpu, Flags, Stop};
use arch::control::rflags;
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;
use native::{After, Entry, Filled, Ground, Machine, Replaced, Slot, Windows};
use translate::{Exit, Mode, State, Translation, Wanted};

/// Room that no block has: the next one does not begin.
const NO_ROOM: i64 = i64::MIN / 2;

/// What code runs in: the processor and its bus, for the time that it runs.
struct Session<'a, 'b> {
    cpu: &'a mut Cpu,
    bus: &'a mut Bus<'b>,
    blocks: &'a Blocks,
    calls: &'a [Call],
    spin: &'a mut Spin,
    /// What the code that runs is.
    mode: Mode,
    /// When the room ends.
    limit: u64,
    /// The TLB's epoch and the writes to watched lines when code was entered.
    epoch: u64,
    writes: u64,
    /// What comes after the instruction that a handler did not simply complete.
    next: Option<Next>,
    /// The instruction whose handler has asked to be executed by itself.
    asked: Option<u32>,
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
        if let Some(general) = cpu.registers.gpr.first_chunk_mut() {
            state.registers.copy_to(general);
        }
        cpu.registers.gpr[BLOCK_IP as usize] = state.ip;
        cpu.registers.ip = state.ip;
        cpu.registers.flags.set_status(status_flags(state.status));
        let left = (state.room as u64).wrapping_add(taken.into());
        let now = Picoseconds(self.limit.wrapping_sub(left));
        cpu.clock.take_over(now, state.instructions);
    }

    /// What a handler has changed.
    fn take(&mut self, state: &mut State) {
        if let Some(general) = self.cpu.registers.gpr.first_chunk() {
            state.registers.copy_from(general);
        }
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
        *self.cpu.translation.tlb.entry(self.cpu.registers.access_set(), state.ip)
    }

    /// Whether something must be looked at before the next block begins. `page` is what
    /// [`Session::page`] was before the TLB may have changed: while the running page stays where it
    /// is, links within it stay right, and all else is found by the TLB.
    fn is_due(&mut self, state: &State, page: &Translation) -> bool {
        if self.cpu.translation.tlb.epoch != self.epoch {
            let now = self.page(state);
            let stays = now.execute == page.execute && now.offset == page.offset;
            if !stays || now.execute != self.cpu.translation.tlb.tag(state.ip) {
                return true;
            }
            self.epoch = self.cpu.translation.tlb.epoch;
        }
        self.is_anything_due()
    }

    /// The same, where the TLB is as it was.
    fn is_anything_due(&self) -> bool {
        !self.cpu.pending.is_quiet()
            || self.cpu.clock.has_extra()
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
            return ending::complete(self.cpu, self.blocks, block, usize::from(call.at) + 1);
        }
        let op = (&call.bound.op, usize::from(call.at));
        ending::leave_block(self.cpu, self.blocks, self.bus, block, op, stop)
    }
}

impl Session<'_, '_> {
    /// Whether the instruction is a PAUSE of a loop that seems to wait.
    fn waits(&mut self, state: &State, number: u32, light: Option<Light>) -> bool {
        let left = self.limit.saturating_sub(self.cpu.clock.now().0);
        light == Some(Light::Pause) && self.spin.pauses(self.cpu, number, state, left)
    }

    /// As [`Machine::call`] outside a guest, without handing over what the handler does not need.
    fn call_light(
        &mut self,
        state: &mut State,
        number: u32,
        (call, light): (&Call, Light),
    ) -> After {
        let block = self.blocks.block(call.block);
        let left = (state.room as u64).wrapping_add(block.cost.into());
        let before = self.limit.wrapping_sub(left);
        self.cpu.clock.take_over(Picoseconds(before), state.instructions);
        let waits = self.waits(state, number, Some(light));
        if let Err(stop) = call.bound.execute(self.cpu, self.bus) {
            self.give(state, block.cost);
            self.next = Some(self.stopped(call, block, stop));
            return After::Leaves;
        }
        for number in light.changes() {
            state.registers[*number] = self.cpu.registers.gpr[*number];
        }
        if call.at + 1 == block.count {
            self.cpu.clock.charge_extra();
        }
        self.spend(state, self.cpu.clock.now().0 - before);
        if (waits || self.is_anything_due()) && state.room != NO_ROOM {
            self.withdraw_room(state);
        }
        After::GoesOnAlike
    }
}

impl Machine for Session<'_, '_> {
    fn begin(&mut self, state: &mut State) {
        let cpu = &*self.cpu;
        (0..16).for_each(|number| state.registers[number] = cpu.registers.gpr[number]);
        state.ip = cpu.registers.ip;
        state.room = self.limit.wrapping_sub(cpu.clock.now().0) as i64;
        state.instructions = cpu.clock.instructions();
        state.status = status_word(&cpu.registers.flags);
    }

    fn end(&mut self, state: &State) {
        // A handler that has stopped code has left the processor as it is to be.
        if self.next.is_some() {
            return;
        }
        let asks = match Exit::from_bits(state.exit) {
            Exit::Alone(number) => self.calls.get(number as usize),
            _ => None,
        };
        let Some(call) = asks else { return self.give(state, 0) };
        let block = self.blocks.block(call.block);
        self.give(state, block.cost);
        let op = (&call.bound.op, usize::from(call.at));
        self.next = Some(ending::leave_alone(self.cpu, self.blocks, block, op));
    }

    #[inline(always)]
    fn windows(&mut self) -> Windows<'_> {
        let cpu = &*self.cpu;
        let base = |register| cpu.registers.shown_base(register, self.mode);
        let (fs_base, gs_base) = (base(SegmentRegister::Fs), base(SegmentRegister::Gs));
        let sets = (cpu.translation.set(), cpu.registers.access_set());
        let strings = cpu.registers.goes_up(self.mode);
        let context = cpu.translation.tlb.context;
        let may_use_vectors = cpu.control.check_sse().is_ok();
        let may_use_halves = cpu.check_extension(Extension::Avx2).is_ok();
        let mut ground = self.ground();
        ground.vectors = ground.vectors.filter(|_| may_use_vectors);
        ground.high_halves = ground.high_halves.filter(|_| may_use_halves);
        Windows { ground, sets, context, fs_base, gs_base, strings }
    }

    #[inline(always)]
    fn ground(&mut self) -> Ground<'_> {
        let cpu = &mut *self.cpu;
        let memory = &mut *self.bus.memory;
        let [translations, entries] = cpu.translation.tlb.changes.said();
        let [lines, watches] = memory.watches.said();
        let set = cpu.translation.set() as u64;
        Ground {
            ram: &mut memory.ram,
            watched: &memory.watched_lines,
            tlb: cpu.translation.tlb.entries(),
            vectors: Some(&mut cpu.registers.xmm),
            high_halves: Some(&mut cpu.registers.ymm_high),
            version: Some([translations, entries, lines, watches, set]),
        }
    }

    fn call(&mut self, state: &mut State, number: u32) -> After {
        let calls = self.calls;
        let Some(call) = calls.get(number as usize) else { return After::Leaves };
        if let Some(light) = call.light.filter(|_| !self.cpu.is_guest()) {
            return self.call_light(state, number, (call, light));
        }
        let block = self.blocks.block(call.block);
        self.give(state, block.cost);
        let before = self.cpu.clock.now().0;
        let page = self.page(state);
        let waits = self.waits(state, number, call.light);
        let is_last = call.at + 1 == block.count;
        match call.bound.execute(self.cpu, self.bus) {
            Ok(()) => {}
            // The block ends here anyway.
            Err(Stop::END_BLOCK) if is_last && block.is_plain() => {
                self.cpu.pending.set_software_length(call.bound.op.length.into());
            }
            Err(stop) => {
                self.asked = (stop == Stop::ALONE).then_some(number);
                self.next = Some(self.stopped(call, block, stop));
                return After::Leaves;
            }
        }
        if is_last {
            self.cpu.clock.charge_extra();
        }
        self.take(state);
        self.spend(state, self.cpu.clock.now().0 - before);
        if (waits || self.is_due(state, &page)) && state.room != NO_ROOM {
            self.withdraw_room(state);
        }
        After::GoesOn
    }

    fn fill(&mut self, state: &mut State, linear: u64, wanted: Wanted) -> Filled {
        let access = if wanted.is_write { Access::Write } else { Access::Read };
        let page = self.page(state);
        let replaced = match self.cpu.translation.tlb.is_withholding() {
            true => Replaced::Unknown,
            false => self.cpu.translation.page_at(linear).map_or(Replaced::Nothing, Replaced::Page),
        };
        if !self.cpu.fill_settled(self.bus, linear, wanted.bytes.into(), access) {
            return Filled::Unknown;
        }
        // The entry may have taken the place of the running page's.
        if self.is_due(state, &page) && state.room != NO_ROOM {
            self.withdraw_room(state);
        }
        Filled::Known(replaced)
    }
}

/// Runs translated code from a block on, if the block has any and the room allows; `None` if
/// the block is the interpreter's.
pub(crate) fn run_translated(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    bus: &mut Bus<'_>,
    native: &mut Native,
    (index, offset): (BlockIndex, u64),
    room: Room,
) -> Option<Next> {
    let mode = blocks.mode(index);
    let entry = native.entry(blocks, bus.memory, index, (offset, mode));
    let before = cpu.clock.instructions();
    let next = entry.and_then(|entry| {
        if native.is_to_verify(blocks) {
            return verify::enter_verified(cpu, blocks, bus, native, (entry, index), room);
        }
        enter(cpu, blocks, bus, native, (entry, mode), room)
    });
    if entry.is_some() {
        native.completed += cpu.clock.instructions() - before;
        native.note_entry(index, cpu.clock.instructions() - before);
    }
    next
}

pub(super) fn enter(
    cpu: &mut Cpu,
    blocks: &Blocks,
    bus: &mut Bus<'_>,
    native: &mut Native,
    (entry, mode): (Entry, Mode),
    room: Room,
) -> Option<Next> {
    // Time that no more instructions can take than there is room for.
    let most = (room.instructions - cpu.clock.instructions()).saturating_mul(blocks.least_cost());
    let left = (room.clock.0 - cpu.clock.now().0).min(most).min(i64::MAX as u64 / 4);
    let before = cpu.clock.instructions();
    let counters = blocks.run_counters(cpu.index);
    let Native { arena, calls, spin, .. } = native;
    let mut session = Session {
        mode,
        limit: cpu.clock.now().0 + left,
        epoch: cpu.translation.tlb.epoch,
        writes: bus.memory.watched_writes,
        cpu,
        bus,
        blocks,
        calls,
        spin,
        next: None,
        asked: None,
    };
    let exit = arena.enter(entry, counters, &mut session);
    let asked = session.asked;
    if let Some(next) = session.next {
        if let Some(number) = asked {
            native.note_asked(number, blocks);
        }
        return Some(next);
    }
    if cpu.clock.instructions() == before {
        // The block's own room, counted by instructions, was too small.
        return None;
    }
    cpu.clock.charge_extra();
    native.left = match exit {
        Exit::Link(number) => Left::Link(Slot::of(number)),
        Exit::Jump => Left::Jump,
        _ => Left::Nowhere,
    };
    Some(match exit {
        _ if native.spin.is_due || !cpu.pending.is_quiet() => Next::Leave,
        Exit::End => Next::Afresh,
        _ => Next::Chain(blocks::Exit::NONE),
    })
}
