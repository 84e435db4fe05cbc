//! x87 transcendental functions: special operands, flags and C2 exactly, values to the last place.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::Extended;
use cpu::float::extended::transcendental::{
    Function, arc_tangent, logarithm, logarithm_plus_one, power_minus_one, trigonometric,
};
use cpu::float::{Context, Exceptions};
use differential_vector::operands::{Random, extended, extended_pairs};
use differential_vector::{Block, Native, is_others};
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;
/// The result for ST0 = a and ST1 = b; `None` is C2.
type Model = fn(Extended, Extended, &mut Context) -> Option<Extended>;

const CONTROLS: [u16; 7] = [0x37F, 0x77F, 0xB7F, 0xF7F, 0x37D, 0x37E, 0x37B];
const FLAGS: u16 = 0x3F;
const C2: u16 = 0x400;

/// The distance in last places of two finite values of one sign.
fn distance(a: Extended, b: Extended) -> u128 {
    let key =
        |x: Extended| u128::from(x.sign_exponent) << 63 | u128::from(x.significand & !(1 << 63));
    key(a).abs_diff(key(b))
}

struct Case {
    name: &'static str,
    native: Native,
    /// Where the result is after the instruction.
    result: usize,
    model: Model,
    is_defined: fn(Extended, Extended) -> bool,
}

impl Case {
    fn check(&self, control: u16, a: Extended, b: Extended) -> u128 {
        if !(self.is_defined)(a, b) {
            return 0;
        }
        let mut block = Block::default();
        block.image.set_control_word(control);
        block.image.set_stack(a, b);
        self.native.run(&mut block);
        let mut context = Context::from_control_word(control);
        let value = (self.model)(a, b, &mut context);
        let status = block.image.status_word();
        let place = format!("{} control {control:#06x} ST0 {a:x?} ST1 {b:x?}", self.name);
        assert_eq!(status & C2 != 0, value.is_none(), "{place}: C2");
        if context.unmasked().intersects(Exceptions::PRE_COMPUTATION) {
            assert_eq!(status & FLAGS, u16::from(context.raised.bits()), "{place}: flags");
            return 0;
        }
        let Some(value) = value else {
            assert_eq!(block.image.st(0), a, "{place}: operand kept");
            return 0;
        };
        let host = block.image.st(self.result);
        let far = distance(host, value);
        assert!(far <= 2, "{place}: host {host:x?} model {value:x?}");
        let ignored = if far == 0 { 0 } else { 0x30 };
        let raised = u16::from(context.raised.bits());
        assert_eq!(
            status & FLAGS & !ignored,
            raised & !ignored,
            "{place}: flags, value {value:x?}"
        );
        far
    }

    fn check_all(&self, is_binary: bool) {
        let mut random = Random(20);
        let mut counts = [0u32; 3];
        let seconds = if is_binary { extended_pairs() } else { vec![Extended::ONE] };
        for control in CONTROLS {
            for a in extended() {
                for &b in &seconds {
                    counts[self.check(control, a, b) as usize] += 1;
                }
            }
            for _ in 0..20_000 {
                let (a, b) = (random.extended(), random.extended());
                counts[self.check(control, a, b) as usize] += 1;
            }
        }
        println!("{}: distances 0, 1, 2 in the last place: {counts:?}", self.name);
    }
}

fn always(_: Extended, _: Extended) -> bool {
    true
}

fn case(name: &'static str, assemble: Assemble, result: usize, model: Model) -> Case {
    Case { name, native: Native::new(assemble), result, model, is_defined: always }
}

#[test]
fn sine_agrees() {
    case("fsin", |a| a.fsin(), 0, |a, _, c| trigonometric(Function::Sine, a.unpack(), c))
        .check_all(false);
}

#[test]
fn cosine_agrees() {
    case("fcos", |a| a.fcos(), 0, |a, _, c| trigonometric(Function::Cosine, a.unpack(), c))
        .check_all(false);
}

#[test]
fn sine_of_the_pair_agrees() {
    case("fsincos", |a| a.fsincos(), 1, |a, _, c| trigonometric(Function::Sine, a.unpack(), c))
        .check_all(false);
}

#[test]
fn tangent_agrees() {
    case("fptan", |a| a.fptan(), 1, |a, _, c| trigonometric(Function::Tangent, a.unpack(), c))
        .check_all(false);
}

#[test]
fn arc_tangent_agrees() {
    case("fpatan", |a| a.fpatan(), 0, |a, b, c| Some(arc_tangent(b.unpack(), a.unpack(), c)))
        .check_all(true);
}

#[test]
fn power_minus_one_agrees() {
    let model: Model = |a, _, c| Some(power_minus_one(a.unpack(), c));
    let is_defined = |a: Extended, _| {
        let exponent = a.sign_exponent & 0x7FFF;
        exponent < 0x3FFF || exponent == 0x3FFF && a.significand == 1 << 63 || exponent == 0x7FFF
    };
    Case { is_defined, ..case("f2xm1", |a| a.f2xm1(), 0, model) }.check_all(false);
}

#[test]
fn logarithm_agrees() {
    if is_others("fyl2x") {
        return;
    }
    case("fyl2x", |a| a.fyl2x(), 0, |a, b, c| Some(logarithm(b.unpack(), a.unpack(), c)))
        .check_all(true);
}

#[test]
fn logarithm_plus_one_agrees() {
    let model: Model = |a, b, c| Some(logarithm_plus_one(b.unpack(), a.unpack(), c));
    let is_defined = |a: Extended, _| {
        let exponent = a.sign_exponent & 0x7FFF;
        exponent < 0x3FFD || exponent == 0x7FFF && a.sign_exponent >> 15 == 0
    };
    Case { is_defined, ..case("fyl2xp1", |a| a.fyl2xp1(), 0, model) }.check_all(true);
}
