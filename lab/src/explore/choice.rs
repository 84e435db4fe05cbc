//! What a window tries: how its delays are drawn.

use arch::time::Picoseconds;
use board::perturb::{Anchor, Chance, Source};
use bus::Random;
use serde::{Deserialize, Serialize};

/// Anchors around which hypervisors and silicon decide what both see.
const BEHIND: [Anchor; 8] = [
    Anchor::Exit,
    Anchor::Halt,
    Anchor::Wake,
    Anchor::Interrupt,
    Anchor::Arrival,
    Anchor::Send,
    Anchor::Post,
    Anchor::Entry,
];
const SHORTEST: Picoseconds = Picoseconds::from_nanoseconds(50);

/// How delays are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// None: time goes on.
    Plain,
    /// Anywhere in the code of any processor, at a rate that fits a window.
    Random,
    /// Behind what silicon does, near it. Each window draws what it delays, how often, how
    /// near, and for how long.
    Directed,
    /// From what windows of the same moment decided that showed a new order of two events:
    /// [`super::guide`].
    Guided,
    /// Around accesses of the hypervisor's to memory that two processors share:
    /// [`super::conflict`].
    Conflict,
}

impl Strategy {
    /// In the order in which tables have them.
    pub const ALL: [Self; 5] =
        [Self::Plain, Self::Random, Self::Directed, Self::Guided, Self::Conflict];

    /// For readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Random => "random",
            Self::Directed => "directed",
            Self::Guided => "guided",
            Self::Conflict => "conflict",
        }
    }

    /// Who decides in the window of this seed, if nothing is known of others.
    pub fn source(self, seed: u64) -> Source {
        let mut random = Random(seed);
        // Numbers of windows are close together; the generator makes them far apart.
        random.next();
        match self {
            Self::Plain => Source::Plan(Vec::new()),
            Self::Random => {
                let mean = micros(random.pick(&[2, 5, 10, 20, 50, 100]));
                let longest = micros(random.pick(&[1, 5, 20, 100]));
                let mut chance = chance(random, longest);
                chance.anywhere = Some(mean);
                Source::Chance(Box::new(chance))
            }
            Self::Directed | Self::Guided | Self::Conflict => directed(random),
        }
    }
}

fn directed(mut random: Random) -> Source {
    // Short ones move events past each other, long ones whole changes of the host's.
    let longest = micros(random.pick(&[1, 5, 20, 100, 100]));
    let nearby =
        Picoseconds::from_nanoseconds(random.pick(&[200, 500, 1_000, 2_000, 5_000, 20_000]));
    let one_in = random.pick(&[1, 2, 4, 8, 16]);
    let mut behind = [0; Anchor::ALL.len()];
    for anchor in BEHIND {
        if random.one_in(3) {
            behind[anchor as usize] = one_in;
        }
    }
    let anywhere = random.one_in(4).then(|| micros(random.pick(&[5, 20, 50])));
    let mut chance = chance(random, longest);
    (chance.behind, chance.nearby, chance.anywhere) = (behind, nearby, anywhere);
    Source::Chance(Box::new(chance))
}

fn chance(random: Random, longest: Picoseconds) -> Chance {
    Chance {
        random,
        anywhere: None,
        behind: [0; Anchor::ALL.len()],
        nearby: Picoseconds::ZERO,
        delays: (SHORTEST, longest),
    }
}

const fn micros(time: u64) -> Picoseconds {
    Picoseconds::from_nanoseconds(time * 1000)
}
