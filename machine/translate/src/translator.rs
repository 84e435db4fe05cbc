//! What a translation under way consists of: the code so far, where the flags are, what is still to
//! be emitted. Families of instructions emit with it.

use crate::address::Access;
use crate::block::{Block, Mode, Step};
use crate::copies::Copies;
use crate::encode::{Arithmetic, Condition, Encoder, Label, Memory, Register, Shift, Size};
use crate::find::{Wanted, slot};
use crate::frame;
use crate::recipe;
use crate::register::Guest;
use crate::status::{self, Status};
use crate::{Code, Exit, Link, Reference};
use iced_x86::Instruction;

/// Bytes of a page.
const PAGE: i64 = 0x1000;

/// Where an instruction gives up; its handler then does it.
struct SlowPath {
    label: Label,
    step: usize,
    /// Where it goes on when the handler has done it.
    resume: Label,
    /// Where the flags are, and whether they are in the host's where it goes on.
    status: Status,
    restores: bool,
}

/// Where an operand is not in the page that was found last; it is looked for.
struct Miss {
    label: Label,
    wanted: Wanted,
    /// Among the pages that were found last.
    place: usize,
    /// Where to go on when it has been found.
    found: Label,
    /// And when it has not.
    slow: Label,
}

/// A branch that is taken in the middle of the block.
struct Taken {
    label: Label,
    step: usize,
    status: Status,
    target: i64,
}

/// The translation of one block under way.
pub(crate) struct Translator<'a> {
    pub(crate) e: Encoder,
    copies: Copies,
    pub(crate) status: Status,
    block: Block<'a>,
    /// The instruction that is being translated.
    step: usize,
    /// Per instruction: whether the status flags may be read after it.
    needs_status: Vec<bool>,
    /// Per instruction: whether flags from before may be read after it.
    keeps_status: Vec<bool>,
    /// Per instruction: the registers that it may write, as bits.
    written: Vec<u16>,
    /// Per instruction: flags from before need not be saved for its operand in memory.
    keeps_flags: Vec<bool>,
    entry: Label,
    /// Of the running instruction, and where the flags are when it goes there.
    slow_label: Option<(Label, Status)>,
    slow_paths: Vec<SlowPath>,
    misses: Vec<Miss>,
    taken: Vec<Taken>,
    references: Vec<(usize, Reference)>,
    links: Vec<Link>,
    /// Behind the links' jumps: their labels.
    stubs: Vec<Label>,
}

impl<'a> Translator<'a> {
    /// Of a block of these instructions; nothing is emitted yet.
    pub(crate) fn new(block: Block<'a>, instructions: &[Instruction]) -> Self {
        let mut e = Encoder::default();
        let entry = e.label();
        let needs_status = status::needs_status(instructions);
        Self {
            e,
            copies: Copies::default(),
            status: Status::Saved,
            block,
            step: 0,
            keeps_status: status::keeps_status(&needs_status, instructions),
            needs_status,
            written: recipe::written(instructions),
            keeps_flags: instructions.iter().map(recipe::keeps).collect(),
            entry,
            slow_label: None,
            slow_paths: Vec::new(),
            misses: Vec::new(),
            taken: Vec::new(),
            references: Vec::new(),
            links: Vec::new(),
            stubs: Vec::new(),
        }
    }

    /// The code, with all that was put off.
    pub(crate) fn finish(self) -> Code {
        let Self { e, block, references, links, .. } = self;
        let counters = block.first_counter.map_or(0, |first| first as usize + block.steps.len());
        Code { bytes: e.finish(), references, links, counters }
    }

    /// The look at the room for the whole block; where to go if there is none.
    pub(crate) fn begin(&mut self) -> Label {
        let no_room = self.e.label();
        self.e.place(self.entry);
        self.e.arithmetic_value(Arithmetic::Sub, Size::Quad, frame::ROOM, self.cost());
        self.e.jump_if(Condition::LESS, no_room);
        if let Some(second_page) = self.block.second_page {
            self.check_second_page(second_page, no_room);
        }
        no_room
    }

