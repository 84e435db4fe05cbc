//! AVIC: its tables, IsRunning, and the doorbell. [APM2 "Advanced Virtual Interrupt Controller"]
//!
//! The order that loses no interrupt: a sender, processor or software, first makes the request
//! visible in the target's page and then reads IsRunning; a scheduler first clears IsRunning and
//! then looks at the page once more before it lets the vCPU sleep.

use crate::vapic::target::{MOST_VCPUS, Target};
use arch::address::SystemPhysical;
use arch::apic::{DestinationFormat, Dfr};
use arch::svm::avic::{LogicalEntry, PhysicalEntry, PhysicalTablePointer};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use runtime::instruction;

/// The last index of xAVIC that is not everyone.
const LAST_XAVIC_ID: u16 = 254;

#[repr(C, align(4096))]
struct PhysicalTable([AtomicU64; MOST_VCPUS]);
#[repr(C, align(4096))]
struct LogicalTable([AtomicU32; 1024]);

pub struct AvicTables {
    physical: PhysicalTable,
    logical: LogicalTable,
}

impl AvicTables {
    pub const fn new() -> Self {
        Self {
            physical: PhysicalTable([const { AtomicU64::new(0) }; MOST_VCPUS]),
            logical: LogicalTable([const { AtomicU32::new(0) }; 1024]),
        }
    }

    /// Nobody is valid.
    pub fn clear(&self) {
        self.physical.0.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
        self.logical.0.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
    }

    pub fn physical_table(&self, last_index: u16, is_x2avic: bool) -> PhysicalTablePointer {
        let max_index = if is_x2avic { last_index } else { last_index.min(LAST_XAVIC_ID) };
        PhysicalTablePointer::new()
            .with_table(SystemPhysical(core::ptr::from_ref(&self.physical) as u64))
            .with_max_index(max_index)
    }

    pub fn logical_table(&self) -> SystemPhysical {
        SystemPhysical(core::ptr::from_ref(&self.logical) as u64)
    }

    /// Says on which physical processor a virtual one runs, or that it does not.
    pub fn set_running(&self, target: &Target<()>, host: Option<u32>) {
        let entry = PhysicalEntry::new()
            .with_is_valid(true)
            .with_backing_page(target.page.address())
            .with_is_running(host.is_some())
            .with_host_apic_id(host.unwrap_or(0) as u16);
        // Nothing after this may be done before it is visible: the last look at the page, above
        // all.
        self.physical.0[target.index()].store(entry.into_bits(), Ordering::SeqCst);
    }

    /// Where a vCPU runs, as senders see it.
    pub fn running_on(&self, target: &Target<()>) -> Option<u32> {
        let bits = self.physical.0[target.index()].load(Ordering::SeqCst);
        let entry = PhysicalEntry::from_bits(bits);
        entry.is_running().then(|| entry.host().0)
    }

    /// Rewrites the logical table for one vCPU: xAVIC only.
    pub fn update_logical(&self, target: &Target<()>) {
        let own = LogicalEntry::new().with_is_valid(true).with_guest_apic_id(target.id() as u8);
        for entry in &self.logical.0 {
            // Nobody but this vCPU writes or removes its entries.
            let _ = entry.compare_exchange(own.into_bits(), 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        let identifier = target.page.logical_identifier();
        let format = Dfr::from_bits(target.page.destination_format()).format();
        let members = match format {
            DestinationFormat::Flat => identifier,
            _ => identifier & 0xF,
        };
        if !members.is_power_of_two() {
            return;
        }
        let member = members.trailing_zeros() as u8;
        let index = match format {
            DestinationFormat::Flat => LogicalEntry::flat_index(member),
            _ => LogicalEntry::cluster_index(identifier >> 4, member),
        };
        self.logical.0[usize::from(index)].store(own.into_bits(), Ordering::SeqCst);
    }
}

/// Tells the processor with this APIC ID to look at its guest's page. One that is in the host drops
/// the message: VMRUN looks anyway. [APM2 "Doorbell Register"]
pub fn ring_doorbell(host: u32) {
    instruction::ring_avic_doorbell(host);
}
