//! x87 loads, stores, comparisons, remainders, extraction and constants.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::constant::Constant;
use cpu::float::extended::{Extended, arithmetic, compare, remainder, store};
use cpu::float::{Context, Exceptions, Rounding};
use differential_vector::operands::{
    Random, control_words, doubles, extended, extended_pairs, singles,
};
use differential_vector::{Block, MEMORY, Native, is_others};
use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, dword_ptr, qword_ptr, rsi, st0, st1, tbyte_ptr, word_ptr};
use std::cmp::Ordering;
use std::fmt::Debug;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// C1 and the six exception flags.
const FLAGS: u16 = 0x23F;
/// The same and all condition codes.
const FLAGS_AND_CODES: u16 = 0x473F;
const UNTOUCHED: u8 = 0xA5;

fn flags(context: &Context) -> u16 {
    u16::from(context.raised.bits()) | if context.is_rounded_up { 0x200 } else { 0 }
}

fn block(control: u16, a: Extended, b: Extended) -> Block {
    let mut block = Block::default();
    block.image.set_control_word(control);
    block.image.set_stack(a, b);
    block.memory = [UNTOUCHED; MEMORY];
    block
}

fn samples(random: &mut Random, count: usize) -> Vec<Extended> {
    let mut all = extended();
    all.extend((0..count).map(|_| random.extended()));
    // Around the limits of the integers and of the shorter formats.
    for exponent in [
        0x3F80, 0x3F6A, 0x3C00, 0x3BCD, 0x3BCC, 0x400D, 0x400E, 0x401D, 0x401E, 0x403A, 0x403D,
        0x407E, 0x43FE,
    ] {
        for _ in 0..count / 20 {
            let sign = random.next_u64() as u16 & 0x8000;
            all.push(Extended {
                significand: random.runs() | 1 << 63,
                sign_exponent: exponent | sign,
            });
        }
    }
    all
}

fn check_stores<T: PartialEq + Debug>(
    name: &str,
    assemble: Assemble,
    read: fn(&[u8; MEMORY]) -> T,
    model: fn(Extended, &mut Context) -> T,
) {
    let native = Native::new(assemble);
    let mut random = Random(10);
    for control in control_words() {
        for a in samples(&mut random, 1000) {
            let mut block = block(control, a, Extended::ONE);
            native.run(&mut block);
            let mut context = Context::from_control_word(control);
            let value = model(a, &mut context);
            let stops = Exceptions::INVALID | Exceptions::OVERFLOW | Exceptions::UNDERFLOW;
            let expected = match context.unmasked().intersects(stops) {
                true => read(&[UNTOUCHED; MEMORY]),
                false => value,
            };
            let actual = (read(&block.memory), block.image.status_word() & FLAGS);
            assert_eq!(actual, (expected, flags(&context)), "{name} {control:#06x} {a:x?}");
        }
    }
}

fn bytes<const N: usize>(memory: &[u8; MEMORY]) -> [u8; N] {
    memory[..N].try_into().expect("memory is longer")
}

#[test]
fn stores_agree() {
    check_stores(
        "fst m32",
        |a| a.fst(dword_ptr(rsi)),
        bytes::<4>,
        |x, c| store::store::<u32>(x, c).to_le_bytes(),
    );
    check_stores(
        "fst m64",
        |a| a.fst(qword_ptr(rsi)),
        bytes::<8>,
        |x, c| store::store::<u64>(x, c).to_le_bytes(),
    );
    check_stores("fbstp", |a| a.fbstp(tbyte_ptr(rsi)), bytes::<10>, store::store_decimal);
}

#[test]
fn integer_stores_agree() {
    check_stores(
        "fist m16",
        |a| a.fist(word_ptr(rsi)),
        bytes::<2>,
        |x, c| (store::store_integer(x, 16, c.rounding, c) as i16).to_le_bytes(),
    );
    check_stores(
        "fist m32",
        |a| a.fist(dword_ptr(rsi)),
        bytes::<4>,
        |x, c| (store::store_integer(x, 32, c.rounding, c) as i32).to_le_bytes(),
    );
    check_stores(
        "fistp m64",
        |a| a.fistp(qword_ptr(rsi)),
        bytes::<8>,
        |x, c| store::store_integer(x, 64, c.rounding, c).to_le_bytes(),
    );
    check_stores(
        "fisttp m16",
        |a| a.fisttp(word_ptr(rsi)),
        bytes::<2>,
        |x, c| (store::store_integer(x, 16, Rounding::Zero, c) as i16).to_le_bytes(),
    );
    check_stores(
        "fisttp m64",
        |a| a.fisttp(qword_ptr(rsi)),
        bytes::<8>,
        |x, c| store::store_integer(x, 64, Rounding::Zero, c).to_le_bytes(),
    );
}

