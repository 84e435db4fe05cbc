//! Packed floating point: every lane's result, and the flags of all lanes together, in
//! particular when one lane has an unmasked exception.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::{Context, Rounding, compare, scalar};
use cpu::vector::packed_float::{self as packed, Binary, doubles, singles};
use cpu::vector::{from_dwords, from_qwords};
use differential_vector::integer::is_amd;
use differential_vector::operands::{Random, mxcsrs};
use differential_vector::{Block, Native, Signal};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;
type Model = fn(u128, u128, &mut Context) -> u128;

/// Mostly special lanes are rare: an ordinary lane beside a special one is the interesting case.
fn operand(random: &mut Random, is_double: bool) -> u128 {
    let ordinary_single = |random: &mut Random| (random.next_u64() as u32) >> 2 | 0x3000_0000;
    if is_double {
        return from_qwords(std::array::from_fn(|_| random.double()));
    }
    from_dwords(std::array::from_fn(|_| match random.below(2) {
        0 => random.single(),
        _ => ordinary_single(random),
    }))
}

fn check(name: &str, is_double: bool, assemble: Assemble, model: Model) {
    let native = Native::new(assemble);
    let mut random = Random(50);
    for mxcsr in mxcsrs() {
        for _ in 0..400 {
            let (a, b) = (operand(&mut random, is_double), operand(&mut random, is_double));
            let mut block = Block::default();
            block.image.set_mxcsr(mxcsr);
            block.image.set_xmm(0, a);
            block.image.set_xmm(1, b);
            let signal = native.run(&mut block);
            let mut context = Context::from_mxcsr(mxcsr);
            let value = model(a, b, &mut context);
            let is_unmasked = !context.unmasked().is_empty();
            let place = format!("{name} mxcsr {mxcsr:#x} {a:#034x} {b:#034x}");
            let flags = mxcsr | u32::from(context.reported().bits());
            assert_eq!(block.image.mxcsr(), flags, "{place}: host mxcsr left");
            assert_eq!(signal == Signal::FloatingPoint, is_unmasked, "{place}: signal");
            let (host, expected) = (block.image.xmm(0), if is_unmasked { a } else { value });
            assert_eq!(host, expected, "{place}: host {host:#034x} model {expected:#034x}");
        }
    }
}

macro_rules! packed {
    ($($double:literal $name:ident($($immediate:literal)?), $model:expr;)*) => {
        $(check(stringify!($name), $double, |a| a.$name(xmm0, xmm1 $(, $immediate)?), $model);)*
    };
}

#[test]
fn packed_arithmetic_agrees() {
    packed! {
        false addps(), |a, b, c| singles(a, b, c, scalar::add);
        false divps(), |a, b, c| singles(a, b, c, scalar::divide);
        false sqrtps(), |_, b, c| singles(b, b, c, |b, _, c| scalar::square_root(b, c));
        false maxps(), |a, b, c| singles(a, b, c, compare::maximum);
        true subpd(), |a, b, c| doubles(a, b, c, scalar::subtract);
        true mulpd(), |a, b, c| doubles(a, b, c, scalar::multiply);
        true minpd(), |a, b, c| doubles(a, b, c, compare::minimum);
        false roundps(3), |_, b, c| singles(b, b, c, |b, _, c| scalar::round_to_integral(b, 3, c));
        true roundpd(4), |_, b, c| doubles(b, b, c, |b, _, c| scalar::round_to_integral(b, 4, c));
    }
}

#[test]
fn horizontal_arithmetic_agrees() {
    const ADD_SINGLE: Binary<u32> = scalar::add;
    packed! {
        false haddps(), |a, b, c| packed::horizontal_singles(a, b, c, ADD_SINGLE);
        false hsubps(), |a, b, c| packed::horizontal_singles(a, b, c, scalar::subtract);
        true haddpd(), |a, b, c| packed::horizontal_doubles(a, b, c, scalar::add);
        true hsubpd(), |a, b, c| packed::horizontal_doubles(a, b, c, scalar::subtract);
        false addsubps(), packed::addsubps;
        true addsubpd(), packed::addsubpd;
    }
}

/// As the host's vendor adds.
fn sums() -> packed::Sums {
    if is_amd() { packed::Sums::Once } else { packed::Sums::ByLane }
}

#[test]
fn dot_products_agree() {
    packed! {
        false dpps(0xFF), |a, b, c| packed::dpps(a, b, 0xFF, sums(), c);
        false dpps(0x71), |a, b, c| packed::dpps(a, b, 0x71, sums(), c);
        false dpps(0xA6), |a, b, c| packed::dpps(a, b, 0xA6, sums(), c);
        true dppd(0x33), |a, b, c| packed::dppd(a, b, 0x33, sums(), c);
        true dppd(0x11), |a, b, c| packed::dppd(a, b, 0x11, sums(), c);
    }
}

#[test]
fn packed_conversions_agree() {
    packed! {
        false cvtdq2ps(), |_, b, c| packed::cvtdq2ps(b, c);
        false cvtdq2pd(), |_, b, c| packed::cvtdq2pd(b, c);
        false cvtps2dq(), |_, b, c| packed::cvtps2dq(b, c.rounding, c);
        false cvttps2dq(), |_, b, c| packed::cvtps2dq(b, Rounding::Zero, c);
        true cvtpd2dq(), |_, b, c| packed::cvtpd2dq(b, c.rounding, c);
        true cvttpd2dq(), |_, b, c| packed::cvtpd2dq(b, Rounding::Zero, c);
        false cvtps2pd(), |_, b, c| packed::cvtps2pd(b, c);
        true cvtpd2ps(), |_, b, c| packed::cvtpd2ps(b, c);
    }
}
