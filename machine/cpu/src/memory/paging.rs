//! Page-table walks. [APM2 "Page Translation and Protection"]

use super::access::Access;
use super::tlb;
use crate::{Bus, Cpu, Stop};
use arch::address::{Linear, SystemPhysical};
use arch::control::{Cr0, Cr4, Efer};
use arch::exception::PAGE_FAULT;
use arch::paging::{entry, fault};

/// How the tables are laid out in the present mode.
struct Format {
    /// Table levels, the root being the highest.
    levels: u8,
    entry_bytes: u64,
    /// Index bits per level.
    index_bits: u32,
}

/// A finished walk.
struct Walk {
    address: SystemPhysical,
    is_writable: bool,
    is_user: bool,
    is_executable: bool,
    is_dirty: bool,
    page_bits: u32,
    protection_key: u32,
}

impl Cpu {
    /// Translates a linear address, raises #PF, sets accessed and dirty bits, fills the TLB.
    pub(crate) fn translate(
        &mut self,
        bus: &mut Bus<'_>,
        linear: Linear,
        access: Access,
        set: usize,
    ) -> Result<SystemPhysical, Stop> {
        if !self.control.cr0.contains(Cr0::PAGING) {
            let address = SystemPhysical(linear.0 & 0xFFFF_FFFF);
            let address = self.guest_to_system(bus, address, access, false)?;
            self.fill_tlb(bus, set, linear, address, (true, true, true), false);
            return Ok(address);
        }
        let walk = match self.walk(bus, linear, access, set) {
            Ok(walk) => walk?,
            Err(error) => return Err(self.page_fault(linear, error, access, set)),
        };
        let allows = |wanted| self.permits(&walk, wanted, set).is_ok();
        let grants =
            (allows(Access::Read), walk.is_dirty && allows(Access::Write), allows(Access::Execute));
        self.fill_tlb(bus, set, linear, walk.address, grants, walk.page_bits > 12);
        Ok(walk.address)
    }

    fn fill_tlb(
        &mut self,
        bus: &Bus<'_>,
        set: usize,
        linear: Linear,
        address: SystemPhysical,
        grants: (bool, bool, bool),
        is_large: bool,
    ) {
        if let Some(offset) = bus.memory.offset(address.page())
            && !self.overlays_ram(address)
        {
            let (write, execute) = self.nested_grants();
            let grants = (grants.0, grants.1 && write, grants.2 && execute);
            self.tlb.fill(set, linear.0, offset as u64, grants, is_large);
        }
    }

    fn page_fault(&mut self, linear: Linear, error: u32, access: Access, set: usize) -> Stop {
        self.pending.fault_address = linear.0;
        Stop::exception_with(PAGE_FAULT, error | self.access_bits(access, set))
    }

    fn access_bits(&self, access: Access, set: usize) -> u32 {
        let user = if set == tlb::USER { fault::USER } else { 0 };
        user | match access {
            Access::Read => 0,
            Access::Write => fault::WRITE,
            Access::Execute if self.reports_fetches() => fault::FETCH,
            Access::Execute => 0,
        }
    }

    /// I/D in the error code exists only where NX or SMEP is on.
    fn reports_fetches(&self) -> bool {
        self.control.cr4.contains(Cr4::SMEP)
            || self.control.cr4.contains(Cr4::PAE) && self.control.efer.contains(Efer::NO_EXECUTE)
    }

    fn format(&self) -> Format {
        if self.is_long_mode() {
            Format { levels: 4, entry_bytes: 8, index_bits: 9 }
        } else if self.control.cr4.contains(Cr4::PAE) {
            Format { levels: 3, entry_bytes: 8, index_bits: 9 }
        } else {
            Format { levels: 2, entry_bytes: 4, index_bits: 10 }
        }
    }

    /// Outer error: a page fault's error-code bits besides those of the access. Inner error: a
    /// nested page fault.
    #[allow(clippy::type_complexity)]
    fn walk(
        &mut self,
        bus: &mut Bus<'_>,
        linear: Linear,
        access: Access,
        set: usize,
    ) -> Result<Result<Walk, Stop>, u32> {
        let format = self.format();
        let mut table =
            self.control.cr3 & if format.entry_bytes == 8 { entry::ADDRESS } else { 0xFFFF_F000 };
        let (mut writable, mut user, mut executable) = (true, true, true);
        let mut level = format.levels;
        loop {
            let shift = 12 + format.index_bits * (level as u32 - 1);
            let index = linear.0 >> shift & ((1 << format.index_bits) - 1);
            let is_pdpte = format.levels == 3 && level == 3;
            let (place, raw) = if is_pdpte {
                (SystemPhysical(0), self.control.pdpte[index as usize & 3])
            } else {
                let at = SystemPhysical(table + index * format.entry_bytes);
                let place = match self.guest_to_system(bus, at, Access::Write, true) {
                    Ok(place) => place,
                    Err(stop) => return Ok(Err(stop)),
                };
                (place, self.read_entry(bus, place, format.entry_bytes))
            };
            if raw & entry::PRESENT == 0 {
                return Err(0);
            }
            let is_leaf = level == 1 || self.is_large(raw, level, &format);
            if raw & self.reserved_bits(level, is_leaf, &format) != 0 {
                return Err(fault::PRESENT | fault::RESERVED);
            }
            if !is_pdpte {
                writable &= raw & entry::WRITABLE != 0;
                user &= raw & entry::USER != 0;
            }
            executable &= format.entry_bytes == 4
                || raw & entry::NO_EXECUTE == 0
                || !self.control.efer.contains(Efer::NO_EXECUTE);
            if is_leaf {
                let walk = self.leaf(linear, raw, shift, &format, (writable, user, executable));
                return self.finish(bus, walk, place, raw, access, set, &format);
            }
            if !is_pdpte && raw & entry::ACCESSED == 0 {
                self.write_entry(bus, place, raw | entry::ACCESSED, format.entry_bytes);
            }
            table = raw & if format.entry_bytes == 8 { entry::ADDRESS } else { 0xFFFF_F000 };
            level -= 1;
        }
    }

