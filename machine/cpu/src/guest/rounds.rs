//! Rounds of a loop that PAUSEs, all alike, and when their PAUSEs are.

use arch::time::Picoseconds;

/// Rounds of a loop, all alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds<'a> {
    /// Picoseconds of one.
    pub time: u64,
    /// When it PAUSEs, from its start, in order.
    pub pauses: &'a [u64],
}

/// How many ticks lie between PAUSEs, at least and at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart(pub u64, pub u64);

impl Apart {
    pub fn of(rounds: Rounds<'_>, hertz: u64) -> Option<Self> {
        let first = *rounds.pauses.first()?;
        let next = rounds.pauses[1..].iter().copied().chain([rounds.time + first]);
        let gaps = rounds.pauses.iter().zip(next).map(|(pause, next)| Picoseconds(next - pause));
        let ticks = gaps.map(|gap| gap.ticks(hertz));
        let (least, most) = ticks.fold((u64::MAX, 0), |(a, b), gap| (a.min(gap), b.max(gap)));
        // Where a tick begins between them there is one more.
        Some(Self(least, most + 1))
    }

    /// Whether all are longer than `ticks`; `None` if some may be and some not.
    pub fn exceeds(self, ticks: u64) -> Option<bool> {
        if self.0 > ticks { Some(true) } else { (self.1 <= ticks).then_some(false) }
    }
}

/// The time stamps of rounds' PAUSEs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps<'a> {
    pub rounds: Rounds<'a>,
    /// When the first round begins.
    pub begins: u64,
    pub hertz: u64,
    /// What is added to the counter.
    pub offset: u64,
}

impl Stamps<'_> {
    /// PAUSEs of a round.
    pub fn each(&self) -> u64 {
        self.rounds.pauses.len() as u64
    }

    /// The time stamp of the last PAUSE of so many rounds.
    pub fn last(&self, count: u64) -> u64 {
        let at_end = self.rounds.pauses.last().copied().unwrap_or(0);
        let at = Picoseconds(self.begins + (count - 1) * self.rounds.time + at_end);
        at.ticks(self.hertz).wrapping_add(self.offset)
    }
}
