//! Reading profiles: TOML, overlaid on the profile that is inherited.

use super::{Basis, CostProfile};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Profiles by name, made from their folder when this is compiled.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/costs.rs"));

/// Profiles between one that inherits and the last, at most.
const LONGEST_LINE: usize = 4;

/// Why a cost profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// No profile bears the name.
    #[error("there is no cost profile {0}; there are {known}", known = known())]
    Unknown(String),
    /// Not TOML, or not a profile's fields.
    #[error("cost profile {profile}: {problem}")]
    Syntax {
        /// Its name.
        profile: String,
        /// What the reader says.
        problem: String,
    },
    /// The line of inheritance is too long, or a circle.
    #[error("cost profile {0} inherits from more than {LONGEST_LINE} others")]
    TooManyAncestors(String),
    /// No time can be so.
    #[error("cost profile {profile}: {figure} is {value}, must be at least 0 and finite")]
    Value {
        /// Its name.
        profile: String,
        /// Section and name.
        figure: String,
        /// What it was to be.
        value: f64,
    },
    /// The likely value does not lie between the least and the most.
    #[error(
        "cost profile {profile}: {figure} is {value}, must lie within its own range, {low} to \
         {high}"
    )]
    Range {
        /// Its name.
        profile: String,
        /// Section and name.
        figure: String,
        /// The likely value.
        value: f64,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// No figure of the profile bears the name.
    #[error("cost profile {profile}: no figure is called {figure}")]
    NoFigure {
        /// Its name.
        profile: String,
        /// Section and name.
        figure: String,
    },
    /// What a fit found of several figures together is not about them.
    #[error(
        "cost profile {profile}: draw {draw} of its fit must have a number from 0 on for each of the \
         {figures} figures that the fit names, which must be the profile's"
    )]
    Draw {
        /// Its name.
        profile: String,
        /// From 0 on.
        draw: usize,
        /// That the fit names.
        figures: usize,
    },
    /// A figure that was fitted names no result, or one that was not names some.
    #[error(
        "cost profile {profile}: {section}.{figure} must name what it is fitted to if its basis is \
         \"fitted\", and only then"
    )]
    Fitted {
        /// Its name.
        profile: String,
        /// The figure's section.
        section: &'static str,
        /// The figure.
        figure: &'static str,
    },
}