fn check_load(
    name: &str,
    native: &Native,
    control: u16,
    bits: &[u8],
    model: impl Fn(&mut Context) -> Extended,
) {
    let mut block = block(control, Extended::ONE, Extended::ONE);
    block.memory[..bits.len()].copy_from_slice(bits);
    native.run(&mut block);
    let mut context = Context::from_control_word(control);
    let value = model(&mut context);
    // An unmasked denormal exception does not keep a load from its register.
    let is_stored = !context.unmasked().intersects(Exceptions::INVALID);
    let expected = if is_stored { value } else { Extended::ONE };
    let actual = (block.image.st(0), block.image.status_word() & FLAGS);
    assert_eq!(actual, (expected, flags(&context)), "{name} {control:#06x} {bits:x?}");
}

#[test]
fn loads_agree() {
    let mut random = Random(11);
    let single = Native::new(|a| a.fld(dword_ptr(rsi)));
    let double = Native::new(|a| a.fld(qword_ptr(rsi)));
    let integer = Native::new(|a| a.fild(qword_ptr(rsi)));
    let decimal = Native::new(|a| a.fbld(tbyte_ptr(rsi)));
    for control in control_words() {
        let more: Vec<u32> = (0..500).map(|_| random.single()).collect();
        for bits in singles().into_iter().chain(more) {
            check_load("fld m32", &single, control, &bits.to_le_bytes(), |c| store::load(bits, c));
        }
        let more: Vec<u64> = (0..500).map(|_| random.double()).collect();
        for bits in doubles().into_iter().chain(more) {
            check_load("fld m64", &double, control, &bits.to_le_bytes(), |c| store::load(bits, c));
            check_load("fild m64", &integer, control, &bits.to_le_bytes(), |_| {
                Extended::from_unpacked(cpu::float::Unpacked::from_integer(bits as i64))
            });
        }
        for _ in 0..500 {
            let mut digits = [0u8; 10];
            for pair in &mut digits[..9] {
                *pair = (random.below(10) << 4 | random.below(10)) as u8;
            }
            digits[9] = random.next_u64() as u8 & 0x80;
            if random.below(8) == 0 {
                digits[..9].fill(0);
            }
            check_load("fbld", &decimal, control, &digits, |_| store::load_decimal(digits));
        }
    }
}

#[test]
fn short_memory_operands_agree() {
    let mut random = Random(12);
    let single = Native::new(|a| a.fmul(dword_ptr(rsi)));
    let double = Native::new(|a| a.fadd(qword_ptr(rsi)));
    for control in control_words() {
        for bits in singles() {
            let a = random.extended();
            let mut block = block(control, a, Extended::ONE);
            block.memory[..4].copy_from_slice(&bits.to_le_bytes());
            single.run(&mut block);
            let mut context = Context::from_control_word(control);
            let value = arithmetic::multiply(a.unpack(), store::operand(bits), &mut context);
            let is_stored = !context.unmasked().intersects(Exceptions::PRE_COMPUTATION);
            let expected = (if is_stored { value } else { a }, flags(&context));
            let actual = (block.image.st(0), block.image.status_word() & FLAGS);
            assert_eq!(actual, expected, "fmul m32 {control:#06x} {a:x?} {bits:x}");
        }
        for bits in doubles() {
            let a = random.extended();
            let mut block = block(control, a, Extended::ONE);
            block.memory[..8].copy_from_slice(&bits.to_le_bytes());
            double.run(&mut block);
            let mut context = Context::from_control_word(control);
            let value = arithmetic::add(a.unpack(), store::operand(bits), &mut context);
            let is_stored = !context.unmasked().intersects(Exceptions::PRE_COMPUTATION);
            let expected = (if is_stored { value } else { a }, flags(&context));
            let actual = (block.image.st(0), block.image.status_word() & FLAGS);
            assert_eq!(actual, expected, "fadd m64 {control:#06x} {a:x?} {bits:x}");
        }
    }
}

/// C3, C2 and C0 of a comparison.
fn codes(ordering: Option<Ordering>) -> u16 {
    match ordering {
        Some(Ordering::Greater) => 0,
        Some(Ordering::Less) => 0x100,
        Some(Ordering::Equal) => 0x4000,
        None => 0x4500,
    }
}

