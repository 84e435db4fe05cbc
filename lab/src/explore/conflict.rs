//! Where two threads meet in memory: of the plain run of a moment, each access of the hypervisor's
//! to a word that another processor accesses soon after, in another thread, one of the two a write.
//! A delay before the first has the two change places; one right behind it lets the second, and
//! what comes with it, in before anything that the first one's processor does next; with another
//! right behind the second, that one's processor goes on with what it found when it is no longer
//! so.
//!
//! Instructions that meet often meet in the same way most times, so what is drawn first is a class,
//! each as likely as any other, and then one of its meetings. A class is two instructions and what
//! they found, as far as that is a small number: a flag that is set is another than one that is
//! not. What takes two delays takes them close together, so others from around one are drawn with
//! it.

use super::spot::{Last, Spot};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::perturb::{Decision, Source};
use bus::Random;
use cpu::Touch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace::Record;

/// Nobody is held for longer.
const FAR: Picoseconds = Picoseconds::from_nanoseconds(99_000);
/// What is drawn with another is at most so far from it.
const NEAR: Picoseconds = Picoseconds::from_nanoseconds(20_000);
/// Beyond what lets the second pass, one of these is added.
const BEYOND_NS: [u64; 5] = [50, 100, 300, 1_000, 5_000];
/// Who knows what was there before goes on so long after it has changed.
const STALE_NS: [u64; 4] = [500, 2_000, 8_000, 30_000];
/// Right behind an access is any moment after its instruction began.
const BEHIND: Picoseconds = Picoseconds(1);
/// Accesses of others behind one that are looked at.
const FOLLOWERS: usize = 8;
/// A value from here on says nothing that is worth a class of its own.
const STATES: u64 = 4;
/// The code of an access that no instruction made.
const SILICON: u64 = 0;
/// The size in bytes of a thread's stack, which begins at a multiple of it (Linux on x86-64).
const STACK: u64 = 0x4000;

/// An access by a processor.
#[derive(Clone, Copy, Debug)]
struct Access {
    cpu: CpuIndex,
    touch: Touch,
    spot: Spot,
}

/// Two accesses that could have come in the other order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conflict {
    /// Of the first.
    at: Picoseconds,
    first: (CpuIndex, Spot),
    second: (CpuIndex, Spot),
    /// From the first to the second.
    gap: Picoseconds,
}

/// How two accesses come otherwise than they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The second is first.
    Swapped,
    /// The second is right behind the first, before all that the first one's processor does next.
    Between,
    /// The second is first, and its processor goes on when the first is past.
    Stale,
}

/// What a moment has of them.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// By what the two are.
    classes: Vec<Vec<Conflict>>,
    /// In order of time, with the class of each.
    all: Vec<(usize, Conflict)>,
}

/// What a run was seen to do.
pub(super) struct Study {
    pub begins: Picoseconds,
    /// In order of time, by processor.
    pub records: Vec<Record>,
    /// By processor, each in order of time: the hypervisor's accesses, and the silicon's.
    pub touches: Vec<(CpuIndex, Vec<Touch>)>,
}

/// The pages that the hypervisor uses beside its threads' stacks, in order.
pub(super) fn data(study: &Study) -> Vec<Range<u64>> {
    let touches = study.touches.iter().flat_map(|(_, touches)| touches);
    let shared =
        touches.filter(|one| one.rip.0 != SILICON && one.linear.0 / STACK != one.stack.0 / STACK);
    let pages: BTreeSet<u64> = shared.map(|one| one.linear.0 & !0xFFF).collect();
    pages.into_iter().map(|page| page..page + 0x1000).collect()
}

