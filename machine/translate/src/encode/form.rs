//! The instructions, a method each.

use super::{Condition, Encoder, Label, Memory, Operand, Register, Size};

/// The eight operations of opcodes 00 to 3F and of group 1, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Arithmetic {
    Add = 0,
    Or = 1,
    Adc = 2,
    Sbb = 3,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Group 2, as far as it is used, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shift {
    Rol = 0,
    Ror = 1,
    Shl = 4,
    Shr = 5,
    Sar = 7,
}

/// Groups 3 (NOT to IDIV) and 4 and 5 (INC, DEC), by number; the latter from 8 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unary {
    Not = 2,
    Neg = 3,
    Mul = 4,
    ImulWide = 5,
    Div = 6,
    Idiv = 7,
    Inc = 8,
    Dec = 9,
}

/// Group 8, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BitTest {
    Bt = 4,
    Bts = 5,
    Btr = 6,
    Btc = 7,
}

/// How a narrow operand becomes a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extend {
    Zero,
    Sign,
}

impl Encoder {
    /// `to = to op from`
    pub fn arithmetic(
        &mut self,
        operation: Arithmetic,
        size: Size,
        to: impl Into<Operand>,
        from: Register,
    ) {
        self.sized(size, (operation as u8) << 3, from.0, to.into(), true);
    }

    /// `to = to op [from]`
    pub fn arithmetic_load(
        &mut self,
        operation: Arithmetic,
        size: Size,
        to: Register,
        from: Memory,
    ) {
        self.sized(size, (operation as u8) << 3 | 2, to.0, from.into(), true);
    }

    /// `to = to op value`; the value is extended to 64 bits.
    pub fn arithmetic_value(
        &mut self,
        operation: Arithmetic,
        size: Size,
        to: impl Into<Operand>,
        value: i32,
    ) {
        let is_short = size != Size::Byte && i8::try_from(value).is_ok();
        let opcode = if is_short { 0x82 } else { 0x80 };
        self.sized(size, opcode, operation as u8, to.into(), false);
        self.immediate(value, if is_short { Size::Byte } else { size });
    }

    pub fn test(&mut self, size: Size, a: impl Into<Operand>, b: Register) {
        self.sized(size, 0x84, b.0, a.into(), true);
    }

    pub fn test_value(&mut self, size: Size, a: impl Into<Operand>, value: i32) {
        self.sized(size, 0xF6, 0, a.into(), false);
        self.immediate(value, size);
    }

    pub fn mov(&mut self, size: Size, to: impl Into<Operand>, from: Register) {
        self.sized(size, 0x88, from.0, to.into(), true);
    }

    pub fn load(&mut self, size: Size, to: Register, from: Memory) {
        self.sized(size, 0x8A, to.0, from.into(), true);
    }

    /// The value is extended to 64 bits.
    pub fn store_value(&mut self, size: Size, to: impl Into<Operand>, value: i32) {
        self.sized(size, 0xC6, 0, to.into(), false);
        self.immediate(value, size);
    }

