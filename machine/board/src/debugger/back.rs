//! Reverse execution: a run that is the same however it is cut is repeated from a moment of the
//! past, up to where it is wanted.
//!
//! A stretch is repeated at full speed first, in pieces, only to see in which of them something
//! happens that is looked for; then the last such piece an instruction at a time.

use super::machine::DebuggedMachine;
use super::{Backwards, Debuggee, Stop};
use crate::schedule::Limits;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;

/// Instructions that are repeated one at a time before the connection is looked at.
const AT_ONCE: u64 = 20_000;
/// Instructions before the present that are looked at first, one at a time.
const NEAREST: u64 = 2_000;
/// Instructions of a piece.
const PIECE: u64 = 100_000;
/// A piece takes about as long as so many instructions that are repeated one at a time.
const PIECE_TAKES: u64 = 1_000;

/// A search in the past, from the present on.
pub(super) struct Search {
    how: Backwards,
    /// Where it began.
    present: u64,
    /// Where the stretch begins that is being repeated.
    from: u64,
    /// Where it ends: what is looked for lies before.
    end: u64,
    /// Pieces of this stretch in which something happens, and where they end.
    pieces: Vec<(u64, u64)>,
    /// Where the piece ends that is repeated one instruction at a time, if one is.
    closely: Option<u64>,
    /// The last place seen in this piece, why it is one, and what there is to tell.
    found: Option<(u64, Stop, String)>,
    /// Instructions that the processor has done which is to step.
    count: u64,
}

impl DebuggedMachine<'_> {
    /// Goes on with the search that there is, or begins one; `None` if it is not over.
    pub(super) fn search(&mut self, how: Backwards) -> Option<Stop> {
        let mut search = match self.search.take().filter(|search| search.how == how) {
            Some(search) => search,
            None => self.begin_search(how),
        };
        let mut left = AT_ONCE;
        while left > 0 {
            let now = self.machine.instructions();
            let stop = match search.closely {
                Some(end) if now < end => self.look(&mut search, now),
                None if now < search.end => {
                    left = left.saturating_sub(PIECE_TAKES);
                    self.pass_piece(&mut search, now);
                    None
                }
                _ => self.turn_back(&mut search),
            };
            if stop.is_some() {
                return stop;
            }
            left = left.saturating_sub(1);
        }
        self.search = Some(search);
        None
    }

    fn begin_search(&self, how: Backwards) -> Search {
        let now = self.machine.instructions();
        let count = match how {
            Backwards::Step(cpu) => self.count(cpu),
            Backwards::Continue => 0,
        };
        let (pieces, closely, found) = (Vec::new(), Some(now), None);
        Search { how, present: now, from: now, end: now, pieces, closely, found, count }
    }

    /// Repeats one instruction.
    fn look(&mut self, search: &mut Search, now: u64) -> Option<Stop> {
        match search.how {
            Backwards::Continue => {
                let (before, counts) = (self.word(), self.counts());
                self.set_stops(true);
                let mut stop = self.execute_one(None);
                let mut found = None;
                if let Some(Stop::Execute { .. }) = stop {
                    found = stop;
                    self.set_stops(false);
                    stop = self.execute_one(None);
                }
                self.set_stops(false);
                let words = self.take_words();
                let is_sought =
                    |stop: &Stop| matches!(stop, Stop::Watch { .. } | Stop::Event { .. });
                let changed = (self.word() != before).then(|| self.changed(&counts));
                if let Some(stop) = stop.filter(is_sought).or(changed).or(found) {
                    search.found = Some((now, stop, words));
                }
                None
            }
            Backwards::Step(cpu) => {
                self.execute_one(None);
                let is_it = self.count(cpu) >= search.count;
                is_it.then(|| self.arrive((now, Stop::Stepped { cpu }, String::new())))
            }
        }
    }

    /// Repeats a piece and keeps it if what is looked for may be in it.
    fn pass_piece(&mut self, search: &mut Search, now: u64) {
        let end = search.end.min(now + PIECE);
        let may_hold = match search.how {
            Backwards::Continue => {
                self.hear_from(self.records());
                self.take_seen();
                let before = self.word();
                self.run_to(end);
                self.take_seen() || self.word() != before
            }
            Backwards::Step(cpu) => {
                let is_before = self.count(cpu) < search.count;
                self.run_to(end);
                is_before && self.count(cpu) >= search.count
            }
        };
        if may_hold {
            search.pieces.push((now, end));
        }
    }

    /// At the end of a stretch or piece: what was found, the piece before, or the stretch before.
    fn turn_back(&mut self, search: &mut Search) -> Option<Stop> {
        if let Some(found) = search.found.take() {
            return Some(self.arrive(found));
        }
        let Some((start, end)) = search.pieces.pop() else { return self.begin_stretch(search) };
        self.go_to(start);
        search.closely = Some(end);
        None
    }

    /// Goes to where the stretch before begins; the beginning of the past if there is none.
    fn begin_stretch(&mut self, search: &mut Search) -> Option<Stop> {
        let end = search.from;
        let Some(moment) = self.history.before(end) else {
            return Some(self.arrive((end, Stop::Beginning, String::new())));
        };
        let is_first = end == search.present;
        let nearest = if is_first { end.saturating_sub(NEAREST) } else { 0 };
        search.from = moment.max(nearest);
        self.go_to(search.from);
        let is_before = match search.how {
            Backwards::Continue => false,
            Backwards::Step(cpu) => self.count(cpu) >= search.count,
        };
        search.end = if is_before { search.from } else { end };
        search.closely = is_first.then_some(search.end);
        None
    }

    fn arrive(&mut self, (place, stop, words): (u64, Stop, String)) -> Stop {
        self.go_to(place);
        if let Stop::Execute { .. } = stop {
            // Devices may have something to do before the processor comes to the point.
            self.set_stops(true);
            self.execute_one(None);
            self.set_stops(false);
        }
        self.looks.words = words;
        stop
    }

    /// To where so many instructions are done, in the past.
    pub(super) fn go_to(&mut self, instructions: u64) {
        self.history.return_before(instructions + 1, self.machine);
        self.observe();
        self.run_to(instructions);
        self.take_seen();
        self.hear_from(self.records());
        // What was printed has been shown.
        self.machine.take_console();
    }

    pub(super) fn run_to(&mut self, instructions: u64) {
        let limits = Limits { until: Picoseconds::MAX, instructions };
        while self.machine.instructions() < instructions && self.machine.run(limits).is_none() {}
    }

    fn count(&self, cpu: CpuIndex) -> u64 {
        self.machine.state.cpus[usize::from(cpu.0)].clock.instructions()
    }
}
