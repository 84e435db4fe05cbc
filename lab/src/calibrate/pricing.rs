//! What an exit that goes saves: what was recorded of it, and what goes with it besides, less what
//! hardware does instead; by the likely prices, and by draws of all, which go together.

use super::recorded::SavedRow;
use super::sample::quantile;
use crate::interval::{Interval, NORMAL};
use arch::apic::Register;
use board::cost::{Beside, CostProfile};
use profile::{Detail, Key, Shorthand};
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, svm, vmx};

/// Draws of a profile that has none of its own.
const DRAWS: u64 = 200;

/// What is known of prices, once for each draw.
struct Prices {
    figures: BTreeMap<(&'static str, &'static str), f64>,
}

impl Prices {
    fn of(profile: &CostProfile) -> Self {
        let entries = profile.entries();
        Self { figures: entries.map(|one| ((one.section, one.name), one.range.likely)).collect() }
    }

    fn figure(&self, section: &'static str, name: &'static str) -> f64 {
        self.figures.get(&(section, name)).copied().unwrap_or(0.0)
    }

    /// Nanoseconds of leaving a guest and entering it again, which KVM does between its
    /// tracepoints. [APM2 "VMLOAD and VMSAVE Instructions"]: it moves state four times.
    fn switch(&self, isa: Isa, hertz: f64) -> f64 {
        let moves = if isa == Isa::Svm { 4.0 } else { 0.0 };
        let of = |name| self.figure("world_switch", name);
        (of("entry") + of("exit") + moves * of("state_move")) / hertz * 1e9
    }
}

/// A kind of exit that would go.
pub(super) struct Kind {
    pub name: String,
    pub feature: &'static str,
    pub count: u64,
    pub time_ns: u64,
    /// What hardware does instead.
    pub instead: Instead,
    /// What goes with it, where that was measured.
    pub beside: Option<Beside>,
}

/// What hardware does where such an exit was, by the names of costs in the feature's section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instead {
    likely: &'static [&'static str],
    /// At least, where the recording does not say which.
    least: &'static [&'static str],
}

/// An IPI to another processor, by AVIC.
const TO_ANOTHER: &[&str] = &["send", "doorbell"];
/// And to the sender itself: nobody is looked up, and no doorbell rings.
const TO_ITSELF: &[&str] = &["write", "deliver"];

pub(super) fn instead(isa: Isa, key: Key) -> Instead {
    let delivers = match isa {
        Isa::Svm => key.reason() == svm::VINTR,
        Isa::Vmx => {
            matches!(key.reason() & 0xffff, vmx::INTERRUPT_WINDOW | vmx::TPR_BELOW_THRESHOLD)
        }
    };
    let likely: &[&str] = match (isa, key.detail()) {
        (Isa::Svm, Detail::Icr(command)) if command.shorthand == Shorthand::OnlySelf => TO_ITSELF,
        (_, detail) if sends(detail) => match isa {
            Isa::Svm => TO_ANOTHER,
            Isa::Vmx => &["send"],
        },
        (_, Detail::Register { is_write: true, .. }) => &["write"],
        (_, Detail::Register { is_write: false, .. }) => &["read"],
        (_, Detail::Vector { .. }) => &["posted", "deliver"],
        _ if delivers => &["deliver"],
        _ => &[],
    };
    // An access to the APIC page is recorded without what was written.
    let is_to_anybody = isa == Isa::Svm && matches!(key.detail(), Detail::Register { .. });
    let least = if is_to_anybody && sends(key.detail()) { TO_ITSELF } else { likely };
    Instead { likely, least }
}

fn sends(detail: Detail) -> bool {
    const COMMAND: u16 = Register::Command.offset();
    matches!(
        detail,
        Detail::Icr(_)
            | Detail::Hypercall { .. }
            | Detail::Register { offset: COMMAND, is_write: true }
    )
}

/// By what exits that go are priced.
pub(super) struct Pricing {
    isa: Isa,
    /// Of the cores.
    hertz: f64,
    likely: Prices,
    /// All prices together, each time.
    draws: Vec<Prices>,
    /// The share by which paths are off although prices are right.
    off: f64,
}

impl Pricing {
    pub fn of(isa: Isa, hertz: f64, costs: &CostProfile) -> Self {
        let fit = costs.fit.as_ref();
        let draws = fit.map_or(DRAWS, |fit| fit.draws.len().max(1) as u64);
        Self {
            isa,
            hertz,
            likely: Prices::of(costs),
            draws: (0..draws).map(|seed| Prices::of(&costs.drawn(seed))).collect(),
            off: fit.map_or(0.0, |fit| fit.off),
        }
    }

    fn steps(&self, steps: &[&'static str], prices: &Prices) -> f64 {
        let section = if self.isa == Isa::Svm { "avic" } else { "apicv" };
        steps.iter().map(|step| prices.figure(section, step)).sum()
    }

    /// What goes with an exit of the kind beside what was recorded.
    fn beside(&self, kind: &Kind, prices: &Prices) -> f64 {
        kind.beside.map_or_else(|| prices.switch(self.isa, self.hertz), |beside| beside.mean)
    }

    /// What these save if hardware takes such steps instead.
    fn net(
        &self,
        kinds: &[Kind],
        prices: &Prices,
        steps: impl Fn(&Kind) -> &'static [&'static str],
    ) -> f64 {
        let of = |kind: &Kind| {
            let each = self.beside(kind, prices) - self.steps(steps(kind), prices);
            kind.time_ns as f64 + kind.count as f64 * each
        };
        kinds.iter().map(of).sum()
    }

    /// Of all of these together. By how much paths are off, and by how much kinds of exits differ
    /// in what recording does, goes together too.
    pub fn interval(&self, kinds: &[Kind]) -> Interval {
        let spread = |steps: fn(&Kind) -> &'static [&'static str]| {
            let net = |prices| self.net(kinds, prices, steps);
            let mut values: Vec<f64> = self.draws.iter().map(net).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let middle = self.net(kinds, &self.likely, |kind| kind.instead.likely);
        let low = quantile(&spread(|kind| kind.instead.likely), 0.05);
        let high = quantile(&spread(|kind| kind.instead.least), 0.95);
        let (below, above) = ((middle - low).max(0.0), (high - middle).max(0.0));
        let of = |each: &dyn Fn(&Kind) -> f64| -> f64 {
            kinds.iter().map(|kind| kind.count as f64 * each(kind)).sum()
        };
        let priced = of(&|kind| {
            let steps = self.steps(kind.instead.likely, &self.likely);
            let switch = if kind.beside.is_some() { 0.0 } else { self.beside(kind, &self.likely) };
            (switch - steps).abs()
        });
        let differing = of(&|kind| kind.beside.map_or(0.0, |beside| beside.deviation));
        let more = NORMAL * (self.off * priced).hypot(differing);
        [middle, middle - below.hypot(more), middle + above.hypot(more)]
    }

    pub fn row(&self, kind: Kind) -> SavedRow {
        SavedRow {
            recorded_ns: kind.time_ns as f64 / kind.count.max(1) as f64,
            beside_ns: self.beside(&kind, &self.likely),
            instead_ns: self.steps(kind.instead.likely, &self.likely),
            saved: self.interval(std::slice::from_ref(&kind)),
            name: kind.name,
            feature: kind.feature,
            count: kind.count,
        }
    }
}
