//! Perturbation by chance. Integers alone: a seed gives the same decisions on every host.

use super::Anchor;
use arch::time::Picoseconds;
use bus::Random;

/// A place from an anchor on, and what happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// How long after the anchor.
    pub offset: Picoseconds,
    /// For how long the processor is held.
    pub delay: Picoseconds,
}

/// What is drawn, and how often.
#[derive(Clone, Debug)]
pub struct Chance {
    /// Where numbers come from.
    pub random: Random,
    /// Mean time between two delays at no place in particular; none if there are none such.
    pub anywhere: Option<Picoseconds>,
    /// By anchor: one in so many is followed by a delay; 0 for none.
    pub behind: [u32; Anchor::ALL.len()],
    /// A delay behind an anchor comes at most so long after it.
    pub nearby: Picoseconds,
    /// Delays are at least and at most so long, short ones as likely as long ones.
    pub delays: (Picoseconds, Picoseconds),
}

impl Chance {
    /// Decides what follows an anchor.
    pub(crate) fn draw(&mut self, after: Anchor) -> Option<Held> {
        let one_in = self.behind[after as usize];
        if one_in != 0 && self.random.one_in(one_in.into()) {
            let offset = match self.random.below(4) {
                0 => Picoseconds::ZERO,
                _ => self.log_uniform(Picoseconds(1_000), self.nearby),
            };
            return Some(Held { offset, delay: self.delay(after) });
        }
        self.draw_again(after, Picoseconds::ZERO)
    }

    /// Decides what follows, `since` an anchor, while no other comes.
    pub(crate) fn draw_again(&mut self, after: Anchor, since: Picoseconds) -> Option<Held> {
        let mean = self.anywhere?;
        let offset = since.saturating_add(self.exponential(mean));
        Some(Held { offset, delay: self.delay(after) })
    }

    fn delay(&mut self, after: Anchor) -> Picoseconds {
        let (least, most) = self.delays;
        let bound = after.longest_delay().min(most);
        self.log_uniform(least.min(bound), bound)
    }

    /// All orders of magnitude are alike, to within a factor of two.
    fn log_uniform(&mut self, least: Picoseconds, most: Picoseconds) -> Picoseconds {
        let (low, high) = (least.0.max(1).ilog2(), most.0.max(1).ilog2());
        let exponent = low + self.random.below(u64::from(high.saturating_sub(low)) + 1) as u32;
        let value = (1u64 << exponent) + self.random.below(1 << exponent);
        Picoseconds(value.clamp(least.0, most.0.max(least.0)))
    }

    /// The logarithm of a random number, linear between powers of two.
    fn exponential(&mut self, mean: Picoseconds) -> Picoseconds {
        let bits = self.random.next() | 1;
        let zeros = bits.leading_zeros();
        let rest = bits.unbounded_shl(zeros + 1) >> 48;
        let thousandths = u64::from(zeros) * 1000 + 1000 - rest * 1000 / (1 << 16);
        Picoseconds((mean.0 / 1000).saturating_mul(thousandths) / 1000 * 693)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(anywhere: Option<Picoseconds>) -> Chance {
        Chance {
            random: Random(1),
            anywhere,
            behind: [0; Anchor::ALL.len()],
            nearby: Picoseconds::from_nanoseconds(5_000),
            delays: (Picoseconds::from_nanoseconds(50), Picoseconds::from_nanoseconds(100_000)),
        }
    }

    #[test]
    fn delays_anywhere_are_as_far_apart_as_asked_on_average() {
        let mut chance = chance(Some(Picoseconds::from_nanoseconds(10_000)));
        let draws = 10_000;
        let total: u64 = (0..draws).filter_map(|_| Some(chance.draw(Anchor::Exit)?.offset.0)).sum();
        let mean = total / draws;
        assert!((9_500_000..10_500_000).contains(&mean), "{mean} ps");
    }

    #[test]
    fn delays_behind_an_anchor_are_near_it_and_within_their_bounds() {
        let mut chance = chance(None);
        chance.behind[Anchor::Exit as usize] = 2;
        assert_eq!(chance.draw(Anchor::Entry), None);
        let drawn: Vec<_> = (0..1000).filter_map(|_| chance.draw(Anchor::Exit)).collect();
        assert!((400..600).contains(&drawn.len()), "one in two: {}", drawn.len());
        for held in drawn {
            assert!(held.offset <= chance.nearby);
            assert!((chance.delays.0..=chance.delays.1).contains(&held.delay), "{held:?}");
        }
    }
}
