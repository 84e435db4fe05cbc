//! AES-NI: one round of FIPS 197 each, on a state whose byte 0 is the register's lowest.

use super::{bytes, dwords, from_bytes, from_dwords};
use std::array::from_fn;

static S_BOX: [u8; 256] = s_box();
static INVERSE_S_BOX: [u8; 256] = inverse_s_box();

/// Multiplication by x in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
const fn times_x(a: u8) -> u8 {
    (a << 1) ^ ((a >> 7) * 0x1B)
}

/// Walks the field by a generator (3) and its inverse together: each power's reciprocal is at
/// hand for the affine map of [FIPS197 "SubBytes"].
const fn s_box() -> [u8; 256] {
    let mut table = [0; 256];
    let (mut power, mut inverse) = (1u8, 1u8);
    loop {
        power ^= times_x(power);
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        inverse ^= (inverse >> 7) * 0x09;
        table[power as usize] = 0x63
            ^ inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        if power == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
}

const fn inverse_s_box() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[S_BOX[index] as usize] = index as u8;
        index += 1;
    }
    table
}

/// What one byte of a column contributes to the mixed column, by MixColumns of [FIPS197] on
/// (byte, 0, 0, 0); other rows are rotations. `substitution` comes first.
const fn mixed(factors: [u8; 4], substitution: Option<&[u8; 256]>) -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = match substitution {
            Some(substitution) => substitution[index],
            None => index as u8,
        };
        let mut row = 0;
        while row < 4 {
            table[index] |= (multiply(byte, factors[row]) as u32) << (8 * row);
            row += 1;
        }
        index += 1;
    }
    table
}

/// The product in the field; factors have at most four bits.
const fn multiply(a: u8, factor: u8) -> u8 {
    let (mut product, mut power, mut bit) = (0, a, 0);
    while bit < 4 {
        product ^= if factor >> bit & 1 == 0 { 0 } else { power };
        power = times_x(power);
        bit += 1;
    }
    product
}

const FORWARD: [u8; 4] = [2, 1, 1, 3];
const INVERSE: [u8; 4] = [14, 9, 13, 11];
static ENCRYPTION: [u32; 256] = mixed(FORWARD, Some(&S_BOX));
static DECRYPTION: [u32; 256] = mixed(INVERSE, Some(&INVERSE_S_BOX));
static INVERSE_MIX: [u32; 256] = mixed(INVERSE, None);

/// Columns between a byte's place and where ShiftRows takes it from, per row.
const ENCRYPTING: usize = 1;
const DECRYPTING: usize = 3;
const STANDING: usize = 0;

/// ShiftRows, and per byte whatever the table does before MixColumns.
fn round(state: u128, direction: usize, table: &[u32; 256]) -> u128 {
    let state = bytes(state);
    from_dwords(from_fn(|column| {
        (0..4).fold(0, |mixed, row| {
            let from = row + 4 * ((column + direction * row) % 4);
            mixed ^ table[usize::from(state[from])].rotate_left(8 * row as u32)
        })
    }))
}

/// The last round has no MixColumns.
fn last_round(state: u128, direction: usize, table: &[u8; 256]) -> u128 {
    let state = bytes(state);
    from_bytes(from_fn(|at| {
        let (row, column) = (at % 4, at / 4);
        table[usize::from(state[row + 4 * ((column + direction * row) % 4)])]
    }))
}

/// AESENC: one round of encryption.
pub fn aesenc(state: u128, key: u128) -> u128 {
    round(state, ENCRYPTING, &ENCRYPTION) ^ key
}

/// AESENCLAST: the last round, without MixColumns.
pub fn aesenclast(state: u128, key: u128) -> u128 {
    last_round(state, ENCRYPTING, &S_BOX) ^ key
}

/// AESDEC: one round of decryption by the equivalent inverse cipher.
pub fn aesdec(state: u128, key: u128) -> u128 {
    round(state, DECRYPTING, &DECRYPTION) ^ key
}

/// AESDECLAST: the last round of it, without InvMixColumns.
pub fn aesdeclast(state: u128, key: u128) -> u128 {
    last_round(state, DECRYPTING, &INVERSE_S_BOX) ^ key
}

/// AESIMC: a round key for the equivalent inverse cipher.
pub fn aesimc(_: u128, key: u128) -> u128 {
    round(key, STANDING, &INVERSE_MIX)
}

/// AESKEYGENASSIST: what a key schedule needs of words 1 and 3.
pub fn aeskeygenassist(key: u128, round_constant: u8) -> u128 {
    let words = dwords(last_round(key, STANDING, &S_BOX));
    let rotated = |word: u32| word.rotate_right(8) ^ u32::from(round_constant);
    from_dwords([words[1], rotated(words[1]), words[3], rotated(words[3])])
}
