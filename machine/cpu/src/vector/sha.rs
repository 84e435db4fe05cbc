//! The SHA extensions: four rounds of SHA-1, two of SHA-256, and their message schedules.
//! The registers hold the hash's variables from the highest lane down [SDM2 "SHA1RNDS4"].

use super::{dwords, from_dwords};

/// SHA1RNDS4: the immediate selects function and constant of the rounds' group.
pub fn sha1rnds4(a: u128, b: u128, immediate: u8) -> u128 {
    let [d0, c0, b0, a0] = dwords(a);
    let words = dwords(b);
    let constant = [0x5A82_7999u32, 0x6ED9_EBA1, 0x8F1B_BCDC, 0xCA62_C1D6];
    let group = usize::from(immediate & 3);
    let function = |b: u32, c: u32, d: u32| match group {
        0 => b & c ^ !b & d,
        2 => b & c ^ b & d ^ c & d,
        _ => b ^ c ^ d,
    };
    // The first word already holds E (SHA1NEXTE added it); later rounds take E from the state.
    let mut state = [a0, b0, c0, d0, 0];
    for round in 0..4 {
        let [a, b, c, d, e] = state;
        let next = function(b, c, d)
            .wrapping_add(a.rotate_left(5))
            .wrapping_add(words[3 - round])
            .wrapping_add(e)
            .wrapping_add(constant[group]);
        state = [next, a, b.rotate_left(30), c, d];
    }
    let [a, b, c, d, _] = state;
    from_dwords([d, c, b, a])
}

/// SHA1NEXTE: the rotated A of four rounds before is the next E, added to the highest word.
pub fn sha1nexte(a: u128, b: u128) -> u128 {
    let [w0, w1, w2, w3] = dwords(b);
    from_dwords([w0, w1, w2, w3.wrapping_add(dwords(a)[3].rotate_left(30))])
}

/// SHA1MSG1: the exclusive ors of four message words that need no later ones.
pub fn sha1msg1(a: u128, b: u128) -> u128 {
    let ([a0, a1, a2, a3], [_, _, b2, b3]) = (dwords(a), dwords(b));
    from_dwords([b2 ^ a0, b3 ^ a1, a0 ^ a2, a1 ^ a3])
}

/// SHA1MSG2: four finished message words; the last needs the first.
pub fn sha1msg2(a: u128, b: u128) -> u128 {
    let ([a0, a1, a2, a3], [b0, b1, b2, _]) = (dwords(a), dwords(b));
    let w16 = (a3 ^ b2).rotate_left(1);
    let w17 = (a2 ^ b1).rotate_left(1);
    let w18 = (a1 ^ b0).rotate_left(1);
    let w19 = (a0 ^ w16).rotate_left(1);
    from_dwords([w19, w18, w17, w16])
}

/// SHA256RNDS2: C, D, G, H in the first operand, A, B, E, F in the second; the two words with
/// their constants added in XMM0.
pub fn sha256rnds2(a: u128, b: u128, words: u128) -> u128 {
    let ([h, g, d, c], [f, e, b, a]) = (dwords(a), dwords(b));
    let mut state = [a, b, c, d, e, f, g, h];
    for word in [words as u32, (words >> 32) as u32] {
        let [a, b, c, d, e, f, g, h] = state;
        let choice = e & f ^ !e & g;
        let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let majority = a & b ^ a & c ^ b & c;
        let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let first = choice.wrapping_add(sum1).wrapping_add(word).wrapping_add(h);
        let next = first.wrapping_add(majority).wrapping_add(sum0);
        state = [next, a, b, c, d.wrapping_add(first), e, f, g];
    }
    let [a, b, _, _, e, f, _, _] = state;
    from_dwords([f, e, b, a])
}

/// SHA256MSG1: four message words with their σ0 parts.
pub fn sha256msg1(a: u128, b: u128) -> u128 {
    let ([a0, a1, a2, a3], [b0, ..]) = (dwords(a), dwords(b));
    let sigma0 = |w: u32| w.rotate_right(7) ^ w.rotate_right(18) ^ w >> 3;
    let sum = |w: u32, next: u32| w.wrapping_add(sigma0(next));
    from_dwords([sum(a0, a1), sum(a1, a2), sum(a2, a3), sum(a3, b0)])
}

/// SHA256MSG2: four finished message words with their σ1 parts; the upper need the lower.
pub fn sha256msg2(a: u128, b: u128) -> u128 {
    let ([a0, a1, a2, a3], [_, _, b2, b3]) = (dwords(a), dwords(b));
    let sigma1 = |w: u32| w.rotate_right(17) ^ w.rotate_right(19) ^ w >> 10;
    let w16 = a0.wrapping_add(sigma1(b2));
    let w17 = a1.wrapping_add(sigma1(b3));
    let w18 = a2.wrapping_add(sigma1(w16));
    let w19 = a3.wrapping_add(sigma1(w17));
    from_dwords([w16, w17, w18, w19])
}