fn known() -> String {
    let names: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The profile `name` that comes with the program.
pub(super) fn named(name: &str) -> Result<CostProfile, CostError> {
    whole(name, table(name)?)
}

/// A profile of the user's.
pub(super) fn parse(place: &str, text: &str) -> Result<CostProfile, CostError> {
    whole(place, parsed(place, text)?)
}

/// The profile with what it inherits.
fn whole(name: &str, own: Table) -> Result<CostProfile, CostError> {
    let mut whole = own.clone();
    let mut ancestor = parent(&own);
    let mut left = LONGEST_LINE;
    while let Some(next) = ancestor {
        left = left.checked_sub(1).ok_or_else(|| CostError::TooManyAncestors(name.into()))?;
        let inherited = table(&next)?;
        ancestor = parent(&inherited);
        add_missing(&mut whole, inherited);
    }
    let names = figures(&whole).difference(&figures(&own)).cloned().collect();
    let syntax = |e: toml::de::Error| CostError::Syntax {
        profile: name.into(),
        problem: e.message().to_owned(),
    };
    let mut profile: CostProfile = whole.try_into().map_err(syntax)?;
    profile.inherited = names;
    check(&profile)?;
    Ok(profile)
}

fn table(name: &str) -> Result<Table, CostError> {
    let file = FILES.iter().find(|(known, _)| *known == name);
    let (_, text) = file.ok_or_else(|| CostError::Unknown(name.into()))?;
    parsed(name, text)
}

fn parsed(name: &str, text: &str) -> Result<Table, CostError> {
    text.parse().map_err(|e: toml::de::Error| CostError::Syntax {
        profile: name.into(),
        problem: e.to_string(),
    })
}

fn parent(table: &Table) -> Option<String> {
    table.get("inherits").and_then(Value::as_str).map(str::to_owned)
}

/// Adds the figures of `inherited` that `whole` does not have.
fn add_missing(whole: &mut Table, inherited: Table) {
    for (section, value) in inherited {
        let Value::Table(figures) = value else { continue };
        let own = whole.entry(section).or_insert_with(|| Value::Table(Table::new()));
        let Some(own) = own.as_table_mut() else { continue };
        for (figure, value) in figures {
            own.entry(figure).or_insert(value);
        }
    }
}

fn figures(table: &Table) -> BTreeSet<(String, String)> {
    let sections = table.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
    sections
        .flat_map(|(name, figures)| figures.keys().map(|figure| (name.clone(), figure.clone())))
        .collect()
}

fn check(profile: &CostProfile) -> Result<(), CostError> {
    for ((section, figure), number) in profile.figures() {
        let (name, value) = (profile.name.clone(), number.value);
        if !value.is_finite() || value < 0.0 {
            let figure = format!("{section}.{figure}");
            return Err(CostError::Value { profile: name, figure, value });
        }
        let (low, high) = (number.low.unwrap_or(value), number.high.unwrap_or(value));
        // So that a range of NaN is none, too.
        if !(0.0 <= low && low <= value && value <= high && high.is_finite()) {
            let figure = format!("{section}.{figure}");
            return Err(CostError::Range { profile: name, figure, value, low, high });
        }
        let (is_fitted, names_cells) =
            (number.basis == Basis::Fitted, !number.fitted_to.is_empty());
        if is_fitted != names_cells {
            return Err(CostError::Fitted { profile: name, section, figure });
        }
    }
    profile.check_fit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu::CpuModel;

    #[test]
    fn every_model_has_a_profile_with_a_source_for_every_figure() {
        for name in CpuModel::names() {
            let model = CpuModel::named(name).expect(name);
            let profile = named(model.costs()).expect(name);
            assert_eq!(profile.name, model.costs());
            for ((section, figure), number) in profile.figures() {
                assert!(!number.source.is_empty(), "{name} {section}.{figure}");
            }
        }
    }

    #[test]
    fn a_part_has_the_figures_of_its_vendors_interrupt_virtualization() {
        for name in CpuModel::names() {
            let model = CpuModel::named(name).expect(name);
            let profile = named(model.costs()).expect(name);
            let has = |feature| model.has(feature);
            assert!(profile.avic.is_some() || !has(arch::cpuid::Feature::Avic), "{name}");
            assert_eq!(profile.apicv.is_some(), has(arch::cpuid::Feature::Vmx), "{name}");
        }
    }

    #[test]
    fn a_model_without_a_profile_is_refused_and_not_given_anothers() {
        let error = named("zen9").expect_err("there is no such profile");
        assert!(
            error.to_string().starts_with("there is no cost profile zen9; there are generic, ")
        );
    }

    #[test]
    fn what_a_profile_has_itself_is_not_inherited() {
        let (own, other) = (named("zen3").expect("zen3"), named("zen4").expect("zen4"));
        assert_eq!(own.inherits.as_deref(), Some("zen4"));
        assert_ne!(own.instruction.locked, other.instruction.locked);
        assert_eq!(own.avic, other.avic);
        let name = |section: &str, figure: &str| (section.to_owned(), figure.to_owned());
        assert!(own.inherited.contains(&name("avic", "send")));
        assert!(!own.inherited.contains(&name("instruction", "locked")));
    }

    #[test]
    fn a_figure_is_fitted_if_and_only_if_it_names_the_cells() {
        let mut profile = named("zen4").expect("zen4");
        fn send(profile: &mut CostProfile) -> &mut crate::cost::Figure {
            &mut profile.avic.as_mut().expect("AMD's").send
        }
        send(&mut profile).basis = Basis::Fitted;
        send(&mut profile).fitted_to.clear();
        assert!(matches!(check(&profile), Err(CostError::Fitted { figure: "send", .. })));
        send(&mut profile).basis = Basis::Assumed;
        assert!(check(&profile).is_ok());
        send(&mut profile).fitted_to.push("a cell".into());
        assert!(matches!(check(&profile), Err(CostError::Fitted { figure: "send", .. })));
    }
}
