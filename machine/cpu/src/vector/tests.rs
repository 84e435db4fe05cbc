//! Published test vectors; conformance/differential-vector compares every instruction on silicon.

use super::{aes, carryless, crc, from_dwords, mmx, sha, shuffle, string};

fn hex(digits: &str) -> u128 {
    u128::from_str_radix(digits, 16).map_or(0, u128::swap_bytes)
}

/// [FIPS197 "Cipher Example"].
#[test]
fn aes_encrypts_and_decrypts_the_standard_example() {
    const ROUND_CONSTANTS: [u8; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 0x1B, 0x36];
    let mut keys = vec![hex("2b7e151628aed2a6abf7158809cf4f3c")];
    for constant in ROUND_CONSTANTS {
        let key = keys[keys.len() - 1];
        let word = (aes::aeskeygenassist(key, constant) >> 96) as u32;
        let spread = key ^ key << 32 ^ key << 64 ^ key << 96;
        keys.push(spread ^ from_dwords([word; 4]));
    }
    let plain = hex("3243f6a8885a308d313198a2e0370734");
    let middle = keys[1..10].iter().fold(plain ^ keys[0], |state, &key| aes::aesenc(state, key));
    let cipher = aes::aesenclast(middle, keys[10]);
    assert_eq!(cipher, hex("3925841d02dc09fbdc118597196a0b32"));
    let start = cipher ^ keys[10];
    let middle =
        keys[1..10].iter().rev().fold(start, |state, &key| aes::aesdec(state, aes::aesimc(0, key)));
    assert_eq!(aes::aesdeclast(middle, keys[0]), plain);
}

/// [FIPS180 "SHA-256 Example"]: the message "abc".
#[test]
fn sha256_hashes_the_standard_example() {
    let constants = round_constants();
    let mut words = [0u32; 64];
    (words[0], words[15]) = (0x6162_6380, 24);
    for at in (16..64).step_by(4) {
        let four = |from: usize| from_dwords(std::array::from_fn(|lane| words[from + lane]));
        let partial = sha::sha256msg1(four(at - 16), four(at - 12));
        let sums = super::integer::paddd(partial, four(at - 7));
        let next = super::dwords(sha::sha256msg2(sums, four(at - 4)));
        words[at..at + 4].copy_from_slice(&next);
    }
    let initial = [
        0x6A09_E667u32,
        0xBB67_AE85,
        0x3C6E_F372,
        0xA54F_F53A,
        0x510E_527F,
        0x9B05_688C,
        0x1F83_D9AB,
        0x5BE0_CD19,
    ];
    let [a, b, c, d, e, f, g, h] = initial;
    let (mut first, mut second) = (from_dwords([f, e, b, a]), from_dwords([h, g, d, c]));
    for (pair, constant) in words.chunks(2).zip(constants.chunks(2)) {
        let sum = from_dwords([
            pair[0].wrapping_add(constant[0]),
            pair[1].wrapping_add(constant[1]),
            0,
            0,
        ]);
        (first, second) = (sha::sha256rnds2(second, first, sum), first);
    }
    let sums = super::integer::paddd(first, from_dwords([f, e, b, a]));
    assert_eq!(super::dwords(sums)[3], 0xBA78_16BF);
    assert_eq!(super::dwords(sums)[2], 0x8F01_CFEA);
}

/// The fractional parts of the cube roots of the first 64 primes, by integer cube root.
fn round_constants() -> Vec<u32> {
    let is_prime = |n: &u128| (2..*n).all(|divisor| !n.is_multiple_of(divisor));
    let fraction = |prime: u128| {
        let target = prime << 96;
        let bits = (0..36).rev().fold(0u128, |root, bit| {
            let trial = root | 1 << bit;
            if trial * trial * trial <= target { trial } else { root }
        });
        bits as u32
    };
    (2..).filter(is_prime).take(64).map(fraction).collect()
}

#[test]
fn crc32c_of_the_check_string() {
    assert_eq!(!crc::crc32c(!0, b"123456789"), 0xE306_9283);
}

#[test]
fn carryless_products_of_small_polynomials() {
    assert_eq!(carryless::pclmulqdq(3, 3, 0), 5);
    assert_eq!(carryless::pclmulqdq(u64::MAX.into(), u64::MAX.into(), 0), {
        0x5555_5555_5555_5555_5555_5555_5555_5555
    });
    assert_eq!(carryless::pclmulqdq(7 << 64, 2 << 64, 0x11), 14);
}

#[test]
fn string_length_and_search() {
    const EQUAL_ANY: u8 = 0;
    const EQUAL_ORDERED: u8 = 0x0C;
    let text = u128::from_le_bytes(*b"interrupt avic\0x");
    let needle = u128::from_le_bytes(*b"avic\0\0\0\0\0\0\0\0\0\0\0\0");
    let found = string::implicit(needle, text, EQUAL_ORDERED);
    assert_eq!(found.index(EQUAL_ORDERED), 10);
    assert!(found.has_any() && found.is_first_short && found.is_second_short);
    let none = string::implicit(u128::from(b'z'), text, EQUAL_ANY);
    assert_eq!((none.index(EQUAL_ANY), none.has_any()), (16, false));
}

#[test]
fn narrow_registers_index_with_three_bits() {
    let bytes = u64::from_le_bytes(*b"01234567");
    assert_eq!(mmx::pshufb(bytes, 0x8008_0F07), u64::from_le_bytes(*b"770\x000000"));
    let wide = shuffle::pshufb(u128::from_le_bytes(*b"0123456789abcdef"), 0x0F);
    assert_eq!(wide & 0xFFFF, u128::from(b'f') | u128::from(b'0') << 8);
}
