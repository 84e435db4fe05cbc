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
    require(!segments[TR].is_in_local_table(), "guest TR is of the GDT")?;
    let ldtr = &segments[LDTR];
    require(!ldtr.is_usable() || !ldtr.is_in_local_table(), "guest LDTR is of the GDT")?;
    let is_virtual_8086 = vmcs.get(guest::RFLAGS) & rflags::VM != 0;
    let privilege = |at: usize| segments[at].privilege_of_selector();
    let agrees = privilege(SS) == privilege(CS);
    let is_free = is_virtual_8086 || controls.is_unrestricted();
    require(is_free || agrees, "guest SS.RPL is CS.RPL")
}

fn check_bases(segments: &[Segment; 8], processor: &Processor<'_>) -> Result<(), Broken> {
    let ldtr = &segments[LDTR];
    let canonical = |segment: &Segment| processor.is_canonical(segment.base);
    require(canonical(&segments[TR]), "guest TR base is canonical")?;
    require(canonical(&segments[4]), "guest FS base is canonical")?;
    require(canonical(&segments[5]), "guest GS base is canonical")?;
    require(!ldtr.is_usable() || canonical(ldtr), "guest LDTR base is canonical")?;
    require(segments[CS].base >> 32 == 0, "guest CS base has 32 bits")?;
    for at in [0, SS, 3] {
        let segment = &segments[at];
        let is_legal = !segment.is_usable() || segment.base >> 32 == 0;
        require(is_legal, "bases of guest SS, DS and ES have 32 bits")?;
    }
    Ok(())
}

fn check_virtual_8086(segment: &Segment) -> Result<(), Broken> {
    require(segment.base == segment.selector << 4, "a virtual-8086 base follows the selector")?;
    require(segment.limit == 0xFFFF, "a virtual-8086 limit is FFFFh")?;
    let is_legal = segment.rights == AccessRights::VIRTUAL_8086;
    require(is_legal, "virtual-8086 access rights are F3h")
}

/// What holds of every usable code or data segment.
fn check_usable(segment: &Segment) -> Result<(), Broken> {
    let rights = segment.rights;
    require(rights.is_code_or_data(), "a guest segment is code or data")?;
    require(rights.is_present(), "a guest segment is present")?;
    require(!rights.has_reserved_bits(), "guest access rights have no reserved bit")?;
    require(segment.has_legal_granularity(), "a guest segment's limit fits its granularity")
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
    require(is_legal, "guest CS has a type and privilege of code")?;
    check_usable(&segments[CS])?;
    let is_64_bit = controls.is_long_mode_guest() && code.is_long();
    require(!is_64_bit || !code.is_default_big(), "64-bit code has D = 0")
}

fn check_stack<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    segments: &[Segment; 8],
) -> Result<(), Broken> {
    let stack = &segments[SS];
    let privilege = stack.rights.privilege();
    let agrees = privilege == stack.privilege_of_selector();
    require(controls.is_unrestricted() || agrees, "guest SS.DPL is SS.RPL")?;
    let is_real = vmcs.get(guest::CR0) & Cr0::PROTECTION_ENABLE.bits() == 0;
    let is_zero = is_real || segments[CS].rights.kind() == READ_WRITE_ACCESSED;
    require(!is_zero || privilege == 0, "guest SS.DPL is 0 in real mode")?;
    if !stack.is_usable() {
        return Ok(());
    }
    require(matches!(stack.rights.kind(), 3 | 7), "guest SS is writable data")?;
    check_usable(stack)
}

fn check_data(controls: &Controls, segment: &Segment) -> Result<(), Broken> {
    if !segment.is_usable() {
        return Ok(());
    }
    let rights = segment.rights;
    require(rights.kind() & 1 != 0, "a guest data segment is accessed")?;
    let is_unreadable = rights.kind() & 0b1010 == 0b1000;
    require(!is_unreadable, "code in a guest data segment is readable")?;
    let is_checked = !controls.is_unrestricted() && rights.kind() <= 11;
    let is_reachable = rights.privilege() >= segment.privilege_of_selector();
    require(!is_checked || is_reachable, "a guest data segment's DPL is not below its RPL")?;
    check_usable(segment)
}

fn check_task(controls: &Controls, task: &Segment) -> Result<(), Broken> {
    let rights = task.rights;
    require(task.is_usable(), "guest TR is usable")?;
    let is_legal = match rights.kind() {
        system::TSS32_BUSY => true,
        system::TSS16_BUSY => !controls.is_long_mode_guest(),
        _ => false,
    };
    require(is_legal && !rights.is_code_or_data(), "guest TR is a busy TSS")?;
    check_system(task)
}

fn check_local_table(table: &Segment) -> Result<(), Broken> {
    if !table.is_usable() {
        return Ok(());
    }
    let rights = table.rights;
    let is_legal = rights.kind() == system::LDT && !rights.is_code_or_data();
    require(is_legal, "guest LDTR is an LDT")?;
    check_system(table)
}

fn check_system(segment: &Segment) -> Result<(), Broken> {
    require(segment.rights.is_present(), "a guest system segment is present")?;
    require(!segment.rights.has_reserved_bits(), "guest access rights have no reserved bit")?;
    require(segment.has_legal_granularity(), "a guest segment's limit fits its granularity")
}

/// [SDM3 "Checks on Guest Descriptor-Table Registers"]
fn check_tables<B: AsRef<[u8]>>(vmcs: &Vmcs<B>, processor: &Processor<'_>) -> Result<(), Broken> {
    for (base, limit) in
        [(guest::GDTR_BASE, guest::GDTR_LIMIT), (guest::IDTR_BASE, guest::IDTR_LIMIT)]
    {
        require(processor.is_canonical(vmcs.get(base)), "guest table bases are canonical")?;
        require(vmcs.get(limit) >> 16 == 0, "guest table limits have sixteen bits")?;
    }
    Ok(())
}