#[test]
fn comparisons_agree() {
    let forms: [(Assemble, bool); 2] =
        [(|a| a.fcom_2(st0, st1), true), (|a| a.fucom(st0, st1), false)];
    for (assemble, signals_quiet) in forms {
        let native = Native::new(assemble);
        for control in [0x37F, 0x340, 0x37E, 0x37D] {
            for a in extended_pairs() {
                for b in extended_pairs() {
                    let mut block = block(control, a, b);
                    native.run(&mut block);
                    let mut context = Context::from_control_word(control);
                    let ordering =
                        compare::compare(&a.unpack(), &b.unpack(), signals_quiet, &mut context);
                    // The codes are set even when an unmasked exception is pending.
                    let expected = flags(&context) | codes(ordering);
                    let actual = block.image.status_word() & FLAGS_AND_CODES;
                    assert_eq!(actual, expected, "{signals_quiet} {control:#06x} {a:x?} {b:x?}");
                }
            }
        }
    }
}

fn check_remainder(native: &Native, is_nearest: bool, control: u16, a: Extended, b: Extended) {
    let mut block = block(control, a, b);
    native.run(&mut block);
    let mut context = Context::from_control_word(control);
    let result = remainder::remainder(a.unpack(), b.unpack(), is_nearest, &mut context);
    let is_stored = !context.unmasked().intersects(Exceptions::PRE_COMPUTATION);
    let quotient = u16::from(result.quotient.unwrap_or(0));
    let mut expected = u16::from(context.raised.bits());
    if is_stored {
        expected |= (quotient & 1) << 9 | (quotient >> 1 & 1) << 14 | (quotient >> 2 & 1) << 8;
        expected |= if result.is_complete { 0 } else { 0x400 };
    }
    let actual = (block.image.st(0), block.image.status_word() & FLAGS_AND_CODES);
    let value = if is_stored { result.value } else { a };
    assert_eq!(actual, (value, expected), "nearest {is_nearest} {control:#06x} {a:x?} {b:x?}");
}

#[test]
fn remainders_agree() {
    if is_others("fprem and fprem1") {
        return;
    }
    let forms: [(Assemble, bool); 2] = [(|a| a.fprem(), false), (|a| a.fprem1(), true)];
    for (assemble, is_nearest) in forms {
        let native = Native::new(assemble);
        let mut random = Random(13);
        for control in [0x37F, 0x340, 0x77F, 0xB7F, 0x36F, 0x37D, 0x07F] {
            for a in extended_pairs() {
                for b in extended_pairs() {
                    check_remainder(&native, is_nearest, control, a, b);
                }
            }
            for _ in 0..100_000 {
                let (a, mut b) = (random.extended(), random.extended());
                if random.below(2) == 0 {
                    let near = (a.sign_exponent & 0x7FFF).saturating_sub(random.below(70) as u16);
                    b.sign_exponent = (near + 2).min(0x7FFE);
                }
                check_remainder(&native, is_nearest, control, a, b);
            }
        }
    }
}

#[test]
fn extraction_agrees() {
    let native = Native::new(|a| a.fxtract());
    let mut random = Random(14);
    for control in control_words() {
        for a in samples(&mut random, 400) {
            let mut block = block(control, a, Extended::ONE);
            native.run(&mut block);
            let mut context = Context::from_control_word(control);
            let (exponent, significand) = arithmetic::extract(a.unpack(), &mut context);
            let is_stored = !context.unmasked().intersects(Exceptions::PRE_COMPUTATION);
            let expected = if is_stored { (significand, exponent) } else { (a, Extended::ONE) };
            let actual = (block.image.st(0), block.image.st(1));
            assert_eq!(actual, expected, "fxtract {control:#06x} {a:x?}");
            assert_eq!(
                block.image.status_word() & FLAGS,
                flags(&context),
                "fxtract {control:#06x} {a:x?}"
            );
        }
    }
}

#[test]
fn constants_agree() {
    let forms: [Assemble; 7] = [
        |a| a.fld1(),
        |a| a.fldl2t(),
        |a| a.fldl2e(),
        |a| a.fldpi(),
        |a| a.fldlg2(),
        |a| a.fldln2(),
        |a| a.fldz(),
    ];
    for (assemble, constant) in forms.into_iter().zip(Constant::ALL) {
        let native = Native::new(assemble);
        for control in control_words() {
            let mut block = block(control, Extended::ONE, Extended::ONE);
            native.run(&mut block);
            let expected = constant.rounded(Context::from_control_word(control).rounding);
            assert_eq!(block.image.st(0), expected, "{constant:?} {control:#06x}");
            assert_eq!(block.image.status_word() & FLAGS, 0, "{constant:?} {control:#06x}");
        }
    }
}
