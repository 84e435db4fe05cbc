//! EPT violations that the guest deals with itself. [SDM3 "Virtualization Exceptions"]

use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::exception::VIRTUALIZATION;
use arch::vmx::ExitReason;
use arch::vmx::capability::EptVpid;
use arch::vmx::ept::{EptEntry, exception_area as area};
use arch::vmx::field::control;
use arch::vmx::qualification::EptViolation;

/// Whether a violation says what the guest's own tables grant.
pub(super) fn tells_own_rights(cpu: &Cpu) -> bool {
    let can = cpu.guest.vmx.capabilities;
    can.is_some_and(|can| can.ept_vpid.contains(EptVpid::ADVANCED_VIOLATION))
}

/// The exception in the place of the exit, where the hypervisor asks for it, `entry` does not
/// suppress it, the area is free and no event is being delivered.
/// [SDM3 "Convertible EPT Violations"]
pub(super) fn virtualization_exception(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    entry: u64,
    address: u64,
    qualification: EptViolation,
) -> Option<Stop> {
    let guest = cpu.guest.running.vmx()?;
    let (place, vmcs) = (guest.exception_area?, guest.vmcs);
    let is_suppressed = EptEntry::from_bits(entry).suppresses_exception();
    let is_busy = bus.memory.read_u32(place.offset(area::BUSY)).unwrap_or(!0) != 0;
    let delivers = cpu.pending.delivering().is_some();
    if is_suppressed || is_busy || delivers || cpu.control.is_real() {
        return None;
    }
    let bytes = bus.memory.slice(vmcs, super::vmcs::SIZE).ok().and_then(super::Vmcs::new);
    let index = bytes.map_or(0, |vmcs| vmcs.get(control::EPTP_INDEX));
    let linear = cpu.translation.linear().unwrap_or(0);
    let mut write = |at: u64, value: u64, bytes| {
        cpu.write_entry(bus, SystemPhysical(place.0 + at), value, bytes);
    };
    write(area::EXIT_REASON, ExitReason::EptViolation.into_bits().into(), 4);
    write(area::BUSY, 0xFFFF_FFFF, 4);
    write(area::QUALIFICATION, qualification.into_bits(), 8);
    write(area::LINEAR_ADDRESS, linear, 8);
    write(area::PHYSICAL_ADDRESS, address, 8);
    write(area::EPTP_INDEX, index, 2);
    Some(Stop::exception(VIRTUALIZATION))
}