impl Conflicts {
    pub fn of(study: &Study) -> Self {
        let mut words: BTreeMap<u64, Vec<Access>> = BTreeMap::new();
        for access in accesses(study) {
            words.entry(access.touch.place / 8).or_default().push(access);
        }
        let mut classes: BTreeMap<[(u64, u64); 2], Vec<Conflict>> = BTreeMap::new();
        for mut accesses in words.into_values() {
            accesses.sort_by_key(|access| access.touch.at);
            let accesses = ends_of_turns(&accesses);
            for (at, first) in accesses.iter().enumerate() {
                for second in followers(first, &accesses[at + 1..]) {
                    let class = [kind(&first.touch), kind(&second.touch)];
                    classes.entry(class).or_default().push(Conflict::of(first, second));
                }
            }
        }
        let classes: Vec<_> = classes.into_values().collect();
        let of_class = |(class, conflicts): (usize, &Vec<Conflict>)| {
            conflicts.iter().map(|one| (class, *one)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = classes.iter().enumerate().flat_map(of_class).collect();
        all.sort_by_key(|(class, conflict)| (conflict.at, *class));
        Self { classes, all }
    }

    /// What the next window decides; nothing if nobody meets.
    pub fn propose(&self, seed: u64) -> Option<Source> {
        if self.classes.is_empty() {
            return None;
        }
        let mut random = Random(seed);
        random.next();
        let mut decisions = Vec::new();
        for _ in 0..random.pick(&[1, 1, 2, 4, 8]) {
            let first = any(&self.classes, &mut random);
            first.decide(&mut random, &mut decisions);
            let around = self.around(first.at);
            for _ in 0..random.pick(&[0, 0, 1, 1, 2]) {
                any(&around, &mut random).decide(&mut random, &mut decisions);
            }
        }
        Some(Source::Plan(decisions))
    }

    /// What meets near a moment, by class.
    fn around(&self, at: Picoseconds) -> Vec<Vec<Conflict>> {
        let (from, to) = (at.0.saturating_sub(NEAR.0), at.0.saturating_add(NEAR.0));
        let first = self.all.partition_point(|(_, one)| one.at.0 < from);
        let near = self.all[first..].iter().take_while(|(_, one)| one.at.0 <= to);
        let mut classes: BTreeMap<usize, Vec<Conflict>> = BTreeMap::new();
        near.for_each(|(class, one)| classes.entry(*class).or_default().push(*one));
        classes.into_values().collect()
    }
}

/// One of any class; there is one.
fn any(classes: &[Vec<Conflict>], random: &mut Random) -> Conflict {
    let class = &classes[random.below(classes.len() as u64) as usize];
    random.pick(class)
}

impl Conflict {
    fn of(first: &Access, second: &Access) -> Self {
        let at = first.touch.at;
        Self {
            at,
            first: (first.cpu, first.spot),
            second: (second.cpu, second.spot),
            gap: Picoseconds(second.touch.at.0 - at.0),
        }
    }

    /// Adds what makes the two come otherwise.
    fn decide(&self, random: &mut Random, decisions: &mut Vec<Decision>) {
        let beyond = Picoseconds::from_nanoseconds(random.pick(&BEYOND_NS));
        let until_past = self.gap.saturating_add(beyond);
        let order = random.pick(&[Order::Swapped, Order::Between, Order::Stale]);
        decisions.push(match order {
            Order::Between => hold(self.first, BEHIND, until_past),
            Order::Swapped | Order::Stale => hold(self.first, Picoseconds::ZERO, until_past),
        });
        if order == Order::Stale {
            let stale =
                beyond.saturating_add(Picoseconds::from_nanoseconds(random.pick(&STALE_NS)));
            decisions.push(hold(self.second, BEHIND, stale));
        }
    }
}

/// A decision at a place, or so long after.
fn hold((cpu, spot): (CpuIndex, Spot), later: Picoseconds, delay: Picoseconds) -> Decision {
    let Spot { after, count, offset } = spot;
    let (offset, delay) = (offset.saturating_add(later), delay.min(after.longest_delay()));
    Decision { cpu, after, count, offset, delay }
}

/// What tells an access from others: its instruction, and a flag or a state that it found.
fn kind(touch: &Touch) -> (u64, u64) {
    (touch.rip.0, touch.found.min(STATES))
}

/// Of what a processor does to a word before another does something, who polls does the same again
/// and again: the first and the last of each kind.
fn ends_of_turns(accesses: &[Access]) -> Vec<Access> {
    let mut kept = Vec::new();
    for turn in accesses.chunk_by(|one, next| one.cpu == next.cpu) {
        let mut ends: BTreeMap<(u64, u64), (usize, usize)> = BTreeMap::new();
        for (at, access) in turn.iter().enumerate() {
            ends.entry(kind(&access.touch)).or_insert((at, at)).1 = at;
        }
        let places: BTreeSet<usize> = ends.into_values().flat_map(|(a, b)| [a, b]).collect();
        kept.extend(places.into_iter().map(|at| turn[at]));
    }
    kept
}

/// The accesses behind one that conflict with it, of others and soon.
fn followers<'a>(first: &Access, behind: &'a [Access]) -> impl Iterator<Item = &'a Access> {
    let (first, last) = (*first, first.touch.at.saturating_add(FAR));
    let near = behind.iter().take_while(move |access| access.touch.at <= last);
    let is_another = move |access: &&Access| {
        access.cpu != first.cpu && access.touch.stack.0 / STACK != first.touch.stack.0 / STACK
    };
    let others = near.filter(is_another).take(FOLLOWERS);
    others.filter(move |access| {
        (access.touch.is_write || first.touch.is_write)
            && (access.touch.rip.0 != SILICON || first.touch.rip.0 != SILICON)
    })
}

