//! Where a processor was at a moment, said by what it had done last.

use arch::time::Picoseconds;
use board::perturb::Anchor;
use trace::Record;

/// A place in what a processor does, as a decision names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// What it had done last.
    pub after: Anchor,
    /// The how-manieth of such it was.
    pub count: u32,
    /// How long before.
    pub offset: Picoseconds,
}

/// What a processor did last.
#[derive(Clone, Copy, Default)]
pub(super) struct Last {
    counts: [u32; Anchor::ALL.len()],
    last: Option<(Anchor, Picoseconds)>,
}

impl Last {
    /// Takes note of a record of its own.
    pub fn note(&mut self, record: &Record) {
        if let Some(anchor) = Anchor::of(&record.event) {
            self.counts[anchor as usize] += 1;
            self.last = Some((anchor, record.at));
        }
    }

    /// A moment of its, in a window that began at `begins`.
    pub fn spot(&self, at: Picoseconds, begins: Picoseconds) -> Spot {
        let (after, since) = self.last.unwrap_or((Anchor::Start, begins));
        let offset = Picoseconds(at.0.saturating_sub(since.0));
        Spot { after, count: self.counts[after as usize], offset }
    }
}
