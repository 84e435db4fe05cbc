//! What recording makes of an exit: the same exits are timed by the guest's clock without it, and
//! by themselves as they are recorded.

use super::measured::{Measured, Row};
use arch::apic::Register;
use board::cost::{Beside, Recording};
use profile::{Detail, Key, Profile, Selection};
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, svm, vmx};

/// Begins names of rows that hold what was recorded of exits, from exit to entry.
const RECORDED: &str = "recorded ";
/// The guest's own turn of the loop without an exit.
const NOTHING: &str = "nothing";
/// The kind without an MSR.
const PLAIN: &str = "cpuid";
/// Those with one, each the register of the x2APIC that it accesses and whether it writes.
const ACCESSES: [(Register, bool, &str); 4] = [
    (Register::Id, false, "x2apic apic_read_id"),
    (Register::TaskPriority, true, "x2apic apic_write_task_priority"),
    (Register::InitialCount, true, "x2apic apic_write_initial_count"),
    (Register::CurrentCount, false, "x2apic apic_read_current_count"),
];

/// Means of what was recorded of some kinds, a life of the guest each time.
#[derive(Clone, Debug, Default)]
pub struct Recorded(BTreeMap<&'static str, (u64, Vec<f64>)>);

impl Recorded {
    /// What a life in this process had; other virtual machines of the host are left out.
    pub fn add(&mut self, life: &Profile, process: u32) {
        let Some(isa) = life.isa else { return };
        let own = Selection { process: Some(process), ..Selection::default() };
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (key, cell) in life.rows(&own) {
            let Some(kind) = kind(isa, key) else { continue };
            let (count, time) = sums.entry(kind).or_default();
            (*count, *time) = (*count + cell.count, *time + cell.time_ns);
        }
        for (kind, (count, time)) in sums {
            let (samples, means) = self.0.entry(kind).or_default();
            *samples = count;
            means.push(time as f64 / count.max(1) as f64);
        }
    }

    /// Whether no such exit was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In nanoseconds.
    pub fn rows(&self) -> Vec<Row> {
        let all = self.0.iter();
        let row = |(kind, (samples, means)): (&&str, &(u64, Vec<f64>))| Row {
            samples: *samples,
            ..Row::of_loop(&format!("{RECORDED}{kind}"), means)
        };
        all.map(row).collect()
    }
}

/// The benchmark guest's name of such an exit, of those that are exits of one kind each.
fn kind(isa: Isa, key: Key) -> Option<&'static str> {
    let is_cpuid = match isa {
        Isa::Svm => key.reason() == svm::CPUID,
        Isa::Vmx => key.reason() & 0xffff == vmx::CPUID,
    };
    match key.detail() {
        _ if is_cpuid => Some(PLAIN),
        Detail::Register { offset, is_write } if is_msr(isa, key) => {
            let is_it = |of: &&(Register, bool, &str)| (of.0.offset(), of.1) == (offset, is_write);
            ACCESSES.iter().find(is_it).map(|of| of.2)
        }
        _ => None,
    }
}

/// Whether it is an access to an MSR, which is an event of its own.
pub(super) fn is_msr(isa: Isa, key: Key) -> bool {
    match isa {
        Isa::Svm => key.reason() == svm::MSR,
        Isa::Vmx => matches!(
            key.reason() & 0xffff,
            vmx::MSR_READ | vmx::MSR_WRITE | vmx::MSR_READ_IMM | vmx::MSR_WRITE_IMM
        ),
    }
}

/// What was measured of it; none where it was not.
pub(super) fn recording(measured: &Measured) -> Option<Recording> {
    let by = measured.recorded_by.clone()?;
    // With the feature off, as what is recorded has it.
    let conditions = if measured.host.is_on { "inhibited" } else { "as is" };
    let value =
        |conditions: &str, kind: &str| Some(measured.row(&format!("{conditions} {kind}"))?.value);
    let nothing = value(conditions, NOTHING)?;
    let beside = |row: &Row| {
        let kind = row.name.strip_prefix(RECORDED)?;
        Some((kind == PLAIN, value(conditions, kind)? - nothing - row.value))
    };
    let all: Vec<(bool, f64)> = measured.rows.iter().filter_map(beside).collect();
    let of = |is_cpuid: bool| -> Vec<f64> {
        all.iter().filter(|one| one.0 == is_cpuid).map(|one| one.1).collect()
    };
    let exit = spread(&of(true))?;
    // A form that records no accesses has no event more for them.
    Some(Recording { by, exit, msr: spread(&of(false)).unwrap_or(exit) })
}