    /// What the block's bytes mean.
    pub(crate) fn mode(&self) -> Mode {
        self.block.mode
    }

    /// The size of its addresses and of the words that it keeps on the stack.
    pub(crate) fn word(&self) -> Size {
        match self.block.mode {
            Mode::Long => Size::Quad,
            Mode::Flat => Size::Double,
        }
    }

    /// What is emitted from here on belongs to the instruction of this number.
    pub(crate) fn begin_step(&mut self, step: usize) {
        self.step = step;
        self.registers_change(self.written[step]);
    }

    /// The host's flags are going to be lost for an operand in memory. RAX may be lost.
    pub(crate) fn put_off_flags(&mut self) {
        if self.keeps_flags[self.step] { self.put_off() } else { self.save() }
    }

    /// The end of an instruction that `emitted` says was emitted; `None`: its handler is called.
    /// Answers whether the next one can be reached.
    pub(crate) fn end_step(&mut self, emitted: Option<bool>, resume: Label) -> bool {
        let goes_on = emitted.unwrap_or_else(|| {
            self.call_handler();
            true
        });
        if let Some((label, status)) = self.slow_label.take() {
            self.e.place(resume);
            let restores = matches!(self.status, Status::Host { .. });
            let restores = restores || self.status == Status::Both;
            self.slow_paths.push(SlowPath { label, step: self.step, resume, status, restores });
            if !goes_on {
                // A handler does not come back from a branch that is always taken.
                self.leave(Exit::HANDLER);
            }
        }
        goes_on
    }

