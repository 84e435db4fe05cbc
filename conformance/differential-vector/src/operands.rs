//! Boundary operands of every format, and a small random generator for what lies between.

use cpu::float::extended::Extended;

/// A deterministic generator (splitmix64): a failing case is found again by running the test.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A random pattern with long runs of equal bits, which finds carries and halfway cases.
    pub fn runs(&mut self) -> u64 {
        let mut value = self.next_u64();
        for _ in 0..self.below(4) {
            let (low, width) = (self.below(64), self.below(64));
            let mask = (1u64 << width).wrapping_sub(1).rotate_left(low as u32);
            value = if self.next_u64() & 1 == 0 { value | mask } else { value & !mask };
        }
        value
    }

    /// Exponents near the middle and near both ends of the range, all classes of significands.
    pub fn extended(&mut self) -> Extended {
        let boundary = extended();
        if self.below(8) == 0 {
            return boundary[self.below(boundary.len() as u64) as usize];
        }
        let spread = self.below(140) as u16;
        let exponent = match self.below(8) {
            0 => self.next_u64() as u16,
            1 => spread,
            2 => 0x7FFF - spread.min(70),
            3 => 0x3FFF - 70 + spread,
            4 => 0x3FFF - 16382 / 2 + spread,
            _ => 0x3FFF - 3 + self.below(7) as u16,
        };
        let sign = (self.next_u64() as u16) & 0x8000;
        let integer = if self.below(32) == 0 { 0 } else { 1 << 63 };
        let significand = self.runs() | integer;
        Extended { significand, sign_exponent: exponent & 0x7FFF | sign }
    }

    pub fn double(&mut self) -> u64 {
        let boundary = doubles();
        let exponent = match self.below(8) {
            0 => return boundary[self.below(boundary.len() as u64) as usize],
            1 => self.below(2048),
            2 => self.below(60),
            3 => 2047 - self.below(60),
            4 => 1023 / 2 + self.below(60),
            5 => 1023 - 60 + self.below(130),
            _ => 1023 - 3 + self.below(7),
        };
        self.runs() & ((1 << 63) | ((1 << 52) - 1)) | exponent << 52
    }

    pub fn single(&mut self) -> u32 {
        let boundary = singles();
        let exponent = match self.below(8) {
            0 => return boundary[self.below(boundary.len() as u64) as usize],
            1 => self.below(256),
            2 => self.below(30),
            3 => 255 - self.below(30),
            4 => 127 / 2 + self.below(30),
            5 => 127 - 30 + self.below(80),
            _ => 127 - 3 + self.below(7),
        };
        self.runs() as u32 & 0x807F_FFFF | (exponent as u32) << 23
    }
}

/// Every rounding and precision control with all exceptions masked, none, and each one unmasked.
pub fn control_words() -> Vec<u16> {
    let mut all = Vec::new();
    for rounding in 0..4 {
        for precision in [0, 2, 3] {
            for masks in [0x3F, 0, 0x3E, 0x3D, 0x3B, 0x37, 0x2F, 0x1F] {
                all.push(rounding << 10 | precision << 8 | 0x40 | masks);
            }
        }
    }
    all
}

/// Every rounding control with all exceptions masked, none, and each one unmasked, then with
/// DAZ and FTZ, then with every flag sticky.
pub fn mxcsrs() -> Vec<u32> {
    let mut all = Vec::new();
    for rounding in 0..4 {
        for masks in [0x3F, 0, 0x3E, 0x3D, 0x3B, 0x37, 0x2F, 0x1F] {
            for flush in [0, 0x40, 0x8000, 0x8040] {
                for sticky in [0, 0x3F] {
                    all.push(rounding << 13 | masks << 7 | flush | (sticky & masks));
                }
            }
        }
    }
    all
}

