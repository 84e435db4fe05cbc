//! Words of the kernel command line that take something from interrupt virtualization: one table
//! for check, why, lint and enable.
//!
//! Documentation/admin-guide/kernel-parameters.txt of Linux 6.12; what each does by the file that
//! its row names.

use crate::inhibit::Vendor;
use reading::Facts;

/// What a word takes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// The IOMMU as a whole: no device can be given to a guest.
    Iommu,
    /// Remapping of interrupts, and posting with it.
    Remapping,
    /// Posting of device interrupts.
    Posting,
    /// The host's own APICs.
    Apic,
    /// x2APIC mode of the host.
    X2apic,
    /// Messages as interrupts, which are all that can be posted.
    Messages,
}

/// A word: `KEY`, or `KEY=` with this in its list of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootWord {
    /// Up to the equals sign.
    pub key: &'static str,
    /// One of the values between commas; `None` for the key alone.
    pub value: Option<&'static str>,
    /// On whose processors it means anything; `None` for both.
    pub vendor: Option<Vendor>,
    /// What it takes away.
    pub takes: Takes,
    /// A value of the same key that takes it back if it comes later.
    pub undone_by: Option<&'static str>,
    /// Where the kernel acts on it.
    pub source: &'static str,
}

const fn row(
    key: &'static str,
    value: Option<&'static str>,
    vendor: Option<Vendor>,
    takes: Takes,
    undone_by: Option<&'static str>,
    source: &'static str,
) -> BootWord {
    BootWord { key, value, vendor, takes, undone_by, source }
}

const AMD: Option<Vendor> = Some(Vendor::Amd);
const INTEL: Option<Vendor> = Some(Vendor::Intel);

/// Every such word. Left out: `mitigations=`, which makes exits dearer and takes nothing away, and
/// `amd_iommu=irtcachedis`, which makes posting slower.
pub const WORDS: [BootWord; 14] = [
    row("amd_iommu", Some("off"), AMD, Takes::Iommu, None, "drivers/iommu/amd/init.c"),
    row("intel_iommu", Some("off"), INTEL, Takes::Iommu, Some("on"), "drivers/iommu/intel/iommu.c"),
    row("iommu", Some("off"), None, Takes::Iommu, None, "arch/x86/kernel/pci-dma.c"),
    row("iommu", Some("soft"), None, Takes::Iommu, None, "arch/x86/kernel/pci-dma.c"),
    row("noiommu", None, None, Takes::Iommu, None, "arch/x86/kernel/pci-dma.c"),
    row(
        "intremap",
        Some("off"),
        None,
        Takes::Remapping,
        Some("on"),
        "drivers/iommu/irq_remapping.c",
    ),
    row("nointremap", None, None, Takes::Remapping, None, "drivers/iommu/irq_remapping.c"),
    row("intremap", Some("nopost"), None, Takes::Posting, None, "drivers/iommu/irq_remapping.c"),
    row(
        "amd_iommu_intr",
        Some("legacy"),
        AMD,
        Takes::Posting,
        Some("vapic"),
        "drivers/iommu/amd/init.c",
    ),
    row("noapic", None, None, Takes::Apic, None, "arch/x86/kernel/apic/io_apic.c"),
    row("nolapic", None, None, Takes::Apic, Some("lapic"), "arch/x86/kernel/apic/apic.c"),
    row("disableapic", None, None, Takes::Apic, None, "arch/x86/kernel/apic/apic.c"),
    row("nox2apic", None, None, Takes::X2apic, None, "arch/x86/kernel/apic/apic.c"),
    row("pci", Some("nomsi"), None, Takes::Messages, None, "drivers/pci/pci.c"),
];

impl BootWord {
    /// As it is written when it stands alone: `intremap=off`, `noapic`.
    pub fn text(&self) -> String {
        match self.value {
            Some(value) => format!("{}={value}", self.key),
            None => self.key.to_owned(),
        }
    }

    /// Whether it means anything on these processors.
    pub fn concerns(&self, vendor: Vendor) -> bool {
        self.vendor.is_none_or(|own| own == vendor)
    }

    /// Whether a parameter with these values contains it.
    pub fn is_in(&self, key: &str, values: Option<&str>) -> bool {
        self.key == key
            && match (self.value, values) {
                (Some(value), Some(values)) => values.split(',').any(|given| given == value),
                (None, None) => true,
                _ => false,
            }
    }
}

/// Those that the running kernel was given and that count, with the parameter as it was written.
pub fn given(facts: &Facts, vendor: Vendor) -> Vec<(&'static BootWord, String)> {
    let written: Vec<&str> = facts.command_line_words().collect();
    let parts = |text: &'_ str| -> (String, Option<String>) {
        match text.split_once('=') {
            Some((key, values)) => (key.replace('-', "_"), Some(values.to_owned())),
            None => (text.to_owned(), None),
        }
    };
    let mut found = Vec::new();
    for word in WORDS.iter().filter(|word| word.concerns(vendor)) {
        let mut counts: Option<&str> = None;
        for text in &written {
            let (key, values) = parts(text);
            if word.is_in(&key, values.as_deref()) {
                counts = Some(text);
            } else if let (Some(undo), Some(values)) = (word.undone_by, &values)
                && key == word.key
                && values.split(',').any(|value| value == undo)
            {
                counts = None;
            }
        }
        found.extend(counts.map(|text| (word, text.to_owned())));
    }
    found
}

/// The first one given that takes away one of these.
pub fn taking(facts: &Facts, vendor: Vendor, takes: &[Takes]) -> Option<&'static BootWord> {
    let mut all = given(facts, vendor).into_iter();
    all.find(|(word, _)| takes.contains(&word.takes)).map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_contains_a_word_by_key_and_one_value() {
        let of = |text: &str| -> Vec<String> {
            let (key, values) = match text.split_once('=') {
                Some((key, values)) => (key, Some(values)),
                None => (text, None),
            };
            let all = WORDS.iter().filter(|word| word.is_in(key, values));
            all.map(BootWord::text).collect()
        };
        for (text, expected) in [
            ("amd_iommu=off", vec!["amd_iommu=off"]),
            ("amd_iommu=fullflush,off", vec!["amd_iommu=off"]),
            ("amd_iommu=on", vec![]),
            ("intel_iommu=off", vec!["intel_iommu=off"]),
            ("iommu=pt", vec![]),
            ("iommu=soft", vec!["iommu=soft"]),
            ("intremap=off,nopost", vec!["intremap=off", "intremap=nopost"]),
            ("nointremap", vec!["nointremap"]),
            ("noapic", vec!["noapic"]),
            ("pci=realloc,nomsi", vec!["pci=nomsi"]),
            ("nox2apic=1", vec![]),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
