//! Segment and descriptor-table registers of the guest.
//! [SDM3 "Checks on Guest Segment Registers"]

use super::{Broken, Controls, Processor, require};
use crate::vmx::vmcs::Vmcs;
use arch::control::{Cr0, rflags};
use arch::segment::system;
use arch::vmx::field::{LDTR, SEGMENTS, SegmentFields, TR, guest};
use arch::vmx::segment::AccessRights;

const CS: usize = 1;
const SS: usize = 2;
const READ_WRITE_ACCESSED: u8 = 3;

struct Segment {
    selector: u64,
    base: u64,
    limit: u64,
    rights: AccessRights,
}

impl Segment {
    fn of<B: AsRef<[u8]>>(vmcs: &Vmcs<B>, fields: &SegmentFields) -> Self {
        Self {
            selector: vmcs.get(fields.selector),
            base: vmcs.get(fields.base),
            limit: vmcs.get(fields.limit),
            rights: AccessRights::from_bits(vmcs.get(fields.access_rights) as u32),
        }
    }

    fn is_usable(&self) -> bool {
        !self.rights.is_unusable()
    }

    fn privilege_of_selector(&self) -> u8 {
        self.selector as u8 & 3
    }

    fn is_in_local_table(&self) -> bool {
        self.selector & 4 != 0
    }

    /// With a limit in pages its low bits are ones; with more than 20 bits it is in pages.
    fn has_legal_granularity(&self) -> bool {
        let is_granular = self.rights.is_page_granular();
        (self.limit & 0xFFF == 0xFFF || !is_granular) && (self.limit >> 20 == 0 || is_granular)
    }
}

pub fn check_segments<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let segments: [Segment; 8] = std::array::from_fn(|at| Segment::of(vmcs, &SEGMENTS[at]));
    check_selectors(vmcs, controls, &segments)?;
    check_bases(&segments, processor)?;
    if vmcs.get(guest::RFLAGS) & rflags::VM != 0 {
        segments[..6].iter().try_for_each(check_virtual_8086)?;
    } else {
        check_code(controls, &segments)?;
        check_stack(vmcs, controls, &segments)?;
        for at in [0, 3, 4, 5] {
            check_data(controls, &segments[at])?;
        }
    }
    check_task(controls, &segments[TR])?;
    check_local_table(&segments[LDTR])?;
    check_tables(vmcs, processor)
}

fn check_selectors<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    segments: &[Segment; 8],
) -> Result<(), Broken> {
    require(!segments[TR].is_in_local_table(), Broken::GuestTrInGdt)?;
    let ldtr = &segments[LDTR];
    require(!ldtr.is_usable() || !ldtr.is_in_local_table(), Broken::GuestLdtrInGdt)?;
    let is_virtual_8086 = vmcs.get(guest::RFLAGS) & rflags::VM != 0;
    let privilege = |at: usize| segments[at].privilege_of_selector();
    let agrees = privilege(SS) == privilege(CS);
    let is_free = is_virtual_8086 || controls.is_unrestricted();
    require(is_free || agrees, Broken::GuestSsRplIsCsRpl)
}

fn check_bases(segments: &[Segment; 8], processor: &Processor<'_>) -> Result<(), Broken> {
    let ldtr = &segments[LDTR];
    let canonical = |segment: &Segment| processor.is_canonical(segment.base);
    require(canonical(&segments[TR]), Broken::GuestTrBaseCanonical)?;
    require(canonical(&segments[4]), Broken::GuestFsBaseCanonical)?;
    require(canonical(&segments[5]), Broken::GuestGsBaseCanonical)?;
    require(!ldtr.is_usable() || canonical(ldtr), Broken::GuestLdtrBaseCanonical)?;
    require(segments[CS].base >> 32 == 0, Broken::GuestCsBase32Bits)?;
    for at in [0, SS, 3] {
        let segment = &segments[at];
        let is_legal = !segment.is_usable() || segment.base >> 32 == 0;
        require(is_legal, Broken::BasesGuestSsDsEs32Bits)?;
    }
    Ok(())
}

fn check_virtual_8086(segment: &Segment) -> Result<(), Broken> {
    require(segment.base == segment.selector << 4, Broken::Virtual8086BaseFollowsSelector)?;
    require(segment.limit == 0xFFFF, Broken::Virtual8086LimitFfffh)?;
    let is_legal = segment.rights == AccessRights::VIRTUAL_8086;
    require(is_legal, Broken::Virtual8086AccessRightsF3h)
}

