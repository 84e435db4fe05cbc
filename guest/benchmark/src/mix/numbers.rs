//! What processors choose by: each has numbers of its own.

/// Pauses are at least and at most so many cycles, short ones as likely as long ones.
const PAUSES: (u32, u32) = (9, 18);

/// xorshift64*, which is never zero.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next, of 48 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// One below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Cycles; all orders of magnitude are alike.
    pub fn pause(&mut self) -> u64 {
        let (least, most) = PAUSES;
        let exponent = u64::from(least) + self.below(u64::from(most - least));
        (1 << exponent) + self.below(1 << exponent)
    }

    /// One of these.
    pub fn pick<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        values[self.below(N as u64) as usize]
    }
}
