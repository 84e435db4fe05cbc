//! APIC virtualization of one running guest: what VM entry loads from the VMCS.

use super::{ApicvBehaviour, VirtualApicPage};
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::vmx::apicv::GuestInterruptStatus;
use arch::vmx::{ExitReason, PinControls, PrimaryControls, SecondaryControls, TertiaryControls};
use interrupt::page::VectorSet;
use serde::{Deserialize, Serialize};

/// The VM-execution controls that decide. That a VMCS combines them legally is for VM entry to
/// check. [SDM3 "VM-Execution Control Fields"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApicvControls {
    /// "Use TPR shadow": there is a virtual-APIC page.
    pub uses_tpr_shadow: bool,
    /// "Virtualize APIC accesses", by memory.
    pub virtualizes_accesses: bool,
    /// "Virtualize x2APIC mode": accesses by MSR.
    pub virtualizes_x2apic: bool,
    /// "APIC-register virtualization"
    pub virtualizes_registers: bool,
    /// "Virtual-interrupt delivery"
    pub delivers_interrupts: bool,
    /// "Process posted interrupts"
    pub processes_posted_interrupts: bool,
    /// "IPI virtualization"
    pub virtualizes_ipis: bool,
    /// "Interrupt-window exiting": no virtual interrupt is recognized or delivered.
    pub exits_at_interrupt_window: bool,
}

impl ApicvControls {
    /// What the VMCS's vectors say. Secondary and tertiary ones count where they are activated.
    pub const fn of(
        pin: PinControls,
        primary: PrimaryControls,
        secondary: SecondaryControls,
        tertiary: TertiaryControls,
    ) -> Self {
        let has_secondary = primary.contains(PrimaryControls::SECONDARY_CONTROLS);
        let secondary = if has_secondary { secondary } else { SecondaryControls::empty() };
        Self {
            uses_tpr_shadow: primary.contains(PrimaryControls::TPR_SHADOW),
            virtualizes_accesses: secondary.contains(SecondaryControls::VIRTUALIZE_APIC_ACCESSES),
            virtualizes_x2apic: secondary.contains(SecondaryControls::VIRTUALIZE_X2APIC_MODE),
            virtualizes_registers: secondary
                .contains(SecondaryControls::APIC_REGISTER_VIRTUALIZATION),
            delivers_interrupts: secondary.contains(SecondaryControls::VIRTUAL_INTERRUPT_DELIVERY),
            processes_posted_interrupts: pin.contains(PinControls::POSTED_INTERRUPTS),
            virtualizes_ipis: primary.contains(PrimaryControls::TERTIARY_CONTROLS)
                && tertiary.contains(TertiaryControls::IPI_VIRTUALIZATION),
            exits_at_interrupt_window: primary.contains(PrimaryControls::INTERRUPT_WINDOW_EXITING),
        }
    }
}

/// The table of IPI virtualization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PidPointerTable {
    /// Of entry 0, which is virtual APIC ID 0's.
    pub base: SystemPhysical,
    /// The last index that is a target.
    pub last_index: u16,
}

/// APIC virtualization from VM entry to VM exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apicv {
    /// Of the VMCS, as far as they concern the APIC.
    pub controls: ApicvControls,
    /// Holds the guest's registers.
    pub page: VirtualApicPage,
    /// Accesses that end here are the APIC's.
    pub access_page: SystemPhysical,
    /// Bits 3:0: the virtual task priority below which VM exits are due.
    pub tpr_threshold: u8,
    /// Vectors whose end exits.
    pub eoi_exits: VectorSet,
    /// The guest's posted-interrupt descriptor, and the physical vector that announces requests.
    pub posted_descriptor: SystemPhysical,
    /// Of the descriptor's notifications, at this processor's own APIC.
    pub notification_vector: Vector,
    /// Counts with IPI virtualization alone.
    pub pid_pointers: PidPointerTable,
    /// Addresses in the table of IPI virtualization must fit.
    pub physical_address_bits: u8,
    /// RVI and SVI; the VMCS has them again at VM exit.
    pub status: GuestInterruptStatus,
    /// A pending virtual interrupt has been recognized. Only an evaluation changes that: neither
    /// other changes of priorities nor of RFLAGS.IF do.
    /// [SDM3 "Evaluation of Pending Virtual Interrupts"]
    pub is_recognized: bool,
    /// The page offset of a write whose emulation is due when the operation completes.
    pub unfinished_write: Option<u16>,
    /// Of the processor model.
    pub behaviour: ApicvBehaviour,
}

/// A VM exit of APIC virtualization after the operation that caused it: RIP is past the
/// instruction, and no event is in delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ApicvExit {
    /// The virtual task priority fell below the threshold.
    TprBelowThreshold,
    /// The end of this vector, whose bit in the EOI-exit bitmap is set.
    VirtualizedEoi(Vector),
    /// The register at this page offset was written in the virtual-APIC page.
    ApicWrite(u16),
}

impl ApicvExit {
    /// For the exit-reason field.
    pub const fn reason(self) -> ExitReason {
        match self {
            Self::TprBelowThreshold => ExitReason::TprBelowThreshold,
            Self::VirtualizedEoi(_) => ExitReason::VirtualizedEoi,
            Self::ApicWrite(_) => ExitReason::ApicWrite,
        }
    }

    /// The exit qualification. [SDM3 "Basic VM-Exit Information"]
    pub const fn qualification(self) -> u64 {
        match self {
            Self::TprBelowThreshold => 0,
            Self::VirtualizedEoi(vector) => vector.0 as u64,
            Self::ApicWrite(offset) => offset as u64,
        }
    }
}
