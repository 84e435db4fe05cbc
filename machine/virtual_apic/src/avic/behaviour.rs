//! Where the manual is silent, contradicts itself, or a chip departs from it: one named switch a
//! point, with the choice that unmodified kernels need as its default.

use serde::{Deserialize, Serialize};

/// How one processor model's AVIC resolves what the manual leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvicBehaviour {
    /// Erratum 1235 (families 17h and 18h): a sender may read IsRunning before its write of the
    /// target's IRR is visible, so that a target descheduled in between loses a wake-up. KVM's
    /// workaround never sets IsRunning (`enable_ipiv=0`).
    pub erratum_1235: bool,
    /// What happens to the valid targets of an IPI that has an invalid one. KVM sends such an IPI
    /// again as a whole, so that delivery to some would make duplicates.
    pub invalid_targets: InvalidTargets,
    /// Which index exit 401h reports for a target that is not running, in xAPIC's logical mode.
    /// KVM of Linux 6.1 warns unless it is the logical table's.
    pub logical_exit_index: ExitIndex,
    /// Whether xAPIC destination FFh is a broadcast in logical mode too. The manual does not
    /// restrict the rule to physical mode; as a flat mask it would meet invalid entries in any
    /// guest with fewer than eight processors.
    pub logical_all_ones_is_broadcast: bool,
    /// An IPI whose logical destination has no member ends with exit 401h, as one whose target is
    /// not running, instead of reaching nobody silently. KVM takes either.
    pub empty_destination_exits: bool,
    /// How the sender recognizes itself for "all excluding self".
    pub self_key: SelfKey,
    /// A fixed, edge-triggered IPI with the level bit clear (de-assert) is an invalid type.
    pub deassert_is_invalid_type: bool,
    /// An accelerated IPI clears the vector's TMR bit in the target's page.
    pub ipi_clears_trigger_mode: bool,
    /// The processor sets the delivery status (bit 12) that exit 401h reports and the page holds,
    /// and leaves it set, as some parts have been seen to do.
    pub leaves_busy_set: bool,
    /// ICR of a guest under x2AVIC is one 64-bit value at 300h. AMD parts keep its halves apart, at
    /// 300h and 310h, as xAPIC does.
    pub x2avic_icr_is_whole: bool,
    /// The trap for a level-triggered EOI comes with the vector already out of service. KVM then
    /// ends the wrong vector.
    pub level_eoi_clears_in_service: bool,
    /// The exit for a level-triggered EOI is a fault: RIP at the instruction. The manual's table
    /// says trap, its text says fault; KVM never skips the instruction.
    pub level_eoi_is_fault: bool,
    /// Which task priority gates delivery while V_TPR and the page disagree.
    pub priority_threshold: PriorityThreshold,
    /// A write to the APIC page that is not an aligned dword.
    pub irregular_write: IrregularAccess,
    /// A read from the APIC page that is not an aligned dword.
    pub irregular_read: IrregularAccess,
    /// WRMSR to a read-only x2APIC register that no intercept catches.
    pub read_only_msr_write: ReadOnlyMsrWrite,
    /// RDMSR of the EOI register faults with #GP instead of returning zero.
    pub eoi_read_is_refused: bool,
    /// Bits of a value written to the doorbell MSR that form the APIC ID; the rest must be zero.
    /// The manual names eight, Linux writes up to twelve.
    pub doorbell_id_bits: u8,
    /// An interrupt whose delivery ends in an exit is requested again, and EXITINTINFO is empty.
    /// The manual has EXITINTINFO for every event in delivery, from which KVM injects it again.
    pub takes_undelivered_back: bool,
    /// VMRUN refuses a guest that has AVIC without nested paging. No rule of the manual's list says
    /// so; KVM never asks for it.
    pub needs_nested_paging: bool,
}

impl AvicBehaviour {
    /// What unmodified kernels need.
    pub const DEFAULT: Self = Self {
        erratum_1235: false,
        invalid_targets: InvalidTargets::RefuseAll,
        logical_exit_index: ExitIndex::LogicalTable,
        logical_all_ones_is_broadcast: true,
        empty_destination_exits: false,
        self_key: SelfKey::ApicId,
        deassert_is_invalid_type: false,
        ipi_clears_trigger_mode: true,
        leaves_busy_set: false,
        x2avic_icr_is_whole: false,
        level_eoi_clears_in_service: false,
        level_eoi_is_fault: false,
        priority_threshold: PriorityThreshold::VirtualTaskPriority,
        irregular_write: IrregularAccess::Fault,
        irregular_read: IrregularAccess::Memory,
        read_only_msr_write: ReadOnlyMsrWrite::GeneralProtection,
        eoi_read_is_refused: true,
        doorbell_id_bits: 12,
        takes_undelivered_back: false,
        needs_nested_paging: false,
    };
}

impl Default for AvicBehaviour {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What an invalid target means for the valid ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InvalidTargets {
    /// All look-ups precede the first delivery; one failure and nobody is interrupted.
    RefuseAll,
    /// The valid ones are interrupted before the exit.
    DeliverToOthers,
}

/// Into which table exit 401h's index points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitIndex {
    /// The logical table's.
    LogicalTable,
    /// The physical table's, of the processor that the logical entry names.
    PhysicalTable,
}

/// What makes an entry of the physical table the sender's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelfKey {
    /// Its index is the APIC ID in the sender's backing page.
    ApicId,
    /// It points to the sender's backing page.
    BackingPage,
}

/// The task priority that an interrupt must exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PriorityThreshold {
    /// V_TPR, which only the guest's own writes of TPR and CR8 bring in step with the page. Seen
    /// on hardware; a hypervisor that restores the page alone leaves interrupts masked.
    VirtualTaskPriority,
    /// TPR in the backing page.
    Page,
    /// The higher of the two.
    Higher,
}

/// What an access of another size or alignment than the register's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IrregularAccess {
    /// Exit 402h before the access.
    Fault,
    /// A plain access to the backing page.
    Memory,
}

/// Which comes first for a write to a read-only MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadOnlyMsrWrite {
    /// \#GP(0), and no exit.
    GeneralProtection,
    /// Exit 402h before the write.
    NoAcceleration,
}
