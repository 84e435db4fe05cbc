//! Undo: memory goes back to a mark at the price of the pages that changed since.
//!
//! A store that takes the fast path asks one word a page whether any of its lines is watched
//! ([`GuestMemory::unwatched_mut`], and translated code the same). While there is a mark, that word
//! is all ones for a page that has not changed, so that the first store to it, and only that,
//! takes the slow way, where the page is saved and gets its own word back. So a mark costs
//! nothing on the fast path, and shows nowhere but in the host's time.

use crate::memory::GuestMemory;
use arch::address::PAGE_SIZE;
use std::collections::BTreeSet;

const PAGE: usize = PAGE_SIZE as usize;
/// The word of a page that is not saved.
const UNSAVED: u64 = !0;

/// A page as it was at the mark.
#[derive(Clone, Copy, Debug)]
struct Saved {
    page: u32,
    generation: u32,
}

/// Pages as they were at a mark that was left, of those that changed before the next.
#[derive(Debug, Default)]
pub struct Before {
    saved: Vec<Saved>,
    /// Beside `saved`: the pages' watched lines at the mark.
    lines: Vec<u64>,
    bytes: Vec<u8>,
}

impl Before {
    /// Bytes that it takes, in about.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// How many pages it takes back.
    pub fn pages(&self) -> usize {
        self.saved.len()
    }

    /// Takes back what changed after the next mark as well: `later` is what leads to that one.
    pub fn extend(&mut self, later: Before) {
        if self.saved.is_empty() {
            *self = later;
            return;
        }
        let known: BTreeSet<u32> = self.saved.iter().map(|saved| saved.page).collect();
        let pages = later.saved.iter().zip(&later.lines).zip(later.bytes.chunks_exact(PAGE));
        for ((saved, lines), bytes) in pages {
            if !known.contains(&saved.page) {
                self.saved.push(*saved);
                self.lines.push(*lines);
                self.bytes.extend_from_slice(bytes);
            }
        }
    }
}

/// What takes memory back. Its buffers stay from one return to the next.
#[derive(Debug)]
pub(crate) struct Undo {
    /// By page: whether its bytes are saved.
    is_saved: Vec<bool>,
    /// By page: its watched lines at the mark.
    lines: Vec<u64>,
    saved: Vec<Saved>,
    /// The bytes of the pages in `saved`.
    bytes: Vec<u8>,
}

impl Undo {
    pub(crate) fn is_unsaved(&self, page: usize) -> bool {
        !self.is_saved[page]
    }

    pub(crate) fn lines_of(&self, page: usize) -> u64 {
        self.lines[page]
    }
}

impl GuestMemory {
    /// From here on memory can go back to how it is now. A mark before is forgotten.
    pub fn mark(&mut self) {
        self.forget_mark();
        let pages = self.watched_lines.len();
        let lines = std::mem::replace(&mut self.watched_lines, vec![UNSAVED; pages]);
        self.watches.change();
        self.undo = Some(Box::new(Undo {
            is_saved: vec![false; pages],
            lines,
            saved: Vec::new(),
            bytes: Vec::new(),
        }));
        self.update_recorded();
    }

    /// Memory stays as it is.
    pub fn forget_mark(&mut self) {
        self.leave_mark();
    }

    /// Memory stays as it is; what [`GuestMemory::put_back`] takes to the mark nevertheless.
    pub fn leave_mark(&mut self) -> Before {
        let Some(mut undo) = self.undo.take() else { return Before::default() };
        self.update_recorded();
        let mut lines = Vec::with_capacity(undo.saved.len());
        for saved in &undo.saved {
            let page = saved.page as usize;
            lines.push(std::mem::replace(&mut undo.lines[page], self.watched_lines[page]));
        }
        self.watched_lines = undo.lines;
        self.watches.change();
        Before { saved: undo.saved, lines, bytes: std::mem::take(&mut undo.bytes) }
    }

    /// Goes back from the next mark to the one that was left, while there is none. Watched lines
    /// are as they were, too: a write to one ends a turn, and that it must do again.
    pub fn put_back(&mut self, before: &Before) {
        let pages = before.saved.iter().zip(&before.lines).zip(before.bytes.chunks_exact(PAGE));
        let mut is_code_gone = false;
        for ((saved, lines), bytes) in pages {
            let page = saved.page as usize;
            self.ram[page * PAGE..][..PAGE].copy_from_slice(bytes);
            is_code_gone |= self.forget_code_since(saved, *lines);
            self.watched_lines[page] = *lines;
        }
        self.watches.change();
        self.watched_writes += u64::from(is_code_gone);
    }

    /// Goes back to the mark, which stays; answers how many pages had changed. Code that was
    /// decoded from a page whose code or watched lines changed since is forgotten.
    pub fn return_to_mark(&mut self) -> usize {
        let Some(mut undo) = self.undo.take() else { return 0 };
        let mut is_code_gone = false;
        for (saved, bytes) in undo.saved.iter().zip(undo.bytes.chunks_exact(PAGE)) {
            let page = saved.page as usize;
            self.ram[page * PAGE..][..PAGE].copy_from_slice(bytes);
            is_code_gone |= self.forget_code_since(saved, undo.lines[page]);
            self.watched_lines[page] = UNSAVED;
            undo.is_saved[page] = false;
        }
        self.watches.change();
        self.watched_writes += u64::from(is_code_gone);
        let changed = undo.saved.len();
        undo.saved.clear();
        undo.bytes.clear();
        self.undo = Some(undo);
        changed
    }

