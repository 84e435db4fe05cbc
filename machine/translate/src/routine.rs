//! The code that all blocks share: the way in, the way out, the call of a handler, the jump to an
//! address that is known only now.

use crate::address::Access;
use crate::encode::{Arithmetic, BitTest, Condition, Encoder, Memory, Register, Shift, Size};
use crate::find::{find, slot};
use crate::frame::{self, MIDDLE};
use crate::register::Guest;
use crate::{Exit, Mode};

/// The shared code and where its parts begin in it.
pub struct Routines {
    /// To be placed where the host can execute it.
    pub bytes: Vec<u8>,
    /// Called by the System V convention with a frame and the address of a block's code; returns
    /// when code is left.
    pub enter: usize,
    /// Jumped to when code is left; `exit` has been set.
    pub leave: usize,
    /// Called with the number of a handler's call in EAX: has it done by `Windows::helper`, then
    /// returns, or leaves if that answers anything but zero.
    pub call: usize,
    /// Called for a read with a linear address in RAX and the number of what is wanted in ECX: ZF
    /// says that it has been found, and RAX is the host's address; the guest's registers stay.
    pub find_read: usize,
    /// As `find_read`, for a write.
    pub find_write: usize,
    /// Jumped to with the linear address of the next instruction in RAX, which is 64-bit code,
    /// status flags saved.
    pub jump: usize,
    /// As `jump`, for 32-bit code.
    pub jump_flat: usize,
    /// Where these go for an address that no pair of the jump cache has: what a pair without an
    /// entry leads to, so that it may have any key.
    pub unknown: usize,
}

/// What the System V convention has a function preserve.
pub(crate) const PRESERVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// Assembles it; it is the same for every machine.
pub fn routines() -> Routines {
    let mut e = Encoder::default();
    let leave = e.label();
    let enter_at = enter(&mut e);
    e.place(leave);
    let leave_at = e.position();
    spill(&mut e);
    e.arithmetic_value(Arithmetic::Add, Size::Quad, Register::RSP, 8);
    PRESERVED.iter().rev().for_each(|register| e.pop(*register));
    e.ret();
    let call_at = call(&mut e, leave);
    let [find_read, find_write] = [Access::Read, Access::Write].map(|one| find(&mut e, one));
    let unknown = e.label();
    let [jump_at, jump_flat] = [Mode::Long, Mode::Flat].map(|mode| jump(&mut e, mode, unknown));
    e.place(unknown);
    let unknown_at = e.position();
    e.store_value(Size::Quad, frame::EXIT, Exit::JUMP);
    e.jump(leave);
    Routines {
        bytes: e.finish(),
        enter: enter_at,
        leave: leave_at,
        call: call_at,
        find_read,
        find_write,
        jump: jump_at,
        jump_flat,
        unknown: unknown_at,
    }
}

fn enter(e: &mut Encoder) -> usize {
    let at = e.position();
    PRESERVED.iter().for_each(|register| e.push(*register));
    // A call pushes 8 bytes: with these the stack is aligned to 16 within blocks.
    e.arithmetic_value(Arithmetic::Sub, Size::Quad, Register::RSP, 8);
    e.lea(Size::Quad, Register::RBP, Memory::at(Register::RDI, MIDDLE as i32));
    e.mov(Size::Quad, Register::RAX, Register::RSI);
    fill(e);
    e.jump_to(Register::RAX);
    at
}

/// Guest registers from the host's into the frame.
fn spill(e: &mut Encoder) {
    Guest::held().for_each(|(guest, host)| e.mov(Size::Quad, frame::register(guest.0), host));
}

/// Guest registers from the frame into the host's.
fn fill(e: &mut Encoder) {
    Guest::held().for_each(|(guest, host)| e.load(Size::Quad, host, frame::register(guest.0)));
}

fn call(e: &mut Encoder, leave: crate::encode::Label) -> usize {
    let at = e.position();
    let stays = e.label();
    spill(e);
    e.arithmetic_value(Arithmetic::Sub, Size::Quad, Register::RSP, 8);
    e.lea(Size::Quad, Register::RDI, Memory::at(Register::RBP, -(MIDDLE as i32)));
    e.mov(Size::Double, Register::RSI, Register::RAX);
    e.call_through(frame::HELPER);
    fill(e);
    e.arithmetic_value(Arithmetic::Add, Size::Quad, Register::RSP, 8);
    e.test(Size::Quad, Register::RAX, Register::RAX);
    e.jump_if(Condition::ZERO, stays);
    // Not back to where it was called.
    e.arithmetic_value(Arithmetic::Add, Size::Quad, Register::RSP, 8);
    e.store_value(Size::Quad, frame::EXIT, Exit::HANDLER);
    e.jump(leave);
    e.place(stays);
    e.ret();
    at
}

/// Where it begins; without an entry it goes to `unknown`.
fn jump(e: &mut Encoder, mode: Mode, unknown: crate::encode::Label) -> usize {
    let at = e.position();
    let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
    e.mov(Size::Quad, frame::IP, rax);
    slot(e, frame::FETCH);
    e.mov(Size::Quad, rdx, rax);
    e.arithmetic_value(Arithmetic::And, Size::Quad, rdx, -0x1000);
    e.arithmetic_load(Arithmetic::Or, Size::Quad, rdx, frame::CONTEXT);
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, Memory::at(rcx, frame::EXECUTE_TAG));
    e.jump_if(Condition::NOT_ZERO, unknown);
    e.arithmetic_value(Arithmetic::And, Size::Double, rax, 0xFFF);
    e.arithmetic_load(Arithmetic::Add, Size::Quad, rax, Memory::at(rcx, frame::PAGE_INDEX));
    // As `frame::jump_place`.
    e.mov(Size::Double, rcx, rax);
    e.shift(Shift::Shr, Size::Double, rcx, frame::JUMP_SHIFT);
    e.arithmetic(Arithmetic::Xor, Size::Double, rcx, rax);
    e.arithmetic_value(Arithmetic::And, Size::Double, rcx, frame::JUMPS as i32 - 1);
    e.shift(Shift::Shl, Size::Double, rcx, 4);
    e.arithmetic_load(Arithmetic::Add, Size::Quad, rcx, frame::JUMP_CACHE);
    if mode == Mode::Flat {
        e.bit_test(BitTest::Bts, Size::Quad, rax, frame::FLAT_KEY);
    }
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rax, Memory::at(rcx, 0));
    e.jump_if(Condition::NOT_ZERO, unknown);
    e.jump_through(Memory::at(rcx, 8));
    at
}
