//! Where an access was not found where it was last: the look into the TLB, by code, and the search
//! for a translation that the TLB has not.

use crate::address::Access;
use crate::encode::{Arithmetic, Condition, Encoder, Extend, Label, Memory, Register, Shift, Size};
use crate::frame::{self, Found, MIDDLE};
use crate::register::Guest;
use crate::routine::PRESERVED;

/// An access whose translation is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of the access, 1 to 15.
    pub bytes: u8,
    /// It writes, or reads and then writes.
    pub is_write: bool,
}

impl Wanted {
    /// Set in numbers that stand for this; no handler's call has such a number.
    const BIT: u32 = 1 << 31;
    const WRITES: u32 = 1 << 4;

    /// With the place among the [`Found`] in bits 15:8.
    pub(crate) fn number(self, place: usize) -> u32 {
        let writes = if self.is_write { Self::WRITES } else { 0 };
        let place = (place % Found::PLACES) as u32;
        Self::BIT | place << 8 | writes | u32::from(self.bytes & 15)
    }

    /// From the number that `Windows::helper` is called with; `None` if that is a handler's.
    pub fn of(number: u32) -> Option<Self> {
        let is_write = number & Self::WRITES != 0;
        (number & Self::BIT != 0).then_some(Self { bytes: (number & 15) as u8, is_write })
    }
}

/// The slot of the linear address in RAX within `entries`, into RCX.
pub(crate) fn slot(e: &mut Encoder, entries: Memory) {
    const ENTRY_BITS: u8 = size_of::<frame::Translation>().trailing_zeros() as u8;
    const OFFSETS: i32 = (frame::TRANSLATIONS as i32 - 1) << ENTRY_BITS;
    // As `frame::translation_place`.
    e.mov(Size::Double, Register::RCX, Register::RAX);
    e.arithmetic(Arithmetic::Add, Size::Double, Register::RCX, Register::RCX);
    e.shift(Shift::Shr, Size::Double, Register::RCX, frame::TRANSLATION_SHIFT + 1);
    e.arithmetic(Arithmetic::Xor, Size::Double, Register::RCX, Register::RAX);
    e.shift(Shift::Shr, Size::Double, Register::RCX, 12 - ENTRY_BITS);
    e.arithmetic_value(Arithmetic::And, Size::Double, Register::RCX, OFFSETS);
    e.arithmetic_load(Arithmetic::Add, Size::Quad, Register::RCX, entries);
}

/// A routine: from the linear address in RAX to the host's, for what ECX wants; ZF says whether
/// that is so. The page is remembered if all of it is RAM. RCX and RDX are lost.
pub(crate) fn find(e: &mut Encoder, access: Access) -> usize {
    let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
    let at = e.position();
    let [again, unknown, alone, refused] = [(); 4].map(|()| e.label());
    e.mov(Size::Quad, frame::WANTED, rcx);
    e.place(again);
    look_up(e, access, unknown, refused);
    // Whatever the TLB holds, nothing but RAM is touched.
    e.lea(Size::Quad, rcx, Memory::at(rdx, 0x1000 - frame::WIDEST as i32));
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rcx, frame::LAST);
    e.jump_if(Condition::ABOVE, alone);
    e.arithmetic_load(Arithmetic::Add, Size::Quad, rdx, frame::RAM);
    e.mov(Size::Quad, rcx, rax);
    e.arithmetic_value(Arithmetic::And, Size::Quad, rcx, -0x1000);
    e.arithmetic(Arithmetic::Sub, Size::Quad, rdx, rcx);
    remember(e, access);
    e.arithmetic(Arithmetic::Add, Size::Quad, rax, rdx);
    answer(e, rax);
    // The last page of RAM, which may be a part of one.
    e.place(alone);
    e.mov(Size::Double, rcx, rax);
    e.arithmetic_value(Arithmetic::And, Size::Double, rcx, 0xFFF);
    e.arithmetic(Arithmetic::Add, Size::Quad, rcx, rdx);
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rcx, frame::LAST);
    e.jump_if(Condition::ABOVE, refused);
    e.mov(Size::Quad, rax, rcx);
    e.arithmetic_load(Arithmetic::Add, Size::Quad, rax, frame::RAM);
    answer(e, rax);
    e.place(unknown);
    search(e);
    e.jump_if(Condition::ZERO, again);
    e.place(refused);
    e.test(Size::Quad, Register::RSP, Register::RSP);
    e.ret();
    at
}

