//! Which lines of a kernel log matter.

/// Most lines that are kept.
pub const LINES_LIMIT: usize = 5000;

/// Longest line that is kept.
const LINE_LIMIT: usize = 500;

const WORDS: &[&str] = &[
    "AMD-Vi",
    "DMAR",
    "AVIC",
    "kvm",
    "KVM",
    "SVM",
    "VMX",
    "x2apic",
    "x2APIC",
    "IOMMU",
    "iommu",
    "SEV",
    "SNP",
    "Firmware Bug",
    "IRQ remapping",
    "Interrupt remapping",
    "posted",
    "Hypervisor detected",
    "Command line",
];

pub fn is_wanted(line: &str) -> bool {
    line.len() <= LINE_LIMIT && WORDS.iter().any(|word| line.contains(word))
}

/// The wanted lines of a log, without time stamps.
pub fn lines(log: &str) -> Vec<String> {
    log.lines()
        .filter(|line| is_wanted(line))
        .map(|line| {
            // `Nov 21 10:00:00 host kernel: text`
            let line = line.split_once(" kernel: ").map_or(line, |(_, text)| text);
            // `[    0.123456] text`, `[Thu Jan  1 00:00:00 1970] text`
            match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                Some((stamp, text))
                    if stamp.trim().starts_with(|c: char| c.is_ascii_alphanumeric()) =>
                {
                    text
                }
                _ => line,
            }
            .trim()
            .to_string()
        })
        .take(LINES_LIMIT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_go_and_brackets_of_the_message_stay() {
        let log = "[    0.000000] AMD-Vi: Virtual APIC enabled\n[Thu Jan 1 2026] kvm: x\nusb 1-1: new device\n\
                   [    1.5] [Firmware Bug]: Cannot enable x2AVIC\n\
                   Nov 21 10:00:00 pve1 kernel: AMD-Vi: X2APIC enabled\n";
        assert_eq!(
            lines(log),
            [
                "AMD-Vi: Virtual APIC enabled",
                "kvm: x",
                "[Firmware Bug]: Cannot enable x2AVIC",
                "AMD-Vi: X2APIC enabled"
            ]
        );
    }

    #[test]
    fn long_lines_are_not_kept() {
        assert_eq!(lines(&format!("kvm {}", "x".repeat(1000))), Vec::<String>::new());
    }
}
