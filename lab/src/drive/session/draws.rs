//! What a guest measures under other prices: where the guest begins to measure from seeds, the
//! machine is marked, goes on under one draw of the costs after the other, or without some of them,
//! until one whole seed was measured, and comes back each time. What is not measured from seeds
//! takes a life of the guest for each, from the moment at which the step begins. In the end the
//! machine goes on as if nothing had been: its hash is that of a run without draws.

use super::Session;
use crate::drive::observed::Drawn;
use crate::drive::under::Under;
use crate::protocol::{FromAgent, Step, ToAgent};
use crate::watch::Watch;
use crate::workload::{self, figure::Figure};
use anyhow::bail;
use arch::time::Picoseconds;
/// Lines that a guest prints of one seed, at most.
const MOST_LINES: usize = 1000;

/// Under which costs a step's times are measured besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draws {
    /// Of what is measured from seeds.
    pub of_seeds: Vec<Under>,
    /// Of all else, each a life of its own.
    pub of_lives: Vec<Under>,
}

/// What is measured under some costs: the seed that it is of, and the figures.
type Measured = Option<(u64, Vec<Figure>)>;
type Once<'a> = dyn FnMut(&mut Session, Under, &mut Watch<'_>) -> anyhow::Result<Measured> + 'a;

impl Session {
    /// The agent stands by: performs the step under each of these costs.
    pub(super) fn live_drawn(
        &mut self,
        step: &Step,
        draws: &[Under],
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<Drawn>> {
        let mut each = |session: &mut Self, under: Under, watch: &mut Watch<'_>| {
            watch.stage(&format!("{}, {}: {under}", step.name, step.arm.label));
            session.begin_counting();
            session.send(&ToAgent::Go)?;
            loop {
                match session.receive(limit, watch)? {
                    FromAgent::Progress(_) => {}
                    FromAgent::Finished(result) => {
                        let life = session.observed(step, *result, Picoseconds(0));
                        return Ok(Some((0, workload::of_life(&life))));
                    }
                    FromAgent::Failed(why) => bail!("under drawn costs: {why}"),
                    other => bail!("under drawn costs the agent said {other:?}"),
                }
            }
        };
        self.drawn(draws, watch, &mut each)
    }

    /// The guest of a workload has begun with a seed: measures the next one under each of these
    /// costs.
    pub(super) fn measure_drawn(
        &mut self,
        (workload, draws): (&str, &[Under]),
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<Drawn>> {
        let mut each = |session: &mut Self, _, watch: &mut Watch<'_>| {
            let Some((seed, lines)) = session.next_seed(limit, watch)? else { return Ok(None) };
            let figures = workload::figures_in(workload, lines.iter().map(String::as_str));
            Ok(Some((seed, figures)))
        };
        self.drawn(draws, watch, &mut each)
    }

    /// Does something under each of these costs, and goes back to this moment each time.
    fn drawn(
        &mut self,
        draws: &[Under],
        watch: &mut Watch<'_>,
        each: &mut Once<'_>,
    ) -> anyhow::Result<Vec<Drawn>> {
        self.drive.drain();
        let profile = self.costs().clone();
        let outside = self.drive.set_aside();
        let inbox = self.inbox.clone();
        let point = self.mark();
        let mut drawn = Vec::new();
        for under in draws.iter().copied() {
            self.set_costs(under.costs(&profile));
            let measured = each(self, under, watch)?;
            drawn.extend(measured.map(|(seed, figures)| Drawn { under, seed, figures }));
            self.return_to(point);
            self.inbox.clone_from(&inbox);
        }
        self.set_costs(profile);
        self.forget(point);
        self.drive.take_up(outside);
        Ok(drawn)
    }

    /// The next seed and what the guest prints of it; none if there is no other.
    fn next_seed(
        &mut self,
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Option<(u64, Vec<String>)>> {
        let mut own: Option<(u64, Vec<String>)> = None;
        loop {
            let text = match self.receive(limit, watch)? {
                FromAgent::Progress(text) => text,
                FromAgent::Finished(_) => return Ok(own),
                FromAgent::Failed(why) => bail!("under drawn costs: {why}"),
                other => bail!("under drawn costs the agent said {other:?}"),
            };
            match (seed_of(&text), &mut own) {
                (Some(_), Some(_)) => return Ok(own),
                (Some(seed), None) => own = Some((seed, Vec::new())),
                (None, Some((_, lines))) if lines.len() < MOST_LINES => lines.push(text),
                (None, _) => {}
            }
        }
    }
}

/// The seed that a guest's line says begins.
pub(super) fn seed_of(line: &str) -> Option<u64> {
    let record: serde_json::Value =
        line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    (record["record"].as_str() == Some("seed")).then(|| record["seed"].as_u64())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_record_of_that_name_with_a_number() {
        for (line, seed) in [
            (r#"{"record":"seed","seed":3}"#, Some(3)),
            (r#"{"record":"seed","seed":"3"}"#, None),
            (r#"{"record":"latency","seed":3}"#, None),
            (r#"{"record":"seed","seed":3"#, None),
            ("seed 3", None),
        ] {
            assert_eq!(seed_of(line), seed, "{line}");
        }
    }
}