/// ZF is set, and the routine returns.
fn answer(e: &mut Encoder, any: Register) {
    e.arithmetic(Arithmetic::Cmp, Size::Quad, any, any);
    e.ret();
}

/// From the linear address in RAX to the index into RAM of its page, in RDX. RCX is lost.
fn look_up(e: &mut Encoder, access: Access, unknown: Label, refused: Label) {
    let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
    slot(e, frame::DATA);
    // The last byte's page is that of the entry only if it is the first byte's, too.
    e.extend(Extend::Zero, (Size::Double, rdx), (Size::Byte, frame::WANTED));
    e.arithmetic_value(Arithmetic::And, Size::Double, rdx, 15);
    e.lea(Size::Quad, rdx, Memory { index: Some(rdx), ..Memory::at(rax, -1) });
    e.arithmetic_value(Arithmetic::And, Size::Quad, rdx, -0x1000);
    e.arithmetic_load(Arithmetic::Or, Size::Quad, rdx, frame::CONTEXT);
    let tag = if access == Access::Read { frame::READ_TAG } else { frame::WRITE_TAG };
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, Memory::at(rcx, tag));
    e.jump_if(Condition::NOT_ZERO, unknown);
    e.load(Size::Quad, rdx, Memory::at(rcx, frame::PAGE_INDEX));
    e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, frame::LAST);
    e.jump_if(Condition::ABOVE, refused);
    if access == Access::Write {
        e.mov(Size::Quad, rcx, rdx);
        e.shift(Shift::Shr, Size::Quad, rcx, 12);
        e.shift(Shift::Shl, Size::Quad, rcx, 3);
        e.arithmetic_load(Arithmetic::Add, Size::Quad, rcx, frame::WATCHED);
        e.arithmetic_value(Arithmetic::Cmp, Size::Quad, Memory::at(rcx, 0), 0);
        e.jump_if(Condition::NOT_ZERO, refused);
    }
}

/// The page in RCX, and in RDX what leads from it to the host's address, where the next access of
/// this place looks.
fn remember(e: &mut Encoder, access: Access) {
    let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
    let place = |array: Memory| Memory { index: Some(rax), scale: 3, ..array };
    let byte = Memory { displacement: frame::WANTED.displacement + 1, ..frame::WANTED };
    let (pages, hosts) = frame::found(access);
    e.push(rax);
    e.extend(Extend::Zero, (Size::Double, rax), (Size::Byte, byte));
    e.arithmetic_value(Arithmetic::And, Size::Double, rax, Found::PLACES as i32 - 1);
    e.mov(Size::Quad, place(pages), rcx);
    e.mov(Size::Quad, place(hosts), rdx);
    e.pop(rax);
}

/// Has `Windows::helper` look for the translation of the address in RAX, which stays; ZF says that
/// the TLB has it now.
fn search(e: &mut Encoder) {
    let lost = || Guest::held().filter(|(_, host)| !PRESERVED.contains(host));
    lost().for_each(|(guest, host)| e.mov(Size::Quad, frame::register(guest.0), host));
    // With the return address the stack is aligned.
    e.push(Register::RAX);
    e.lea(Size::Quad, Register::RDI, Memory::at(Register::RBP, -(MIDDLE as i32)));
    e.load(Size::Double, Register::RSI, frame::WANTED);
    e.mov(Size::Quad, Register::RDX, Register::RAX);
    e.call_through(frame::HELPER);
    lost().for_each(|(guest, host)| e.load(Size::Quad, host, frame::register(guest.0)));
    e.test(Size::Quad, Register::RAX, Register::RAX);
    e.pop(Register::RAX);
}
