//! The terminal view of `avicenna exits live`.

use super::beside::End;
use super::live::summary_of;
use super::watch::Watch;
use capture::sums::Interval;
use profile::Summary;
use profile::summary::Row;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row as Cells, Sparkline, Table};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Readings kept for the sparkline.
const HISTORY: usize = 240;

/// What the table is sorted by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Count,
    Time,
    Mean,
    Slowest,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::Count => Self::Time,
            Self::Time => Self::Mean,
            Self::Mean => Self::Slowest,
            Self::Slowest => Self::Count,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Count => "exits",
            Self::Time => "time",
            Self::Mean => "mean",
            Self::Slowest => "p99",
        }
    }

    fn key(self, row: &Row) -> f64 {
        match self {
            Self::Count => row.count as f64,
            Self::Time => row.time_ns as f64,
            Self::Mean => row.mean_ns,
            Self::Slowest => row.p99_ns.unwrap_or(0.0),
        }
    }
}

/// What is on the terminal, and what was before.
pub struct Screen {
    watch: Watch,
    order: Order,
    is_frozen: bool,
    /// Only this machine; Tab goes through them.
    machine: Option<u32>,
    machines: Vec<u32>,
    latest: Interval,
    start_ns: u64,
    summary: Option<Summary>,
    history: VecDeque<u64>,
}

impl Screen {
    pub fn new(watch: Watch) -> Self {
        Self {
            watch,
            order: Order::Count,
            is_frozen: false,
            machine: None,
            machines: Vec::new(),
            latest: Interval { end_ns: 0, rows: Vec::new() },
            start_ns: 0,
            summary: None,
            history: VecDeque::new(),
        }
    }

    pub fn show(
        mut self,
        terminal: &mut ratatui::DefaultTerminal,
        step: Duration,
        end: &mut End<'_>,
    ) -> anyhow::Result<()> {
        let mut due = Instant::now() + step;
        while !end.has_come() {
            if Instant::now() >= due {
                due += step;
                self.poll()?;
            }
            terminal.draw(|frame| self.draw(frame))?;
            let wait = due.saturating_duration_since(Instant::now());
            if event::poll(wait.min(Duration::from_millis(250)))? && self.takes_leave()? {
                break;
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> anyhow::Result<()> {
        let interval = self.watch.poll()?;
        // The kernel goes on counting while the view is frozen, and so does the sparkline.
        self.history.push_back(interval.rows.iter().map(|row| row.1.count).sum());
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        if self.is_frozen {
            return Ok(());
        }
        self.start_ns = self.latest.end_ns;
        self.latest = interval;
        self.machines = self.latest.rows.iter().map(|row| row.0.process).collect();
        self.machines.sort_unstable();
        self.machines.dedup();
        self.sum_up();
        Ok(())
    }

    fn sum_up(&mut self) {
        self.summary = Some(summary_of(self.watch.rung, &self.latest, self.start_ns, self.machine));
    }

    /// Handles a key; `true` to leave.
    fn takes_leave(&mut self) -> std::io::Result<bool> {
        let Event::Key(key) = event::read()? else { return Ok(false) };
        if key.kind != KeyEventKind::Press {
            return Ok(false);
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('f') | KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Tab => {
                let at = self.machine.and_then(|m| self.machines.iter().position(|n| *n == m));
                self.machine = match at {
                    None => self.machines.first().copied(),
                    Some(at) => self.machines.get(at + 1).copied(),
                };
                self.sum_up();
            }
            _ => {}
        }
        Ok(false)
    }

    fn draw(&self, frame: &mut ratatui::Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(4),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .split(frame.area());
        let dim = Style::new().add_modifier(Modifier::DIM);
        let machines = self.summary.as_ref().map_or(&[][..], |summary| &summary.machines[..]);
        let machine = match (self.machine, machines, self.machines.len()) {
            (Some(_), [machine, ..], _) => format!("VM {}", machine.name),
            (Some(process), [], _) => format!("VM {process}"),
            (None, _, 1) => "1 VM".into(),
            (None, _, count) => format!("{count} VMs"),
        };
        let frozen = if self.is_frozen { " · frozen" } else { "" };
        let heading = match &self.summary {
            None => "waiting for the first reading".to_owned(),
            Some(summary) if summary.table.count == 0 => {
                format!("{machine} · no exits in this interval{frozen}")
            }
            Some(summary) => format!(
                "{machine} · {:.0} exits/s · of those that work up to {:.0} % avoidable, {:.0} % \
                 unknown{frozen}",
                summary.table.count as f64 / summary.seconds.max(1e-9),
                summary.ceiling.avoidable.count_share,
                summary.ceiling.unknown.count_share
            ),
        };
        let lines = vec![
            Line::styled(heading, Style::new().add_modifier(Modifier::BOLD)),
            Line::styled(format!("{}, {}", self.watch.rung.name(), self.watch.rung.cost()), dim),
        ];
        frame.render_widget(Paragraph::new(lines), areas[0]);
        let history: Vec<u64> = self.history.iter().copied().collect();
        let shown = history.len().saturating_sub(usize::from(areas[1].width));
        let spark =
            Sparkline::default().data(&history[shown..]).style(Style::new().fg(Color::Cyan));
        frame.render_widget(spark, areas[1]);
        if let Some(summary) = &self.summary {
            frame.render_widget(self.table(summary), areas[2]);
        }
        let keys =
            format!("s sort ({}) · f freeze · Tab virtual machine · q quit", self.order.name());
        frame.render_widget(Paragraph::new(Line::styled(keys, dim)), areas[3]);
    }

    fn table(&self, summary: &Summary) -> Table<'static> {
        let mut rows: Vec<&Row> = summary.table.rows.iter().collect();
        rows.sort_by(|a, b| self.order.key(b).total_cmp(&self.order.key(a)));
        let us = |ns: f64| format!("{:.2}", ns / 1e3);
        let cells = rows.into_iter().map(|row| {
            let style = if row.is_idle { Style::new().fg(Color::DarkGray) } else { Style::new() };
            Cells::new(vec![
                row.name.clone(),
                format!("{:.0}", row.per_second),
                format!("{:.1}", row.count_share),
                format!("{:.1}", row.work_share),
                us(row.mean_ns),
                row.p99_ns.map_or_else(|| "-".into(), us),
                us(row.max_ns as f64),
            ])
            .style(style)
        });
        let widths = [
            Constraint::Min(22),
            Constraint::Length(11),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(11),
            Constraint::Length(11),
            Constraint::Length(12),
        ];
        let heads = ["exit", "per second", "exits %", "work %", "mean us", "p99 us", "max us"];
        Table::new(cells.collect::<Vec<_>>(), widths)
            .header(Cells::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED)))
    }
}
