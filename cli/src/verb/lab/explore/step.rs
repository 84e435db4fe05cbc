//! `replay --step`: a finding's window at the monitor's prompt.

use super::super::stages::INTERRUPT;
use super::hold_line;
use crate::verb::machine::monitor::Prompt;
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome};
use lab::drive::session::{Meanwhile, Visitor};
use trace::symbol::Symbols;

/// Who looks on.
pub(super) struct Steps {
    prompt: Prompt,
    symbols: Symbols,
    end: Picoseconds,
}

impl Steps {
    /// At standard input, with the names of the kernel's functions.
    pub(super) fn new(symbols: Symbols) -> Self {
        Self { prompt: Prompt::open(&INTERRUPT), symbols, end: Picoseconds::ZERO }
    }
}

impl Visitor for Steps {
    fn approach(&mut self, _: &mut Machine, limits: Limits) -> (Option<Outcome>, bool) {
        self.end = limits.until;
        (None, true)
    }

    fn visit(&mut self, machine: &mut Machine, meanwhile: Meanwhile<'_>) -> anyhow::Result<bool> {
        let Self { prompt, symbols, end } = self;
        let mut told = 0;
        let mut news = |machine: &Machine| {
            let new = machine.holds().and_then(|holds| holds.get(told..)).unwrap_or_default();
            told += new.len();
            new.iter().map(|hold| hold_line(hold, symbols)).collect()
        };
        prompt.attend(machine, *end, meanwhile, &mut news);
        Ok(true)
    }
}
