//! The terminal view of `avicenna exits live`: what it has read, what of that is looked at, and the
//! keys that change it.

mod draw;
mod rows;

use super::beside::End;
use super::inhibits::{Inhibit, Inhibits};
use super::watch::{Watch, names_of, origin, summary_of};
use analysis::sampled::{collect, context};
use capture::sums::Interval;
use profile::sampled::Sampled;
use profile::{Selection, Summary};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use report::exits::Report;
use rows::{Order, View};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Readings that can be looked at once more.
const HISTORY: usize = 600;
/// A first reading comes after this part of an interval, the next after twice as much: what is
/// watched may have ended before an interval is over, and a slow machine's second is long.
const FIRST_PART: u32 = 16;

/// What was added in one interval.
#[derive(Clone, Debug)]
struct Reading {
    start_ns: u64,
    interval: Interval,
    exits: u64,
}

impl Reading {
    fn per_second(&self) -> f64 {
        let ns = self.interval.end_ns.saturating_sub(self.start_ns).max(1);
        self.exits as f64 * 1e9 / ns as f64
    }
}

/// What is looked at.
#[derive(Clone, Debug)]
struct Look {
    view: View,
    order: Order,
    is_reversed: bool,
    is_paused: bool,
    /// How many readings ago.
    back: usize,
    /// Lines that have been scrolled past.
    scrolled: usize,
    /// Only this machine.
    machine: Option<u32>,
    has_help: bool,
    has_output: bool,
}

/// What is on the terminal, and what was before.
pub struct Screen {
    watch: Watch,
    inhibits: Inhibits,
    readings: VecDeque<Reading>,
    all: Sampled,
    /// Processes that had exits.
    machines: BTreeSet<u32>,
    look: Look,
    summary: Option<Summary>,
    /// Lines that the table had room for.
    page: usize,
}

impl Screen {
    pub fn new(watch: Watch) -> Self {
        Self {
            watch,
            inhibits: Inhibits::start(),
            readings: VecDeque::new(),
            all: Sampled::new(0),
            machines: BTreeSet::new(),
            look: Look {
                view: View::Reasons,
                order: Order::Count,
                is_reversed: false,
                is_paused: false,
                back: 0,
                scrolled: 0,
                machine: None,
                has_help: false,
                has_output: false,
            },
            summary: None,
            page: 1,
        }
    }

    /// Shows what happens until the end comes or the user leaves; gives what there was in all.
    pub fn show(
        mut self,
        terminal: &mut ratatui::DefaultTerminal,
        step: Duration,
        end: &mut End<'_>,
    ) -> anyhow::Result<Report> {
        let mut part = step / FIRST_PART;
        let mut due = Instant::now() + part;
        while !end.has_come() {
            if Instant::now() >= due {
                part = (part * 2).min(step);
                due = Instant::now() + part;
                self.poll()?;
            }
            terminal.draw(|frame| self.draw(frame, end))?;
            let wait = due.saturating_duration_since(Instant::now());
            if event::poll(wait.min(Duration::from_millis(100)))?
                && let Event::Key(key) = event::read()?
                && self.takes_leave(key)
            {
                break;
            }
        }
        self.poll()?;
        Ok(self.in_all())
    }

    /// All readings as one report.
    fn in_all(self) -> Report {
        let mut origin = origin(self.watch.rung);
        let about = context(&origin, &names_of(self.machines));
        let selection = Selection { by_reason: true, ..Selection::default() };
        let mut summary = Summary::new(&self.all.profile(), &about, &selection);
        origin.warnings.append(&mut summary.warnings);
        Report { file: "exits live, from its beginning".into(), origin, summary }
    }