fn spread(values: &[f64]) -> Option<Beside> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    // Tenths of a nanosecond: more is not known.
    let tenths = |value: f64| (value * 10.0).round() / 10.0;
    let deviation = tenths((squares / (count - 1.0).max(1.0)).sqrt());
    (!values.is_empty()).then(|| Beside { mean: tenths(mean), deviation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::measured::tests::of_lathe;
    use profile::{Cell, PackedDetail, Vcpu};

    fn measured(is_on: bool, times: &[(&str, f64)]) -> Measured {
        let rows = times.iter().map(|(name, time)| Row::of_loop(name, &[*time])).collect();
        let mut measured = of_lathe(rows);
        measured.host.is_on = is_on;
        measured.recorded_by = Some("summed up".to_owned());
        measured
    }

    const TIMES: [(&str, f64); 9] = [
        ("inhibited nothing", 10.0),
        ("inhibited cpuid", 610.0),
        ("inhibited x2apic apic_read_id", 810.0),
        ("inhibited x2apic apic_write_task_priority", 860.0),
        ("recorded cpuid", 500.0),
        ("recorded x2apic apic_read_id", 900.0),
        ("recorded x2apic apic_write_task_priority", 970.0),
        ("as is x2apic apic_read_id", 60.0),
        ("recorded other", 9000.0),
    ];

    #[test]
    fn it_is_what_an_exit_takes_beside_what_was_recorded_of_it_with_the_feature_off() {
        let found = recording(&measured(true, &TIMES)).expect("it was measured");
        assert_eq!(found.by, "summed up");
        assert_eq!((found.exit.mean, found.exit.deviation), (100.0, 0.0));
        // Recording may take more than the switch does.
        assert_eq!((found.msr.mean, found.msr.deviation), (-110.0, 14.1));
    }

    #[test]
    fn what_was_measured_under_other_conditions_alone_says_nothing() {
        assert_eq!(recording(&measured(false, &TIMES)), None);
        let mut without = measured(true, &TIMES);
        without.recorded_by = None;
        assert_eq!(recording(&without), None);
    }

    #[test]
    fn a_form_that_records_no_accesses_takes_as_much_of_an_exit_with_an_msr() {
        let found = recording(&measured(true, &TIMES[..5])).expect("it was measured");
        assert_eq!(found.msr, found.exit);
    }

    #[test]
    fn lives_are_rows_of_the_kinds_that_the_guest_times_too() {
        let life = |each: u64| {
            let mut cell = Cell::default();
            (0..10).for_each(|one| cell.add(one * 10_000, one * 10_000 + each));
            let keys = [
                Key::exit(svm::CPUID, PackedDetail::UNKNOWN),
                Key::exit(svm::MSR, PackedDetail::register(0x20, false)),
                Key::exit(svm::NESTED_PAGE_FAULT, PackedDetail::register(0x20, false)),
                Key::exit(svm::MSR, PackedDetail::register(0xB0, true)),
            ];
            let cells = keys.map(|key| (key, cell.clone())).into_iter().collect();
            let vcpu = Vcpu { process: 1, thread: 1, number: 0, cells, unpaired: 0, discarded: 0 };
            Profile::of(vec![vcpu], Some(Isa::Svm))
        };
        let mut recorded = Recorded::default();
        [life(500), life(520)].iter().for_each(|life| recorded.add(life, 1));
        recorded.add(&life(9000), 2);
        let rows = recorded.rows();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["recorded cpuid", "recorded x2apic apic_read_id"]);
        assert_eq!((rows[0].value, rows[0].repeats, rows[0].samples), (510.0, 2, 10));
    }
}
