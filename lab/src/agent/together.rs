//! Guests that run at once begin their work at once: each says when it is ready, and when all are,
//! each reads a line that says so.

use super::step::times;
use crate::linux::together::READY;
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

/// All guests of a step.
pub(super) struct Together {
    guests: u16,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who looks at the consoles of those that are ready.
    ready: Vec<Thread>,
    /// What the host's processors had spent when all were.
    times: Option<Vec<u64>>,
}

/// One guest among them.
pub(super) struct Part<'t> {
    all: &'t Together,
    is_ready: bool,
    is_told: bool,
}

impl Together {
    pub(super) fn of(guests: u16) -> Self {
        Self { guests, state: Mutex::default() }
    }

    /// What the host's processors had spent when all were ready; None if they never were.
    pub(super) fn began(&self) -> Option<Vec<u64>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).times.clone()
    }

    /// One more is, whose console this thread looks at; the last one wakes all.
    fn add(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ready.push(std::thread::current());
        if state.ready.len() == usize::from(self.guests) {
            state.times = Some(times());
            state.ready.iter().for_each(Thread::unpark);
        }
    }
}

impl<'t> Part<'t> {
    pub(super) fn of(all: &'t Together) -> Self {
        Self { all, is_ready: false, is_told: false }
    }

    /// What to type at the console of a guest that has printed this so far.
    pub(super) fn look(&mut self, printed: &[u8]) -> Vec<u8> {
        if self.is_told {
            return Vec::new();
        }
        if !self.is_ready && printed.windows(READY.len()).any(|part| part == READY.as_bytes()) {
            self.is_ready = true;
            self.all.add();
        }
        if !self.is_ready || self.all.began().is_none() {
            return Vec::new();
        }
        self.is_told = true;
        b"\n".to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_none_before_all_are_ready() {
        let all = Together::of(2);
        let (mut one, mut other) = (Part::of(&all), Part::of(&all));
        let ready = format!("booted\r\n{READY}\r\n");
        for (printed, begun) in [("booted", false), (&ready, false), (&ready, false)] {
            assert_eq!(one.look(printed.as_bytes()), b"");
            assert_eq!(all.began().is_some(), begun);
        }
        assert_eq!(other.look(ready.as_bytes()), b"\n");
        assert_eq!(one.look(ready.as_bytes()), b"\n");
        assert_eq!((one.look(ready.as_bytes()), other.look(b"")), (Vec::new(), Vec::new()));
        assert!(all.began().is_some());
    }
}
