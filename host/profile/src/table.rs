//! A hash table that iterates in the order of insertion, so that results do not depend on
//! addresses or seeds. Keys are small and come from a recording; lookups are the hot path.

/// A key that brings its own hash, since a general one costs more than the rest of an event.
pub trait HashKey: Copy + Eq {
    fn hash(&self) -> u64;
}

/// Fibonacci multiplier: spreads low bits over the high half of the product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes one word; the upper half of the result is well mixed.
pub const fn mix(word: u64) -> u64 {
    let product = word.wrapping_mul(SPREAD);
    product ^ product >> 29
}

impl HashKey for u32 {
    fn hash(&self) -> u64 {
        mix(u64::from(*self))
    }
}

/// Open addressing over indices into a vector of entries.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    entries: Vec<(K, V)>,
    /// Index into `entries` plus one; zero is a free slot. The length is a power of two.
    slots: Vec<u32>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), slots: vec![0; 64] }
    }
}

impl<K: HashKey, V> Table<K, V> {
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }

    /// The position of a key's entry, which stays valid for the table's life.
    #[inline]
    pub fn position(&mut self, key: K, make: impl FnOnce() -> V) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (key.hash() >> 32) as usize & mask;
        // Bounded: at most half of the slots are taken, so a free one is met.
        loop {
            match self.slots[slot] {
                0 => return self.insert(slot, key, make()),
                index if self.entries[index as usize - 1].0 == key => return index as usize - 1,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    #[inline]
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let position = self.position(key, make);
        &mut self.entries[position].1
    }

    #[inline]
    pub fn at(&mut self, position: usize) -> &mut (K, V) {
        &mut self.entries[position]
    }

    #[cold]
    fn insert(&mut self, slot: usize, key: K, value: V) -> usize {
        self.entries.push((key, value));
        self.slots[slot] = self.entries.len() as u32;
        if self.entries.len() * 3 > self.slots.len() {
            self.grow();
        }
        self.entries.len() - 1
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for (index, (key, _)) in self.entries.iter().enumerate() {
            let mut slot = (key.hash() >> 32) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = index as u32 + 1;
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_order_and_are_found_again() {
        let mut table = Table::<u32, u32>::default();
        for round in 0..2 {
            for key in (0..5000).map(|n: u32| n.wrapping_mul(0x0100_0001)) {
                *table.entry(key, || 0) += round;
            }
        }
        let entries = table.into_entries();
        assert_eq!(entries.len(), 5000);
        assert!(entries.iter().all(|entry| entry.1 == 1));
        assert_eq!(entries[3].0, 3 * 0x0100_0001);
    }
}
