//! PCI functions that vfio has given to processes, and what the kernel shows of their interrupts.

use serde::Serialize;

/// One line of /proc/interrupts that counts posted or remapped interrupts: `PIN`, `NPI`, `PIW`, …,
/// those of IOMMUs, and those of functions that vfio has given away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterruptCounter {
    /// The first column, without its colon.
    pub label: String,
    /// Sum over all CPUs.
    pub total: u64,
    /// What the row says behind the counts.
    pub description: String,
}

/// How a function interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Signalling {
    /// A line that several functions may share: never posted.
    Intx,
    /// Message-signalled, in consecutive vectors.
    Msi,
    /// Message-signalled, a message of its own for each vector.
    Msix,
}

/// An interrupt that vfio has set up for the function's owner.
/// [LINUX "drivers/vfio/pci/vfio_pci_intrs.c"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VfioInterrupt {
    /// Of the function, such as `0000:3b:00.1`.
    #[serde(skip)]
    pub address: String,
    /// How it is signalled.
    pub signalling: Signalling,
    /// Which of the function's vectors.
    pub vector: u32,
    /// The host's number of it.
    pub host_irq: u32,
    /// Times that the host took it, on all CPUs since it was set up: posted ones are not among
    /// them.
    pub taken: u64,
}

impl VfioInterrupt {
    /// `None` for rows of other drivers. The name that vfio gives is `vfio-msix[0](0000:3b:00.1)`.
    pub fn of(row: &InterruptCounter) -> Option<Self> {
        let words = row.description.split_whitespace();
        let name = words.rev().find_map(|word| word.strip_prefix("vfio-"))?;
        let (kind, address) = name.strip_suffix(')')?.split_once('(')?;
        let (kind, vector) = match kind.split_once('[') {
            Some((kind, vector)) => (kind, vector.strip_suffix(']')?.parse().ok()?),
            None => (kind, 0),
        };
        let signalling = match kind {
            "intx" => Signalling::Intx,
            "msi" => Signalling::Msi,
            "msix" => Signalling::Msix,
            _ => return None,
        };
        let (host_irq, taken) = (row.label.parse().ok()?, row.total);
        Some(Self { address: address.to_owned(), signalling, vector, host_irq, taken })
    }
}

/// A present entry of an interrupt remapping table, where debugfs shows the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemappingEntry {
    /// Whose interrupts it takes, as the file has it: `3b:00.1`, or with the domain in front.
    pub source: String,
    /// It names a vCPU, and not one of the host's.
    pub is_posted: bool,
    /// Of the guest, if it is posted; otherwise the host's.
    pub vector: u8,
}

impl RemappingEntry {
    /// Whether it is for a function such as `0000:3b:00.1`; VT-d's tables do not name domains.
    pub fn is_of(&self, address: &str) -> bool {
        address == self.source
            || address.strip_prefix("0000:").is_some_and(|rest| rest == self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_vfio_name_the_function_and_its_vector() {
        let row = |label: &str, description: &str| InterruptCounter {
            label: label.into(),
            total: 7,
            description: description.into(),
        };
        for (label, description, expected) in [
            (
                "34",
                "IR-PCI-MSIX-0000:00:1d.0    0-edge      vfio-msix[3](0000:00:1d.0)",
                Some((Signalling::Msix, 3, 34)),
            ),
            ("35", "PCI-MSI 475136-edge vfio-msi[0](0000:00:1d.0)", Some((Signalling::Msi, 0, 35))),
            ("16", "IO-APIC 16-fasteoi vfio-intx(0000:00:1d.0)", Some((Signalling::Intx, 0, 16))),
            ("34", "PCI-MSIX-0000:00:02.0 1-edge virtio0-config", None),
            ("34", "vfio-msix[x](0000:00:1d.0)", None),
            ("34", "vfio-other(0000:00:1d.0)", None),
            ("PIN", "vfio-msix[0](0000:00:1d.0)", None),
        ] {
            let found = VfioInterrupt::of(&row(label, description));
            let shown = found.as_ref().map(|one| (one.signalling, one.vector, one.host_irq));
            assert_eq!(shown, expected, "{description}");
            assert!(found.is_none_or(|one| one.address == "0000:00:1d.0" && one.taken == 7));
        }
    }

    #[test]
    fn an_entry_without_a_domain_is_of_the_first_one() {
        let entry =
            |source: &str| RemappingEntry { source: source.into(), is_posted: true, vector: 0x41 };
        for (source, address, is) in [
            ("3b:00.1", "0000:3b:00.1", true),
            ("3b:00.1", "0001:3b:00.1", false),
            ("0001:3b:00.1", "0001:3b:00.1", true),
            ("3b:00.1", "0000:3b:00.2", false),
        ] {
            assert_eq!(entry(source).is_of(address), is, "{source} {address}");
        }
    }
}