    /// A whole register, by the shortest encoding; the flags stay.
    pub fn set(&mut self, to: Register, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            self.opcode(Size::Double, &[0xB8 | to.0 & 7], 0, to.into(), (false, false));
            self.immediate(value as i32, Size::Double);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.store_value(Size::Quad, to, value);
        } else {
            self.opcode(Size::Quad, &[0xB8 | to.0 & 7], 0, to.into(), (false, false));
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub fn lea(&mut self, size: Size, to: Register, of: Memory) {
        self.plain(size, &[0x8D], to.0, of.into());
    }

    /// MOVZX, MOVSX and MOVSXD. From 32 bits without sign it is a plain move.
    pub fn extend(
        &mut self,
        extend: Extend,
        (to_size, to): (Size, Register),
        (from_size, from): (Size, impl Into<Operand>),
    ) {
        let from = from.into();
        let is_byte = (false, from_size == Size::Byte);
        let (size, opcode): (_, &[u8]) = match (extend, from_size) {
            (Extend::Zero, Size::Byte) => (to_size, &[0x0F, 0xB6]),
            (Extend::Zero, Size::Word) => (to_size, &[0x0F, 0xB7]),
            (Extend::Sign, Size::Byte) => (to_size, &[0x0F, 0xBE]),
            (Extend::Sign, Size::Word) => (to_size, &[0x0F, 0xBF]),
            (Extend::Zero, _) => (Size::Double, &[0x8B]),
            (Extend::Sign, _) => (to_size, &[0x63]),
        };
        self.opcode(size, opcode, to.0, from, is_byte);
        self.operands(to.0, from);
    }

    pub fn unary(&mut self, operation: Unary, size: Size, operand: impl Into<Operand>) {
        let number = operation as u8;
        let opcode = if number < 8 { 0xF6 } else { 0xFE };
        // Products and quotients are in RAX and RDX.
        self.may_change_all();
        self.sized(size, opcode, number & 7, operand.into(), false);
    }

    pub fn shift(&mut self, shift: Shift, size: Size, operand: impl Into<Operand>, count: u8) {
        self.sized(size, 0xC0, shift as u8, operand.into(), false);
        self.byte(count);
    }

    /// By the count in CL.
    pub fn shift_by_cl(&mut self, shift: Shift, size: Size, operand: impl Into<Operand>) {
        self.sized(size, 0xD2, shift as u8, operand.into(), false);
    }

    pub fn imul(&mut self, size: Size, to: Register, by: impl Into<Operand>) {
        self.plain(size, &[0x0F, 0xAF], to.0, by.into());
    }

    pub fn imul_value(&mut self, size: Size, to: Register, a: impl Into<Operand>, value: i32) {
        self.plain(size, &[0x69], to.0, a.into());
        self.immediate(value, size);
    }

    pub fn bswap(&mut self, size: Size, register: Register) {
        let opcode = [0x0F, 0xC8 | register.0 & 7];
        self.opcode(size, &opcode, 0, register.into(), (false, false));
    }

    /// CF = the bit of `operand`; of the other flags, ZF stays and the rest is undefined.
    pub fn bit_test(&mut self, test: BitTest, size: Size, operand: impl Into<Operand>, bit: u8) {
        self.plain(size, &[0x0F, 0xBA], test as u8, operand.into());
        self.byte(bit);
    }

    /// As `bit_test`, for the bit whose number a register holds, modulo the size.
    pub fn bit_test_by(&mut self, test: BitTest, size: Size, of: Register, number: Register) {
        self.plain(size, &[0x0F, 0x83 | (test as u8) << 3], number.0, of.into());
    }

    /// `to` and `from` change places, then `to = to + from`.
    pub fn exchange_add(&mut self, size: Size, to: Memory, from: Register) {
        let is_byte = size == Size::Byte;
        let opcode = [0x0F, 0xC0 | u8::from(!is_byte)];
        self.opcode(size, &opcode, from.0, to.into(), (is_byte, false));
        self.operands(from.0, to.into());
    }

    pub fn set_if(&mut self, condition: Condition, to: impl Into<Operand>) {
        let to = to.into();
        self.opcode(Size::Byte, &[0x0F, 0x90 | condition.0 & 15], 0, to, (false, true));
        self.operands(0, to);
    }

    pub fn move_if(
        &mut self,
        condition: Condition,
        size: Size,
        to: Register,
        from: impl Into<Operand>,
    ) {
        self.plain(size, &[0x0F, 0x40 | condition.0 & 15], to.0, from.into());
    }

    /// AH = SF ZF 0 AF 0 PF 1 CF
    pub fn lahf(&mut self) {
        self.may_change(Register::RAX.0);
        self.byte(0x9F);
    }

    pub fn sahf(&mut self) {
        self.byte(0x9E);
    }

    /// `AH = AH op from`; `from` is AL, CL, DL or BL.
    pub fn arithmetic_to_ah(&mut self, operation: Arithmetic, from: Register) {
        self.may_change(Register::RAX.0);
        self.byte((operation as u8) << 3);
        self.byte(0xC0 | (from.0 & 3) << 3 | 4);
    }

    /// `AH = AH op value`
    pub fn arithmetic_value_to_ah(&mut self, operation: Arithmetic, value: u8) {
        self.may_change(Register::RAX.0);
        self.byte(0x80);
        self.byte(0xC0 | (operation as u8) << 3 | 4);
        self.byte(value);
    }

    /// CDQ, CQO: the sign of the accumulator into rDX.
    pub fn spread_sign(&mut self, size: Size) {
        self.may_change(Register::RDX.0);
        self.opcode(size, &[0x99], 0, Register::RAX.into(), (false, false));
    }

    pub fn push(&mut self, register: Register) {
        self.opcode(Size::Double, &[0x50 | register.0 & 7], 0, register.into(), (false, false));
    }

    pub fn pop(&mut self, register: Register) {
        self.opcode(Size::Double, &[0x58 | register.0 & 7], 0, register.into(), (false, false));
    }

    pub fn jump_if(&mut self, condition: Condition, to: Label) {
        self.byte(0x0F);
        self.byte(0x80 | condition.0 & 15);
        self.distance_to(to);
    }

    pub fn jump(&mut self, to: Label) {
        self.byte(0xE9);
        self.distance_to(to);
    }

    /// JMP to code elsewhere; answers where its distance stands.
    pub fn jump_away(&mut self) -> usize {
        self.byte(0xE9);
        self.open()
    }

    /// CALL of code elsewhere; answers where its distance stands.
    pub fn call_away(&mut self) -> usize {
        self.may_change_all();
        self.byte(0xE8);
        self.open()
    }

    /// JMP to the address that a slot elsewhere holds; answers where its distance stands.
    pub fn jump_through_away(&mut self) -> usize {
        self.byte(0xFF);
        self.byte(0x25);
        self.open()
    }

    pub fn jump_through(&mut self, slot: Memory) {
        self.plain(Size::Double, &[0xFF], 4, slot.into());
    }

    pub fn jump_to(&mut self, register: Register) {
        self.plain(Size::Double, &[0xFF], 4, register.into());
    }

    pub fn call_through(&mut self, slot: Memory) {
        self.may_change_all();
        self.plain(Size::Double, &[0xFF], 2, slot.into());
    }

    pub fn ret(&mut self) {
        self.byte(0xC3);
    }
}
