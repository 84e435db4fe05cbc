//! AVIC: its tables, IsRunning, the doorbell, and its two exits.
//! [APM2 "Advanced Virtual Interrupt Controller"]
//!
//! The order that loses no interrupt: a sender, processor or software, first makes the request
//! visible in the target's page and then reads IsRunning; a scheduler first clears IsRunning and then
//! looks at the page once more before it lets the virtual processor sleep.

use crate::machine;
use crate::selection::Acceleration;
use crate::svm::exit;
use crate::vapic::{self, command};
use crate::vcpu::{self, MOST_VCPUS, Owned, Vcpu};
use arch::address::SystemPhysical;
use arch::apic::{DestinationFormat, Dfr, Icr, Mode};
use arch::svm::avic::{
    IncompleteIpi, IncompleteIpiReason, LogicalEntry, NoAcceleration, PhysicalEntry,
    PhysicalTablePointer, WriteRule, rule,
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use runtime::{instruction, processor};

#[repr(C, align(4096))]
struct PhysicalTable([AtomicU64; MOST_VCPUS]);
#[repr(C, align(4096))]
struct LogicalTable([AtomicU32; 1024]);

static PHYSICAL: PhysicalTable = PhysicalTable([const { AtomicU64::new(0) }; MOST_VCPUS]);
static LOGICAL: LogicalTable = LogicalTable([const { AtomicU32::new(0) }; 1024]);

/// The last index of xAVIC that is not everyone.
const LAST_XAVIC_ID: u16 = 254;

/// Whether AVIC can stand in for an APIC in this mode.
pub fn is_possible(mode: Mode) -> bool {
    let features = machine::features();
    machine::acceleration() == Acceleration::On
        && match mode {
            Mode::XApic => features.avic,
            Mode::X2Apic => features.x2avic,
            _ => false,
        }
}

/// Fills the physical table: every virtual processor is valid, none runs.
pub fn prepare() {
    for (index, entry) in PHYSICAL.0.iter().enumerate() {
        let value = match index < machine::vcpu_count() {
            true => PhysicalEntry::new()
                .with_is_valid(true)
                .with_backing_page(vcpu::get(index).page.address()),
            false => PhysicalEntry::new(),
        };
        entry.store(value.into_bits(), Ordering::Relaxed);
    }
    LOGICAL.0.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
}

pub fn physical_table(is_x2avic: bool) -> PhysicalTablePointer {
    let last = machine::vcpu_count() as u16 - 1;
    let max_index = if is_x2avic { last } else { last.min(LAST_XAVIC_ID) };
    PhysicalTablePointer::new()
        .with_table(SystemPhysical(core::ptr::from_ref(&PHYSICAL) as u64))
        .with_max_index(max_index)
}

pub fn logical_table() -> SystemPhysical {
    SystemPhysical(core::ptr::from_ref(&LOGICAL) as u64)
}

/// Says on which physical processor a virtual one runs, or that it does not. Some parts read this
/// before their request is visible (erratum 1235): there, nobody is ever said to run, and senders
/// exit.
pub fn set_running(vcpu: &Vcpu, host: Option<u32>) {
    let host = host.filter(|_| !machine::hides_running());
    let entry = PhysicalEntry::new()
        .with_is_valid(true)
        .with_backing_page(vcpu.page.address())
        .with_is_running(host.is_some())
        .with_host_apic_id(host.unwrap_or(0) as u16);
    // Nothing after this may be done before it is visible: the last look at the page, above all.
    PHYSICAL.0[vcpu.index()].store(entry.into_bits(), Ordering::SeqCst);
}

/// Where a virtual processor runs, as senders see it.
pub fn running_on(vcpu: &Vcpu) -> Option<u32> {
    let entry = PhysicalEntry::from_bits(PHYSICAL.0[vcpu.index()].load(Ordering::SeqCst));
    entry.is_running().then(|| entry.host().0)
}

/// Tells the processor with this APIC ID to look at its guest's page. One that is in the host drops
/// the message: VMRUN looks anyway. [APM2 "Doorbell Register"]
pub fn ring_doorbell(host: u32) {
    instruction::ring_avic_doorbell(host);
}

/// Writes the logical table anew for one virtual processor: xAVIC only.
pub fn update_logical(vcpu: &Vcpu) {
    let own = LogicalEntry::new().with_is_valid(true).with_guest_apic_id(vcpu.id() as u8);
    for entry in &LOGICAL.0 {
        // Nobody but this virtual processor writes or removes its entries.
        let _ = entry.compare_exchange(own.into_bits(), 0, Ordering::SeqCst, Ordering::Relaxed);
    }
    let identifier = vcpu.page.logical_identifier();
    let members = match Dfr::from_bits(vcpu.page.destination_format()).format() {
        DestinationFormat::Flat => identifier,
        _ => identifier & 0xF,
    };
    if !members.is_power_of_two() {
        return;
    }
    let member = members.trailing_zeros() as u8;
    let index = match Dfr::from_bits(vcpu.page.destination_format()).format() {
        DestinationFormat::Flat => LogicalEntry::flat_index(member),
        _ => LogicalEntry::cluster_index(identifier >> 4, member),
    };
    LOGICAL.0[usize::from(index)].store(own.into_bits(), Ordering::SeqCst);
}

/// AVIC_INCOMPLETE_IPI: the ICR is written, RIP is past the instruction.
/// [APM2 "AVIC IPI Delivery Not Completed"]
pub fn incomplete_ipi(vcpu: &Vcpu, owned: &mut Owned, exit: IncompleteIpi) {
    let is_x2apic = owned.apic_base.mode() == Mode::X2Apic;
    let icr = Icr::from_dwords(exit.command, exit.destination);
    match exit.reason {
        // INIT, startup, NMI and level-triggered ones; and none is delivered if one target is
        // missing: all of the message is ours to send.
        IncompleteIpiReason::InvalidInterruptType | IncompleteIpiReason::InvalidTarget => {
            command::send(vcpu, icr, is_x2apic);
        }
        // The request is in the page of each target; those that do not run have to be woken.
        IncompleteIpiReason::TargetNotRunning => {
            command::for_each_target(vcpu, icr, is_x2apic, |target| {
                if target.index() != vcpu.index() && running_on(target).is_none() {
                    wake(target);
                }
            });
        }
        // A vector below 16 goes nowhere.
        IncompleteIpiReason::InvalidVector => {}
        _ => exit::fail(vcpu, owned, "an entry of the physical table is wrong"),
    }
}

/// Has a virtual processor look at its page. One that runs hears the doorbell, or looks at its next
/// VMRUN.
fn wake(target: &Vcpu) {
    match target.runs_on() {
        Some(host) if machine::hides_running() => ring_doorbell(processor::get(host).apic_id()),
        _ => target.nudge(),
    }
}

/// AVIC_NOACCEL: a trap after a write, or a fault before an access, as the register's rule says.
/// [APM2 "AVIC Access to Un-accelerated vAPIC Register"]
pub fn no_acceleration(vcpu: &Vcpu, owned: &mut Owned, exit: NoAcceleration) {
    let is_trap = exit.is_write
        && matches!(rule(exit.offset, false).write, WriteRule::Trap | WriteRule::EndOfInterrupt);
    if is_trap {
        vapic::written(vcpu, owned, exit.offset);
    } else {
        exit::emulate_move(vcpu, owned, Some(exit.offset));
    }
}