/// Each access with where its processor was.
fn accesses(study: &Study) -> Vec<Access> {
    let mut all = Vec::new();
    for (cpu, touches) in &study.touches {
        let mut last = Last::default();
        let mut records = study.records.iter().filter(|record| record.cpu == *cpu).peekable();
        for touch in touches {
            while let Some(record) = records.next_if(|record| record.at <= touch.at) {
                last.note(record);
            }
            let spot = last.spot(touch.at, study.begins);
            all.push(Access { cpu: *cpu, touch: *touch, spot });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::Linear;
    use board::perturb::Anchor;
    use trace::Event;

    const NS: u64 = 1000;

    fn touch(at: u64, rip: u64, place: u64, is_write: bool) -> Touch {
        let (at, rip, stack) = (Picoseconds(at * NS), Linear(rip), Linear(rip * STACK));
        Touch { at, rip, stack, linear: Linear(place), place, found: 0, is_write }
    }

    /// CPU 0 halts at 10 ns and touches memory, so does CPU 1.
    fn conflicts(own: Vec<Touch>, others: Vec<Touch>) -> Conflicts {
        let event = Event::Halt { rip: Linear(0) };
        let record = Record { at: Picoseconds(10 * NS), cpu: CpuIndex(0), event };
        Conflicts::of(&Study {
            begins: Picoseconds::ZERO,
            records: vec![record],
            touches: vec![(CpuIndex(0), own), (CpuIndex(1), others)],
        })
    }

    #[test]
    fn either_of_two_is_held_so_that_they_come_otherwise() {
        let read = touch(40, 1, 0x1000, false);
        let conflicts = conflicts(vec![read], vec![touch(90, 2, 0x1004, true)]);
        let mut places = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let Some(Source::Plan(decisions)) = conflicts.propose(seed) else { panic!("no plan") };
            for one in decisions {
                assert!(one.delay > Picoseconds(50 * NS), "{one}");
                places.insert((one.cpu.0, one.after, one.count, one.offset.0));
            }
        }
        let places: Vec<_> = places.into_iter().collect();
        let (halt, start) = (Anchor::Halt, Anchor::Start);
        let first = [(0, halt, 1, 30 * NS), (0, halt, 1, 30 * NS + 1)];
        assert_eq!(places, [first[0], first[1], (1, start, 0, 90 * NS + 1)]);
    }

    #[test]
    fn two_reads_other_words_and_what_is_far_apart_are_no_conflict() {
        let read = touch(40, 1, 0x1000, false);
        for other in [
            touch(90, 2, 0x1000, false),
            touch(90, 2, 0x1008, true),
            touch(90 + FAR.0 / NS, 2, 0x1000, true),
        ] {
            assert!(conflicts(vec![read], vec![other]).propose(1).is_none(), "{other:?}");
        }
        let write = touch(40, 1, 0x1000, true);
        assert!(conflicts(vec![read, write], vec![]).propose(1).is_none(), "nobody else");
        let moved = Touch { stack: Linear(write.stack.0 + 8), ..touch(90, 2, 0x1000, true) };
        assert!(conflicts(vec![write], vec![moved]).propose(1).is_none(), "the same thread");
    }

    #[test]
    fn what_meets_often_is_drawn_as_often_as_what_meets_once() {
        let busy = |rip| (0..100).map(move |at| touch(20 + 10 * at, rip, 0x1000, true));
        let rare = touch(5_000, 7, 0x2000, false);
        let own = busy(1).chain([rare]).collect();
        let others = busy(2).map(|one| Touch { at: Picoseconds(one.at.0 + 1), ..one });
        let last = touch(5_500, 8, 0x2000, true);
        let conflicts = conflicts(own, others.chain([last]).collect());
        let drawn = (0..300).flat_map(|seed| match conflicts.propose(seed) {
            Some(Source::Plan(decisions)) => decisions,
            _ => panic!("no plan"),
        });
        let (mut all, mut rare) = (0, 0);
        for one in drawn {
            all += 1;
            rare += u32::from(one.offset.0 > 4_000 * NS);
        }
        assert!(rare > all / 4 && rare < all / 2, "one class of three: {rare} of {all}");
    }

    #[test]
    fn what_is_drawn_with_another_is_near_it() {
        let far = |at| [20, 20_000, 40_000, 60_000].map(|n: u64| n + at);
        let own = far(0).map(|at| touch(at, 1 + at, 0x1000 + 8 * at, true));
        let others = far(100).map(|at| touch(at, 2 + at, 0x1000 + 8 * (at - 100), true));
        let conflicts = conflicts(own.to_vec(), others.to_vec());
        let around = conflicts.around(Picoseconds(30_000 * NS));
        let at: Vec<_> = around.iter().flatten().map(|one| one.at.0 / NS).collect();
        assert_eq!(at, [20_000, 40_000]);
    }

    #[test]
    fn of_who_polls_the_first_and_the_last_read_count() {
        let polls = (0..1000).map(|at| touch(100 + at, 1, 0x1000, false)).collect();
        let writes = [50, 600, 5_000].map(|at| touch(at, 2, 0x1000, true));
        let conflicts = conflicts(polls, writes.to_vec());
        let firsts: Vec<_> = conflicts.all.iter().map(|(_, one)| one.at.0 / NS).collect();
        // Both ends of the two stretches of reads, and the writes around them.
        assert_eq!(firsts, [50, 50, 50, 50, 100, 100, 600, 600, 600, 600, 601, 1_099]);
    }
}
