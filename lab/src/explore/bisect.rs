//! Which kernels show what a finding is of.
//!
//! A kernel's times are its own, so a finding's decisions mean nothing on another: on each kernel
//! the workload runs plainly, and the same search is made from moments of it, for the same rule
//! broken by a vector that came in the same way (and, of the console, for the same words). A kernel
//! that does not show it in so many windows need not be without it.

use super::choice::Strategy;
use super::finding::{Finding, cause};
use super::oracle::{Key, Rule, Way};
use super::search::Search;
use super::sight::sight;
use super::stage::Stage;
use crate::watch::Watch;
use report::grid::{Grid, Value, folded};
use serde::Serialize;

/// What came of it, as data: docs/schema/lab-explore-bisect-1.json.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bisection {
    /// [`Self::SCHEMA`].
    pub schema: u32,
    /// Of the program.
    pub version: String,
    /// What is looked for, by name.
    pub cause: String,
    /// The rule that is broken.
    pub rule: Rule,
    /// How the vector comes to where it waits.
    pub way: Way,
    /// So many windows each kernel is given.
    pub windows: u64,
    /// In the order of their releases.
    pub kernels: Vec<Tried>,
    /// Between which of them it comes or goes.
    pub boundaries: Vec<Boundary>,
    /// Kernels that were not to be had.
    pub absent: Vec<Absent>,
}

/// A kernel that was searched.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tried {
    /// As the user names it.
    pub kernel: String,
    /// Of the kernel.
    pub release: String,
    /// Whether a window showed it.
    pub found: bool,
    /// Windows that were run, up to and with the one that showed it.
    pub windows: u64,
    /// How the decisions of that one were drawn.
    pub strategy: Option<Strategy>,
    /// What that took of this machine's processors, without the boot.
    pub cpu_seconds: f64,
}

/// Two kernels, one behind the other, of which one shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Boundary {
    /// What the newer one does.
    pub change: Change,
    /// Release of the older one.
    pub older: String,
    /// Release of the newer one.
    pub newer: String,
}

/// What becomes of it from one kernel to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The newer one shows it.
    Comes,
    /// The older one shows it.
    Goes,
}

/// A kernel that was not to be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absent {
    /// As the user names it.
    pub kernel: String,
    /// Why.
    pub why: String,
}

/// Searches for a cause on a stage, from where it stands, as `search` says; the first window that
/// shows it is the last.
pub fn seek(
    kernel: &str,
    mut stage: Stage,
    search: &Search,
    key: &Key,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Tried> {
    let sight = sight(&mut stage, search, (&|own| own == key, None), watch)?;
    Ok(Tried {
        kernel: kernel.into(),
        release: stage.release.clone(),
        found: sight.strategy.is_some(),
        windows: sight.windows,
        strategy: sight.strategy,
        cpu_seconds: sight.spent.as_secs_f64(),
    })
}

impl Bisection {
    /// Version of this form.
    pub const SCHEMA: u32 = 1;

    /// What the kernels have shown of a finding.
    pub fn new(
        finding: &Finding,
        windows: u64,
        mut kernels: Vec<Tried>,
        absent: Vec<Absent>,
    ) -> Self {
        kernels.sort_by_cached_key(|tried| numbers(&tried.release));
        let boundaries = kernels.windows(2).filter_map(|two| Boundary::of(&two[0], &two[1]));
        Self {
            schema: Self::SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            cause: cause(&finding.alarm.key()),
            rule: finding.alarm.rule,
            way: finding.alarm.way,
            windows,
            boundaries: boundaries.collect(),
            kernels,
            absent,
        }
    }

    /// Whether any kernel shows it.
    pub fn is_found(&self) -> bool {
        self.kernels.iter().any(|tried| tried.found)
    }

    /// For programs.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For a terminal.
    pub fn to_text(&self, columns: usize) -> String {
        let mut text = format!("{}\n\n{}\n", self.answer(), self.grid().to_text_within(columns));
        let (title, way) = (self.rule.title(), self.way.name());
        let what = match self.rule {
            Rule::Console | Rule::Ended => format!("{title} in the same words ({})", self.cause),
            _ => format!("{title}, the vector {way} ({})", self.cause),
        };
        let compared = format!(
            "Compared: whether {what} within {} windows from the plain workload of each kernel. \
             Decisions do not carry over: times differ. What is not found may be there.\n",
            self.windows
        );
        text += &folded(&compared, columns, 0);
        for Absent { kernel, why } in &self.absent {
            text += &folded(&format!("Not to be had: {kernel}: {why}\n"), columns, 2);
        }
        text
    }

    /// Where it comes and goes.
    fn answer(&self) -> String {
        let count = self.kernels.len();
        if self.boundaries.is_empty() {
            return match (self.is_found(), count) {
                (_, 0) => "no kernel was to be had".into(),
                (true, 1) => "found in the one kernel".into(),
                (true, _) => format!("found in each of {count} kernels"),
                (false, 1) => "not found in the one kernel".into(),
                (false, _) => format!("found in none of {count} kernels"),
            };
        }
        let lines: Vec<String> = self.boundaries.iter().map(Boundary::words).collect();
        lines.join("\n")
    }

    fn grid(&self) -> Grid {
        const COLUMNS: [&str; 6] = ["kernel", "release", "found", "windows", "CPU_s", "by"];
        let mut grid = Grid::new("By kernel", &COLUMNS);
        for tried in &self.kernels {
            grid.rows.push(vec![
                Value::text(tried.kernel.clone()),
                Value::text(tried.release.clone()),
                Value::text(if tried.found { "found" } else { "not found" }),
                Value::Count(tried.windows),
                Value::Number(tried.cpu_seconds, 1),
                Value::text(tried.strategy.map_or("", Strategy::name)),
            ]);
        }
        grid
    }
}

impl Boundary {
    fn of(older: &Tried, newer: &Tried) -> Option<Self> {
        let change = match (older.found, newer.found) {
            (false, true) => Change::Comes,
            (true, false) => Change::Goes,
            _ => return None,
        };
        Some(Self { change, older: older.release.clone(), newer: newer.release.clone() })
    }

    fn words(&self) -> String {
        let Self { change, older, newer } = self;
        match change {
            Change::Comes => format!("the first that has it: {newer}; {older} does not show it"),
            Change::Goes => format!("the last that has it: {older}; {newer} does not show it"),
        }
    }
}

/// All numbers in a release's name, in order: 6.1 is older than 6.12, and its 9th build than its
/// 56th.
fn numbers(release: &str) -> Vec<u64> {
    let groups = release.split(|letter: char| !letter.is_ascii_digit());
    groups.filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
