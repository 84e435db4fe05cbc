//! BT, BTS, BTR, BTC of a register, and of memory by a constant number.

use crate::address::Access;
use crate::encode::{BitTest, Register, Size};
use crate::operand::{Operand, operand, size};
use crate::translator::Translator;
use iced_x86::{Instruction, Mnemonic};

pub(super) fn translate(t: &mut Translator<'_>, i: &Instruction) -> Option<()> {
    let test = match i.mnemonic() {
        Mnemonic::Bt => BitTest::Bt,
        Mnemonic::Bts => BitTest::Bts,
        Mnemonic::Btr => BitTest::Btr,
        Mnemonic::Btc => BitTest::Btc,
        _ => return None,
    };
    let size = size(i, 0).filter(|size| *size != Size::Byte)?;
    let number = match i.op_kind(1) {
        iced_x86::OpKind::Register => operand(i, 1, size)?,
        _ => Operand::Value(i64::from(i.immediate8())),
    };
    // Of the status flags CF alone changes.
    let of = match (operand(i, 0, size)?, number) {
        (Operand::Register(of), _) => of,
        // A constant number stays within the operand.
        (Operand::Memory(address), Operand::Value(number)) => {
            let access = if test == BitTest::Bt { Access::Read } else { Access::Write };
            let memory = t.operand(address, size, access);
            t.e.bit_test(test, size, memory, number as u8 & (size.bits() - 1));
            t.replace_carry();
            return Some(());
        }
        _ => return None,
    };
    t.save();
    match number {
        Operand::Register(number) => {
            let number = t.read(number, Register::RCX);
            let a = t.read(of, Register::RDX);
            t.e.bit_test_by(test, size, a, number);
        }
        Operand::Value(number) => {
            let a = t.read(of, Register::RDX);
            t.e.bit_test(test, size, a, number as u8 & (size.bits() - 1));
        }
        Operand::Memory(_) => return None,
    }
    if test != BitTest::Bt {
        t.write_back(of, Register::RDX);
    }
    t.replace_carry();
    Some(())
}
