//! The abstract machine of x86-TSO, explored whole: what a test may come to. It shares nothing with
//! the emulated machine.

use crate::test::{Outcome, Step, Test, VARIABLES};
use std::collections::{BTreeSet, HashSet, VecDeque};

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    done: [usize; 4],
    buffers: [VecDeque<(usize, u32)>; 4],
    outcome: Outcome,
}

/// All outcomes: of x86-TSO, or of sequential consistency if nothing is buffered.
pub fn outcomes(test: &Test, is_buffered: bool) -> BTreeSet<Outcome> {
    let (mut seen, mut found) = (HashSet::new(), BTreeSet::new());
    let mut waiting = vec![State::default()];
    while let Some(state) = waiting.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let mut next = Vec::new();
        for thread in 0..test.threads.len() {
            next.extend(advanced(test, &state, thread, is_buffered));
            next.extend(drained(&state, thread));
        }
        if next.is_empty() {
            found.insert(state.outcome);
        }
        waiting.extend(next);
    }
    found
}

/// The oldest store leaves the buffer.
fn drained(state: &State, thread: usize) -> Option<State> {
    let mut state = state.clone();
    let (variable, value) = state.buffers[thread].pop_front()?;
    state.outcome.memory[variable] = value;
    Some(state)
}

/// The thread's next step is made.
fn advanced(test: &Test, state: &State, thread: usize, is_buffered: bool) -> Option<State> {
    let step = test.threads[thread].get(state.done[thread])?;
    let mut state = state.clone();
    state.done[thread] += 1;
    let is_drained = state.buffers[thread].is_empty();
    match *step {
        Step::Store(variable, value) if is_buffered => {
            state.buffers[thread].push_back((variable as usize, value));
        }
        Step::Store(variable, value) => state.outcome.memory[variable as usize] = value,
        Step::Load(register, variable) => {
            let variable = variable as usize;
            let own = state.buffers[thread].iter().rev().find(|(at, _)| *at == variable);
            let value = own.map_or(state.outcome.memory[variable], |(_, value)| *value);
            state.outcome.registers[thread][register] = value;
        }
        Step::Fence | Step::LockedElsewhere if is_drained => {}
        Step::Exchange(register, variable, value) if is_drained => {
            let place = &mut state.outcome.memory[variable as usize];
            state.outcome.registers[thread][register] = std::mem::replace(place, value);
        }
        Step::Fence | Step::LockedElsewhere | Step::Exchange(..) => return None,
    }
    Some(state)
}

const _: () = assert!(VARIABLES == 2, "memory of an outcome");
