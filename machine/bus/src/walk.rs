//! Page tables: one walk over entries of any format.
//!
//! What differs between paging of the processor, nested paging and an IOMMU's tables is a
//! [`Format`]; where tables lie and what it takes to reach them are [`Tables`]. The order of checks
//! is the same for all: present, well formed, and what an entry grants counts only together with
//! those above it. [APM2 "Page Translation and Protection"]

/// What the entries of one kind of tables mean. Levels count from 1, which maps 4 KiB.
pub trait Format {
    /// Bytes of an entry: 4 or 8.
    const ENTRY_BYTES: u64;
    /// Bits of the address that each level translates.
    const INDEX_BITS: u32;
    /// Set in entries that a walk has used; zero where there is no such bit.
    fn accessed(&self) -> u64;
    /// The entry maps or leads on; where it does not, all else in it means nothing.
    fn is_present(&self, entry: u64) -> bool;
    /// Above level 1: the entry maps a page instead of naming a table.
    fn is_large(&self, entry: u64, level: u32) -> bool;
    /// A present entry has bits that must not be set.
    fn is_malformed(&self, entry: u64, level: u32, is_leaf: bool) -> bool;
    /// What the entry grants, a bit for each right: the walk grants what all its entries do.
    fn rights(&self, entry: u64) -> u64;
    /// The address of the table that the entry names.
    fn table(&self, entry: u64) -> u64;
}

/// Tables in memory.
pub trait Tables {
    /// Where an entry was found.
    type Place: Copy;
    /// Why one cannot be reached.
    type Error;
    /// The entry of `bytes` bytes at the address `at`, and its place for [`Self::write`].
    fn read(&mut self, at: u64, bytes: u64) -> Result<(Self::Place, u64), Self::Error>;
    /// Whether an entry that was read may be put back.
    fn check_write(&mut self, _place: Self::Place) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Puts back an entry that was read, with more bits set.
    fn write(&mut self, place: Self::Place, entry: u64, bytes: u64);
}

/// The entry that maps the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf<P> {
    /// Where it was found.
    pub place: P,
    /// As it was read: the walk does not set bits of a leaf.
    pub entry: u64,
    /// The page has `1 << page_bits` bytes.
    pub page_bits: u32,
    /// Granted by every entry of the walk.
    pub rights: u64,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// An entry is not present; `rights` is what those above it grant.
    Absent {
        /// A bit for each right.
        rights: u64,
        /// The entry as it was read.
        entry: u64,
    },
    /// An entry has reserved bits set, or a combination that means nothing.
    Malformed,
    /// A table cannot be reached.
    Tables(E),
}

