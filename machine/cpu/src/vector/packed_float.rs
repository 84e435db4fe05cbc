//! Packed floating point: the scalar operations of [`crate::float`] applied to lanes.

use super::{dwords, from_dwords, from_qwords, qwords};
use crate::float::scalar::{add, multiply, subtract};
use crate::float::{Context, Rounding, convert};

/// A lane operation of two operands.
pub type Binary<T> = fn(T, T, &mut Context) -> T;

/// Applies an operation to four binary32 lanes, the lowest first.
#[inline]
pub fn singles(
    a: u128,
    b: u128,
    context: &mut Context,
    operation: impl Fn(u32, u32, &mut Context) -> u32,
) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    let mut lanes = [0; 4];
    for lane in 0..4 {
        lanes[lane] = operation(x[lane], y[lane], context);
    }
    from_dwords(lanes)
}

/// Applies an operation to two binary64 lanes, the lowest first.
#[inline]
pub fn doubles(
    a: u128,
    b: u128,
    context: &mut Context,
    operation: impl Fn(u64, u64, &mut Context) -> u64,
) -> u128 {
    let (x, y) = (qwords(a), qwords(b));
    from_qwords([operation(x[0], y[0], context), operation(x[1], y[1], context)])
}

/// HADDPS and HSUBPS.
pub fn horizontal_singles(a: u128, b: u128, context: &mut Context, operation: Binary<u32>) -> u128 {
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (dwords(a), dwords(b));
    singles(from_dwords([a0, a2, b0, b2]), from_dwords([a1, a3, b1, b3]), context, operation)
}

/// HADDPD and HSUBPD.
pub fn horizontal_doubles(a: u128, b: u128, context: &mut Context, operation: Binary<u64>) -> u128 {
    let ([a0, a1], [b0, b1]) = (qwords(a), qwords(b));
    doubles(from_qwords([a0, b0]), from_qwords([a1, b1]), context, operation)
}

/// ADDSUBPS: even lanes are subtracted, odd ones added.
pub fn addsubps(a: u128, b: u128, context: &mut Context) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    let mut lanes = [0; 4];
    for lane in 0..4 {
        let operation: Binary<u32> = if lane % 2 == 0 { subtract } else { add };
        lanes[lane] = operation(x[lane], y[lane], context);
    }
    from_dwords(lanes)
}

/// ADDSUBPD: the low lane is subtracted, the high one added.
pub fn addsubpd(a: u128, b: u128, context: &mut Context) -> u128 {
    let ([a0, a1], [b0, b1]) = (qwords(a), qwords(b));
    from_qwords([subtract(a0, b0, context), add(a1, b1, context)])
}

/// DPPS: products where the immediate's high bits say so, added in pairs, to the lanes of its low
/// bits. An unmasked exception of the products ends it before the sums.
///
/// DEVIATION(SDM2 "DPPS"): of two NaN a sum gives the one that AMD's parts give, in Intel's models
/// too, whose parts take another.
pub fn dpps(a: u128, b: u128, immediate: u8, context: &mut Context) -> u128 {
    let (x, y) = (dwords(a), dwords(b));
    let mut products = [0; 4];
    for lane in 0..4 {
        if immediate >> (4 + lane) & 1 != 0 {
            products[lane] = multiply(x[lane], y[lane], context);
        }
    }
    if !context.settles() {
        return a;
    }
    let low = add(products[0], products[1], context);
    let high = add(products[2], products[3], context);
    if !context.settles() {
        return a;
    }
    let sum = add(low, high, context);
    from_dwords(std::array::from_fn(|lane| if immediate >> lane & 1 != 0 { sum } else { 0 }))
}

/// DPPD.
pub fn dppd(a: u128, b: u128, immediate: u8, context: &mut Context) -> u128 {
    let (x, y) = (qwords(a), qwords(b));
    let mut products = [0; 2];
    for lane in 0..2 {
        if immediate >> (4 + lane) & 1 != 0 {
            products[lane] = multiply(x[lane], y[lane], context);
        }
    }
    if !context.settles() {
        return a;
    }
    let sum = add(products[0], products[1], context);
    from_qwords(std::array::from_fn(|lane| if immediate >> lane & 1 != 0 { sum } else { 0 }))
}

/// CVTDQ2PS.
pub fn cvtdq2ps(b: u128, context: &mut Context) -> u128 {
    from_dwords(dwords(b).map(|lane| convert::from_integer(i64::from(lane as i32), context)))
}

/// CVTDQ2PD, and CVTPI2PD: the low two dwords.
pub fn cvtdq2pd(b: u128, context: &mut Context) -> u128 {
    let [low, high, ..] = dwords(b).map(|lane| i64::from(lane as i32));
    from_qwords([low, high].map(|lane| convert::from_integer(lane, context)))
}

/// CVTPI2PS: two dwords to the low two singles.
pub fn cvtpi2ps(b: u64, context: &mut Context) -> u64 {
    let [low, high, ..] = dwords(b.into()).map(|lane| i64::from(lane as i32));
    let [low, high]: [u32; 2] = [low, high].map(|lane| convert::from_integer(lane, context));
    u64::from(low) | u64::from(high) << 32
}

/// CVTPS2DQ and, toward zero, CVTTPS2DQ.
pub fn cvtps2dq(b: u128, rounding: Rounding, context: &mut Context) -> u128 {
    from_dwords(dwords(b).map(|lane| convert::to_integer(lane, 32, rounding, context) as u32))
}

/// CVTPS2PI and CVTTPS2PI: the low two lanes.
pub fn cvtps2pi(b: u64, rounding: Rounding, context: &mut Context) -> u64 {
    let [low, high] = [b as u32, (b >> 32) as u32]
        .map(|lane| convert::to_integer(lane, 32, rounding, context) as u32);
    u64::from(low) | u64::from(high) << 32
}

/// CVTPD2DQ, CVTPD2PI and, toward zero, CVTTPD2DQ, CVTTPD2PI.
pub fn cvtpd2dq(b: u128, rounding: Rounding, context: &mut Context) -> u128 {
    let [low, high] = qwords(b).map(|lane| convert::to_integer(lane, 32, rounding, context) as u32);
    from_dwords([low, high, 0, 0])
}

/// CVTPS2PD: the low two lanes.
pub fn cvtps2pd(b: u128, context: &mut Context) -> u128 {
    let [low, high, ..] = dwords(b);
    from_qwords([low, high].map(|lane| convert::between(lane, context)))
}

/// CVTPD2PS: to the low two lanes, the upper ones cleared.
pub fn cvtpd2ps(b: u128, context: &mut Context) -> u128 {
    let [low, high] = qwords(b).map(|lane| convert::between(lane, context));
    from_dwords([low, high, 0, 0])
}
