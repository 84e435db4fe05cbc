//! A seeded generator, for whatever in the machine is random: runs repeat.

use serde::{Deserialize, Serialize};

/// SplitMix64, which follows from its seed; any seed will do.
/// [Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random(pub u64);

impl Random {
    /// The next number: all 64 bits are random.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and nothing iterates over it"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number from 0 to `bound` - 1; `bound` is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `bound` times.
    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// One of `from`, which is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first numbers of seed 1234567 are as other implementations have them.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut random = Random(1_234_567);
        let numbers: Vec<_> = (0..3).map(|_| random.next()).collect();
        let known = [0x599E_D017_FB08_FC85, 0x2C73_F084_5854_0FA5, 0x883E_BCE5_A3F2_7C77];
        assert_eq!(numbers, known);
    }
}
