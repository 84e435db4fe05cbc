//! The view, drawn.

use super::Screen;
use super::rows::{APART, Lines, View, without_middle};
use crate::verb::exits::beside::End;
use profile::Summary;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table};

const HISTORY_HEIGHT: u16 = 5;
/// Room of the marks beside the history.
const MARKS: u16 = 9;
/// Lines of a command's output that are shown at once.
const OUTPUT_HEIGHT: u16 = 10;

const HELP: [(&str, &str); 12] = [
    ("v, 1 2 3 4", "reasons, details, vCPUs, virtual machines"),
    ("d", "details and back: what exits were about, with the verdict"),
    ("s, r", "sort by exits, time, mean, p99; reverse"),
    ("Tab", "one virtual machine after the other, then all"),
    ("up, down, PgUp, PgDn, Home, End", "scroll"),
    ("p, space", "pause, and go on; the kernel counts meanwhile"),
    ("left, right", "an older reading, a newer one"),
    ("o", "what the command printed"),
    ("? h", "this help; any key closes it"),
    ("q, Esc, Ctrl-C", "leave, with a summary of everything"),
    ("", "work %: share of the time of exits that do work;"),
    ("", "waiting (hlt) is idle"),
];

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

impl Screen {
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, end: &End<'_>) {
        let output = if self.look.has_output { OUTPUT_HEIGHT } else { 0 };
        let [head, history, table, below, keys] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(HISTORY_HEIGHT + 1),
            Constraint::Min(3),
            Constraint::Length(output),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let lines = vec![
            Line::styled(self.heading(), bold()),
            self.inhibit_line(),
            Line::styled(self.sight(), dim()),
        ];
        frame.render_widget(Paragraph::new(lines), head);
        self.draw_history(frame, history);
        self.draw_table(frame, table);
        if self.look.has_output {
            let said = end.output(usize::from(OUTPUT_HEIGHT - 2));
            let block =
                Block::bordered().title(end.command().unwrap_or_else(|| "no command".into()));
            frame.render_widget(Paragraph::new(said.join("\n")).block(block), below);
        }
        frame
            .render_widget(Paragraph::new(Line::styled(self.footer(end, keys.width), dim())), keys);
        if self.look.has_help {
            draw_help(frame);
        }
    }

    fn heading(&self) -> String {
        let Some(summary) = &self.summary else { return "waiting for the first reading".into() };
        let machine = match (self.look.machine, &summary.machines[..]) {
            (Some(_), [machine, ..]) => format!("VM {}", machine.name),
            (Some(process), []) => format!("VM {process}"),
            (None, machines) if machines.len() == 1 => "1 VM".into(),
            (None, machines) => format!("{} VMs", machines.len()),
        };
        let state = match (self.look.is_paused, self.looked_at(), self.readings.back()) {
            (true, Some(looked), Some(latest)) => {
                let ago = latest.interval.end_ns.saturating_sub(looked.interval.end_ns);
                format!(" · PAUSED, {:.1} s ago", ago as f64 / 1e9)
            }
            _ => String::new(),
        };
        if summary.table.count == 0 {
            return format!("{machine} · no exits in this interval{state}");
        }
        format!(
            "{machine} · {:.0} exits/s · of those that work up to {:.0} % avoidable, {:.0} % \
             unknown{state}",
            summary.table.count as f64 / summary.seconds.max(1e-9),
            summary.ceiling.avoidable.count_share,
            summary.ceiling.unknown.count_share
        )
    }

    fn inhibit_line(&self) -> Line<'static> {
        if let Some(why) = self.inhibits.why_unseen() {
            return Line::styled(format!("inhibits are not seen: {why}"), dim());
        }
        let now = self.inhibits();
        let changes = match self.inhibits.changes() {
            1 => "1 change".to_owned(),
            changes => format!("{changes} changes"),
        };
        if now.is_empty() {
            let text = format!("no inhibit was set since watching began ({changes})");
            return Line::styled(text, dim());
        }
        let named: Vec<String> = now
            .iter()
            .map(|inhibit| format!("{} (process {})", inhibit.reasons, inhibit.process))
            .collect();
        let text = format!("AVIC or APICv is inhibited now: {} · {changes}", named.join(", "));
        Line::styled(text, Style::new().fg(Color::Red))
    }

    fn sight(&self) -> String {
        format!("{}, {}", self.watch.rung.name(), self.watch.rung.cost())
    }

    /// Exits per second, with both axes.
    fn draw_history(&self, frame: &mut Frame<'_>, area: Rect) {
        let [marks, chart] =
            Layout::horizontal([Constraint::Length(MARKS), Constraint::Min(1)]).areas(area);
        let [chart, axis] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(chart);
        let shown = usize::from(chart.width).min(self.readings.len());
        let shown = self.readings.range(self.readings.len() - shown..);
        let rates: Vec<u64> = shown.clone().map(|reading| reading.per_second() as u64).collect();
        let most = rates.iter().copied().max().unwrap_or(0).max(1);
        let top = format!("{:>7} ┤", report::plot::short(most as f64));
        let mut left = vec![Line::raw(top)];
        left.extend((2..HISTORY_HEIGHT).map(|_| Line::raw("        │")));
        left.push(Line::raw("      0 ┤"));
        left.push(Line::styled("exits/s", dim()));
        frame.render_widget(Paragraph::new(left), marks);
        let spark = Sparkline::default().data(&rates).max(most).style(Style::new().fg(Color::Cyan));
        frame.render_widget(spark, chart);
        let ends: Vec<u64> = shown.map(|reading| reading.interval.end_ns).collect();
        frame.render_widget(Paragraph::new(Line::styled(time_axis(&ends), dim())), axis);
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(summary) = &self.summary else { return };
        let look = &self.look;
        let lines = Lines::new(summary, look.view, look.order, look.is_reversed)
            .fit(usize::from(area.width));
        // The title and the heads.
        let room = usize::from(area.height).saturating_sub(2).max(1);
        let first = look.scrolled.min(lines.lines.len().saturating_sub(room));
        (self.page, self.look.scrolled) = (room, first);
        let [title, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        let title_text = title_of(summary, &self.look, first, room, lines.lines.len());
        frame.render_widget(Paragraph::new(Line::styled(title_text, dim())), title);
        frame.render_widget(table(&lines, self.look.view, first, room), body);
    }

    fn footer(&self, end: &End<'_>, width: u16) -> String {
        let keys = "? help · v view · s sort · p pause · q quit";
        let Some(last) = end.output(1).pop() else { return keys.into() };
        let room = usize::from(width).saturating_sub(keys.chars().count() + 3);
        if room < 8 { keys.into() } else { format!("{keys} · {}", without_middle(&last, room)) }
    }
}

