//! What distributions' kernels have that their number does not say: a row for each, with its
//! source. What is in no row is not known.

use super::KernelFeature;
use KernelFeature as F;

struct Row {
    /// Part of the release that tells the distribution's kernel.
    mark: &'static str,
    /// Numbers at its start.
    base: &'static str,
    /// The numbers behind the base from which on it holds.
    from: &'static [u32],
    has: &'static [KernelFeature],
    #[expect(dead_code, reason = "read by people")]
    source: &'static str,
}

const ROWS: &[Row] = &[Row {
    mark: "uek",
    base: "5.15.0-",
    from: &[204, 146, 1],
    has: &[F::X2avic, F::AbsentInhibits, F::ApicChangedInhibits],
    source: "Oracle Linux Blog, \"How to enable AMD AVIC and speed up your VMs\", 2024-03-28: x2AVIC measured on \
             5.15.0-204.146.1.el8uek, guests of 380 vCPUs; its trace numbers inhibits as Linux 6.0 does",
}];

/// `Some(true)` where a row says so.
pub fn has(release: &str, feature: KernelFeature) -> Option<bool> {
    let is_met = |row: &&Row| {
        let Some(rest) = release.strip_prefix(row.base) else { return false };
        let numbers: Vec<u32> = rest
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|digits| digits.parse().ok())
            .collect();
        release.contains(row.mark) && numbers.as_slice() >= row.from
    };
    let mut met = ROWS.iter().filter(is_met);
    met.any(|row| row.has.contains(&feature)).then_some(true)
}
