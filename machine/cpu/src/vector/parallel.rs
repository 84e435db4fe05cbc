//! Lanes in parallel in one 128-bit integer: carries are kept from crossing lanes by treating the
//! lanes' sign bits apart. Compilers do not find vector instructions behind `u128` by themselves.

/// The sign bit of every lane of `BITS` bits.
const fn signs<const BITS: u32>() -> u128 {
    let mut mask = 1 << (BITS - 1);
    let mut width = BITS;
    while width < 128 {
        mask |= mask << width;
        width *= 2;
    }
    mask
}

/// All ones in the lanes whose sign bit is in `marks`.
#[inline(always)]
fn spread<const BITS: u32>(marks: u128) -> u128 {
    (marks << 1).wrapping_sub(marks >> (BITS - 1))
}

#[inline(always)]
pub fn add<const BITS: u32>(a: u128, b: u128) -> u128 {
    let signs = signs::<BITS>();
    ((a & !signs) + (b & !signs)) ^ (a ^ b) & signs
}

#[inline(always)]
pub fn subtract<const BITS: u32>(a: u128, b: u128) -> u128 {
    let signs = signs::<BITS>();
    ((a | signs) - (b & !signs)) ^ (a ^ !b) & signs
}

/// All ones where the lanes are equal.
#[inline(always)]
pub fn equal<const BITS: u32>(a: u128, b: u128) -> u128 {
    let rest = !signs::<BITS>();
    let difference = a ^ b;
    spread::<BITS>(!(((difference & rest) + rest) | difference | rest))
}

/// All ones where the unsigned lane of the first operand is smaller.
#[inline(always)]
pub fn below<const BITS: u32>(a: u128, b: u128) -> u128 {
    let difference = subtract::<BITS>(a, b);
    let borrows = !a & b | (!a | b) & difference;
    spread::<BITS>(borrows & signs::<BITS>())
}

/// All ones where the signed lane of the first operand is larger.
#[inline(always)]
pub fn greater<const BITS: u32>(a: u128, b: u128) -> u128 {
    let signs = signs::<BITS>();
    below::<BITS>(b ^ signs, a ^ signs)
}

/// Lanes of the first operand where the mask is set, else of the second.
#[inline(always)]
pub fn select(mask: u128, a: u128, b: u128) -> u128 {
    a & mask | b & !mask
}

#[inline(always)]
pub fn add_saturating<const BITS: u32>(a: u128, b: u128) -> u128 {
    let sum = add::<BITS>(a, b);
    let carries = a & b | (a | b) & !sum;
    sum | spread::<BITS>(carries & signs::<BITS>())
}

#[inline(always)]
pub fn subtract_saturating<const BITS: u32>(a: u128, b: u128) -> u128 {
    subtract::<BITS>(a, b) & !below::<BITS>(a, b)
}

/// The signs of eight bytes, gathered.
#[inline(always)]
pub fn byte_signs(half: u64) -> u32 {
    const SIGNS: u64 = 0x8080_8080_8080_8080;
    const GATHER: u64 = 0x0002_0408_1020_4081;
    ((half & SIGNS).wrapping_mul(GATHER) >> 56) as u32
}
