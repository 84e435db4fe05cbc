//! What the table of the view shows: what a line stands for, the order of lines, and which columns
//! there is room for.

use profile::Summary;
use profile::avoidable::Verdict;
use profile::summary::{Group, Row};

/// What a line stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Reasons,
    Details,
    Vcpus,
    Machines,
}

impl View {
    pub const ALL: [Self; 4] = [Self::Reasons, Self::Details, Self::Vcpus, Self::Machines];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Reasons => "reasons",
            Self::Details => "details",
            Self::Vcpus => "vCPUs",
            Self::Machines => "VMs",
        }
    }
}

/// What lines are sorted by, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Count,
    Time,
    Mean,
    Slowest,
}

impl Order {
    pub const ALL: [Self; 4] = [Self::Count, Self::Time, Self::Mean, Self::Slowest];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "exits",
            Self::Time => "time",
            Self::Mean => "mean",
            Self::Slowest => "p99",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// A line, and what it may be sorted by.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub name: String,
    /// Without the name.
    pub cells: Vec<String>,
    pub is_idle: bool,
    count: f64,
    time: f64,
    mean: f64,
    slowest: f64,
}

impl Line {
    const fn key(&self, order: Order) -> f64 {
        match order {
            Order::Count => self.count,
            Order::Time => self.time,
            Order::Mean => self.mean,
            Order::Slowest => self.slowest,
        }
    }
}

/// A column behind the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub head: &'static str,
    pub width: usize,
    /// What goes first where there is no room: the largest number.
    importance: u8,
}

const fn column(head: &'static str, width: usize, importance: u8) -> Column {
    Column { head, width, importance }
}

const REASONS: [Column; 6] = [
    column("per second", 10, 0),
    column("exits %", 7, 3),
    column("work %", 7, 1),
    column("mean us", 10, 2),
    column("p99 us", 10, 4),
    column("max us", 11, 5),
];
const DETAILS: [Column; 5] = [
    column("per second", 10, 0),
    column("exits %", 7, 4),
    column("work %", 7, 2),
    column("mean us", 10, 3),
    column("verdict", 24, 1),
];
const GROUPS: [Column; 5] = [
    column("per second", 10, 0),
    column("avoidable %", 11, 1),
    column("work %", 7, 2),
    column("mean us", 10, 3),
    column("most often", 24, 4),
];

/// Spaces between columns.
pub const APART: usize = 1;

/// The lines of a view in an order, with the columns that leave names whole where that is possible.
#[derive(Clone, Debug)]
pub struct Lines {
    pub name_width: usize,
    pub columns: Vec<Column>,
    pub lines: Vec<Line>,
}

impl Lines {
    pub fn new(summary: &Summary, view: View, order: Order, is_reversed: bool) -> Self {
        let (columns, mut lines): (&[Column], Vec<Line>) = match view {
            View::Reasons => (&REASONS, summary.table.rows.iter().map(of_reason).collect()),
            View::Details => (&DETAILS, summary.detailed.rows.iter().map(of_detail).collect()),
            View::Vcpus => (&GROUPS, groups(&summary.by_vcpu, summary.seconds)),
            View::Machines => (&GROUPS, groups(&summary.machines, summary.seconds)),
        };
        lines.sort_by(|a, b| b.key(order).total_cmp(&a.key(order)));
        if is_reversed {
            lines.reverse();
        }
        let name_width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        Self { name_width, columns: columns.to_vec(), lines }
    }

    /// Leaves columns out, the least important first, until names have room; what is too long even
    /// so loses its middle, since names that begin alike differ at their ends.
    pub fn fit(mut self, width: usize) -> Self {
        let others = |columns: &[Column]| -> usize {
            columns.iter().map(|column| column.width + APART).sum()
        };
        while self.columns.len() > 1 && self.name_width + others(&self.columns) > width {
            let importances = self.columns.iter().enumerate();
            let Some((at, _)) = importances.max_by_key(|(_, column)| column.importance) else {
                break;
            };
            self.columns.remove(at);
            self.lines.iter_mut().for_each(|line| {
                line.cells.remove(at);
            });
        }
        self.name_width = self.name_width.min(width.saturating_sub(others(&self.columns))).max(4);
        for line in &mut self.lines {
            line.name = without_middle(&line.name, self.name_width);
        }
        self
    }
}

