//! When each processor next does something, beside the processors themselves: a turn of one then
//! costs no look at all of them, which with hundreds would be most of the work.

use arch::time::Picoseconds;

/// Waits for something that is not on its way yet.
const NEVER: Picoseconds = Picoseconds::MAX;

/// A tree whose every node is the earlier of its two children; the root is node 1, the processors
/// are the leaves. Follows from the machine's state; never part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    nodes: Vec<Picoseconds>,
    /// In MWAIT: a write of another processor may end it.
    is_waiting: Vec<bool>,
    waiting: usize,
    /// The shortest time in which one processor can affect another.
    pub shortest_message: Picoseconds,
    /// `GuestMemory::watched_writes` when the moments of those in MWAIT were last looked at:
    /// without another such write they stay as they are.
    pub refreshed_at: u64,
    /// The same for the lines that they monitor; none if a processor has begun to wait for a line
    /// that had been written already.
    pub looked_at: Option<u64>,
}

impl Moments {
    pub fn clear(&mut self, processors: usize) {
        self.nodes.clear();
        self.nodes.resize(2 * processors.next_power_of_two(), NEVER);
        self.is_waiting.clear();
        self.is_waiting.resize(processors, false);
        self.waiting = 0;
        self.looked_at = None;
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    pub fn set(&mut self, index: usize, moment: Option<Picoseconds>, is_waiting: bool) {
        let Some(waits) = self.is_waiting.get_mut(index) else { return };
        self.waiting = self.waiting - usize::from(*waits) + usize::from(is_waiting);
        *waits = is_waiting;
        let mut node = self.leaves() + index;
        let mut earliest = moment.unwrap_or(NEVER);
        while node > 0 && self.nodes[node] != earliest {
            self.nodes[node] = earliest;
            earliest = earliest.min(self.nodes[(node ^ 1).max(1)]);
            node /= 2;
        }
    }

    /// The processor with the earliest moment, the lowest index first.
    pub fn earliest(&self) -> Option<(usize, Picoseconds)> {
        let at = *self.nodes.get(1).filter(|at| **at != NEVER)?;
        let mut node = 1;
        while node < self.leaves() {
            node = 2 * node + usize::from(self.nodes[2 * node] != at);
        }
        Some((node - self.leaves(), at))
    }

    /// The earliest moment of the others.
    pub fn earliest_but(&self, index: usize) -> Option<Picoseconds> {
        let mut node = self.leaves() + index;
        let mut earliest = NEVER;
        while node > 1 {
            earliest = earliest.min(*self.nodes.get(node ^ 1)?);
            node /= 2;
        }
        (earliest != NEVER).then_some(earliest)
    }

    /// The processors in MWAIT.
    pub fn waiting(&self) -> Vec<usize> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let waits = self.is_waiting.iter().enumerate();
        waits.filter_map(|(index, waits)| waits.then_some(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_the_one_of_lowest_index_among_equals() {
        let mut moments = Moments::default();
        assert_eq!(moments.earliest(), None);
        moments.clear(4);
        assert_eq!(moments.earliest(), None, "nobody has anything to do");
        moments.set(1, Some(Picoseconds(7)), false);
        moments.set(3, Some(Picoseconds(7)), false);
        moments.set(2, Some(Picoseconds(9)), true);
        assert_eq!(moments.earliest(), Some((1, Picoseconds(7))));
        assert_eq!(moments.earliest_but(1), Some(Picoseconds(7)));
        moments.set(3, None, false);
        assert_eq!(moments.earliest_but(1), Some(Picoseconds(9)));
        assert_eq!(moments.waiting(), [2]);
        moments.set(2, None, false);
        assert_eq!(moments.waiting(), [0; 0]);
    }

    #[test]
    fn the_tree_agrees_with_a_look_at_all() {
        for processors in [1, 2, 3, 5, 8, 13] {
            let mut moments = Moments::default();
            moments.clear(processors);
            let mut plain = vec![NEVER; processors];
            let mut random = 1u64;
            for _ in 0..2000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let index = (random >> 33) as usize % processors;
                let moment = (random >> 60 != 0).then_some(Picoseconds(random >> 40 & 15));
                moments.set(index, moment, false);
                plain[index] = moment.unwrap_or(NEVER);
                let all = plain.iter().copied().enumerate().filter(|(_, at)| *at != NEVER);
                assert_eq!(moments.earliest(), all.clone().min_by_key(|(index, at)| (*at, *index)));
                let others = all.filter(|(other, _)| *other != index).map(|(_, at)| at).min();
                assert_eq!(moments.earliest_but(index), others, "{processors} {plain:?}");
            }
        }
    }
}