pub fn extended() -> Vec<Extended> {
    const EXPONENTS: [u16; 21] = [
        0, 1, 2, 0x3F, 0x40, 0x41, 0x3F80, 0x3FBE, 0x3FFD, 0x3FFE, 0x3FFF, 0x4000, 0x4001, 0x400E,
        0x401E, 0x403D, 0x403E, 0x403F, 0x5FFE, 0x7FFE, 0x7FFF,
    ];
    const SIGNIFICANDS: [u64; 12] = [
        0,
        1,
        0x3FFF_FFFF_FFFF_FFFF,
        0x4000_0000_0000_0000,
        0x7FFF_FFFF_FFFF_FFFF,
        0x8000_0000_0000_0000,
        0x8000_0000_0000_0001,
        0x8000_0080_0000_0000,
        0xC000_0000_0000_0000,
        0xC90F_DAA2_2168_C235,
        0xFFFF_FFFF_FFFF_F800,
        0xFFFF_FFFF_FFFF_FFFF,
    ];
    let mut all = Vec::new();
    for exponent in EXPONENTS {
        for significand in SIGNIFICANDS {
            for sign in [0, 0x8000] {
                all.push(Extended { significand, sign_exponent: exponent | sign });
            }
        }
    }
    all
}

/// A smaller set for operations over all pairs.
pub fn extended_pairs() -> Vec<Extended> {
    let keep = [0, 1, 2, 0x3FFE, 0x3FFF, 0x4000, 0x403E, 0x7FFE, 0x7FFF];
    let (from, to) = (0x4000_0000_0000_0000u64, 0xC90F_DAA2_2168_C235u64);
    let is_kept = |x: &Extended| {
        keep.contains(&(x.sign_exponent & 0x7FFF)) && x.significand != from && x.significand != to
    };
    extended().into_iter().filter(is_kept).collect()
}

pub fn doubles() -> Vec<u64> {
    const MAGNITUDES: [u64; 30] = [
        0,
        1,
        2,
        0x0008_0000_0000_0000,
        0x000F_FFFF_FFFF_FFFF,
        0x0010_0000_0000_0000,
        0x0010_0000_0000_0001,
        0x001F_FFFF_FFFF_FFFF,
        0x0020_0000_0000_0000,
        0x3690_0000_0000_0000,
        0x380F_FFFF_E000_0000,
        0x380F_FFFF_FFFF_FFFF,
        0x3CA0_0000_0000_0000,
        0x3FDF_FFFF_FFFF_FFFF,
        0x3FE0_0000_0000_0000,
        0x3FEF_FFFF_FFFF_FFFF,
        0x3FF0_0000_0000_0000,
        0x3FF0_0000_0000_0001,
        0x3FF8_0000_0000_0000,
        0x4008_0000_0000_0000,
        0x41DF_FFFF_FFC0_0000,
        0x41E0_0000_0000_0000,
        0x43E0_0000_0000_0000,
        0x47EF_FFFF_F000_0000,
        0x7FE0_0000_0000_0000,
        0x7FEF_FFFF_FFFF_FFFF,
        0x7FF0_0000_0000_0000,
        0x7FF0_0000_0000_0001,
        0x7FF8_0000_0000_0000,
        0x7FFF_FFFF_FFFF_FFFF,
    ];
    MAGNITUDES.iter().flat_map(|&x| [x, x | 1 << 63]).collect()
}

pub fn singles() -> Vec<u32> {
    const MAGNITUDES: [u32; 24] = [
        0,
        1,
        2,
        0x0040_0000,
        0x007F_FFFF,
        0x0080_0000,
        0x0080_0001,
        0x00FF_FFFF,
        0x0100_0000,
        0x3380_0000,
        0x3EFF_FFFF,
        0x3F00_0000,
        0x3F7F_FFFF,
        0x3F80_0000,
        0x3F80_0001,
        0x3FC0_0000,
        0x4F00_0000,
        0x5F00_0000,
        0x7F00_0000,
        0x7F7F_FFFF,
        0x7F80_0000,
        0x7F80_0001,
        0x7FC0_0000,
        0x7FFF_FFFF,
    ];
    MAGNITUDES.iter().flat_map(|&x| [x, x | 1 << 31]).collect()
}