/// What holds of every usable code or data segment.
fn check_usable(segment: &Segment) -> Result<(), Broken> {
    let rights = segment.rights;
    require(rights.is_code_or_data(), Broken::GuestSegmentCodeOrData)?;
    require(rights.is_present(), Broken::GuestSegmentPresent)?;
    require(!rights.has_reserved_bits(), Broken::GuestAccessRightsNoReservedBit)?;
    require(segment.has_legal_granularity(), Broken::GuestSegmentLimitFitsGranularity)
}

fn check_code(controls: &Controls, segments: &[Segment; 8]) -> Result<(), Broken> {
    let code = segments[CS].rights;
    let stack = segments[SS].rights;
    let is_legal = match code.kind() {
        READ_WRITE_ACCESSED => controls.is_unrestricted() && code.privilege() == 0,
        9 | 11 => code.privilege() == stack.privilege(),
        13 | 15 => code.privilege() <= stack.privilege(),
        _ => false,
    };
    require(is_legal, Broken::GuestCsTypePrivilegeCode)?;
    check_usable(&segments[CS])?;
    let is_64_bit = controls.is_long_mode_guest() && code.is_long();
    require(!is_64_bit || !code.is_default_big(), Broken::Code64BitWithoutD)
}

fn check_stack<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    segments: &[Segment; 8],
) -> Result<(), Broken> {
    let stack = &segments[SS];
    let privilege = stack.rights.privilege();
    let agrees = privilege == stack.privilege_of_selector();
    require(controls.is_unrestricted() || agrees, Broken::GuestSsDplIsRpl)?;
    let is_real = vmcs.get(guest::CR0) & Cr0::PROTECTION_ENABLE.bits() == 0;
    let is_zero = is_real || segments[CS].rights.kind() == READ_WRITE_ACCESSED;
    require(!is_zero || privilege == 0, Broken::GuestSsDpl0RealMode)?;
    if !stack.is_usable() {
        return Ok(());
    }
    require(matches!(stack.rights.kind(), 3 | 7), Broken::GuestSsWritableData)?;
    check_usable(stack)
}

fn check_data(controls: &Controls, segment: &Segment) -> Result<(), Broken> {
    if !segment.is_usable() {
        return Ok(());
    }
    let rights = segment.rights;
    require(rights.kind() & 1 != 0, Broken::GuestDataSegmentAccessed)?;
    let is_unreadable = rights.kind() & 0b1010 == 0b1000;
    require(!is_unreadable, Broken::CodeGuestDataSegmentReadable)?;
    let is_checked = !controls.is_unrestricted() && rights.kind() <= 11;
    let is_reachable = rights.privilege() >= segment.privilege_of_selector();
    require(!is_checked || is_reachable, Broken::GuestDataSegmentDplNotBelowRpl)?;
    check_usable(segment)
}

fn check_task(controls: &Controls, task: &Segment) -> Result<(), Broken> {
    let rights = task.rights;
    require(task.is_usable(), Broken::GuestTrUsable)?;
    let is_legal = match rights.kind() {
        system::TSS32_BUSY => true,
        system::TSS16_BUSY => !controls.is_long_mode_guest(),
        _ => false,
    };
    require(is_legal && !rights.is_code_or_data(), Broken::GuestTrBusyTss)?;
    check_system(task)
}

fn check_local_table(table: &Segment) -> Result<(), Broken> {
    if !table.is_usable() {
        return Ok(());
    }
    let rights = table.rights;
    let is_legal = rights.kind() == system::LDT && !rights.is_code_or_data();
    require(is_legal, Broken::GuestLdtrIsLdt)?;
    check_system(table)
}

fn check_system(segment: &Segment) -> Result<(), Broken> {
    require(segment.rights.is_present(), Broken::GuestSystemSegmentPresent)?;
    require(!segment.rights.has_reserved_bits(), Broken::GuestAccessRightsNoReservedBit)?;
    require(segment.has_legal_granularity(), Broken::GuestSegmentLimitFitsGranularity)
}

/// [SDM3 "Checks on Guest Descriptor-Table Registers"]
fn check_tables<B: AsRef<[u8]>>(vmcs: &Vmcs<B>, processor: &Processor<'_>) -> Result<(), Broken> {
    for (base, limit) in
        [(guest::GDTR_BASE, guest::GDTR_LIMIT), (guest::IDTR_BASE, guest::IDTR_LIMIT)]
    {
        require(processor.is_canonical(vmcs.get(base)), Broken::GuestTableBasesCanonical)?;
        require(vmcs.get(limit) >> 16 == 0, Broken::GuestTableLimitsSixteenBits)?;
    }
    Ok(())
}
