//! Memory operands: the linear address, then the host's, by the page in which this access was found
//! last, or else by a look into the TLB. Whatever the TLB does not know for this access - and pages
//! that are watched, for writes - is left to the handler.

use crate::address::{Access, Address, Base};
use crate::block::Mode;
use crate::encode::{Arithmetic, Condition, Label, Memory, Register, Shift, Size};
use crate::find::slot;
use crate::frame;
use crate::translator::Translator;

impl Translator<'_> {
    /// The address without its segment's base into `to`; `to`, RCX and RDX are lost.
    pub(crate) fn effective_address(&mut self, address: Address, size: Size, to: Register) {
        let base = match address.base {
            Base::None => None,
            Base::Register(guest) => Some(self.read(guest, Register::RCX)),
            Base::Block => {
                self.e.load(Size::Quad, Register::RCX, frame::IP);
                Some(Register::RCX)
            }
        };
        let index = address.index.map(|guest| self.read(guest, Register::RDX));
        let Address { scale, displacement, .. } = address;
        match (base, index, displacement) {
            (Some(base), None, 0) => self.e.mov(size, to, base),
            _ => self.e.lea(size, to, Memory { base, index, scale, displacement }),
        }
    }

    /// An operand in RAM: its address in the host, in RAX. The flags are saved before, or can be
    /// made again; RCX and RDX are free after.
    pub(crate) fn operand(&mut self, address: Address, size: Size, access: Access) -> Memory {
        self.put_off_flags();
        self.linear_address(address, size.bytes());
        let (rax, rdx) = (Register::RAX, Register::RDX);
        let (place, bytes) = (address.place(), size.bytes());
        if self.asks() {
            // A search would be in vain, and find no RAM either.
            let slow = self.slow_path();
            self.look_up(bytes, access, slow);
            return Memory::at(rax, 0);
        }
        let at = |array: Memory| {
            let displacement = array.displacement + (place * size_of::<u64>()) as i32;
            Memory { displacement, ..array }
        };
        let (pages, hosts) = frame::found(access);
        let is_found = self.e.label();
        let miss = self.miss(is_found, bytes, access, place);
        let e = &mut self.e;
        // What is aligned lies in one page; what is not is left to the look into the TLB.
        e.mov(Size::Quad, rdx, rax);
        e.arithmetic_value(Arithmetic::And, Size::Quad, rdx, -0x1000 | i32::from(bytes - 1));
        e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, at(pages));
        e.jump_if(Condition::NOT_ZERO, miss);
        e.arithmetic_load(Arithmetic::Add, Size::Quad, rax, at(hosts));
        e.place(is_found);
        Memory::at(rax, 0)
    }

    /// As `operand`, for instructions that may refuse to execute before they touch memory: what the
    /// TLB does not know is left to the handler.
    pub(crate) fn known_operand(&mut self, address: Address, size: Size, access: Access) -> Memory {
        self.save();
        self.linear_address(address, size.bytes());
        let slow = self.slow_path();
        self.look_up(size.bytes(), access, slow);
        Memory::at(Register::RAX, 0)
    }

    /// As `known_operand`, of 16 or 32 bytes.
    pub(crate) fn vector_operand(
        &mut self,
        address: Address,
        bytes: u8,
        is_aligned: bool,
        access: Access,
    ) -> Memory {
        self.save();
        self.linear_address(address, bytes);
        if is_aligned {
            let slow = self.slow_path();
            self.e.test_value(Size::Byte, Register::RAX, i32::from(bytes - 1));
            self.e.jump_if(Condition::NOT_ZERO, slow);
        }
        let slow = self.slow_path();
        self.look_up(bytes, access, slow);
        Memory::at(Register::RAX, 0)
    }

    /// Of an access of so many bytes, into RAX; the host's flags are lost.
    fn linear_address(&mut self, address: Address, bytes: u8) {
        let word = self.word();
        self.effective_address(address, word, Register::RAX);
        if let Some(base) = address.segment {
            self.check_segment(base, bytes);
            self.e.arithmetic_load(Arithmetic::Add, word, Register::RAX, base);
        }
    }

    /// Leaves the instruction to its handler unless a segment whose base the frame has grants an
    /// access of so many bytes at the effective address in RAX.
    fn check_segment(&mut self, base: Memory, bytes: u8) {
        if self.mode() == Mode::Long {
            return;
        }
        let slow = self.slow_path();
        // The upper half is that of `Windows::NOT_FLAT`.
        let upper = Memory { displacement: base.displacement + 4, ..base };
        self.e.arithmetic_value(Arithmetic::Cmp, Size::Double, upper, 0);
        self.e.jump_if(Condition::NOT_ZERO, slow);
        if bytes > 1 {
            let last = -i32::from(bytes);
            self.e.arithmetic_value(Arithmetic::Cmp, Size::Double, Register::RAX, last);
            self.e.jump_if(Condition::ABOVE, slow);
        }
    }

    /// From the linear address in RAX to the host's, for so many bytes; if the TLB does not know it
    /// RAX stays and `unknown` is next.
    fn look_up(&mut self, bytes: u8, access: Access, unknown: Label) {
        let slow = self.slow_path();
        let (rax, rcx, rdx) = (Register::RAX, Register::RCX, Register::RDX);
        slot(&mut self.e, frame::DATA);
        // The last byte's page is that of the entry only if it is the first byte's, too.
        let e = &mut self.e;
        match bytes {
            1 => e.mov(Size::Quad, rdx, rax),
            _ => e.lea(Size::Quad, rdx, Memory::at(rax, i32::from(bytes) - 1)),
        }
        e.arithmetic_value(Arithmetic::And, Size::Quad, rdx, -0x1000);
        e.arithmetic_load(Arithmetic::Or, Size::Quad, rdx, frame::CONTEXT);
        let tag = if access == Access::Read { frame::READ_TAG } else { frame::WRITE_TAG };
        e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rdx, Memory::at(rcx, tag));
        e.jump_if(Condition::NOT_ZERO, unknown);
        e.arithmetic_value(Arithmetic::And, Size::Double, rax, 0xFFF);
        e.arithmetic_load(Arithmetic::Add, Size::Quad, rax, Memory::at(rcx, frame::PAGE_INDEX));
        // Whatever the TLB holds, nothing but RAM is touched.
        e.arithmetic_load(Arithmetic::Cmp, Size::Quad, rax, frame::LAST);
        e.jump_if(Condition::ABOVE, slow);
        if access == Access::Write {
            e.mov(Size::Quad, rcx, rax);
            e.shift(Shift::Shr, Size::Quad, rcx, 12);
            e.load(Size::Quad, rdx, frame::WATCHED);
            let lines = Memory { base: Some(rdx), index: Some(rcx), scale: 3, displacement: 0 };
            e.arithmetic_value(Arithmetic::Cmp, Size::Quad, lines, 0);
            e.jump_if(Condition::NOT_ZERO, slow);
        }
        e.arithmetic_load(Arithmetic::Add, Size::Quad, rax, frame::RAM);
    }

    /// Leaves the instruction to its handler unless the address in `target` is canonical, as one of
    /// 32 bits always is; `spare` is lost.
    pub(crate) fn check_canonical(&mut self, target: Register, spare: Register) {
        if self.mode() == Mode::Flat {
            return;
        }
        let slow = self.slow_path();
        self.e.mov(Size::Quad, spare, target);
        self.e.shift(Shift::Shl, Size::Quad, spare, 16);
        self.e.shift(Shift::Sar, Size::Quad, spare, 16);
        self.e.arithmetic(Arithmetic::Cmp, Size::Quad, spare, target);
        self.e.jump_if(Condition::NOT_ZERO, slow);
    }
}