    /// Forgets what was decoded from a page, if its code or its watched lines changed since the
    /// mark at which it was saved and had these.
    fn forget_code_since(&mut self, saved: &Saved, lines: u64) -> bool {
        let page = saved.page as usize;
        let generation = self.generations[page];
        let is_same = self.watched_lines[page] == lines && generation == saved.generation;
        if !is_same {
            // Never a number that a block of this page has had.
            self.generations[page] = generation.saturating_add(1);
        }
        !is_same
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn save_pages(&mut self, offset: usize, length: usize) {
        let Some(undo) = &mut self.undo else { return };
        for page in offset / PAGE..(offset + length).div_ceil(PAGE).min(undo.is_saved.len()) {
            if std::mem::replace(&mut undo.is_saved[page], true) {
                continue;
            }
            undo.saved.push(Saved { page: page as u32, generation: self.generations[page] });
            undo.bytes.extend_from_slice(&self.ram[page * PAGE..][..PAGE]);
            self.watched_lines[page] = undo.lines[page];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::SystemPhysical;

    /// Bytes, watched lines as everybody sees them.
    fn seen(memory: &GuestMemory) -> (Vec<u8>, Vec<u64>) {
        let pages = memory.ram.len() / PAGE;
        (memory.ram.clone(), (0..pages).map(|page| memory.lines_of(page)).collect())
    }

    #[test]
    fn memory_goes_back_to_its_mark_as_often_as_asked() {
        let mut memory = GuestMemory::new(1 << 16);
        memory.write(SystemPhysical(0x1FFC), &[7; 8]).expect("RAM");
        memory.watch(0x3000, 64);
        let before = seen(&memory);
        memory.mark();
        assert_eq!(seen(&memory), before, "a mark shows nowhere");
        assert!(memory.unwatched_mut(0x5000, 1).is_none(), "the first store takes the slow way");
        for round in 1..4 {
            memory.write(SystemPhysical(0x1FFE), &[round; 4]).expect("RAM");
            memory.ram_mut(0x5000, 1).expect("RAM")[0] = round;
            memory.unwatched_mut(0x5001, 1).expect("a page that is saved")[0] = round;
            memory.write(SystemPhysical(0x3000), &[round]).expect("RAM");
            memory.watch(0x4000, 8);
            assert_eq!(memory.return_to_mark(), 5);
            assert_eq!(seen(&memory), before);
        }
        memory.write(SystemPhysical(0x3040), &[1]).expect("RAM");
        let after = seen(&memory);
        memory.forget_mark();
        assert_eq!((seen(&memory), memory.return_to_mark()), (after, 0), "it stays as it is");
    }

    #[test]
    fn memory_goes_back_over_marks_that_were_left() {
        let mut memory = GuestMemory::new(1 << 16);
        memory.mark();
        let mut chain = Vec::new();
        for round in 1..5u8 {
            let page = u64::from(round % 3) << 12;
            let (before, watched) = (seen(&memory), memory.watched_writes);
            memory.watch(page as usize, 64);
            memory.write(SystemPhysical(page + 0x10), &[round]).expect("RAM");
            assert_eq!(memory.watched_writes, watched + 1, "decoded code is noticed");
            chain.push((before, memory.leave_mark()));
            memory.mark();
        }
        memory.write(SystemPhysical(0x5000), &[9]).expect("RAM");
        memory.return_to_mark();
        memory.forget_mark();
        for (state, before) in chain.iter().rev() {
            let generations = memory.generations.clone();
            memory.put_back(before);
            assert!(seen(&memory) == *state, "bytes and watched lines");
            assert_ne!(memory.generations, generations, "decoded code is forgotten");
        }
        assert_eq!(memory.ram, vec![0; 1 << 16]);
        // Data beside code that stays.
        memory.watch(0x1000, 64);
        let generations = memory.generations.clone();
        memory.mark();
        memory.write(SystemPhysical(0x1800), &[1]).expect("RAM");
        let before = memory.leave_mark();
        memory.put_back(&before);
        assert_eq!((memory.ram[0x1800], memory.generations), (0, generations));
    }

    #[test]
    fn what_leads_over_two_marks_leads_over_both_at_once() {
        let mut memory = GuestMemory::new(1 << 16);
        let first = memory.ram.clone();
        memory.mark();
        memory.write(SystemPhysical(0x1000), &[1]).expect("RAM");
        memory.write(SystemPhysical(0x2000), &[1]).expect("RAM");
        let mut before = memory.leave_mark();
        memory.mark();
        memory.write(SystemPhysical(0x2000), &[2]).expect("RAM");
        memory.write(SystemPhysical(0x3000), &[2]).expect("RAM");
        before.extend(memory.leave_mark());
        assert_eq!(before.pages(), 3);
        memory.put_back(&before);
        assert!(memory.ram == first);
    }

    #[test]
    fn code_that_was_decoded_since_the_mark_is_forgotten_and_other_code_is_not() {
        let mut memory = GuestMemory::new(1 << 16);
        memory.watch(0x1000, 64);
        memory.watch(0x2000, 64);
        memory.mark();
        let at_mark = memory.generations.clone();
        memory.write(SystemPhysical(0x1040), &[1]).expect("RAM");
        memory.write(SystemPhysical(0x2000), &[1]).expect("RAM");
        memory.watch(0x3000, 64);
        let in_window = memory.generations.clone();
        memory.return_to_mark();
        assert_eq!(memory.generations[1], at_mark[1], "data beside code");
        for page in [2, 3] {
            let now = memory.generations[page];
            assert!(now != at_mark[page] && now != in_window[page], "page {page}");
        }
    }
}
