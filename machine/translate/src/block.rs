//! A block: the look at the room that is left, its instructions one after the other, its ways out;
//! behind them what is seldom reached.

use crate::access::Access;
use crate::encode::{Arithmetic, Condition, Encoder, Label, Memory, Register, Shift, Size};
use crate::flags::Status;
use crate::frame;
use crate::operation;
use crate::register::Guest;
use crate::routine::{self, Wanted};
use crate::{Code, Exit, Link, Reference};
use iced_x86::{Decoder, DecoderOptions, Instruction};

/// An instruction of a block, as the interpreter has laid it out.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Bytes.
    pub length: u8,
    /// Picoseconds from the start of the block to its end.
    pub end_time: u32,
    /// The number under which its handler is called.
    pub call: u32,
}

/// A block of 64-bit code within one page, or of one instruction that continues in the next.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// All its instructions, one behind the other.
    pub bytes: &'a [u8],
    /// One for each instruction.
    pub steps: &'a [Step],
    /// Offset of the first byte in its page.
    pub offset: u16,
    /// The index into RAM of the page in which the one instruction continues.
    pub second_page: Option<u64>,
    /// What follows it means the same as before.
    pub is_plain: bool,
    /// Where AMD's and Intel's processors read an encoding differently, it is AMD's.
    pub is_amd: bool,
}

/// Bytes of a page.
const PAGE: i64 = 0x1000;

/// Where an instruction gives up; its handler then does it.
struct SlowPath {
    label: Label,
    step: usize,
    /// Where it goes on when the handler has done it.
    resume: Label,
    /// The flags are in the host's there.
    restores: bool,
}

/// Where the TLB does not know an operand; its translation is looked for.
struct Miss {
    label: Label,
    wanted: Wanted,
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
    pub(crate) status: Status,
    block: Block<'a>,
    /// The instruction that is being translated.
    step: usize,
    /// Per instruction: whether somebody may look at the status flags after it.
    needs_status: Vec<bool>,
    entry: Label,
    /// Of the running instruction.
    slow_label: Option<Label>,
    slow_paths: Vec<SlowPath>,
    misses: Vec<Miss>,
    taken: Vec<Taken>,
    references: Vec<(usize, Reference)>,
    links: Vec<Link>,
    /// Behind the links' jumps: their labels.
    stubs: Vec<Label>,
}

/// The block's code; `None` if its bytes are not the instructions that `steps` says, or it takes
/// 2.1 ms or longer.
pub fn translate(block: Block<'_>) -> Option<Code> {
    let instructions = decode(&block)?;
    // Code takes the block's time off the room as an i32.
    i32::try_from(block.steps.last()?.end_time).ok()?;
    let mut e = Encoder::default();
    let entry = e.label();
    let mut translator = Translator {
        e,
        status: Status::Saved,
        block,
        step: 0,
        needs_status: operation::needs_status(&instructions),
        entry,
        slow_label: None,
        slow_paths: Vec::new(),
        misses: Vec::new(),
        taken: Vec::new(),
        references: Vec::new(),
        links: Vec::new(),
        stubs: Vec::new(),
    };
    translator.run(&instructions);
    let Translator { e, references, links, .. } = translator;
    Some(Code { bytes: e.finish(), references, links })
}

/// The instructions, as if the block began at address 0.
fn decode(block: &Block<'_>) -> Option<Vec<Instruction>> {
    let options = if block.is_amd { DecoderOptions::AMD } else { DecoderOptions::NONE };
    let mut decoder = Decoder::with_ip(64, block.bytes, 0, options);
    let mut instructions = Vec::with_capacity(block.steps.len());
    for step in block.steps {
        if !decoder.can_decode() {
            return None;
        }
        let instruction = decoder.decode();
        if instruction.len() != usize::from(step.length) {
            return None;
        }
        instructions.push(instruction);
    }
    (!instructions.is_empty()).then_some(instructions)
}

