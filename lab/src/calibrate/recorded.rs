//! What interrupt virtualization would save a host that recorded its exits without it: each exit
//! that it takes away saves what the recording says it took, from the exit to the next entry, and
//! the switch there and back, which no recording has in it; what hardware does instead stays. Of a
//! host where `bench calibrate` recorded exits it is known by how much both together differ from
//! what is recorded, in which recording's own time is. Which exits go is [`profile::avoidable`]'s
//! verdict, a ceiling; what switches and hardware take is priced by draws of a profile.

use super::recording::is_msr;
use super::sample::quantile;
use crate::interval::{Interval, NORMAL};
use arch::cpuid::Feature;
use board::cost::{Beside, CostProfile};
use cpu::CpuModel;
use profile::avoidable::{Verdict, is_idle, is_left_to_kvm, judge};
use profile::name::{detail_name, row_name};
use profile::{Context, Detail, Key, Profile, Selection, Shorthand};
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, svm, vmx};

/// Draws of a profile that has none of its own.
const DRAWS: u64 = 200;

/// What would be saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Kinds of exits that would go, what saves most in front.
    pub rows: Vec<SavedRow>,
    /// Of all of them together, in nanoseconds of processors.
    pub total: Interval,
    /// Nanoseconds of exits in which nobody waits, as they were recorded.
    pub work_ns: u64,
    /// The same of those of which the recording does not tell whether they would go.
    pub unknown_ns: u64,
    /// Whether the profile says what recordings of this form lack, and what is too much in them.
    pub is_known: bool,
    /// Features that would take more away and are not the processor's, with the nanoseconds of
    /// such exits.
    pub lacking: Vec<(&'static str, u64)>,
    /// Nanoseconds of exits that hardware would do without and KVM has all the same.
    pub intercepted_ns: u64,
    /// Seconds that were recorded.
    pub seconds: f64,
    /// vCPUs that had exits.
    pub vcpus: usize,
}

/// Exits of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRow {
    /// The reason, and what it was about.
    pub name: String,
    /// What takes it away.
    pub feature: &'static str,
    /// How many there were.
    pub count: u64,
    /// Mean nanoseconds from exit to entry, as they were recorded.
    pub recorded_ns: f64,
    /// Nanoseconds that go with it beside these, likely: of the switch, less what of these was
    /// recording itself where that is known.
    pub beside_ns: f64,
    /// Nanoseconds of what hardware does instead, likely.
    pub instead_ns: f64,
    /// Nanoseconds of all that is saved.
    pub saved: Interval,
}

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
struct Kind {
    name: String,
    feature: &'static str,
    count: u64,
    time_ns: u64,
    /// Of the feature's section.
    steps: &'static [&'static str],
    /// What goes with it, where that was measured.
    beside: Option<Beside>,
}

/// What the processor's features would save of a profile that was recorded so, in its own words;
/// `None` if the recording does not say whose exits these are.
pub fn saved(
    (recorded, by): (&Profile, &str),
    context: &Context,
    model: &CpuModel,
    costs: &CostProfile,
) -> Option<Saved> {
    let isa = recorded.isa.or(context.isa)?;
    let recording = costs.fit.as_ref().and_then(|fit| fit.recording.as_ref());
    let recording = recording.filter(|recording| recording.by == by);
    let (mut kinds, mut lacking) = (Vec::new(), BTreeMap::new());
    let (mut work_ns, mut unknown_ns, mut intercepted_ns) = (0, 0, 0);
    for (key, cell) in recorded.rows(&Selection::default()) {
        let judged = judge(isa, key.reason(), key.detail(), context.evidence);
        if is_idle(isa, key.reason()) {
            continue;
        }
        work_ns += cell.time_ns;
        match judged.verdict {
            Verdict::Unknown => unknown_ns += cell.time_ns,
            Verdict::NotAvoidable => {}
            Verdict::Avoidable if !has(model, judged.feature) => {
                *lacking.entry(judged.feature).or_default() += cell.time_ns;
            }
            Verdict::Avoidable if is_left_to_kvm(isa, key.detail()) => {
                intercepted_ns += cell.time_ns;
            }
            Verdict::Avoidable => kinds.push(Kind {
                name: name(key, isa, context),
                feature: judged.feature,
                count: cell.count,
                time_ns: cell.time_ns,
                steps: instead(isa, key),
                beside: recording.map(|recording| match is_msr(isa, key) {
                    true => recording.msr,
                    false => recording.exit,
                }),
            }),
        }
    }
    let (rows, total) = priced(&kinds, isa, model.core_hertz() as f64, costs);
    Some(Saved {
        rows,
        total,
        work_ns,
        unknown_ns,
        is_known: recording.is_some(),
        lacking: lacking.into_iter().collect(),
        intercepted_ns,
        seconds: recorded.seconds(),
        vcpus: recorded.vcpus.len(),
    })
}

