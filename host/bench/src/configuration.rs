//! What a virtual machine is to be.

use crate::inhibit::Inhibit;
use serde::{Deserialize, Serialize};

/// Where interrupt controllers other than the local APICs are. [KVM-API "KVM_CAP_SPLIT_IRQCHIP"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptChip {
    /// I/O APIC and 8259s in this process.
    #[default]
    Split,
    /// I/O APIC and 8259s in KVM.
    Full,
}

/// Who emulates the 8254 timer. [KVM-API "KVM_CREATE_PIT2", "KVM_REINJECT_CONTROL"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// This process.
    #[default]
    Process,
    /// KVM, which injects ticks late that the guest missed. This inhibits AVIC.
    KernelReinject,
    /// KVM, which drops ticks that the guest missed.
    KernelDiscard,
}

/// A virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// vCPUs, 1 to 512.
    pub vcpus: u16,
    /// Bytes of RAM, at most 3 GiB.
    pub memory: u64,
    /// Where the interrupt controllers beside the local APICs are.
    pub interrupt_chip: InterruptChip,
    /// Where the board's interval timer is.
    pub timer: Timer,
    /// What KVM is to inhibit AVIC or APICv for; None for nothing besides the timer.
    pub inhibit: Option<Inhibit>,
    /// Whether CPUID offers x2APIC mode.
    pub has_x2apic: bool,
    /// Whether each vCPU stays on one of the host's processors that this process may
    /// use, in turn; otherwise the host's scheduler moves them.
    pub is_pinned: bool,
    /// Bytes of a disk (virtio-blk) that is zero at first and kept in memory; 0 for none.
    pub disk: u64,
}

/// Local APIC IDs of eight bits, all ones being everybody.
const MOST_WITH_BYTES: u16 = 255;

impl Configuration {
    /// Whether KVM is told that local APIC IDs have 32 bits.
    pub(crate) fn has_wide_ids(&self) -> bool {
        self.vcpus > MOST_WITH_BYTES
    }
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            vcpus: 2,
            memory: 256 << 20,
            interrupt_chip: InterruptChip::default(),
            timer: Timer::default(),
            inhibit: None,
            has_x2apic: true,
            is_pinned: true,
            disk: 0,
        }
    }
}
