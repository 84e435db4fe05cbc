//! A search that ends with the first window that shows what is looked for.

use super::choice::Strategy;
use super::meter;
use super::moment::{Sought, Work};
use super::search::Search;
use super::stage::Stage;
use crate::watch::Watch;
use anyhow::bail;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// How far that went.
pub(super) struct Sight {
    /// Windows that were run, up to and with the one that showed it.
    pub windows: u64,
    /// How the decisions of that one were drawn, if there was one.
    pub strategy: Option<Strategy>,
    /// What it took of this machine's processors, with the way to moments.
    pub spent: Duration,
}

/// Searches from where the stage stands, by one strategy alone or by all; the search's budget is
/// one of processor time here.
pub(super) fn sight(
    stage: &mut Stage,
    search: &Search,
    (sought, alone): (Sought<'_>, Option<Strategy>),
    watch: &mut Watch<'_>,
) -> anyhow::Result<Sight> {
    stage.learn();
    let (first, started, known) = (stage.now(), meter::spent(), Mutex::new(BTreeMap::new()));
    let is_spent =
        || search.budget.is_some_and(|most| meter::spent().saturating_sub(started) >= most);
    let work = Work { search, known: &known, is_over: &is_spent, sought: Some(sought), alone };
    let mut sight = Sight { windows: 0, strategy: None, spent: Duration::ZERO };
    for number in 0.. {
        watch.tick()?;
        let moment = work.moment(stage, first, number);
        if let Some(end) = &moment.end {
            bail!("the guest ended after {} windows: {}", sight.windows, end.text);
        }
        sight.windows += moment.windows.len() as u64;
        watch.line(&format!("{} windows", sight.windows));
        if moment.shows(sought) {
            sight.strategy = moment.windows.last().map(|window| window.strategy);
            break;
        }
        // The last moment has fewer windows than others, or none.
        if search.windows.is_some_and(|most| sight.windows >= most) || is_spent() {
            break;
        }
    }
    sight.spent = meter::spent().saturating_sub(started);
    Ok(sight)
}
