//! Computation: arithmetic in registers, calls, branches that cannot be predicted, memory.

use crate::Part;
use crate::sha256;
use core::hint::black_box;
use runtime::lock::Lock;

pub const PARTS: [Part; 6] = [
    ("xorshift", xorshift),
    ("sha256", sha256_chain),
    ("fibonacci", fibonacci_calls),
    ("quicksort", quicksort_rounds),
    ("copy", copy_rounds),
    ("byte_loop", byte_loop),
];

const ELEMENTS: usize = 4096;
const BYTES: usize = 64 << 10;

static NUMBERS: Lock<[u64; ELEMENTS]> = Lock::new([0; ELEMENTS]);
static SOURCE: Lock<[u8; BYTES]> = Lock::new([0; BYTES]);
static TARGET: Lock<[u8; BYTES]> = Lock::new([0; BYTES]);

/// A step of Marsaglia's generator.
pub fn next_random(state: u64) -> u64 {
    let mut x = state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

/// FNV-1a, over words.
pub fn fold(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3)
}

fn xorshift(scale: u64) -> u64 {
    (0..scale * 2_000_000).fold(0x9E37_79B9_7F4A_7C15, |state, _| next_random(black_box(state)))
}

/// A digest of a digest of a digest.
fn sha256_chain(scale: u64) -> u64 {
    let mut digest = [0; 32];
    for _ in 0..scale * 4_000 {
        digest = sha256::digest(&digest);
    }
    u64::from_be_bytes(digest[..8].try_into().unwrap_or_default())
}

fn fibonacci(n: u64) -> u64 {
    if black_box(n) < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

fn fibonacci_calls(scale: u64) -> u64 {
    (0..scale).fold(0, |hash, _| fold(hash, fibonacci(25)))
}

fn quicksort(values: &mut [u64]) {
    let mut values = values;
    // The smaller side by recursion, the larger by iteration: the stack stays small.
    while values.len() > 1 {
        let middle = partition(values);
        let (low, rest) = values.split_at_mut(middle);
        let high = &mut rest[1..];
        let (smaller, larger) = if low.len() < high.len() { (low, high) } else { (high, low) };
        quicksort(smaller);
        values = larger;
    }
}

/// Lomuto's scheme around the middle element; where it ends up.
fn partition(values: &mut [u64]) -> usize {
    let last = values.len() - 1;
    values.swap(values.len() / 2, last);
    let pivot = values[last];
    let mut boundary = 0;
    for index in 0..last {
        if values[index] < pivot {
            values.swap(index, boundary);
            boundary += 1;
        }
    }
    values.swap(boundary, last);
    boundary
}

fn quicksort_rounds(scale: u64) -> u64 {
    NUMBERS.with(|numbers| {
        let (mut state, mut hash) = (1, 0);
        for _ in 0..scale * 8 {
            for number in numbers.iter_mut() {
                state = next_random(state);
                *number = state;
            }
            quicksort(numbers);
            hash = numbers.iter().step_by(64).fold(hash, |hash, number| fold(hash, *number));
        }
        hash
    })
}

/// String instructions: fill and copy.
fn copy_rounds(scale: u64) -> u64 {
    SOURCE.with(|source| {
        TARGET.with(|target| {
            let mut hash = 0;
            for round in 0..scale * 64 {
                source.fill(round as u8);
                source[round as usize % BYTES] ^= 0xFF;
                black_box(&mut *source);
                target.copy_from_slice(source);
                hash = fold(hash, u64::from(target[(round * 31) as usize % BYTES]));
            }
            hash
        })
    })
}

/// A byte at a time, as code does that a compiler could not vectorize.
fn byte_loop(scale: u64) -> u64 {
    TARGET.with(|target| {
        let mut hash = 0;
        for round in 0..scale * 8 {
            let mut carry = round as u8;
            for byte in target.iter_mut() {
                carry = black_box(carry).rotate_left(1) ^ *byte;
                *byte = carry;
            }
            hash = fold(hash, u64::from(carry));
        }
        hash
    })
}