fn name(key: Key, isa: Isa, context: &Context) -> String {
    let reason = row_name(key, Some(isa), &context.extra_names);
    match detail_name(key.detail()) {
        about if about.is_empty() => reason,
        about => format!("{reason} {about}"),
    }
}

/// Whether a processor has what takes an exit away.
fn has(model: &CpuModel, feature: &str) -> bool {
    match feature {
        "AVIC" => model.has(Feature::Avic),
        "x2AVIC" => model.has(Feature::X2avic),
        "IPIv" => crate::plan::has_ipi_virtualization(model),
        // The machine's models of Intel's have both, or no virtualization.
        _ => model.has(Feature::Vmx),
    }
}

/// What hardware does where such an exit was, by the names of costs.
fn instead(isa: Isa, key: Key) -> &'static [&'static str] {
    let delivers = match isa {
        Isa::Svm => key.reason() == svm::VINTR,
        Isa::Vmx => {
            matches!(key.reason() & 0xffff, vmx::INTERRUPT_WINDOW | vmx::TPR_BELOW_THRESHOLD)
        }
    };
    match key.detail() {
        // To the sender itself the hardware looks nobody up, and rings no doorbell.
        Detail::Icr(command) if isa == Isa::Svm && command.shorthand == Shorthand::OnlySelf => {
            &["write", "deliver"]
        }
        Detail::Icr(_)
        | Detail::Hypercall { .. }
        | Detail::Register { offset: 0x300, is_write: true } => {
            if isa == Isa::Svm {
                &["send", "doorbell"]
            } else {
                &["send"]
            }
        }
        Detail::Register { is_write: true, .. } => &["write"],
        Detail::Register { is_write: false, .. } => &["read"],
        Detail::Vector { .. } => &["posted", "deliver"],
        _ if delivers => &["deliver"],
        _ => &[],
    }
}

