//! What a profile's figures rest on, for reports.

use super::{Basis, CostProfile};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};

/// How many figures rest on what. The counts sum up to `figures`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Its name.
    pub profile: String,
    /// The profile that the inherited figures come from, or that one's own origin.
    pub inherits: Option<String>,
    /// All of them.
    pub figures: usize,
    /// Own figures that we measured.
    pub measured: usize,
    /// Own figures that others published.
    pub published: usize,
    /// Own figures that were computed from published ones.
    pub derived: usize,
    /// Own figures that were chosen to meet published results.
    pub fitted: usize,
    /// Own figures without evidence.
    pub assumed: usize,
    /// Those of another part, whatever they rest on there.
    pub inherited: usize,
    /// The published results that figures, inherited ones too, were fitted to, and which a run
    /// therefore does not predict.
    pub fitted_to: Vec<String>,
    /// The seed by which the figures were drawn from their ranges; without it they are the likely
    /// ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<u64>,
}

impl CostProfile {
    /// What the figures of this profile rest on.
    pub fn provenance(&self) -> Provenance {
        let own = |(section, figure): (&str, &str)| !self.is_inherited(section, figure);
        let count = |basis| {
            self.figures().filter(|(name, figure)| own(*name) && figure.basis == basis).count()
        };
        let mut fitted_to: Vec<_> =
            self.figures().flat_map(|(_, figure)| figure.fitted_to.iter().cloned()).collect();
        fitted_to.sort();
        fitted_to.dedup();
        Provenance {
            profile: self.name.clone(),
            inherits: self.inherits.clone(),
            figures: self.figures().count(),
            measured: count(Basis::Measured),
            published: count(Basis::Published),
            derived: count(Basis::Derived),
            fitted: count(Basis::Fitted),
            assumed: count(Basis::Assumed),
            inherited: self.inherited.len(),
            fitted_to,
            draw: self.draw,
        }
    }
}

impl Display for Provenance {
    /// Such as: `zen4, 43 figures: 0 measured, 12 published, 8 derived, 2 fitted, 21 assumed`.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "{}, {} figures: {} measured, {} published, {} derived, {} fitted, {} assumed",
            self.profile,
            self.figures,
            self.measured,
            self.published,
            self.derived,
            self.fitted,
            self.assumed
        )?;
        if let Some(parent) = &self.inherits {
            write!(f, ", {} inherited from {parent}", self.inherited)?;
        }
        match self.draw {
            Some(seed) => write!(f, ", each drawn from its range by seed {seed}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::FILES;
    use super::*;

    #[test]
    fn every_figure_is_counted_once() {
        for (name, _) in FILES {
            let it = CostProfile::named(name).expect(name).provenance();
            let sum = it.measured + it.published + it.derived + it.fitted + it.assumed;
            assert_eq!(sum + it.inherited, it.figures, "{name}");
            assert_eq!(it.inherits.is_some(), it.inherited > 0, "{name}");
        }
    }

    #[test]
    fn fitted_cells_are_named_once_and_go_with_inherited_figures() {
        let of = |name| CostProfile::named(name).expect(name).provenance().fitted_to;
        assert!(!of("zen4").is_empty());
        assert_eq!(of("zen5"), of("zen4"));
    }
}
