//! SSE arithmetic, comparisons and conversions on one lane, under every MXCSR that matters.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::scalar::Interchange;
use cpu::float::{Context, Exceptions, Rounding, compare, convert, reciprocal, scalar};
use differential_vector::operands::{Random, doubles, mxcsrs, singles};
use differential_vector::{Block, Native, Signal};
use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, eax, rax, xmm0, xmm1};
use std::cmp::Ordering;
use std::fmt::LowerHex;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

trait Operand: Interchange + LowerHex {
    fn boundary() -> Vec<Self>;
    fn random(random: &mut Random) -> Self;
}

impl Operand for u32 {
    fn boundary() -> Vec<u32> {
        singles()
    }
    fn random(random: &mut Random) -> u32 {
        random.single()
    }
}

impl Operand for u64 {
    fn boundary() -> Vec<u64> {
        doubles()
    }
    fn random(random: &mut Random) -> u64 {
        random.double()
    }
}

const UNTOUCHED: u64 = 0xA5A5_5A5A_1234_5678;

/// Runs the instruction and compares XMM0, RAX and MXCSR; an unmasked exception must be signaled
/// and leave the destination alone. The model returns the new low lane of XMM0 or the new RAX.
fn check<A: Operand, R: Into<u64>>(
    name: &str,
    native: &Native,
    model: &impl Fn(A, A, &mut Context) -> R,
    is_register: bool,
    mxcsr: u32,
    (a, b): (A, A),
) {
    let mut block = Block::default();
    block.rax = UNTOUCHED;
    let high = u128::from(UNTOUCHED) << 64 | u128::from(UNTOUCHED);
    let low_mask = u128::from(u64::MAX >> (63 - A::MAGNITUDE_BITS));
    block.image.set_mxcsr(mxcsr);
    block.image.set_xmm(0, high & !low_mask | u128::from(a.into()));
    block.image.set_xmm(1, u128::from(b.into()));
    let before = block.image.xmm(0);
    let signal = native.run(&mut block);
    let mut context = Context::from_mxcsr(mxcsr);
    let value: u64 = model(a, b, &mut context).into();
    let place = format!("{name} mxcsr {mxcsr:#x} {a:#x} {b:#x}");
    let is_unmasked = !context.unmasked().is_empty();
    let mut raised = context.raised;
    if context.unmasked().intersects(Exceptions::PRE_COMPUTATION) {
        raised &= Exceptions::PRE_COMPUTATION;
    }
    assert_eq!(block.image.mxcsr(), mxcsr | u32::from(raised.bits()), "{place}: host mxcsr left");
    assert_eq!(signal == Signal::FloatingPoint, is_unmasked, "{place}: signal");
    if is_unmasked {
        assert_eq!((block.image.xmm(0), block.rax), (before, UNTOUCHED), "{place}: kept");
    } else if is_register {
        assert_eq!(block.rax, value, "{place}: host rax {:#x} model {value:#x}", block.rax);
    } else {
        let (host, high) = (block.image.xmm(0) & low_mask, block.image.xmm(0) & !low_mask);
        assert_eq!(high, before & !low_mask, "{place}: upper lanes");
        assert_eq!(host as u64, value, "{place}: host {host:#x} model {value:#x}");
    }
}

fn compare_all<A: Operand, R: Into<u64>>(
    name: &str,
    assemble: Assemble,
    is_register: bool,
    is_binary: bool,
    model: impl Fn(A, A, &mut Context) -> R,
) {
    let native = Native::new(assemble);
    let mut random = Random(30);
    let seconds = if is_binary { A::boundary() } else { vec![A::truncated(0)] };
    for mxcsr in mxcsrs() {
        for first in A::boundary() {
            for &second in &seconds {
                // A one-operand instruction reads XMM1.
                let pair = if is_binary { (first, second) } else { (A::truncated(0), first) };
                check(name, &native, &model, is_register, mxcsr, pair);
            }
        }
        for _ in 0..400 {
            let pair = (A::random(&mut random), A::random(&mut random));
            check(name, &native, &model, is_register, mxcsr, pair);
        }
    }
}

/// What an SSE lane is for a test: a result of one operand, or of two.
fn two<A: Operand>(name: &str, assemble: Assemble, model: fn(A, A, &mut Context) -> A) {
    compare_all(name, assemble, false, true, model);
}

fn one<A: Operand>(name: &str, assemble: Assemble, model: fn(A, &mut Context) -> A) {
    compare_all(name, assemble, false, false, |_, b: A, c: &mut Context| model(b, c));
}

#[test]
fn addition_agrees() {
    two::<u32>("addss", |a| a.addss(xmm0, xmm1), scalar::add);
    two::<u64>("addsd", |a| a.addsd(xmm0, xmm1), scalar::add);
}

#[test]
fn subtraction_agrees() {
    two::<u32>("subss", |a| a.subss(xmm0, xmm1), scalar::subtract);
    two::<u64>("subsd", |a| a.subsd(xmm0, xmm1), scalar::subtract);
}

