//! Profiles drawn by seed: every figure somewhere within its range, or of a profile that was fitted
//! to a host all of them as one of the fit's draws has them.

use super::CostProfile;
use super::range::{Entry, Range};

impl CostProfile {
    /// The profile with every figure drawn from its range, most often near the likely value: a
    /// triangle over low, likely and high. The same seed draws the same figure, whatever other
    /// figures there are.
    pub fn drawn(&self, seed: u64) -> Self {
        if let Some(together) = self.drawn_together(seed) {
            return together;
        }
        let mut drawn = self.with_own_ranges();
        for Entry { section, name, range, .. } in self.entries() {
            // It is there, for `entries` is made of the same figures.
            if let Some(figure) = drawn.figure_mut(section, name) {
                figure.value = range.at(share(seed, section, name));
            }
        }
        drawn.draw = Some(seed);
        drawn
    }
}

impl CostProfile {
    /// The profile as one moment of a machine has it: every figure but those of instructions is off
    /// by at most the share `most`, each in a way of its own that the seed decides.
    pub fn jittered(&self, seed: u64, most: f64) -> Self {
        let mut jittered = self.clone();
        for Entry { section, name, .. } in self.entries() {
            // What decoded code takes is kept with it.
            if let Some(figure) =
                jittered.figure_mut(section, name).filter(|_| section != "instruction")
            {
                figure.value *= 1.0 + most * (2.0 * share(seed, section, name) - 1.0);
            }
        }
        jittered
    }
}

impl Range {
    /// The value below which the share `share` of a triangular distribution lies.
    pub fn at(self, share: f64) -> f64 {
        let Self { low, likely, high } = self;
        let width = high - low;
        if width <= 0.0 {
            return likely;
        }
        let peak = (likely - low) / width;
        let value = if share < peak {
            low + (share * width * (likely - low)).sqrt()
        } else {
            high - ((1.0 - share) * width * (high - likely)).sqrt()
        };
        value.clamp(low, high)
    }
}

/// A number from 0 to 1 that belongs to a seed and a figure's name.
fn share(seed: u64, section: &str, name: &str) -> f64 {
    const FNV_PRIME: u64 = 0x100_0000_01B3;
    let bytes = section.bytes().chain([b'.']).chain(name.bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    let bits = mixed(hash ^ mixed(seed));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_triangle_are_where_they_belong() {
        let range = Range { low: 10.0, likely: 20.0, high: 50.0 };
        for (share, value) in [(0.0, 10.0), (0.25, 20.0), (1.0, 50.0)] {
            assert!((range.at(share) - value).abs() < 1e-9, "{share}: {}", range.at(share));
        }
        let one = Range { low: 3.0, likely: 3.0, high: 3.0 };
        assert_eq!(one.at(0.5), 3.0);
    }

    #[test]
    fn a_seed_draws_the_same_profile_and_another_seed_another_one_within_the_ranges() {
        let profile = CostProfile::named("zen4").expect("a profile");
        assert_eq!(profile.drawn(5), profile.drawn(5));
        assert_ne!(profile.drawn(5), profile.drawn(6));
        let likely: Vec<_> = profile.entries().collect();
        let mut mean = 0.0;
        for seed in 0..200 {
            for (entry, likely) in profile.drawn(seed).entries().zip(&likely) {
                let (range, value) = (likely.range, entry.range.likely);
                assert!(range.low <= value && value <= range.high, "{entry:?}");
            }
            mean += profile.drawn(seed).event.iret.value / 200.0;
        }
        let mut all = profile.entries();
        let iret = all.find(|entry| entry.name == "iret").expect("a figure").range;
        let expected = (iret.low + iret.likely + iret.high) / 3.0;
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean}, not {expected}");
    }

    #[test]
    fn jitter_moves_every_figure_a_little_and_none_of_instructions() {
        let profile = CostProfile::named("zen4").expect("a profile");
        for (before, after) in profile.entries().zip(profile.jittered(3, 0.02).entries()) {
            let change = after.range.likely / before.range.likely - 1.0;
            assert!(change.abs() <= 0.02, "{after:?}");
            assert_eq!(change == 0.0, before.section == "instruction", "{after:?}");
        }
    }

    #[test]
    fn a_drawn_profile_is_drawn_from_the_same_ranges_again() {
        let profile = CostProfile::named("zen2").expect("a profile");
        let ranges = |profile: &CostProfile| {
            profile.entries().map(|entry| (entry.range.low, entry.range.high)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&profile.drawn(9)), ranges(&profile));
    }
}