    /// What is seldom reached, and the way out where there is no room.
    pub(crate) fn end(&mut self, no_room: Label) {
        self.emit_taken();
        self.emit_misses();
        self.emit_slow_paths();
        self.emit_stubs();
        self.e.place(no_room);
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, frame::ROOM, self.cost());
        self.leave(Exit::ROOM);
    }

    /// Leaves unless the linear page behind the block's is still mapped for fetches to the page of
    /// that index into RAM.
    fn check_second_page(&mut self, index: u64, otherwise: Label) {
        let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
        self.e.load(Size::Quad, rax, frame::IP);
        self.e.arithmetic_value(Arithmetic::Or, Size::Quad, rax, 0xFFF);
        self.e.arithmetic_value(Arithmetic::Add, self.word(), rax, 1);
        slot(&mut self.e, frame::FETCH);
        self.e.arithmetic_load(Arithmetic::Or, Size::Quad, rax, frame::CONTEXT);
        let tag = Memory::at(rcx, frame::EXECUTE_TAG);
        self.e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rax, tag);
        self.e.jump_if(Condition::NOT_ZERO, otherwise);
        self.e.set(rdx, index);
        let held = Memory::at(rcx, frame::PAGE_INDEX);
        self.e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, held);
        self.e.jump_if(Condition::NOT_ZERO, otherwise);
    }

    /// Picoseconds of the whole block.
    fn cost(&self) -> i32 {
        self.block.steps.last().map_or(0, |step| step.end_time as i32)
    }

    /// Whether status flags from before may be read after this instruction.
    pub(crate) fn keeps_status(&self) -> bool {
        self.keeps_status[self.step]
    }

    /// Whether this instruction leaves code where its operand in memory is not known.
    pub(crate) fn asks(&self) -> bool {
        self.block.steps[self.step].asks
    }

    /// Whether the status flags may be read after this instruction.
    pub(crate) fn needs_status(&self) -> bool {
        self.needs_status[self.step]
    }

    /// Where to jump if the handler must do this instruction: nothing of it has been done, and the
    /// flags are saved or can be made again.
    pub(crate) fn slow_path(&mut self) -> Label {
        let (e, status) = (&mut self.e, self.status);
        self.slow_label.get_or_insert_with(|| (e.label(), status)).0
    }

    /// Where to jump if the linear address in RAX is not in the page of a place; `found` is next if
    /// the TLB knows it, with the host's address in RAX. RCX and RDX are lost.
    pub(crate) fn miss(&mut self, found: Label, bytes: u8, access: Access, place: usize) -> Label {
        let label = self.e.label();
        let slow = self.slow_path();
        let wanted = Wanted { bytes, is_write: access == Access::Write };
        self.misses.push(Miss { label, wanted, place, found, slow });
        label
    }

    fn call_handler(&mut self) {
        self.save();
        self.call(self.step);
    }

    /// Has the handler of a step do it.
    fn call(&mut self, step: usize) {
        self.e.set(Register::RAX, u64::from(self.block.steps[step].call));
        let at = self.e.call_away();
        self.references.push((at, Reference::Call));
    }

    fn leave(&mut self, exit: i32) {
        self.e.store_value(Size::Quad, frame::EXIT, exit);
        let at = self.e.jump_away();
        self.references.push((at, Reference::Leave));
    }

    /// The host register that holds a guest register, or `spare`, loaded with it.
    pub(crate) fn read(&mut self, guest: Guest, spare: Register) -> Register {
        guest.host().unwrap_or_else(|| {
            match self.copies.of(guest, &self.e) {
                Some(held) if held == spare => {}
                Some(held) => self.e.mov(Size::Quad, spare, held),
                None => self.e.load(Size::Quad, spare, frame::register(guest.0)),
            }
            self.copies.note(guest, spare, &self.e);
            spare
        })
    }

    /// Bits 15:8 of a guest register as bits 7:0 of `into`; the host's flags are lost.
    pub(crate) fn shifted_high_byte(&mut self, guest: Guest, into: Register) -> Register {
        let held = self.read(guest, into);
        if held != into {
            self.e.mov(Size::Double, into, held);
        }
        self.e.shift(Shift::Shr, Size::Double, into, 8);
        into
    }

    /// The host register to compute a guest register's new value in, its old value not wanted.
    pub(crate) fn target(&self, guest: Guest, spare: Register) -> Register {
        guest.host().unwrap_or(spare)
    }

    /// The new value of a guest register that `read` or `target` gave `spare` for.
    pub(crate) fn write_back(&mut self, guest: Guest, spare: Register) {
        if guest.host().is_none() {
            self.store(guest, spare);
        }
    }

    /// A whole guest register from a host register.
    pub(crate) fn assign(&mut self, guest: Guest, from: Register) {
        match guest.host() {
            Some(host) => self.e.mov(Size::Quad, host, from),
            None => self.store(guest, from),
        }
    }

    /// A guest register that no host register holds.
    fn store(&mut self, guest: Guest, from: Register) {
        self.e.mov(Size::Quad, frame::register(guest.0), from);
        self.copies.forget(guest);
        self.copies.note(guest, from, &self.e);
    }

    /// The branch of this instruction is taken if the host's flags say so.
    pub(crate) fn branch_if(&mut self, condition: Condition, target: i64) {
        let label = self.e.label();
        self.e.jump_if(condition, label);
        self.taken.push(Taken { label, step: self.step, status: self.status, target });
    }

    /// Whether a distance from the start of the block leads to its page.
    pub(crate) fn is_in_page(&self, target: i64) -> bool {
        (0..PAGE).contains(&(i64::from(self.block.offset) + target))
    }

    /// Time and count after this instruction, the last that is executed of the block. Flags are
    /// saved, and RDX is lost.
    pub(crate) fn account(&mut self) {
        if let Some(first) = self.block.first_counter {
            let place = (first as usize + self.step) * size_of::<u64>();
            self.e.load(Size::Quad, Register::RDX, frame::COUNTERS);
            let counter = Memory::at(Register::RDX, place as i32);
            self.e.arithmetic_value(Arithmetic::Add, Size::Quad, counter, 1);
        }
        let left = self.cost() - self.block.steps[self.step].end_time as i32;
        if left != 0 {
            self.e.arithmetic_value(Arithmetic::Add, Size::Quad, frame::ROOM, left);
        }
        let count = self.step as i32 + 1;
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, frame::INSTRUCTIONS, count);
    }

    /// To the instruction at a distance from the start of the block, flags saved, all accounted.
    fn go(&mut self, target: i64) {
        if target == 0 {
            return self.e.jump(self.entry);
        }
        if !self.is_in_page(target) {
            self.address(target);
            return self.jump();
        }
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, frame::IP, target as i32);
        let at = self.e.jump_through_away();
        self.references.push((at, Reference::Slot(self.links.len())));
        let target = (i64::from(self.block.offset) + target) as u16;
        self.links.push(Link { stub: 0, number: 0, target });
        let stub = self.e.label();
        self.stubs.push(stub);
    }

    /// The address at a distance from the start of the block, into RAX.
    pub(crate) fn address(&mut self, target: i64) {
        self.e.load(Size::Quad, Register::RAX, frame::IP);
        self.e.arithmetic_value(Arithmetic::Add, self.word(), Register::RAX, target as i32);
    }

    /// To the instruction at the linear address in RAX, flags saved, all accounted.
    pub(crate) fn jump(&mut self) {
        let at = self.e.jump_away();
        self.references.push((at, Reference::Jump(self.mode())));
    }

    /// Takes the branch of this instruction, which is canonical if it leads out of the page.
    pub(crate) fn branch(&mut self, target: i64) {
        self.save();
        self.account();
        self.go(target);
    }

    /// To the instruction behind the block's last, `length` bytes from its start.
    pub(crate) fn fall_through(&mut self, length: i64) {
        self.save();
        self.account();
        if self.block.is_plain {
            return self.go(length);
        }
        self.e.arithmetic_value(Arithmetic::Add, self.word(), frame::IP, length as i32);
        self.leave(Exit::END);
    }

    fn emit_taken(&mut self) {
        for Taken { label, step, status, target } in std::mem::take(&mut self.taken) {
            self.e.place(label);
            self.step = step;
            self.status = status;
            self.save();
            if !self.is_in_page(target) {
                self.address(target);
                self.check_canonical(Register::RAX, Register::RDX);
                if let Some((label, status)) = self.slow_label.take() {
                    let resume = self.entry;
                    let restores = false;
                    self.slow_paths.push(SlowPath { label, step, resume, status, restores });
                }
            }
            self.account();
            self.go(target);
        }
    }

    fn emit_misses(&mut self) {
        for Miss { label, wanted, place, found, slow } in std::mem::take(&mut self.misses) {
            self.e.place(label);
            self.e.set(Register::RCX, u64::from(wanted.number(place)));
            let at = self.e.call_away();
            self.references.push((at, Reference::Find { is_write: wanted.is_write }));
            self.e.jump_if(Condition::ZERO, found);
            self.e.jump(slow);
        }
    }

    fn emit_slow_paths(&mut self) {
        for path in std::mem::take(&mut self.slow_paths) {
            let SlowPath { label, step, resume, status, restores } = path;
            self.e.place(label);
            self.save_from(status);
            let Step { call, asks, .. } = self.block.steps[step];
            if asks {
                self.leave((Exit::ALONE | call) as i32);
                continue;
            }
            self.call(step);
            if restores {
                self.load_status();
            }
            self.e.jump(resume);
        }
    }

    /// What links do that are not linked: they say so.
    fn emit_stubs(&mut self) {
        for number in 0..self.stubs.len() {
            self.e.place(self.stubs[number]);
            self.links[number].stub = self.e.position();
            self.e.store_value(Size::Quad, frame::EXIT, 0);
            self.links[number].number = self.e.position() - 4;
            let at = self.e.jump_away();
            self.references.push((at, Reference::Leave));
        }
    }
}