    fn is_large(&self, raw: u64, level: u8, format: &Format) -> bool {
        raw & entry::LARGE != 0
            && match (format.levels, level) {
                (4, 3) => self.model.has(arch::cpuid::Feature::Pdpe1gb),
                (_, 2) => format.entry_bytes == 8 || self.control.cr4.contains(Cr4::PSE),
                _ => false,
            }
    }

    fn reserved_bits(&self, level: u8, is_leaf: bool, format: &Format) -> u64 {
        if format.entry_bytes == 4 {
            // PSE-36 gives bits 20:13 to the address; bit 21 of a 4 MiB entry stays reserved.
            return if is_leaf && level == 2 { 1 << 21 } else { 0 };
        }
        let above = entry::ADDRESS & !((1 << self.model.physical_bits()) - 1);
        let no_execute =
            if self.control.efer.contains(Efer::NO_EXECUTE) { 0 } else { entry::NO_EXECUTE };
        let legacy_high = if format.levels == 3 { 0x7FF0_0000_0000_0000 } else { 0 };
        let by_level = match (level, is_leaf) {
            // AMD parts reserve bit 8 besides bit 7.
            (4, _) if self.model.is_amd() => entry::LARGE | entry::GLOBAL,
            (4, _) => entry::LARGE,
            (3, _) if format.levels == 3 => 0x1E6 | entry::NO_EXECUTE,
            (3, false) => entry::LARGE,
            (3, true) => 0x3FFF_E000,
            (2, true) => 0x1F_E000,
            _ => 0,
        };
        above | no_execute | legacy_high | by_level
    }

    fn leaf(
        &self,
        linear: Linear,
        raw: u64,
        page_bits: u32,
        format: &Format,
        (is_writable, is_user, is_executable): (bool, bool, bool),
    ) -> Walk {
        let in_page = (1u64 << page_bits) - 1;
        let frame = if format.entry_bytes == 8 {
            raw & entry::ADDRESS & !in_page
        } else if page_bits > 12 {
            raw & 0xFFC0_0000 | (raw >> 13 & 0xFF) << 32
        } else {
            raw & 0xFFFF_F000
        };
        Walk {
            address: SystemPhysical(frame | linear.0 & in_page),
            is_writable,
            is_user,
            is_executable,
            is_dirty: raw & entry::DIRTY != 0,
            page_bits,
            protection_key: entry::protection_key(raw),
        }
    }

