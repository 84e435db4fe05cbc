//! SHA-256 in plain integer arithmetic. [FIPS180 "SHA-256"]

/// The first 32 bits of the fractional parts of the square roots of the first eight primes, and of
/// the cube roots of the first 64: computed, since they are defined by a computation.
const INITIAL: [u32; 8] = roots::<8>(2);
const ROUND: [u32; 64] = roots::<64>(3);

const fn roots<const COUNT: usize>(degree: u32) -> [u32; COUNT] {
    let mut constants = [0; COUNT];
    let (mut found, mut candidate) = (0, 2);
    while found < COUNT {
        if is_prime(candidate) {
            constants[found] = root_fraction(candidate, degree);
            found += 1;
        }
        candidate += 1;
    }
    constants
}

const fn is_prime(n: u128) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= n {
        if n.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The low 32 bits of the root of `n`, scaled by 2^32, found bit by bit.
const fn root_fraction(n: u128, degree: u32) -> u32 {
    let scaled = n << (32 * degree);
    let (mut root, mut bit) = (0u128, 1u128 << 37);
    while bit > 0 {
        let candidate = root | bit;
        if candidate.pow(degree) <= scaled {
            root = candidate;
        }
        bit >>= 1;
    }
    root as u32
}

const _: () = assert!(INITIAL[0] == 0x6A09_E667 && ROUND[0] == 0x428A_2F98);
const _: () = assert!(INITIAL[7] == 0x5BE0_CD19 && ROUND[63] == 0xC671_78F2);

/// The digest of a message of 32 bytes: one block.
pub fn digest(message: &[u8; 32]) -> [u8; 32] {
    let mut schedule = [0u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(message.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().unwrap_or_default());
    }
    schedule[8] = 1 << 31;
    schedule[15] = 256;
    for t in 16..64 {
        let (near, far) = (schedule[t - 2], schedule[t - 15]);
        let s1 = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
        let s0 = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
        schedule[t] =
            s1.wrapping_add(schedule[t - 7]).wrapping_add(s0).wrapping_add(schedule[t - 16]);
    }
    let mut state = INITIAL;
    for t in 0..64 {
        round(&mut state, ROUND[t].wrapping_add(schedule[t]));
    }
    let mut digest = [0; 32];
    for (bytes, (word, initial)) in digest.chunks_exact_mut(4).zip(state.iter().zip(INITIAL)) {
        bytes.copy_from_slice(&word.wrapping_add(initial).to_be_bytes());
    }
    digest
}

fn round(state: &mut [u32; 8], input: u32) {
    let [a, b, c, d, e, f, g, h] = *state;
    let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
    let choice = e & f ^ !e & g;
    let first = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(input);
    let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
    let majority = a & b ^ a & c ^ b & c;
    let second = s0.wrapping_add(majority);
    *state = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
}
