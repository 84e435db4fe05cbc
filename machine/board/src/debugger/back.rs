//! Reverse execution: a run that is the same however it is cut is repeated from a moment of the
//! past, up to where it is wanted.

use super::machine::DebuggedMachine;
use super::{Backwards, Stop};
use crate::schedule::Limits;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;

/// Instructions that are repeated one at a time before the connection is looked at.
const AT_ONCE: u32 = 20_000;
/// Instructions before the present that are looked at first.
const NEAREST: u64 = 2_000;
/// How much further back the next look begins.
const FARTHER: u64 = 16;

/// A search in the past, from the present on.
pub(super) struct Search {
    how: Backwards,
    /// Where the stretch begins that is being repeated.
    from: u64,
    /// Where it ends: what is looked for lies before.
    end: u64,
    /// Instructions of the next stretch at most.
    length: u64,
    /// The last place seen in this stretch, and why it is one.
    found: Option<(u64, Stop)>,
    /// Instructions that the processor has done which is to step.
    count: u64,
}

impl DebuggedMachine<'_> {
    /// Goes on with the search that there is, or begins one; `None` if it is not over.
    pub(super) fn search(&mut self, how: Backwards) -> Option<Stop> {
        let mut search = match self.search.take().filter(|search| search.how == how) {
            Some(search) => search,
            None => {
                let now = self.machine.instructions();
                let count = match how {
                    Backwards::Step(cpu) => self.count(cpu),
                    Backwards::Continue => 0,
                };
                Search { how, from: now, end: now, length: NEAREST, found: None, count }
            }
        };
        for _ in 0..AT_ONCE {
            if let Some(stop) = self.look(&mut search) {
                return Some(stop);
            }
        }
        self.search = Some(search);
        None
    }

    /// One instruction of a stretch; at its end, what was found or the stretch before.
    fn look(&mut self, search: &mut Search) -> Option<Stop> {
        let now = self.machine.instructions();
        if now >= search.end {
            return match search.found {
                Some(found) => Some(self.arrive(found)),
                None => self.begin_stretch(search),
            };
        }
        match search.how {
            Backwards::Continue => {
                let point = self.at_point(None);
                let access =
                    self.execute_one(None).filter(|stop| matches!(stop, Stop::Watch { .. }));
                if let Some(stop) = access.or(point) {
                    search.found = Some((now, stop));
                }
                None
            }
            Backwards::Step(cpu) => {
                self.execute_one(None);
                let is_it = self.count(cpu) >= search.count;
                is_it.then(|| self.arrive((now, Stop::Stepped { cpu })))
            }
        }
    }

    /// Goes to where the stretch before begins; the beginning of the past if there is none.
    fn begin_stretch(&mut self, search: &mut Search) -> Option<Stop> {
        let end = search.from;
        let Some(moment) = self.history.before(end) else {
            return Some(self.arrive((end, Stop::Beginning)));
        };
        search.from = moment.max(end.saturating_sub(search.length));
        search.length = search.length.saturating_mul(FARTHER);
        self.go_to(search.from);
        let is_before = match search.how {
            Backwards::Continue => false,
            Backwards::Step(cpu) => self.count(cpu) >= search.count,
        };
        search.end = if is_before { search.from } else { end };
        None
    }

    fn arrive(&mut self, (place, stop): (u64, Stop)) -> Stop {
        self.go_to(place);
        stop
    }

    /// To where so many instructions are done, in the past.
    fn go_to(&mut self, instructions: u64) {
        self.history.return_before(instructions + 1, self.machine);
        let limits = Limits { until: Picoseconds::MAX, instructions };
        while self.machine.instructions() < instructions && self.machine.run(limits).is_none() {}
        // What was printed has been shown.
        self.machine.take_console();
        self.observe();
    }

    fn count(&self, cpu: CpuIndex) -> u64 {
        self.machine.state.cpus[usize::from(cpu.0)].clock.instructions()
    }
}