/// Finds the entry that maps `address`, from the table at `table` that has level `level`. Entries
/// above it become accessed; the leaf is the caller's, who knows whether the access is allowed.
#[inline(always)]
pub fn walk<F: Format, T: Tables>(
    format: &F,
    tables: &mut T,
    mut table: u64,
    level: u32,
    address: u64,
) -> Result<Leaf<T::Place>, Failure<T::Error>> {
    let mut rights = u64::MAX;
    let mut level = level;
    loop {
        let page_bits = 12 + F::INDEX_BITS * (level - 1);
        let index = address >> page_bits & ((1 << F::INDEX_BITS) - 1);
        let at = table + index * F::ENTRY_BYTES;
        let (place, entry) = tables.read(at, F::ENTRY_BYTES).map_err(Failure::Tables)?;
        if !format.is_present(entry) {
            return Err(Failure::Absent { rights, entry });
        }
        let is_leaf = level == 1 || format.is_large(entry, level);
        if format.is_malformed(entry, level, is_leaf) {
            return Err(Failure::Malformed);
        }
        rights &= format.rights(entry);
        if is_leaf {
            return Ok(Leaf { place, entry, page_bits, rights });
        }
        if entry & format.accessed() != format.accessed() {
            tables.check_write(place).map_err(Failure::Tables)?;
            tables.write(place, entry | format.accessed(), F::ENTRY_BYTES);
        }
        table = format.table(entry);
        level -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels of 8-byte entries; bit 0 present, bit 1 a right, bit 2 another, bit 5 accessed,
    /// bit 7 large, bit 63 must be zero.
    struct Plain;

    impl Format for Plain {
        const ENTRY_BYTES: u64 = 8;
        const INDEX_BITS: u32 = 9;
        fn accessed(&self) -> u64 {
            0x20
        }
        fn is_present(&self, entry: u64) -> bool {
            entry & 1 != 0
        }
        fn is_large(&self, entry: u64, _: u32) -> bool {
            entry & 0x80 != 0
        }
        fn is_malformed(&self, entry: u64, _: u32, _: bool) -> bool {
            entry >> 63 != 0
        }
        fn rights(&self, entry: u64) -> u64 {
            entry & 6
        }
        fn table(&self, entry: u64) -> u64 {
            entry & 0xF_F000
        }
    }

    /// Entries, and the place of one that is read-only.
    struct Memory(Vec<u64>, usize);

    impl Tables for Memory {
        type Place = usize;
        type Error = u64;
        fn read(&mut self, at: u64, _: u64) -> Result<(usize, u64), u64> {
            let place = (at / 8) as usize;
            self.0.get(place).map(|entry| (place, *entry)).ok_or(at)
        }
        fn check_write(&mut self, place: usize) -> Result<(), u64> {
            if self.1 == place { Err(place as u64) } else { Ok(()) }
        }
        fn write(&mut self, place: usize, entry: u64, _: u64) {
            self.0[place] = entry;
        }
    }

    const ROOT: u64 = 0;
    const TABLE: u64 = 0x1000;
    /// Index 1 in both tables.
    const ADDRESS: u64 = 1 << 21 | 1 << 12;

    fn outcome(upper: u64, lower: u64) -> (Result<(u64, u32), Failure<u64>>, u64, u64) {
        let mut memory = Memory(vec![0; 0x400], usize::MAX);
        memory.0[1] = upper;
        memory.0[0x201] = lower;
        let found = walk(&Plain, &mut memory, ROOT, 2, ADDRESS);
        (found.map(|leaf| (leaf.rights, leaf.page_bits)), memory.0[1], memory.0[0x201])
    }

    #[test]
    fn rights_are_those_that_every_entry_grants_and_only_entries_above_the_leaf_become_accessed() {
        let found = outcome(TABLE | 7, 3);
        assert_eq!(found, (Ok((2, 12)), TABLE | 0x27, 3));
    }

    #[test]
    fn a_large_page_ends_the_walk() {
        assert_eq!(outcome(0x85, 0), (Ok((4, 21)), 0x85, 0));
    }

    #[test]
    fn an_absent_entry_tells_what_those_above_it_grant() {
        assert_eq!(outcome(8, 0).0, Err(Failure::Absent { rights: u64::MAX, entry: 8 }));
        assert_eq!(outcome(TABLE | 3, 0).0, Err(Failure::Absent { rights: 2, entry: 0 }));
    }

    #[test]
    fn a_malformed_entry_is_found_before_its_table_and_does_not_become_accessed() {
        let entry = 1 << 63 | TABLE | 7;
        assert_eq!(outcome(entry, 7), (Err(Failure::Malformed), entry, 7));
    }

    #[test]
    fn a_walk_ends_at_an_entry_that_cannot_become_accessed() {
        let mut memory = Memory(vec![0; 0x400], 1);
        memory.0[1] = TABLE | 7;
        memory.0[0x201] = 7;
        let found = walk(&Plain, &mut memory, ROOT, 2, ADDRESS);
        assert_eq!(found, Err(Failure::Tables(1)));
        memory.0[1] |= 0x20;
        assert!(walk(&Plain, &mut memory, ROOT, 2, ADDRESS).is_ok(), "already accessed");
    }

    #[test]
    fn a_table_out_of_reach_is_the_memorys_error() {
        assert_eq!(outcome(0xF_0000 | 7, 0).0, Err(Failure::Tables(0xF_0008)));
    }
}
