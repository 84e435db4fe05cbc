//! AES-NI: one round of FIPS 197 each, on a state whose byte 0 is the register's lowest.

use super::{bytes, dwords, from_bytes, from_dwords};
use std::array::from_fn;

const S_BOX: [u8; 256] = s_box();
const INVERSE_S_BOX: [u8; 256] = inverse_s_box();

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

/// ShiftRows: row r moves left by r columns; `direction` 1 forward, 3 back.
fn shift_rows(state: [u8; 16], direction: usize) -> [u8; 16] {
    from_fn(|at| {
        let (row, column) = (at % 4, at / 4);
        state[row + 4 * ((column + direction * row) % 4)]
    })
}

fn mix_column(column: [u8; 4]) -> [u8; 4] {
    let all = column[0] ^ column[1] ^ column[2] ^ column[3];
    from_fn(|row| column[row] ^ all ^ times_x(column[row] ^ column[(row + 1) % 4]))
}

/// The inverse is the forward map after adding 4x^2 terms to each pair of rows.
fn inverse_mix_column(column: [u8; 4]) -> [u8; 4] {
    let times_4 = |a| times_x(times_x(a));
    let even = times_4(column[0] ^ column[2]);
    let odd = times_4(column[1] ^ column[3]);
    mix_column([column[0] ^ even, column[1] ^ odd, column[2] ^ even, column[3] ^ odd])
}

fn mix(state: [u8; 16], column: fn([u8; 4]) -> [u8; 4]) -> u128 {
    let mixed =
        dwords(from_bytes(state)).map(|word| u32::from_le_bytes(column(word.to_le_bytes())));
    from_dwords(mixed)
}

fn substitute(state: [u8; 16], table: &[u8; 256]) -> [u8; 16] {
    state.map(|byte| table[usize::from(byte)])
}

pub fn aesenc(state: u128, key: u128) -> u128 {
    mix(substitute(shift_rows(bytes(state), 1), &S_BOX), mix_column) ^ key
}

pub fn aesenclast(state: u128, key: u128) -> u128 {
    from_bytes(substitute(shift_rows(bytes(state), 1), &S_BOX)) ^ key
}

pub fn aesdec(state: u128, key: u128) -> u128 {
    mix(substitute(shift_rows(bytes(state), 3), &INVERSE_S_BOX), inverse_mix_column) ^ key
}

pub fn aesdeclast(state: u128, key: u128) -> u128 {
    from_bytes(substitute(shift_rows(bytes(state), 3), &INVERSE_S_BOX)) ^ key
}

/// AESIMC: a round key for the equivalent inverse cipher.
pub fn aesimc(_: u128, key: u128) -> u128 {
    mix(bytes(key), inverse_mix_column)
}

pub fn aeskeygenassist(key: u128, round_constant: u8) -> u128 {
    let words = dwords(from_bytes(substitute(bytes(key), &S_BOX)));
    let rotated = |word: u32| word.rotate_right(8) ^ u32::from(round_constant);
    from_dwords([words[1], rotated(words[1]), words[3], rotated(words[3])])
}