#[test]
fn multiplication_agrees() {
    two::<u32>("mulss", |a| a.mulss(xmm0, xmm1), scalar::multiply);
    two::<u64>("mulsd", |a| a.mulsd(xmm0, xmm1), scalar::multiply);
}

#[test]
fn division_agrees() {
    two::<u32>("divss", |a| a.divss(xmm0, xmm1), scalar::divide);
    two::<u64>("divsd", |a| a.divsd(xmm0, xmm1), scalar::divide);
}

#[test]
fn square_root_agrees() {
    one::<u32>("sqrtss", |a| a.sqrtss(xmm0, xmm1), scalar::square_root);
    one::<u64>("sqrtsd", |a| a.sqrtsd(xmm0, xmm1), scalar::square_root);
}

#[test]
fn minimum_and_maximum_agree() {
    two::<u32>("minss", |a| a.minss(xmm0, xmm1), compare::minimum);
    two::<u64>("minsd", |a| a.minsd(xmm0, xmm1), compare::minimum);
    two::<u32>("maxss", |a| a.maxss(xmm0, xmm1), compare::maximum);
    two::<u64>("maxsd", |a| a.maxsd(xmm0, xmm1), compare::maximum);
}

#[test]
fn rounding_to_integral_agrees() {
    const SINGLE: [Assemble; 5] = [
        |a| a.roundss(xmm0, xmm1, 0),
        |a| a.roundss(xmm0, xmm1, 9),
        |a| a.roundss(xmm0, xmm1, 2),
        |a| a.roundss(xmm0, xmm1, 11),
        |a| a.roundss(xmm0, xmm1, 4),
    ];
    for (assemble, immediate) in SINGLE.into_iter().zip([0, 9, 2, 11, 4]) {
        compare_all("roundss", assemble, false, false, |_, b: u32, c: &mut Context| {
            scalar::round_to_integral(b, immediate, c)
        });
    }
    one::<u64>("roundsd", |a| a.roundsd(xmm0, xmm1, 4), |b, c| scalar::round_to_integral(b, 4, c));
}

#[test]
fn comparison_predicates_agree() {
    const SINGLE: [Assemble; 8] = [
        |a| a.cmpss(xmm0, xmm1, 0),
        |a| a.cmpss(xmm0, xmm1, 1),
        |a| a.cmpss(xmm0, xmm1, 2),
        |a| a.cmpss(xmm0, xmm1, 3),
        |a| a.cmpss(xmm0, xmm1, 4),
        |a| a.cmpss(xmm0, xmm1, 5),
        |a| a.cmpss(xmm0, xmm1, 6),
        |a| a.cmpss(xmm0, xmm1, 7),
    ];
    for (predicate, assemble) in SINGLE.into_iter().enumerate() {
        compare_all("cmpss", assemble, false, true, |a: u32, b: u32, c: &mut Context| {
            if compare::predicate(a, b, predicate as u8, c) { u32::MAX } else { 0 }
        });
    }
    compare_all(
        "cmplesd",
        |a| a.cmpsd_3(xmm0, xmm1, 2),
        false,
        true,
        |a: u64, b: u64, c: &mut Context| {
            if compare::predicate(a, b, 2, c) { u64::MAX } else { 0 }
        },
    );
}

/// ZF, PF and CF as LAHF puts them into AH.
fn codes(ordering: Option<Ordering>) -> u64 {
    match ordering {
        None => 0x45,
        Some(Ordering::Greater) => 0,
        Some(Ordering::Less) => 0x01,
        Some(Ordering::Equal) => 0x40,
    }
}

#[test]
fn comparisons_into_flags_agree() {
    let with_codes = |ordering| UNTOUCHED & !0xFF00 | (codes(ordering) | 2) << 8;
    let comiss: Assemble = |a| {
        a.comiss(xmm0, xmm1)?;
        a.lahf()
    };
    let ucomisd: Assemble = |a| {
        a.ucomisd(xmm0, xmm1)?;
        a.lahf()
    };
    compare_all("comiss", comiss, true, true, |a: u32, b: u32, c: &mut Context| {
        with_codes(compare::ordered(a, b, c))
    });
    compare_all("ucomisd", ucomisd, true, true, |a: u64, b: u64, c: &mut Context| {
        with_codes(compare::unordered(a, b, c))
    });
}

#[test]
fn conversions_to_integers_agree() {
    compare_all(
        "cvtss2si r32",
        |a| a.cvtss2si(eax, xmm1),
        true,
        false,
        |_, b: u32, c: &mut Context| u64::from(convert::to_integer(b, 32, c.rounding, c) as u32),
    );
    compare_all(
        "cvtss2si r64",
        |a| a.cvtss2si(rax, xmm1),
        true,
        false,
        |_, b: u32, c: &mut Context| convert::to_integer(b, 64, c.rounding, c) as u64,
    );
    compare_all(
        "cvttsd2si r32",
        |a| a.cvttsd2si(eax, xmm1),
        true,
        false,
        |_, b: u64, c: &mut Context| u64::from(convert::to_integer(b, 32, Rounding::Zero, c) as u32),
    );
    compare_all(
        "cvtsd2si r64",
        |a| a.cvtsd2si(rax, xmm1),
        true,
        false,
        |_, b: u64, c: &mut Context| convert::to_integer(b, 64, c.rounding, c) as u64,
    );
}

