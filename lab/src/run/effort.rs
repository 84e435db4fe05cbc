//! What a run takes of its machines.

use crate::drive::session::Session;
use arch::time::Picoseconds;
use trace::TraceHash;

/// What machines took together, or one until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effort {
    /// Executed by all processors.
    pub instructions: u64,
    /// Of the machines.
    pub time: Picoseconds,
    /// Of one machine, of all since its power-on; of several, of theirs.
    pub trace_hash: u64,
}

impl Effort {
    /// Of a session's machine, since its power-on.
    pub fn of(session: &Session) -> Self {
        Self {
            instructions: session.instructions(),
            time: session.virtual_time(),
            trace_hash: session.trace_hash(),
        }
    }

    /// The same without what had been by a moment.
    pub fn since(self, moment: Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(moment.instructions),
            time: Picoseconds(self.time.0.saturating_sub(moment.time.0)),
            ..self
        }
    }

    /// With what else was executed, which is in the hashes already.
    pub fn and(self, others: impl IntoIterator<Item = Self>) -> Self {
        Self { trace_hash: self.trace_hash, ..Self::together(others.into_iter().chain([self])) }
    }

    /// All together: their sums, and a hash of their hashes in this order.
    pub fn together(all: impl IntoIterator<Item = Self>) -> Self {
        let mut hash = TraceHash::default();
        let sum = all.into_iter().fold(Self::default(), |sum, one| {
            hash.word(one.trace_hash);
            Self {
                instructions: sum.instructions.saturating_add(one.instructions),
                time: sum.time.saturating_add(one.time),
                trace_hash: 0,
            }
        });
        Self { trace_hash: hash.value(), ..sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(instructions: u64, time: u64, trace_hash: u64) -> Effort {
        Effort { instructions, time: Picoseconds(time), trace_hash }
    }

    #[test]
    fn efforts_add_up_and_each_of_them_and_their_order_are_in_the_hash() {
        let (one, other) = (effort(3, 50, 7), effort(4, 60, 8));
        let together = Effort::together([one, other]);
        assert_eq!((together.instructions, together.time.0), (7, 110));
        for others in [[other, one], [one, one], [effort(3, 50, 6), other]] {
            assert_ne!(Effort::together(others).trace_hash, together.trace_hash, "{others:?}");
        }
        assert_eq!(other.since(one), effort(1, 10, 8));
    }
}