fn title_of(
    summary: &Summary,
    look: &super::Look,
    first: usize,
    room: usize,
    all: usize,
) -> String {
    let reverse = if look.is_reversed { ", least first" } else { "" };
    let lines = match all {
        0 => "nothing".to_owned(),
        all if all <= room => format!("{all}"),
        all => format!("{} to {} of {all}", first + 1, (first + room).min(all)),
    };
    let seconds = summary.seconds;
    format!("{} ({lines}) by {}{reverse}, in {seconds:.2} s", look.view.name(), look.order.name())
}

/// Marks under the readings, which ended at these times: how long ago that was.
fn time_axis(ends_ns: &[u64]) -> String {
    let Some((first, last)) = ends_ns.first().zip(ends_ns.last()) else { return String::new() };
    let ago =
        |end: &u64| format!("-{} s", report::plot::short(last.saturating_sub(*end) as f64 / 1e9));
    let (left, width) = (ago(first), ends_ns.len());
    let middle = ends_ns.get(width / 2).map(ago).unwrap_or_default();
    let mut axis: Vec<char> = vec![' '; width.max(3)];
    let mut put = |at: usize, text: &str| {
        let free = axis.get(at..at + text.chars().count());
        if free.is_some_and(|cells| cells.iter().all(|cell| *cell == ' ')) {
            axis.splice(at..at + text.chars().count(), text.chars());
        }
    };
    put(width.max(3) - 3, "now");
    if left.len() + 4 <= width {
        put(0, &left);
    }
    // With a space on both sides.
    if width / 2 > left.len() + 1 && width / 2 + middle.len() + 4 < width {
        put(width / 2, &middle);
    }
    axis.into_iter().collect()
}

fn table(lines: &Lines, view: View, first: usize, room: usize) -> Table<'static> {
    let rows = lines.lines.iter().skip(first).take(room).map(|line| {
        let style = if line.is_idle { Style::new().fg(Color::DarkGray) } else { Style::new() };
        let cells = line.cells.iter().zip(&lines.columns).map(|(cell, column)| {
            // Numbers to the right, so that they can be compared; words to the left.
            let is_word = matches!(column.head, "verdict" | "most often");
            let width = column.width;
            if is_word { cell.clone() } else { format!("{cell:>width$}") }
        });
        Row::new(std::iter::once(line.name.clone()).chain(cells)).style(style)
    });
    let name = match view {
        View::Reasons | View::Details => "exit",
        View::Vcpus => "vCPU",
        View::Machines => "VM",
    };
    let heads = lines.columns.iter().map(|column| {
        let (head, width) = (column.head, column.width);
        let is_word = matches!(head, "verdict" | "most often");
        if is_word { head.to_owned() } else { format!("{head:>width$}") }
    });
    let heads: Vec<String> = std::iter::once(name.to_owned()).chain(heads).collect();
    let widths = std::iter::once(Constraint::Length(lines.name_width as u16))
        .chain(lines.columns.iter().map(|column| Constraint::Length(column.width as u16)));
    Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .column_spacing(APART as u16)
        .header(Row::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED)))
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> =
        HELP.iter().map(|(keys, what)| Line::raw(format!("{keys:<33}{what}"))).collect();
    let (width, height) = (frame.area().width, frame.area().height);
    let (wanted, tall) = (104.min(width), (HELP.len() as u16 + 2).min(height));
    let area =
        Rect { x: (width - wanted) / 2, y: (height - tall) / 2, width: wanted, height: tall };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("keys")), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_time_are_apart_or_left_out() {
        let axis = |readings: u64| {
            time_axis(&(0..readings).map(|n| n * 1_000_000_000).collect::<Vec<_>>())
        };
        assert_eq!(axis(0), "");
        assert_eq!(axis(1), "now");
        for readings in 2..200 {
            let axis = axis(readings);
            assert!(axis.ends_with("now") && axis.len() == (readings as usize).max(3), "{axis}");
            let before = axis.trim_end_matches("now");
            assert!(before.is_empty() || before.ends_with(' '), "{axis}");
        }
        assert!(axis(60).starts_with("-59 s "), "{}", axis(60));
    }
}
