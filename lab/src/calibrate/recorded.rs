//! What interrupt virtualization would save a host that recorded its exits without it: each exit
//! that it takes away saves what the recording says it took, from the exit to the next entry, and
//! the switch there and back, which no recording has in it; what hardware does instead stays. Of a
//! host where `bench calibrate` recorded exits it is known by how much both together differ from
//! what is recorded, in which recording's own time is. Which exits go is [`profile::avoidable`]'s
//! verdict, a ceiling; what switches and hardware take is priced by draws of a profile.

use super::pricing::{Kind, Pricing, instead};
use super::recording::is_msr;
use crate::interval::Interval;
use arch::cpuid::Feature;
use board::cost::CostProfile;
use cpu::CpuModel;
use profile::avoidable::{Verdict, is_idle, is_left_to_kvm, judge};
use profile::name::{detail_name, row_name};
use profile::{Context, Key, Profile, Selection};
use std::collections::BTreeMap;
use trace::exit_reason::Isa;

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
                instead: instead(isa, key),
                beside: recording.map(|recording| match is_msr(isa, key) {
                    true => recording.msr,
                    false => recording.exit,
                }),
            }),
        }
    }
    let pricing = Pricing::of(isa, model.core_hertz() as f64, costs);
    let total = pricing.interval(&kinds);
    let mut rows: Vec<SavedRow> = kinds.into_iter().map(|kind| pricing.row(kind)).collect();
    rows.sort_by(|a, b| b.saved[0].total_cmp(&a.saved[0]));
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

#[cfg(test)]
mod tests {
    use super::*;
    use board::cost::{Beside, Fit, Recording};
    use profile::{Cell, PackedDetail, Vcpu};
    use trace::exit_reason::{svm, vmx};

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
        let mut profile = Profile::of(vec![vcpu], Some(isa));
        profile.span_ns = Some((0, 1_000_000_000));
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

    /// A fit that leaves all prices as they are.
    fn fit(recording: Option<Recording>) -> Fit {
        Fit {
            host: "lathe".into(),
            prior: "zen4".into(),
            misfit: false,
            off: 0.0,
            figures: Vec::new(),
            draws: vec![Vec::new()],
            recording,
        }
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
        costs.fit = Some(fit(Some(Recording {
            by: "summed up".into(),
            exit: Beside { mean: 100.0, deviation: 0.0 },
            msr: Beside { mean: -100.0, deviation: 0.0 },
        })));
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
    fn the_interval_of_an_ipi_of_which_it_is_not_known_to_whom_holds_one_to_the_sender() {
        let unknown = (svm::NESTED_PAGE_FAULT, PackedDetail::register(0x300, true), 10, 900);
        let model = CpuModel::named("zen4").expect("a model");
        let mut costs = CostProfile::named(model.costs()).expect("its costs");
        costs.fit = Some(fit(None));
        let (profile, context) = recorded(Isa::Svm, &[unknown]);
        let found = saved((&profile, ""), &context, &model, &costs).expect("whose exits they are");
        let [likely, low, high] = found.total;
        let to_itself = likely + 10.0 * (504.0 + 100.0 - 60.0 - 160.0);
        assert_eq!(found.rows[0].instead_ns, 504.0 + 100.0);
        assert!((low - likely).abs() < 1e-6 && (high - to_itself).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn an_interrupt_window_is_replaced_by_a_delivery() {
        let rows = [(vmx::INTERRUPT_WINDOW, PackedDetail::UNKNOWN, 10, 900)];
        let found = of("skylake-sp", Isa::Vmx, &rows);
        assert_eq!((found.rows[0].feature, found.rows[0].instead_ns), ("APICv", 40.0));
        assert_eq!(found.vcpus, 1);
    }
}
