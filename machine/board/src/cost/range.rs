//! How far a figure may be wrong: the least, the likely and the most that it can be.
//!
//! Where a source gives a spread, the profile has it. Where it does not, the basis decides: two
//! publications about one part differ by about a tenth; what was computed from them, or fitted to
//! them, can be off by a half; what was assumed by a factor of two. A figure inherited from another
//! part is no better than a computed one.

use super::{Basis, CostError, CostProfile, Figure};

/// What a figure can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The likely value, the one that is used.
    pub likely: f64,
    /// The most.
    pub high: f64,
}

/// A figure with what is known of it, for code that fits or draws figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Such as `world_switch`.
    pub section: &'static str,
    /// Such as `entry`.
    pub name: &'static str,
    /// In the unit of its section: core cycles for `instruction`, `world_switch` and `mitigation`,
    /// else nanoseconds.
    pub range: Range,
    /// What it rests on.
    pub basis: Basis,
    /// Whether another part's profile has it.
    pub is_inherited: bool,
    /// Published results that served to choose it.
    pub fitted_to: Vec<String>,
}

impl Basis {
    /// The factor by which a figure may be wrong that says no more of itself.
    pub const fn factor(self) -> f64 {
        match self {
            Self::Measured | Self::Published => 1.1,
            Self::Derived | Self::Fitted => 1.5,
            Self::Assumed => 2.0,
        }
    }
}

impl Range {
    fn of(figure: &Figure) -> Self {
        let (likely, factor) = (figure.value, figure.basis.factor());
        let (low, high) = (figure.low, figure.high);
        let (low, high) = (low.unwrap_or(likely / factor), high.unwrap_or(likely * factor));
        Self { low, likely, high }
    }

    /// No narrower than that of a computed figure.
    fn of_another_part(self) -> Self {
        let (likely, factor) = (self.likely, Basis::Derived.factor());
        let (low, high) = (self.low.min(likely / factor), self.high.max(likely * factor));
        Self { low, likely, high }
    }
}

impl CostProfile {
    /// All figures with their ranges, in the order of the sections.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.figures().map(|((section, name), figure)| {
            let is_inherited = self.is_inherited(section, name);
            let range = Range::of(figure);
            // What was drawn has the range that it was drawn from.
            let is_widened = is_inherited && self.draw.is_none();
            Entry {
                section,
                name,
                range: if is_widened { range.of_another_part() } else { range },
                basis: figure.basis,
                is_inherited,
                fitted_to: figure.fitted_to.clone(),
            }
        })
    }

    /// The same profile with every range as its own figure's, whatever it follows from here.
    pub(super) fn with_own_ranges(&self) -> Self {
        let mut profile = self.clone();
        for Entry { section, name, range, .. } in self.entries() {
            // It is there, for `entries` is made of the same figures.
            if let Some(figure) = profile.figure_mut(section, name) {
                (figure.low, figure.high) = (Some(range.low), Some(range.high));
            }
        }
        profile
    }

    /// Gives a figure another likely value; what it rests on stays as it is, and a range of its own
    /// is made wider if need be.
    pub fn set(&mut self, section: &str, name: &str, value: f64) -> Result<(), CostError> {
        let profile = self.name.clone();
        let full_name = format!("{section}.{name}");
        let Some(figure) = self.figure_mut(section, name) else {
            return Err(CostError::NoFigure { profile, figure: full_name });
        };
        if !value.is_finite() || value < 0.0 {
            return Err(CostError::Value { profile, figure: full_name, value });
        }
        figure.value = value;
        figure.low = figure.low.map(|low| low.min(value));
        figure.high = figure.high.map(|high| high.max(value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(profile: &CostProfile, section: &str, name: &str) -> Entry {
        let found = profile.entries().find(|one| (one.section, one.name) == (section, name));
        found.expect("a figure of the profile")
    }

    #[test]
    fn a_range_without_a_spread_of_its_source_follows_from_the_basis() {
        let text = r#"
            name = "test"
            inherits = "zen4"
            [event]
            delivery = { value = 100, basis = "assumed", source = "a test" }
            iret = { value = 100, basis = "published", source = "a test" }
            [world_switch]
            exit = { value = 100, low = 50, high = 400, basis = "derived", source = "a test" }
        "#;
        let profile = CostProfile::parse("test.toml", text).expect("a profile");
        for (section, name, low, high) in [
            ("event", "delivery", 50.0, 200.0),
            ("event", "iret", 100.0 / 1.1, 100.0 * 1.1),
            ("world_switch", "exit", 50.0, 400.0),
            // Published of the other part, where a tenth would do.
            ("instruction", "pause", 65.7 / 1.5, 65.7 * 1.5),
        ] {
            let range = entry(&profile, section, name).range;
            assert_eq!((range.low, range.high), (low, high), "{section}.{name}");
        }
    }

    #[test]
    fn every_figure_of_every_profile_is_within_its_range() {
        for name in cpu::CpuModel::names() {
            let model = cpu::CpuModel::named(name).expect(name);
            let profile = CostProfile::named(model.costs()).expect(name);
            for Entry { section, name: figure, range, .. } in profile.entries() {
                let Range { low, likely, high } = range;
                assert!(low <= likely && likely <= high, "{name} {section}.{figure}: {range:?}");
            }
        }
    }

    #[test]
    fn a_figure_is_set_by_name_and_read_back_from_what_is_written() {
        let mut profile = CostProfile::named("sapphire-rapids").expect("a profile");
        profile.set("apicv", "posted", 300.5).expect("a figure of Intel's parts");
        assert!(profile.set("avic", "send", 1.0).is_err(), "AMD's");
        assert!(profile.set("event", "iret", f64::NAN).is_err());
        let read = CostProfile::parse("mine.toml", &profile.to_toml()).expect("what was written");
        assert_eq!(entry(&read, "apicv", "posted").range.likely, 300.5);
        assert_eq!(read.figures().count(), profile.figures().count());
    }
}
