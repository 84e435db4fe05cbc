//! x87 arithmetic on registers: results, flags and C1 under every control word that matters.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::{Extended, arithmetic};
use cpu::float::{Context, Exceptions};
use differential_vector::operands::{Random, control_words, extended, extended_pairs};
use differential_vector::{Block, Native, is_others};
use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, st0, st1};

/// C1 and the six exception flags.
const COMPARED: u16 = 0x23F;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;
type Model = fn(Extended, Extended, &mut Context) -> Extended;

fn check(name: &str, native: &Native, model: Model, control: u16, a: Extended, b: Extended) {
    let mut block = Block::default();
    block.image.set_control_word(control);
    block.image.set_stack(a, b);
    native.run(&mut block);
    let mut context = Context::from_control_word(control);
    let value = model(a, b, &mut context);
    let is_stored = !context.unmasked().intersects(Exceptions::PRE_COMPUTATION);
    let expected = if is_stored { value } else { a };
    let c1 = if context.is_rounded_up { 0x200 } else { 0 };
    let flags = u16::from(context.raised.bits()) | c1;
    let actual = (block.image.st(0), block.image.status_word() & COMPARED);
    assert_eq!(
        actual,
        (expected, flags),
        "{name} control {control:#06x} {a:x?} {b:x?}: host left, model right"
    );
}

fn compare(name: &str, assemble: Assemble, model: Model, seed: u64) {
    let native = Native::new(assemble);
    let pairs = extended_pairs();
    for control in control_words() {
        for &a in &pairs {
            for &b in &pairs {
                check(name, &native, model, control, a, b);
            }
        }
    }
    let mut random = Random(seed);
    let controls = control_words();
    for _ in 0..400_000 {
        let control = controls[random.below(controls.len() as u64) as usize];
        check(name, &native, model, control, random.extended(), random.extended());
    }
}

#[test]
fn addition_agrees() {
    compare(
        "fadd",
        |a| a.fadd_2(st0, st1),
        |a, b, c| arithmetic::add(a.unpack(), b.unpack(), c),
        1,
    );
}

#[test]
fn subtraction_agrees() {
    compare(
        "fsub",
        |a| a.fsub_2(st0, st1),
        |a, b, c| arithmetic::subtract(a.unpack(), b.unpack(), c),
        2,
    );
}

#[test]
fn multiplication_agrees() {
    compare(
        "fmul",
        |a| a.fmul_2(st0, st1),
        |a, b, c| arithmetic::multiply(a.unpack(), b.unpack(), c),
        3,
    );
}

#[test]
fn division_agrees() {
    compare(
        "fdiv",
        |a| a.fdiv_2(st0, st1),
        |a, b, c| arithmetic::divide(a.unpack(), b.unpack(), c),
        4,
    );
}

#[test]
fn scaling_agrees() {
    if is_others("fscale") {
        return;
    }
    compare("fscale", |a| a.fscale(), |a, b, c| arithmetic::scale(a.unpack(), b.unpack(), c), 5);
}

fn compare_one(name: &str, assemble: Assemble, model: Model, seed: u64) {
    let native = Native::new(assemble);
    let mut random = Random(seed);
    for control in control_words() {
        for a in extended() {
            check(name, &native, model, control, a, Extended::ONE);
        }
        for _ in 0..4_000 {
            check(name, &native, model, control, random.extended(), Extended::ONE);
        }
    }
}

#[test]
fn square_root_agrees() {
    compare_one("fsqrt", |a| a.fsqrt(), |a, _, c| arithmetic::square_root(a.unpack(), c), 6);
}

#[test]
fn rounding_to_integral_agrees() {
    compare_one("frndint", |a| a.frndint(), |a, _, c| arithmetic::round_to_integral(a, c), 7);
}
