//! The emulated host on which costs are tried: it goes back to the same moment for each profile.

use super::measured::Measured;
use crate::drive::session::{Point, Session};
use crate::plan::{ModuleParameter, Setting};
use crate::protocol::{Command, Step};
use crate::watch::Watch;
use crate::workload;
use arch::time::Picoseconds;
use board::cost::CostProfile;

/// What the benchmark guest does in a life, beside where its gaps begin.
pub const OPTIONS: &str = "tests=exits,self,eoi,arm,ipi targets=spinning fence=off";
/// The virtual time that it may take.
const LIMIT: Picoseconds = Picoseconds::from_milliseconds(600_000);
/// Where the emulated host writes what it measured.
const FILE: &str = "/measured.json";

/// A period of the host's scheduling timer, over which moments are spread.
const PERIOD: Picoseconds = Picoseconds::from_milliseconds(4);

/// A moment by its number: where in their periods the host's timers stand when something begins.
/// Those of the first numbers, whatever there are, are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub u64);

impl Moment {
    /// How long the host idles first.
    fn after(self) -> Picoseconds {
        /// The golden section of 64 bits.
        const SECTION: u64 = 0x9E37_79B9_7F4A_7C15;
        let share = u128::from(self.0.wrapping_mul(SECTION));
        Picoseconds((share * u128::from(PERIOD.0) >> 64) as u64)
    }
}

/// An emulated host at a moment to which it goes back for each profile.
pub struct Place<'a> {
    session: &'a mut Session,
    point: Point,
}

/// What a guest measured in a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Time {
    /// Workload, step and figure.
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) setting: Setting,
    /// The mean over seeds, where there are some.
    pub(super) value: f64,
}

/// What is run there to measure.
#[derive(Clone, Copy, Debug)]
pub enum Bench<'a> {
    /// `bench calibrate` with so many repetitions, less what recording takes.
    Calibrate(u32),
    /// Steps of workloads.
    Steps(&'a [Step]),
}

impl<'a> Place<'a> {
    /// The host as it is now.
    pub fn new(session: &'a mut Session) -> Self {
        let point = session.mark();
        Self { session, point }
    }

    /// The host's times under a profile.
    pub fn measure(
        &mut self,
        what: Bench<'_>,
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<(String, f64)>> {
        match what {
            Bench::Calibrate(repeats) => {
                let measured = self.calibrate(repeats, profile, moment, watch)?;
                Ok(measured.rows.into_iter().map(|row| (row.name, row.value)).collect())
            }
            Bench::Steps(steps) => {
                let times = self.work(steps, profile, moment, watch)?.into_iter();
                Ok(times.map(|one| (format!("{}, {}", one.name, one.setting), one.value)).collect())
            }
        }
    }

    /// What the host itself would write, which knows nothing of the profile but how long things
    /// take, less what recordings lack.
    pub fn calibrate(
        &mut self,
        repeats: u32,
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Measured> {
        self.written(repeats, &["--no-recording"], profile, moment, watch)
    }

    /// All that the host itself would write.
    pub(super) fn calibrate_whole(
        &mut self,
        repeats: u32,
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Measured> {
        self.written(repeats, &[], profile, moment, watch)
    }

    fn written(
        &mut self,
        repeats: u32,
        options: &[&str],
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Measured> {
        self.begin(profile, moment, watch)?;
        let words = ["/proc/self/exe", "bench", "calibrate", "-o", FILE, "--repeats"];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.push(repeats.to_string());
        words.extend(options.iter().map(|option| (*option).to_owned()));
        let command = Command::new(words);
        let status = self.session.run(&command, LIMIT, watch)?;
        anyhow::ensure!(status == 0, "bench calibrate ended with status {status} there");
        let text = String::from_utf8(self.session.get(FILE, watch)?)?;
        Measured::parse(&text)
    }

    /// What guests measure in some steps.
    pub(super) fn work(
        &mut self,
        steps: &[Step],
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<Vec<Time>> {
        self.begin(profile, moment, watch)?;
        let mut found = Vec::new();
        for step in steps {
            let observed = self.session.perform(step, watch)?;
            let runs = workload::seeded(&observed);
            for figure in workload::figures(&observed) {
                let again =
                    runs.iter().flat_map(|run| run.iter().find(|one| one.name == figure.name));
                let values: Vec<f64> = again.map(|one| one.mean.unwrap_or(one.value)).collect();
                let value = match values.len() {
                    0 => figure.value,
                    count => values.iter().sum::<f64>() / count as f64,
                };
                let name = format!("{} {}: {}", step.workload, step.name, figure.name);
                found.push(Time { name, unit: figure.unit, setting: step.arm.setting, value });
            }
        }
        Ok(found)
    }

    /// What a command prints there, with KVM's module loaded again with these parameters.
    pub(super) fn printed(
        &mut self,
        words: &[&str],
        parameters: &[ModuleParameter],
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<String> {
        self.begin(profile, moment, watch)?;
        self.session.load(parameters, watch)?;
        let command = Command::new(words.iter().map(|word| (*word).to_owned()).collect());
        let mut printed = String::new();
        let run = |watch: &mut Watch<'_>| self.session.run(&command, LIMIT, watch);
        let status = watch.hearing(&mut printed, run)?;
        anyhow::ensure!(status == 0, "{} ended with status {status} there", words.join(" "));
        Ok(printed)
    }

    /// A file that the last command left.
    pub(super) fn fetch(&mut self, path: &str, watch: &mut Watch<'_>) -> anyhow::Result<Vec<u8>> {
        self.session.get(path, watch)
    }

    fn begin(
        &mut self,
        profile: &CostProfile,
        moment: Moment,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<()> {
        self.session.return_to(self.point);
        self.session.set_costs(profile.clone());
        self.session.idle(moment.after(), watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_spread_over_the_period_and_the_first_is_at_once() {
        assert_eq!(Moment(0).after(), Picoseconds::ZERO);
        let mut all: Vec<u64> = (0..10).map(|number| Moment(number).after().0).collect();
        all.sort_unstable();
        all.push(PERIOD.0);
        for both in all.windows(2) {
            let share = (both[1] - both[0]) as f64 / PERIOD.0 as f64;
            assert!((0.04..0.2).contains(&share), "{all:?}");
        }
    }
}
