//! `/proc/interrupts`: posted-interrupt notifications, which any user may read.

use std::collections::BTreeMap;

/// Rows that tell of posting: notification, nested notification, wakeup, and the GA log of
/// AMD's IOMMU.
const ROWS: [(&str, &str); 4] = [
    ("PIN", "posted-interrupt notifications"),
    ("NPI", "nested posted interrupts"),
    ("PIW", "posted-interrupt wakeups"),
    ("AMD-Vi", "GA log of the IOMMU"),
];

/// Sums over all CPUs of the rows that are there, by what they count.
pub fn parse(text: &str) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let named = ROWS.iter().find(|(key, _)| {
            label.trim() == *key
                || *key == "AMD-Vi" && rest.contains("AMD-Vi") && rest.contains("GA")
        });
        if let Some((_, meaning)) = named {
            let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            *sums.entry(*meaning).or_insert(0) += counts.sum::<u64>();
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_over_cpus() {
        let text = "           CPU0       CPU1\n  0:  44  0  IO-APIC 2-edge timer\n\
            PIN:  5   7   Posted-interrupt notification event\nPIW: 1 0 Posted-interrupt wakeup event\n\
             29:  3  1  PCI-MSI AMD-Vi0-GA\n";
        let sums = parse(text);
        assert_eq!(sums["posted-interrupt notifications"], 12);
        assert_eq!(sums["GA log of the IOMMU"], 4);
        assert_eq!(sums.len(), 3);
        assert!(parse("garbage:\n:\n").is_empty());
    }
}