#[test]
fn conversions_between_formats_agree() {
    let narrow = Native::new(|a| a.cvtsd2ss(xmm0, xmm1));
    let widen = Native::new(|a| a.cvtss2sd(xmm0, xmm1));
    let mut random = Random(31);
    for mxcsr in mxcsrs() {
        let more: Vec<u64> = (0..400).map(|_| random.double()).collect();
        for b in doubles().into_iter().chain(more) {
            let model = |_, _, c: &mut Context| convert::between::<u64, u32>(b, c);
            check_source("cvtsd2ss", &narrow, model, mxcsr, 0u32, b);
        }
        let more: Vec<u32> = (0..400).map(|_| random.single()).collect();
        for b in singles().into_iter().chain(more) {
            let model = |_, _, c: &mut Context| convert::between::<u32, u64>(b, c);
            check_source("cvtss2sd", &widen, model, mxcsr, 0u64, b.into());
        }
    }
}

/// Like `check`, for a source in XMM1 (and RAX) of another type than the destination.
fn check_source<A: Operand>(
    name: &str,
    native: &Native,
    model: impl Fn(A, A, &mut Context) -> A,
    mxcsr: u32,
    a: A,
    source: u64,
) {
    let mut block = Block::default();
    block.rax = source;
    block.image.set_mxcsr(mxcsr);
    block.image.set_xmm(0, a.into().into());
    block.image.set_xmm(1, source.into());
    let signal = native.run(&mut block);
    let mut context = Context::from_mxcsr(mxcsr);
    let value: u64 = model(a, a, &mut context).into();
    let place = format!("{name} mxcsr {mxcsr:#x} {source:#x}");
    let is_unmasked = !context.unmasked().is_empty();
    let raised = u32::from(context.raised.bits());
    assert_eq!(block.image.mxcsr(), mxcsr | raised, "{place}: host mxcsr left");
    assert_eq!(signal == Signal::FloatingPoint, is_unmasked, "{place}: signal");
    let expected = if is_unmasked { a.into() } else { value };
    assert_eq!(block.image.xmm(0), expected.into(), "{place}");
}

#[test]
fn conversions_from_integers_agree() {
    let single = Native::new(|a| a.cvtsi2ss(xmm0, rax));
    let double = Native::new(|a| a.cvtsi2sd(xmm0, rax));
    let mut random = Random(32);
    for mxcsr in mxcsrs() {
        for case in 0..500 {
            let value = match case {
                0..5 => [0, 1, -1, i64::MIN, i64::MAX][case],
                _ => (random.runs() as i64) >> random.below(64),
            };
            let model = |_, _, c: &mut Context| convert::from_integer::<u32>(value, c);
            check_source("cvtsi2ss", &single, model, mxcsr, 0, value as u64);
            let model = |_, _, c: &mut Context| convert::from_integer::<u64>(value, c);
            check_source("cvtsi2sd", &double, model, mxcsr, 0, value as u64);
        }
    }
}

/// RCPSS and RSQRTSS may differ between chips: both must keep the bound, and special operands
/// must agree.
#[test]
fn reciprocals_keep_the_bound() {
    const BOUND: f64 = 1.5 / 4096.0;
    type Approximation = fn(u32) -> u32;
    type Reference = fn(f64) -> f64;
    let cases: [(Assemble, Approximation, Reference); 2] = [
        (|a| a.rcpss(xmm0, xmm1), reciprocal::reciprocal, |x| 1.0 / x),
        (|a| a.rsqrtss(xmm0, xmm1), reciprocal::reciprocal_square_root, |x| 1.0 / x.sqrt()),
    ];
    for (assemble, model, exact) in cases {
        let native = Native::new(assemble);
        let mut random = Random(33);
        let more: Vec<u32> = (0..200_000).map(|_| random.single()).collect();
        for bits in singles().into_iter().chain(more) {
            let mut block = Block::default();
            block.image.set_xmm(1, bits.into());
            native.run(&mut block);
            let host = f32::from_bits(block.image.xmm(0) as u32);
            let ours = f32::from_bits(model(bits));
            let value = exact(f64::from(f32::from_bits(bits)));
            if ours.is_normal() && host.is_normal() {
                let error = (f64::from(ours) - value).abs() / value.abs();
                assert!(error <= BOUND, "{bits:#x}: {ours} for {value}, error {error}");
            } else if value.abs() > 1.01 * f64::from(f32::MIN_POSITIVE) || value == 0.0 {
                // (Chips differ in whether they flush at the smallest normal number.)
                assert_eq!(ours.to_bits(), host.to_bits(), "{bits:#x}: {ours} host {host}");
            }
            assert_eq!(block.image.mxcsr(), 0x1F80, "{bits:#x}: no flag");
        }
    }
}