/// A text of so many letters at most, with its beginning and its end.
pub fn without_middle(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (front, back) = (kept.div_ceil(2), kept / 2);
    let front: String = letters[..front].iter().collect();
    let back: String = letters[letters.len() - back..].iter().collect();
    format!("{front}…{back}")
}

fn us(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}

fn of_row(row: &Row) -> Line {
    Line {
        name: format!("{} {}", row.name, row.about).trim_end().to_owned(),
        cells: vec![
            format!("{:.0}", row.per_second),
            format!("{:.1}", row.count_share),
            if row.is_idle { "idle".into() } else { format!("{:.1}", row.work_share) },
            us(row.mean_ns),
        ],
        is_idle: row.is_idle,
        count: row.count as f64,
        time: row.time_ns as f64,
        mean: row.mean_ns,
        slowest: row.p99_ns.unwrap_or(0.0),
    }
}

fn of_reason(row: &Row) -> Line {
    let mut line = of_row(row);
    line.cells.push(row.p99_ns.map_or_else(|| "-".into(), us));
    line.cells.push(us(row.max_ns as f64));
    line
}

/// With the verdict in place of how long the slowest took.
fn of_detail(row: &Row) -> Line {
    let mut line = of_row(row);
    let verdict = row.verdict.filter(|_| !row.is_idle).map_or("", Verdict::name);
    line.cells.push(format!("{verdict} {}", row.feature).trim().to_owned());
    line
}

fn groups(groups: &[Group], seconds: f64) -> Vec<Line> {
    let line = |group: &Group| {
        let mean = group.work_ns as f64 / group.work_count.max(1) as f64;
        let avoidable = group.avoidable as f64 / group.work_count.max(1) as f64 * 100.0;
        Line {
            name: group.name.clone(),
            cells: vec![
                format!("{:.0}", group.per_second),
                format!("{avoidable:.1}"),
                format!("{:.1}", group.work_ns as f64 / seconds.max(1e-9) / 1e7),
                us(mean),
                group.top.clone(),
            ],
            is_idle: false,
            count: group.count as f64,
            time: group.work_ns as f64,
            mean,
            slowest: group.work_ns as f64,
        }
    };
    groups.iter().map(line).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use profile::pasted::{PrintedRow, from_rows};
    use profile::{Context, Selection};

    /// A summary of three reasons, of which one waits.
    pub fn summary() -> Summary {
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
        Summary::new(&profile, &context, &selection)
    }

    #[test]
    fn lines_are_in_the_order_asked_for_with_waiting_set_apart() {
        for (order, first) in [(Order::Count, "vintr"), (Order::Time, "hlt"), (Order::Mean, "hlt")]
        {
            let lines = Lines::new(&summary(), View::Reasons, order, false).lines;
            assert_eq!(lines[0].name, first, "{lines:#?}");
            let waits = lines.iter().find(|line| line.name == "hlt").expect("it is there");
            assert!(waits.is_idle && waits.cells[2] == "idle", "{waits:?}");
            let reversed = Lines::new(&summary(), View::Reasons, order, true).lines;
            assert_eq!(reversed[2].name, first);
        }
    }

    #[test]
    fn details_have_their_verdict() {
        let lines = Lines::new(&summary(), View::Details, Order::Count, false);
        let at = lines.columns.iter().position(|column| column.head == "verdict").expect("there");
        assert_eq!(lines.lines[0].cells[at], "avoidable AVIC");
        assert!(lines.lines.iter().any(|line| line.cells[at].starts_with("not avoidable")));
    }

    #[test]
    fn columns_make_room_for_names_before_names_are_cut() {
        let mut lines = Lines::new(&summary(), View::Reasons, Order::Count, false);
        lines.lines[0].name = "msr APIC 300h ICR, fixed IPI to one".into();
        lines.lines[1].name = "msr APIC 300h ICR, fixed IPI to all".into();
        lines.name_width = 35;
        let roomy = lines.clone().fit(120);
        assert_eq!(roomy.columns.len(), 6);
        let narrow = lines.clone().fit(60);
        assert_eq!(narrow.lines[0].name, "msr APIC 300h ICR, fixed IPI to one");
        let heads: Vec<&str> = narrow.columns.iter().map(|column| column.head).collect();
        assert_eq!(heads, ["per second", "work %"]);
        assert!(narrow.lines.iter().all(|line| line.cells.len() == 2));
        let tiny = lines.fit(30);
        assert_ne!(tiny.lines[0].name, tiny.lines[1].name);
        assert_eq!(without_middle("abcdefgh", 5), "ab…gh");
    }
}