/// Each kind by the likely prices and by draws of all, which go together.
fn priced(kinds: &[Kind], isa: Isa, hertz: f64, costs: &CostProfile) -> (Vec<SavedRow>, Interval) {
    let section = if isa == Isa::Svm { "avic" } else { "apicv" };
    let of = |kind: &Kind, prices: &Prices| {
        let steps: f64 = kind.steps.iter().map(|step| prices.figure(section, step)).sum();
        let switch = || prices.switch(isa, hertz);
        (kind.beside.map_or_else(switch, |beside| beside.mean), steps)
    };
    let net = |kind: &Kind, prices: &Prices| {
        let (beside, steps) = of(kind, prices);
        kind.time_ns as f64 + kind.count as f64 * (beside - steps)
    };
    let fit = costs.fit.as_ref();
    let off = fit.map_or(0.0, |fit| fit.off);
    let draws = fit.map_or(DRAWS, |fit| fit.draws.len().max(1) as u64);
    let draws: Vec<Prices> = (0..draws).map(|seed| Prices::of(&costs.drawn(seed))).collect();
    let likely = Prices::of(costs);
    // By how much paths are off, and kinds of exits differ in what recording does: all together.
    let interval = |all: &dyn Fn(&Prices) -> f64, of_prices: f64, of_kinds: f64| {
        let mut values: Vec<f64> = draws.iter().map(all).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (middle, more) = (all(&likely), NORMAL * (off * of_prices).hypot(of_kinds));
        let [low, high] = [0.05, 0.95].map(|share| quantile(&values, share));
        let (below, above) = ((middle - low).max(0.0), (high - middle).max(0.0));
        [middle, middle - below.hypot(more), middle + above.hypot(more)]
    };
    let priced_part = |kind: &Kind| {
        let (beside, steps) = of(kind, &likely);
        kind.count as f64 * if kind.beside.is_some() { steps } else { (beside - steps).abs() }
    };
    let kinds_part = |kind: &Kind| kind.count as f64 * kind.beside.map_or(0.0, |one| one.deviation);
    let row = |kind: &Kind| {
        let (beside_ns, instead_ns) = of(kind, &likely);
        SavedRow {
            name: kind.name.clone(),
            feature: kind.feature,
            count: kind.count,
            recorded_ns: kind.time_ns as f64 / kind.count.max(1) as f64,
            beside_ns,
            instead_ns,
            saved: interval(&|prices| net(kind, prices), priced_part(kind), kinds_part(kind)),
        }
    };
    let mut rows: Vec<SavedRow> = kinds.iter().map(row).collect();
    rows.sort_by(|a, b| b.saved[0].total_cmp(&a.saved[0]));
    let all = |prices: &Prices| kinds.iter().map(|kind| net(kind, prices)).sum::<f64>();
    let (of_prices, of_kinds) =
        (kinds.iter().map(priced_part).sum(), kinds.iter().map(kinds_part).sum());
    let total = interval(&all, of_prices, of_kinds);
    (rows, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use board::cost::{Fit, Recording};
    use profile::{Cell, PackedDetail, Vcpu};

    fn recorded(isa: Isa, rows: &[(u32, PackedDetail, u64, u64)]) -> (Profile, Context) {
        let cells = rows.iter().map(|(reason, detail, count, each)| {
            let mut cell = Cell::default();
            (0..*count).for_each(|one| cell.add(one * 10_000, one * 10_000 + each));
            (Key::exit(*reason, *detail), cell)
        });
        let vcpu = Vcpu {
            process: 1,
            thread: 1,
            number: 0,
            cells: cells.collect(),
            unpaired: 0,
            discarded: 0,
        };
        let profile = Profile {
            vcpus: vec![vcpu],
            tallies: Vec::new(),
            inhibits: Vec::new(),
            events: 0,
            lost_events: 0,
            ignored: 0,
            isa: Some(isa),
            span_ns: Some((0, 1_000_000_000)),
        };
        let mut context = Context::default();
        context.evidence.has_msr = true;
        (profile, context)
    }

    fn of(name: &str, isa: Isa, rows: &[(u32, PackedDetail, u64, u64)]) -> Saved {
        let model = CpuModel::named(name).expect("a model");
        let costs = CostProfile::named(model.costs()).expect("its costs");
        let (profile, context) = recorded(isa, rows);
        saved((&profile, "summed up"), &context, &model, &costs).expect("whose exits they are")
    }

    #[test]
    fn what_recordings_of_that_form_lack_takes_the_place_of_the_switch_where_it_was_measured() {
        let model = CpuModel::named("zen4").expect("a model");
        let mut costs = CostProfile::named(model.costs()).expect("its costs");
        let rows = [
            (svm::MSR, PackedDetail::register(0xB0, true), 1000, 1200),
            (svm::VINTR, PackedDetail::UNKNOWN, 100, 900),
        ];
        let (profile, context) = recorded(Isa::Svm, &rows);
        let of = |costs: &CostProfile, by: &str| {
            saved((&profile, by), &context, &model, costs).expect("whose exits they are")
        };
        let plain = of(&costs, "summed up");
        costs.fit = Some(Fit {
            host: "lathe".into(),
            prior: "zen4".into(),
            misfit: false,
            off: 0.0,
            figures: Vec::new(),
            draws: Vec::new(),
            recording: Some(Recording {
                by: "summed up".into(),
                exit: Beside { mean: 100.0, deviation: 0.0 },
                msr: Beside { mean: -100.0, deviation: 0.0 },
            }),
        });
        let found = of(&costs, "summed up");
        assert!(!plain.is_known && found.is_known);
        // Less a write of the APIC page, and a delivery.
        let expected = 1000.0 * (1200.0 - 100.0 - 60.0) + 100.0 * (900.0 + 100.0 - 160.0);
        assert!((found.total[0] - expected).abs() < 1.0, "{found:?}");
        let other = of(&costs, "every event");
        assert_eq!((other.is_known, other.total[0]), (false, plain.total[0]));
        let recording = costs.fit.as_mut().and_then(|fit| fit.recording.as_mut());
        recording.expect("it has one").msr.deviation = 50.0;
        let wider = of(&costs, "summed up");
        assert!(wider.total[1] < found.total[1] && found.total[2] < wider.total[2], "{wider:?}");
    }

    #[test]
    fn an_exit_that_goes_saves_its_time_and_its_switch_but_for_what_hardware_does() {
        // zen4: 390 + 470 + 4 x 90 core cycles at 3.7 GHz, and a write of the APIC page, 60 ns.
        let found =
            of("zen4", Isa::Svm, &[(svm::MSR, PackedDetail::register(0xB0, true), 1000, 800)]);
        let each = 800.0 + (390.0 + 470.0 + 360.0) / 3.7 - 60.0;
        assert!((found.total[0] - 1000.0 * each).abs() < 1.0, "{found:?}");
        assert_eq!(found.rows.len(), 1);
        assert_eq!((found.rows[0].feature, found.rows[0].instead_ns), ("x2AVIC", 60.0));
        let [middle, low, high] = found.total;
        assert!(low < middle && middle < high && low > 800_000.0, "{found:?}");
        assert_eq!((found.work_ns, found.unknown_ns), (800_000, 0));
    }

    #[test]
    fn waiting_is_no_work_and_what_stays_or_is_not_known_saves_nothing() {
        let rows = [
            (svm::HLT, PackedDetail::UNKNOWN, 100, 5000),
            (svm::INTERRUPT, PackedDetail::UNKNOWN, 100, 700),
            (0x72, PackedDetail::UNKNOWN, 100, 600),
        ];
        let found = of("zen4", Isa::Svm, &rows);
        assert_eq!((found.total[0], found.work_ns, found.unknown_ns), (0.0, 130_000, 70_000));
        assert!(found.rows.is_empty());
    }

    #[test]
    fn a_feature_that_the_processor_has_not_saves_nothing_and_is_named() {
        let found =
            of("zen3", Isa::Svm, &[(svm::MSR, PackedDetail::register(0xB0, true), 10, 800)]);
        assert_eq!(found.lacking, [("x2AVIC", 8000)]);
        assert!(found.rows.is_empty());
    }

    #[test]
    fn an_exit_that_kvm_has_with_the_feature_as_well_saves_nothing_and_is_named() {
        let rows = [(svm::MSR, PackedDetail::register(0x3F0, true), 10, 800)];
        let found = of("zen4", Isa::Svm, &rows);
        assert_eq!((found.intercepted_ns, found.work_ns, found.total[0]), (8000, 8000, 0.0));
        let rows = [(vmx::MSR_WRITE, PackedDetail::register(0x3F0, true), 10, 800)];
        let found = of("skylake-sp", Isa::Vmx, &rows);
        assert!(found.intercepted_ns == 0 && found.total[0] > 0.0, "{found:?}");
    }

    #[test]
    fn an_ipi_to_the_sender_itself_is_a_write_and_a_delivery_and_rings_no_doorbell() {
        let to = |shorthand: u32| PackedDetail::icr(0xF0 | shorthand << 18, true);
        let of = |shorthand| of("zen4", Isa::Svm, &[(svm::MSR, to(shorthand), 10, 900)]);
        assert_eq!(of(1).rows[0].instead_ns, 60.0 + 160.0);
        assert_eq!(of(0).rows[0].instead_ns, 504.0 + 100.0);
    }

    #[test]
    fn an_interrupt_window_is_replaced_by_a_delivery() {
        let rows = [(vmx::INTERRUPT_WINDOW, PackedDetail::UNKNOWN, 10, 900)];
        let found = of("skylake-sp", Isa::Vmx, &rows);
        assert_eq!((found.rows[0].feature, found.rows[0].instead_ns), ("APICv", 40.0));
        assert_eq!(found.vcpus, 1);
    }
}