    fn poll(&mut self) -> anyhow::Result<()> {
        self.inhibits.poll();
        let interval = self.watch.poll()?;
        collect(&mut self.all, &interval);
        self.machines.extend(interval.rows.iter().map(|row| row.0.process));
        let start_ns = self.readings.back().map_or(0, |reading| reading.interval.end_ns);
        let exits = interval.rows.iter().map(|row| row.1.count).sum();
        self.readings.push_back(Reading { start_ns, interval, exits });
        if self.readings.len() > HISTORY {
            self.readings.pop_front();
        }
        if self.look.is_paused {
            // What is looked at stays, though it is one reading older now.
            self.look.back = (self.look.back + 1).min(self.readings.len() - 1);
        } else {
            self.sum_up();
        }
        Ok(())
    }

    fn looked_at(&self) -> Option<&Reading> {
        self.readings.get(self.readings.len().checked_sub(1 + self.look.back)?)
    }

    fn sum_up(&mut self) {
        let rung = self.watch.rung;
        let machine = self.look.machine;
        let reading = self.looked_at();
        self.summary =
            reading.map(|reading| summary_of(rung, &reading.interval, reading.start_ns, machine));
    }

    /// Handles a key; `true` to leave.
    fn takes_leave(&mut self, key: KeyEvent) -> bool {
        if key.kind != KeyEventKind::Press {
            return false;
        }
        let look = &mut self.look;
        if look.has_help {
            // Any key closes it, and does nothing else but leave.
            look.has_help = false;
            return matches!(key.code, KeyCode::Char('q'));
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => look.has_help = true,
            KeyCode::Char('o') => look.has_output = !look.has_output,
            KeyCode::Char('s') => look.order = look.order.next(),
            KeyCode::Char('r') => look.is_reversed = !look.is_reversed,
            KeyCode::Char('d') => self.change_view(match self.look.view {
                View::Details => View::Reasons,
                _ => View::Details,
            }),
            KeyCode::Char('v') => {
                let at = View::ALL.iter().position(|view| *view == look.view).unwrap_or(0);
                self.change_view(View::ALL[(at + 1) % View::ALL.len()]);
            }
            KeyCode::Char(number @ '1'..='4') => {
                self.change_view(View::ALL[number as usize - '1' as usize]);
            }
            KeyCode::Char('p' | 'f' | ' ') => self.pause(!self.look.is_paused),
            KeyCode::Left => self.go_back(1),
            KeyCode::Right => self.go_back(-1),
            KeyCode::Tab => self.next_machine(),
            code => self.scroll(code),
        }
        false
    }

    fn change_view(&mut self, view: View) {
        self.look.view = view;
        self.look.scrolled = 0;
    }

    fn pause(&mut self, is_paused: bool) {
        self.look.is_paused = is_paused;
        if !is_paused {
            self.look.back = 0;
            self.sum_up();
        }
    }

    /// Looks at an older reading, or a newer one; the latest goes on.
    fn go_back(&mut self, readings: isize) {
        let most = self.readings.len().saturating_sub(1);
        let back = self.look.back.saturating_add_signed(readings).min(most);
        if self.look.back == 0 && readings < 0 {
            return self.pause(false);
        }
        self.look.back = back;
        self.look.is_paused = true;
        self.sum_up();
    }

    /// All machines, then each by itself.
    fn next_machine(&mut self) {
        let next = match self.look.machine {
            None => self.machines.first(),
            Some(machine) => self.machines.range(machine + 1..).next(),
        };
        self.look.machine = next.copied();
        self.sum_up();
    }

    fn scroll(&mut self, code: KeyCode) {
        let (page, scrolled) = (self.page, self.look.scrolled);
        self.look.scrolled = match code {
            KeyCode::Up | KeyCode::Char('k') => scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => scrolled + 1,
            KeyCode::PageUp => scrolled.saturating_sub(page),
            KeyCode::PageDown => scrolled + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX,
            _ => scrolled,
        };
    }

    /// Inhibits that hold now, of the machine that is looked at.
    fn inhibits(&self) -> Vec<&Inhibit> {
        let machine = self.look.machine;
        self.inhibits
            .now()
            .filter(|inhibit| machine.is_none_or(|machine| machine == inhibit.process))
            .collect()
    }
}
