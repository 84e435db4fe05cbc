//! The terminal view of `avicenna exits live`.

use super::beside::End;
use super::live::summary_of;
use super::watch::Watch;
use capture::sums::Interval;
use profile::Summary;
use profile::avoidable::Verdict;
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
    /// A line for each thing that exits were about, with the verdict, rather than for each reason.
    has_details: bool,
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
            has_details: false,
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
            KeyCode::Char('d') => self.has_details = !self.has_details,
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
            frame.render_widget(table(summary, self.order, self.has_details), areas[2]);
        }
        let keys = format!(
            "s sort ({}) · d details · f freeze · Tab virtual machine · q quit",
            self.order.name()
        );
        frame.render_widget(Paragraph::new(Line::styled(keys, dim)), areas[3]);
    }
}

fn table(summary: &Summary, order: Order, has_details: bool) -> Table<'static> {
    let rows = if has_details { &summary.detailed.rows } else { &summary.table.rows };
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| order.key(b).total_cmp(&order.key(a)));
    let us = |ns: f64| format!("{:.2}", ns / 1e3);
    let cells = rows.into_iter().map(|row| {
        let style = if row.is_idle { Style::new().fg(Color::DarkGray) } else { Style::new() };
        let mut cells = vec![
            format!("{} {}", row.name, row.about).trim_end().to_owned(),
            format!("{:.0}", row.per_second),
            format!("{:.1}", row.count_share),
            if row.is_idle { "idle".into() } else { format!("{:.1}", row.work_share) },
            us(row.mean_ns),
        ];
        if has_details {
            let verdict = row.verdict.filter(|_| !row.is_idle).map_or("", Verdict::name);
            cells.push(format!("{verdict} {}", row.feature).trim().to_owned());
        } else {
            cells.push(row.p99_ns.map_or_else(|| "-".into(), us));
            cells.push(us(row.max_ns as f64));
        }
        Cells::new(cells).style(style)
    });
    let mut columns = vec![("exit", 26), ("per second", 11), ("exits %", 8), ("work %", 8)];
    columns.push(("mean us", 11));
    // What an exit was about takes the place of how long the slowest took.
    columns.extend(match has_details {
        true => [("verdict", 20)].as_slice(),
        false => [("p99 us", 11), ("max us", 12)].as_slice(),
    });
    let width = |(at, column): (usize, &(&str, u16))| match at {
        0 => Constraint::Min(column.1),
        _ => Constraint::Length(column.1),
    };
    let widths: Vec<Constraint> = columns.iter().enumerate().map(width).collect();
    let heads: Vec<&str> = columns.iter().map(|column| column.0).collect();
    Table::new(cells.collect::<Vec<_>>(), widths)
        .header(Cells::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::pasted::{PrintedRow, from_rows};
    use profile::{Context, Selection};
    use ratatui::backend::TestBackend;

    fn shown(order: Order, has_details: bool) -> Vec<String> {
        let row = |name: &str, count, mean_us| PrintedRow {
            name: name.into(),
            count,
            min_us: mean_us,
            max_us: mean_us,
            mean_us,
            error_percent: 0.0,
        };
        let rows = [row("vintr", 30, 1.0), row("hlt", 20, 900.0), row("cpuid", 10, 5.0)];
        let (profile, extra_names) = from_rows("VM-EXIT", &rows);
        let context = Context { extra_names, ..Context::default() };
        let selection = Selection { by_reason: true, ..Selection::default() };
        let summary = Summary::new(&profile, &context, &selection);
        let mut terminal =
            ratatui::Terminal::new(TestBackend::new(120, 5)).expect("a terminal in memory");
        terminal
            .draw(|frame| frame.render_widget(table(&summary, order, has_details), frame.area()))
            .expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..120).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..5).map(line).collect()
    }

    #[test]
    fn rows_are_in_the_order_asked_for_with_waiting_set_apart() {
        for (order, first) in [(Order::Count, "vintr"), (Order::Time, "hlt"), (Order::Mean, "hlt")]
        {
            let lines = shown(order, false);
            assert!(lines[1].starts_with(first), "{lines:#?}");
            assert!(lines.iter().any(|line| line.starts_with("hlt") && line.contains("idle")));
            assert!(!lines[0].contains("verdict"));
        }
    }

    #[test]
    fn details_have_their_verdict() {
        let lines = shown(Order::Count, true);
        assert!(lines[0].contains("verdict") && lines[1].contains("avoidable AVIC"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("not avoidable")), "{lines:#?}");
    }
}