    /// Checks permissions, then sets accessed and dirty.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn finish(
        &mut self,
        bus: &mut Bus<'_>,
        mut walk: Walk,
        place: SystemPhysical,
        raw: u64,
        access: Access,
        set: usize,
        format: &Format,
    ) -> Result<Result<Walk, Stop>, u32> {
        self.permits(&walk, access, set)?;
        let mut wanted = raw | entry::ACCESSED;
        if access == Access::Write {
            wanted |= entry::DIRTY;
            walk.is_dirty = true;
        }
        if wanted != raw {
            self.write_entry(bus, place, wanted, format.entry_bytes);
        }
        match self.guest_to_system(bus, walk.address, access, false) {
            Ok(address) => Ok(Ok(Walk { address, ..walk })),
            Err(stop) => Ok(Err(stop)),
        }
    }

    /// [APM2 "Page-Protection Checks"], SMEP, SMAP and protection keys.
    fn permits(&self, walk: &Walk, access: Access, set: usize) -> Result<(), u32> {
        let denied = Err(fault::PRESENT);
        let is_user_access = set == tlb::USER;
        if access == Access::Execute {
            if !walk.is_executable {
                return denied;
            }
            return match (is_user_access, walk.is_user) {
                (true, false) => denied,
                (false, true) if self.control.cr4.contains(Cr4::SMEP) => denied,
                _ => Ok(()),
            };
        }
        let smap = self.control.cr4.contains(Cr4::SMAP) && set == tlb::SUPERVISOR;
        let write_protects = is_user_access || self.control.cr0.contains(Cr0::WRITE_PROTECT);
        let is_denied = is_user_access && !walk.is_user
            || !is_user_access && walk.is_user && smap
            || access == Access::Write && !walk.is_writable && write_protects;
        let key = self.key_violation(walk, access, write_protects);
        if is_denied || key != 0 { Err(fault::PRESENT | key) } else { Ok(()) }
    }

    /// The error code's bit for a protection key that forbids the access, whether anything else
    /// does or not. [APM2 "Memory Protection Keys (MPK) Bit"] [SDM3 "Page-Fault Exceptions"]
    fn key_violation(&self, walk: &Walk, access: Access, write_protects: bool) -> u32 {
        if !walk.is_user || !self.control.cr4.contains(Cr4::PKE) || !self.is_long_mode() {
            return 0;
        }
        let rights = self.control.pkru >> (2 * walk.protection_key);
        let forbids_write = rights & 2 != 0 && access == Access::Write && write_protects;
        if rights & 1 != 0 || forbids_write { fault::PROTECTION_KEY } else { 0 }
    }

    pub(crate) fn read_entry(
        &mut self,
        bus: &mut Bus<'_>,
        place: SystemPhysical,
        bytes: u64,
    ) -> u64 {
        match (bytes, bus.memory.offset(place)) {
            (8, Some(_)) => bus.memory.read_u64(place).unwrap_or(0),
            (_, Some(_)) => bus.memory.read_u32(place).unwrap_or(0) as u64,
            (bytes, None) => bus.platform.read(bus.memory, self.visit(), place, bytes as u8),
        }
    }

    pub(crate) fn write_entry(
        &mut self,
        bus: &mut Bus<'_>,
        place: SystemPhysical,
        value: u64,
        bytes: u64,
    ) {
        let raw = value.to_le_bytes();
        if bus.memory.write(place, &raw[..bytes as usize]).is_err() {
            bus.platform.write(bus.memory, self.visit(), place, bytes as u8, value);
        }
    }

    /// Loads the four PDPTEs of PAE paging from the table at CR3; #GP if one has reserved bits.
    /// [SDM3 "PDPTE Registers"]
    pub(crate) fn load_pdptes(&mut self, bus: &mut Bus<'_>, cr3: u64) -> Result<(), Stop> {
        let reserved = self.pdpte_reserved();
        let mut loaded = [0; 4];
        for (i, slot) in loaded.iter_mut().enumerate() {
            let at = SystemPhysical((cr3 & 0xFFFF_FFE0) + 8 * i as u64);
            let place = self.guest_to_system(bus, at, Access::Read, true)?;
            *slot = self.read_entry(bus, place, 8);
            if *slot & entry::PRESENT != 0 && *slot & reserved != 0 {
                return Err(Stop::GENERAL_PROTECTION);
            }
        }
        self.control.pdpte = loaded;
        Ok(())
    }

    /// Bits of a present PDPTE that must be zero.
    pub(crate) fn pdpte_reserved(&self) -> u64 {
        0x1E6 | !((1u64 << self.model.physical_bits()) - 1)
    }

    /// Loads the four PDPTEs for VMRUN and #VMEXIT, which leave their reserved bits to the walks.
    /// What cannot be read is not present.
    pub(crate) fn reload_pdptes(&mut self, bus: &mut Bus<'_>) {
        for i in 0..4 {
            let at = SystemPhysical((self.control.cr3 & 0xFFFF_FFE0) + 8 * i as u64);
            self.control.pdpte[i] = match self.guest_to_system(bus, at, Access::Read, true) {
                Ok(place) => self.read_entry(bus, place, 8),
                Err(_) => 0,
            };
        }
    }

    /// A walk for debuggers: no faults, no side effects, no permission checks.
    pub(crate) fn walk_silently(
        &self,
        memory: &bus::GuestMemory,
        linear: Linear,
    ) -> Option<SystemPhysical> {
        if !self.control.cr0.contains(Cr0::PAGING) {
            return Some(SystemPhysical(linear.0 & 0xFFFF_FFFF));
        }
        let format = self.format();
        let mut table =
            self.control.cr3 & if format.entry_bytes == 8 { entry::ADDRESS } else { 0xFFFF_F000 };
        for level in (1..=format.levels).rev() {
            let shift = 12 + format.index_bits * (level as u32 - 1);
            let index = linear.0 >> shift & ((1 << format.index_bits) - 1);
            let at = SystemPhysical(table + index * format.entry_bytes);
            let raw = match (format.levels, level) {
                (3, 3) => self.control.pdpte[index as usize & 3],
                _ if format.entry_bytes == 8 => memory.read_u64(at).ok()?,
                _ => memory.read_u32(at).ok()? as u64,
            };
            if raw & entry::PRESENT == 0 {
                return None;
            }
            if level == 1 || self.is_large(raw, level, &format) {
                return Some(self.leaf(linear, raw, shift, &format, (true, true, true)).address);
            }
            table = raw & if format.entry_bytes == 8 { entry::ADDRESS } else { 0xFFFF_F000 };
        }
        None
    }
}