impl Translator<'_> {
    fn run(&mut self, instructions: &[Instruction]) {
        let no_room = self.e.label();
        self.e.place(self.entry);
        self.e.arithmetic_value(Arithmetic::Sub, Size::Quad, frame::ROOM, self.cost());
        self.e.jump_if(Condition::LESS, no_room);
        if let Some(second_page) = self.block.second_page {
            self.check_second_page(second_page, no_room);
        }
        let mut goes_on = true;
        for (step, instruction) in instructions.iter().enumerate() {
            self.step = step;
            goes_on = self.instruction(instruction);
        }
        if goes_on {
            self.fall_through(instructions.last().map_or(0, |last| last.next_ip() as i64));
        }
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
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, rax, 1);
        routine::slot(&mut self.e, frame::FETCH);
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

    /// Answers whether the next instruction can be reached from this one.
    fn instruction(&mut self, i: &Instruction) -> bool {
        let resume = self.e.label();
        let goes_on = match operation::translate(self, i) {
            Some(goes_on) => goes_on,
            None => {
                self.call_handler();
                true
            }
        };
        self.e.place(resume);
        if let Some(label) = self.slow_label.take() {
            let restores = matches!(self.status, Status::Host { .. });
            let restores = restores || self.status == Status::Both;
            self.slow_paths.push(SlowPath { label, step: self.step, resume, restores });
            if !goes_on {
                // A handler does not come back from a branch that is always taken.
                self.leave(Exit::HANDLER);
            }
        }
        goes_on
    }

    /// Whether somebody may look at the status flags after this instruction.
    pub(crate) fn needs_status(&self) -> bool {
        self.needs_status[self.step]
    }

    /// Where to jump if the handler must do this instruction: nothing of it has been done, and the
    /// flags are saved.
    pub(crate) fn slow_path(&mut self) -> Label {
        let e = &mut self.e;
        *self.slow_label.get_or_insert_with(|| e.label())
    }

    /// Where to jump if the TLB does not know the linear address in RAX for an access; with it
    /// filled in, `found` is next, with RAX as it was. RCX and RDX are lost.
    pub(crate) fn miss(&mut self, found: Label, bytes: u8, access: Access) -> Label {
        let label = self.e.label();
        let slow = self.slow_path();
        let wanted = Wanted { bytes, is_write: access == Access::Write };
        self.misses.push(Miss { label, wanted, found, slow });
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
            self.e.load(Size::Quad, spare, frame::register(guest.0));
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
            self.e.mov(Size::Quad, frame::register(guest.0), spare);
        }
    }

    /// A whole guest register from a host register.
    pub(crate) fn assign(&mut self, guest: Guest, from: Register) {
        match guest.host() {
            Some(host) => self.e.mov(Size::Quad, host, from),
            None => self.e.mov(Size::Quad, frame::register(guest.0), from),
        }
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

    /// Time and count after this instruction, the last that is executed of the block.
    pub(crate) fn account(&mut self) {
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
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, Register::RAX, target as i32);
    }

    /// To the instruction at the linear address in RAX, flags saved, all accounted.
    pub(crate) fn jump(&mut self) {
        let at = self.e.jump_away();
        self.references.push((at, Reference::Jump));
    }

    /// Takes the branch of this instruction, which is canonical if it leads out of the page.
    pub(crate) fn branch(&mut self, target: i64) {
        self.save();
        self.account();
        self.go(target);
    }

    fn fall_through(&mut self, length: i64) {
        self.save();
        self.account();
        if self.block.is_plain {
            return self.go(length);
        }
        self.e.arithmetic_value(Arithmetic::Add, Size::Quad, frame::IP, length as i32);
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
                if let Some(label) = self.slow_label.take() {
                    let resume = self.entry;
                    self.slow_paths.push(SlowPath { label, step, resume, restores: false });
                }
            }
            self.account();
            self.go(target);
        }
    }

    fn emit_misses(&mut self) {
        for Miss { label, wanted, found, slow } in std::mem::take(&mut self.misses) {
            self.e.place(label);
            self.e.set(Register::RCX, u64::from(wanted.number()));
            let at = self.e.call_away();
            self.references.push((at, Reference::Fill));
            self.e.jump_if(Condition::ZERO, found);
            self.e.jump(slow);
        }
    }

    fn emit_slow_paths(&mut self) {
        for SlowPath { label, step, resume, restores } in std::mem::take(&mut self.slow_paths) {
            self.e.place(label);
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
