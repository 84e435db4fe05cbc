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

/// What the products of DPPS and DPPD are added to, which shows in the NaN that a sum of two gives:
/// its first operand. The manuals leave it open; read from parts of both vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Added once, the lower lanes first; all lanes have the same.
    Once,
    /// Added in every lane: DPPS its neighbour first, then its own pair first; DPPD itself first.
    ByLane,
}

/// DPPS: products where the immediate's high bits say so, added in pairs, to the lanes of its low
/// bits. An unmasked exception of the products ends it before the sums.
pub fn dpps(a: u128, b: u128, immediate: u8, sums: Sums, context: &mut Context) -> u128 {
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
    let pairs = added(products, context, |lane| match sums {
        Sums::Once => (lane & 2, lane | 1),
        Sums::ByLane => (lane ^ 1, lane),
    });
    if !context.settles() {
        return a;
    }
    let all = added(pairs, context, |lane| match sums {
        Sums::Once => (0, 2),
        Sums::ByLane => (lane, lane ^ 2),
    });
    from_dwords(std::array::from_fn(|lane| if immediate >> lane & 1 != 0 { all[lane] } else { 0 }))
}

/// In each lane the sum of two, in their order.
fn added(
    lanes: [u32; 4],
    context: &mut Context,
    order: impl Fn(usize) -> (usize, usize),
) -> [u32; 4] {
    std::array::from_fn(|lane| {
        let (first, second) = order(lane);
        add(lanes[first], lanes[second], context)
    })
}

/// DPPD.
pub fn dppd(a: u128, b: u128, immediate: u8, sums: Sums, context: &mut Context) -> u128 {
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
    from_qwords(std::array::from_fn(|lane| {
        let first = if sums == Sums::ByLane { lane } else { 0 };
        let sum = add(products[first], products[first ^ 1], context);
        if immediate >> lane & 1 != 0 { sum } else { 0 }
    }))
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
