//! AVIC of one running guest: what VMRUN loads from the VMCB, and the checks on it.

use super::{AvicBehaviour, BackingPage};
use arch::address::{GuestPhysical, SystemPhysical};
use arch::svm::avic::{PAGE_BITS, X2AVIC_EXTENDED_LAST_INDEX, X2AVIC_LAST_INDEX, XAVIC_LAST_INDEX};
use arch::svm::vmcb::{Vmcb, control};
use serde::{Deserialize, Serialize};

/// How the guest reaches its APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AvicMode {
    /// By memory, at the page of APIC_BAR.
    Xapic,
    /// By MSRs 800h–8FFh; the page of APIC_BAR is memory like any other.
    X2apic,
}

/// What a processor model's AVIC can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvicCapabilities {
    /// CPUID announces AVIC; without it the VMCB's bits are ignored.
    pub avic: bool,
    /// CPUID announces x2AVIC; without it the VMCB's bit is ignored.
    pub x2avic: bool,
    /// x2AVIC_EXT: tables of 4,096 entries.
    pub x2avic_extended: bool,
    /// ExtLvtAvicAccessChg: extended LVTs trap instead of faulting.
    pub extended_lvt_change: bool,
    /// All pointers must fit.
    pub physical_address_bits: u8,
    /// Of the processor model.
    pub behaviour: AvicBehaviour,
}

/// AVIC from VMRUN to #VMEXIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Avic {
    /// By memory or by MSR.
    pub mode: AvicMode,
    /// Where the guest's APIC page is, in xAPIC mode.
    pub apic_bar: GuestPhysical,
    /// Of the vCPU that runs.
    pub backing_page: BackingPage,
    /// Of logical APIC IDs, one page; xAPIC mode alone uses it.
    pub logical_table: SystemPhysical,
    /// Of physical APIC IDs, which name backing pages and host cores.
    pub physical_table: SystemPhysical,
    /// The last index of the physical table that is a legal destination.
    pub max_index: u16,
    /// V_TPR: bits 7:4 of the task priority.
    pub task_priority: u8,
    /// Addresses in table entries must fit.
    pub physical_address_bits: u8,
    /// Extended LVTs trap instead of faulting.
    pub extended_lvt_change: bool,
    /// Of the processor model.
    pub behaviour: AvicBehaviour,
}

/// The VMCB asks for an AVIC that does not exist: VMRUN exits with VMEXIT_INVALID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IllegalAvic {
    /// The VMCB sets the enable of x2AVIC, but not that of AVIC.
    X2avicWithoutAvic,
    /// The last index is beyond what the mode allows; this is what the VMCB has.
    MaxIndex(u16),
    /// One of backing page and tables does not fit the physical-address width.
    PointerBeyondPhysicalMemory,
    /// Only where [`AvicBehaviour::needs_nested_paging`].
    WithoutNestedPaging,
}

impl Avic {
    /// What the VMCB asks for; None where AVIC is off. The page's TPR is left alone: only the
    /// guest's own writes bring it and V_TPR together. [APM2 "AVIC Configuration"]
    pub fn load<B: AsRef<[u8]>>(
        vmcb: &Vmcb<B>,
        capabilities: &AvicCapabilities,
    ) -> Result<Option<Self>, IllegalAvic> {
        let interrupts = vmcb.get(control::INTERRUPT_CONTROL);
        // Models without the feature ignore its bits, as all reserved bits of the VMCB.
        let is_enabled = interrupts.avic_enabled() && capabilities.avic;
        let is_x2 = interrupts.x2avic_enabled() && capabilities.x2avic;
        if !is_enabled {
            return if is_x2 { Err(IllegalAvic::X2avicWithoutAvic) } else { Ok(None) };
        }
        let is_nested = vmcb.get(control::NESTED_CONTROL).nested_paging();
        if capabilities.behaviour.needs_nested_paging && !is_nested {
            return Err(IllegalAvic::WithoutNestedPaging);
        }
        let physical = vmcb.get(control::AVIC_PHYSICAL_TABLE);
        let limit = match (is_x2, capabilities.x2avic_extended) {
            (false, _) => XAVIC_LAST_INDEX,
            (true, false) => X2AVIC_LAST_INDEX,
            (true, true) => X2AVIC_EXTENDED_LAST_INDEX,
        };
        if physical.max_index() > limit {
            return Err(IllegalAvic::MaxIndex(physical.max_index()));
        }
        let page = |bits: u64| SystemPhysical(bits & PAGE_BITS);
        let avic = Self {
            mode: if is_x2 { AvicMode::X2apic } else { AvicMode::Xapic },
            apic_bar: GuestPhysical(vmcb.get(control::AVIC_APIC_BAR) & PAGE_BITS),
            backing_page: BackingPage(page(vmcb.get(control::AVIC_BACKING_PAGE))),
            logical_table: page(vmcb.get(control::AVIC_LOGICAL_TABLE)),
            physical_table: physical.table(),
            max_index: physical.max_index(),
            task_priority: interrupts.task_priority(),
            physical_address_bits: capabilities.physical_address_bits,
            extended_lvt_change: capabilities.extended_lvt_change,
            behaviour: capabilities.behaviour,
        };
        let pointers = [avic.backing_page.0, avic.logical_table, avic.physical_table];
        if pointers.into_iter().all(|pointer| avic.is_physical(pointer)) {
            Ok(Some(avic))
        } else {
            Err(IllegalAvic::PointerBeyondPhysicalMemory)
        }
    }

    /// Whether a guest physical address lies in the APIC page, where there is one.
    pub fn covers(&self, address: u64) -> bool {
        self.mode == AvicMode::Xapic && address & !0xFFF == self.apic_bar.0
    }

    /// The guest reaches its APIC by MSRs.
    pub fn is_x2apic(&self) -> bool {
        self.mode == AvicMode::X2apic
    }

    /// Whether an address has no bit beyond the processor's physical addresses.
    pub fn is_physical(&self, address: SystemPhysical) -> bool {
        address.0 >> self.physical_address_bits == 0
    }
}
