//! A printed table back into a profile, so that it can be shown and compared like a recording.
//!
//! What was printed is all there is: no histogram, no blocks of time, no vCPUs, and means to two
//! decimals of a microsecond.

use crate::cell::Cell;
use crate::key::{Key, PackedDetail, View};
use crate::name::ExtraNames;
use crate::profile::{Profile, Vcpu};
use trace::exit_reason::Isa;

/// One printed row.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedRow {
    /// The first column: reason, address, port or index.
    pub name: String,
    /// Samples.
    pub count: u64,
    /// Min Time.
    pub min_us: f64,
    /// Max Time.
    pub max_us: f64,
    /// Avg time.
    pub mean_us: f64,
    /// What is printed behind `+-`: the standard error in per cent of the mean.
    pub error_percent: f64,
}

/// Numbers given to names that no table knows.
const EXTRA_REASONS: u32 = 0xf000_0000;

/// A profile of the rows, and the names that stand for no known reason.
pub fn from_rows(title: &str, rows: &[PrintedRow]) -> (Profile, ExtraNames) {
    let view = View::ALL.into_iter().find(|view| view.title() == title).unwrap_or_default();
    let isa = isa_of(rows);
    let mut extra = ExtraNames::new();
    let mut cells: Vec<(Key, Cell)> = Vec::new();
    for row in rows {
        let key = match view {
            View::Vmexit => {
                let known = isa.and_then(|isa| isa.reason_named(&row.name));
                let reason = known.unwrap_or_else(|| {
                    let number = EXTRA_REASONS + extra.len() as u32;
                    extra.insert(number, row.name.clone());
                    number
                });
                Key::exit(reason, PackedDetail::UNKNOWN)
            }
            _ => match access(view, &row.name) {
                Some(key) => key,
                None => continue,
            },
        };
        let cell = Cell::from_printed(row);
        match cells.iter_mut().find(|known| known.0 == key) {
            Some(known) => known.1.join(&cell),
            None => cells.push((key, cell)),
        }
    }
    cells.sort_by_key(|row| row.0);
    let vcpu = Vcpu { process: 0, thread: 0, number: 0, cells, unpaired: 0, discarded: 0 };
    (Profile::of(vec![vcpu], isa), extra)
}

/// The vendor whose spelling most names have.
fn isa_of(rows: &[PrintedRow]) -> Option<Isa> {
    let matches = |isa: Isa| {
        let is_exact = |row: &&PrintedRow| {
            isa.reason_named(&row.name).and_then(|reason| isa.reason_name(reason))
                == Some(row.name.as_str())
        };
        rows.iter().filter(is_exact).count()
    };
    let (svm, vmx) = (matches(Isa::Svm), matches(Isa::Vmx));
    match svm.cmp(&vmx) {
        std::cmp::Ordering::Greater => Some(Isa::Svm),
        std::cmp::Ordering::Less => Some(Isa::Vmx),
        std::cmp::Ordering::Equal => None,
    }
}

/// `0x830:W`, `0x3f8:POUT`
fn access(view: View, name: &str) -> Option<Key> {
    let (address, verb) = name.rsplit_once(':')?;
    let address = u64::from_str_radix(address.strip_prefix("0x").unwrap_or(address), 16).ok()?;
    Some(Key::access(view, address, matches!(verb, "W" | "POUT")))
}

impl Cell {
    /// The sums behind printed statistics, as well as their decimals allow.
    fn from_printed(row: &PrintedRow) -> Self {
        let ns = |us: f64| (us * 1e3).round().clamp(0.0, 1e18) as u64;
        let n = row.count as f64;
        let time = row.mean_us * 1e3 * n;
        let error = row.error_percent / 100.0 * row.mean_us * 1e3;
        let spread = error * error * n * (n - 1.0).max(0.0) * n;
        let squares = (spread + time * time) / n.max(1.0);
        let mut cell = Self::default().with_squares(squares as u128);
        cell.count = row.count;
        cell.time_ns = time.round() as u64;
        (cell.min_ns, cell.max_ns) = (ns(row.min_us), ns(row.max_us));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, count: u64, mean_us: f64, error_percent: f64) -> PrintedRow {
        PrintedRow { name: name.into(), count, min_us: 0.5, max_us: 50.0, mean_us, error_percent }
    }

    #[test]
    fn printed_statistics_come_back() {
        let rows = [row("MSR_WRITE", 42521, 1.71, 0.48), row("FUTURE", 3, 2.0, 1.0)];
        let (profile, extra) = from_rows("VM-EXIT", &rows);
        assert_eq!(profile.isa, Some(Isa::Vmx));
        assert_eq!(extra.values().collect::<Vec<_>>(), ["FUTURE"]);
        let cell = &profile.vcpus[0].cells[0].1;
        assert_eq!((cell.count, cell.min_ns, cell.max_ns), (42521, 500, 50_000));
        assert!((cell.mean_ns() - 1710.0).abs() < 0.1);
        assert!((cell.relative_error() - 0.48).abs() < 0.01);
    }

    #[test]
    fn accesses_are_read_by_the_title() {
        let (profile, _) =
            from_rows("MSR Access", &[row("0x830:W", 5, 1.0, 0.0), row("x", 1, 1.0, 0.0)]);
        assert_eq!(profile.vcpus[0].cells[0].0, Key::access(View::Msr, 0x830, true));
        assert_eq!(profile.vcpus[0].cells.len(), 1);
    }
}
