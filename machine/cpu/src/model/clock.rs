//! At which of a part's clocks its cores run.

use super::schema::CLOCK_RANGE;
use super::{CpuModel, ModelError};
use arch::cpuid::Feature;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A choice of the core clock: the highest, where software can change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CoreClock {
    /// What is promised with all cores busy.
    Base,
    /// The boost of all cores at once.
    AllCore,
    /// The highest boost, which few busy cores of an idle host have.
    #[default]
    Boost,
    /// A fixed rate, as benchmarks set it.
    Hertz(u64),
}

impl FromStr for CoreClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = (CLOCK_RANGE.start(), CLOCK_RANGE.end());
        match text {
            "base" => Ok(Self::Base),
            "all-core" => Ok(Self::AllCore),
            "boost" => Ok(Self::Boost),
            _ => hertz(text).filter(|hertz| CLOCK_RANGE.contains(hertz)).map(Self::Hertz).ok_or(
                format!(
                    "must be base, all-core, boost, or a rate from {least} to {most} Hz, such as \
                     2500000000 or 2.5GHz"
                ),
            ),
        }
    }
}

/// A number, or one of MHz or GHz.
fn hertz(text: &str) -> Option<u64> {
    let of = |unit: &str, hertz: f64| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        // The range is checked by who asks.
        (number.is_finite() && number >= 0.0).then_some((number * hertz).round() as u64)
    };
    of("GHz", 1e9).or_else(|| of("MHz", 1e6)).or_else(|| text.replace('_', "").parse().ok())
}

impl Display for CoreClock {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Base => f.write_str("base"),
            Self::AllCore => f.write_str("all-core"),
            Self::Boost => f.write_str("boost"),
            Self::Hertz(hertz) => hertz.fmt(f),
        }
    }
}

impl CpuModel {
    /// Clocks the cores so.
    pub fn set_clock(&mut self, clock: CoreClock) -> Result<(), ModelError> {
        self.core_hertz = match clock {
            CoreClock::Base => self.clocks.base.hertz,
            CoreClock::Boost => self.clocks.boost.hertz,
            CoreClock::Hertz(hertz) => hertz,
            CoreClock::AllCore => {
                let all_core = self.clocks.all_core.as_ref();
                let rate = all_core.ok_or_else(|| ModelError::AllCore(self.name.clone()))?;
                rate.hertz
            }
        };
        Ok(())
    }

    /// Lets software choose the cores' clock, up to the one that was set. The registers, and what
    /// announces them, are there with this alone, since kernels that find them slow idle processors
    /// down.
    pub fn let_software_clock(&mut self) -> Result<(), ModelError> {
        if self.clocks.control.is_empty() {
            return Err(ModelError::ClockControl(self.name.clone()));
        }
        let features = self.clocks.control.iter().filter_map(|name| Feature::from_name(name));
        features.for_each(|feature| self.features.insert(feature));
        Ok(())
    }

    /// The rates of P-states, the fastest first; none where software chooses none. The first is the
    /// base clock. The two below are assumed: servers of these parts end at 1.5 GHz.
    pub fn p_states(&self) -> Vec<u64> {
        const LAST: u64 = 1_500_000_000;
        const STEP: u64 = 25_000_000;
        if !self.has(Feature::HwPstate) {
            return Vec::new();
        }
        let base = self.clocks.base.hertz;
        let middle = (base + LAST) / 2 / STEP * STEP;
        let mut states = vec![base, middle, LAST];
        states.dedup_by(|next, before| next >= before);
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_name_or_a_rate_that_a_core_can_have() {
        for (text, clock) in [
            ("base", CoreClock::Base),
            ("all-core", CoreClock::AllCore),
            ("boost", CoreClock::Boost),
            ("2500000000", CoreClock::Hertz(2_500_000_000)),
            ("2_500_000_000", CoreClock::Hertz(2_500_000_000)),
            ("2.592GHz", CoreClock::Hertz(2_592_000_000)),
            ("2400MHz", CoreClock::Hertz(2_400_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(clock), "{text}");
            assert_eq!(clock.to_string().parse(), Ok(clock), "{text}");
        }
        for text in ["", "2.5", "0", "99999999", "11GHz", "-1GHz", "infGHz", "fast"] {
            let error = text.parse::<CoreClock>().expect_err(text);
            assert!(error.contains("such as 2500000000 or 2.5GHz"), "{text}: {error}");
        }
    }

    #[test]
    fn cores_run_at_their_boost_unless_another_clock_is_chosen() {
        let rows = [
            (CoreClock::Boost, 3_700_000_000),
            (CoreClock::AllCore, 3_550_000_000),
            (CoreClock::Base, 2_400_000_000),
            (CoreClock::Hertz(2_500_000_000), 2_500_000_000),
        ];
        let mut model = CpuModel::named("zen4").expect("a model");
        assert_eq!(model.core_hertz(), 3_700_000_000);
        for (clock, hertz) in rows {
            model.set_clock(clock).expect("a clock that the part has");
            assert_eq!((model.core_hertz(), model.tsc_hertz()), (hertz, 2_400_000_000), "{clock}");
        }
    }

    #[test]
    fn a_boost_of_all_cores_that_nobody_published_is_refused() {
        let mut model = CpuModel::named("zen2").expect("a model");
        let error = model.set_clock(CoreClock::AllCore).expect_err("it is not published");
        assert_eq!(error, ModelError::AllCore("zen2".into()));
    }

    #[test]
    fn every_rate_says_where_it_is_from() {
        for name in CpuModel::names() {
            let model = CpuModel::named(name).expect(name);
            let clocks = model.clocks();
            let rates = [Some(&clocks.base), clocks.all_core.as_ref(), Some(&clocks.boost)];
            assert!(rates.into_iter().flatten().all(|rate| !rate.source.is_empty()), "{name}");
        }
    }
}
