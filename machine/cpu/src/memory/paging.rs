//! Page-table walks. [APM2 "Page Translation and Protection"]

use super::access::Access;
use super::format::{Legacy, Wide, right};
use super::outside::{End, Trail};
use super::tlb;
use crate::CpuModel;
use crate::memory::Located;
use crate::memory::OwnRights;
use crate::state::Control;
use crate::system::local_apic;
use crate::{Bus, Cpu, Stop};
use arch::address::{Linear, SystemPhysical};
use arch::control::{Cr0, Cr4, Efer};
use arch::exception::PAGE_FAULT;
use arch::paging::{entry, fault};
use bus::walk::{Failure, Format, Leaf, Tables, walk};
use bus::{Author, GuestMemory};

/// A finished walk.
struct Walk {
    /// What the running software takes for the physical address.
    address: SystemPhysical,
    /// See [`right`].
    rights: u64,
    is_accessed: bool,
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
    ) -> Result<Located, Stop> {
        self.translation.begin(Some(linear.0));
        if let Some(address) = self.translate_settled(bus, linear, access, set) {
            return Ok(Located::Memory(address));
        }
        if !self.control.cr0().contains(Cr0::PAGING) {
            let address = SystemPhysical(linear.0 & 0xFFFF_FFFF);
            self.translation.grant(OwnRights::UNPAGED);
            let place = self.operand_to_system(bus, address, access)?;
            fill_tlb(self, bus, set, linear, place, (true, true, true), false);
            return Ok(place);
        }
        let walk = match walk_own(self, bus, linear, access, set) {
            Ok(walk) => walk,
            Err(Refusal::Fault(error)) => {
                return Err(page_fault(self, linear, error, access, set));
            }
            Err(Refusal::Exit(stop)) => return Err(stop),
        };
        self.translation.grant(walk.own_rights());
        let place = self.operand_to_system(bus, walk.address, access)?;
        let allows = |wanted| self.control.permits(&walk, wanted, set).is_ok();
        let grants =
            (allows(Access::Read), walk.is_dirty && allows(Access::Write), allows(Access::Execute));
        fill_tlb(self, bus, set, linear, place, grants, walk.page_bits > 12);
        Ok(place)
    }

    /// What most walks are: in long mode and outside a guest, through entries that are in RAM,
    /// present, well formed and, above the last, accessed already, to a page that the access may go
    /// to. `None` leaves all to the walk that knows the rest; nothing has been done then.
    pub(super) fn translate_settled(
        &mut self,
        bus: &mut Bus<'_>,
        linear: Linear,
        access: Access,
        set: usize,
    ) -> Option<SystemPhysical> {
        if self.is_guest() || !self.control.is_long_mode() {
            return None;
        }
        let ways = &self.translation.outside;
        if let Some(end) = ways.recall(&self.control, bus.memory, linear.0, access, set) {
            let (page, own) = (end.page, end.own);
            self.translation.grant(own);
            return Some(page.offset(linear.0 & 0xFFF));
        }
        let cr3 = self.control.cr3;
        let (mut walk, at) = Walk::settled(&Wide::of(self), cr3, bus.memory, linear, |_, _| ())?;
        let allows = |wanted| self.control.permits(&walk, wanted, set).is_ok();
        let allowed = (allows(Access::Read), allows(Access::Write), allows(Access::Execute));
        if !access.is_granted(allowed) {
            return None;
        }
        let is_write = access == Access::Write;
        if !walk.is_accessed || is_write && !walk.is_dirty {
            note_use(self, bus, at, is_write);
            walk.is_dirty |= is_write;
        }
        self.translation.grant(walk.own_rights());
        let grants = (allowed.0, walk.is_dirty && allowed.1, allowed.2);
        let place = Located::Memory(walk.address);
        if !fill_tlb(self, bus, set, linear, place, grants, walk.page_bits > 12) {
            remember_outside(self, bus.memory, linear, set, grants, &walk);
        }
        Some(walk.address)
    }

    /// Where an access of the running software leads outside RAM, if a walk has told before.
    pub(super) fn recall_outside(
        &mut self,
        memory: &GuestMemory,
        linear: u64,
        access: Access,
    ) -> Option<SystemPhysical> {
        if self.is_guest() || !self.control.is_long_mode() {
            return None;
        }
        let set = self.registers.access_set();
        let end = self.translation.outside.recall(&self.control, memory, linear, access, set)?;
        let (page, own) = (end.page, end.own);
        self.translation.begin(Some(linear));
        self.translation.grant(own);
        Some(page.offset(linear & 0xFFF))
    }

    #[inline(always)]
    pub(crate) fn read_entry(
        &mut self,
        bus: &mut Bus<'_>,
        place: SystemPhysical,
        bytes: u64,
    ) -> u64 {
        // An entry lies at a multiple of its size, so all of it is where its first byte is.
        let ram = bus.memory.offset(place).and_then(|at| bus.memory.ram.get(at..));
        match (bytes, ram) {
            (8, Some(ram)) => ram.first_chunk().map_or(0, |entry| u64::from_le_bytes(*entry)),
            (_, Some(ram)) => {
                ram.first_chunk().map_or(0, |entry| u32::from_le_bytes(*entry).into())
            }
            (bytes, None) => {
                self.translation.read_device = true;
                bus.platform.read(bus.memory, self.visit(), place, bytes as u8)
            }
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
        if bus.memory.write_by(Author::PageWalk, place, &raw[..bytes as usize]).is_err() {
            bus.platform.write(bus.memory, self.visit(), place, bytes as u8, value);
        }
    }

    /// Loads the four PDPTEs of PAE paging from the table at CR3; #GP if one has reserved bits.
    /// [SDM3 "PDPTE Registers"]
    pub(crate) fn load_pdptes(&mut self, bus: &mut Bus<'_>, cr3: u64) -> Result<(), Stop> {
        let reserved = self.model.pdpte_reserved();
        self.translation.begin(None);
        let mut loaded = [0; 4];
        for (i, slot) in loaded.iter_mut().enumerate() {
            let at = SystemPhysical((cr3 & 0xFFFF_FFE0) + 8 * i as u64);
            let place = self.table_to_system(bus, at)?;
            *slot = self.read_entry(bus, place, 8);
            if *slot & entry::PRESENT != 0 && *slot & reserved != 0 {
                return Err(Stop::GENERAL_PROTECTION);
            }
        }
        self.control.pdpte = loaded;
        Ok(())
    }

    /// Loads the four PDPTEs for VMRUN and #VMEXIT, which leave their reserved bits to the walks.
    /// What cannot be read is not present.
    pub(crate) fn reload_pdptes(&mut self, bus: &mut Bus<'_>) {
        for i in 0..4 {
            let at = SystemPhysical((self.control.cr3 & 0xFFFF_FFE0) + 8 * i as u64);
            self.control.pdpte[i] = match self.table_to_system(bus, at) {
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
        if !self.control.cr0().contains(Cr0::PAGING) {
            return Some(SystemPhysical(linear.0 & 0xFFFF_FFFF));
        }
        let tables = &mut Untouched(memory);
        if !self.control.cr4().contains(Cr4::PAE) {
            let root = self.control.cr3 & Legacy::FRAME;
            let leaf = walk(&Legacy::of(self), tables, root, 2, linear.0).ok()?;
            return Some(Walk::new(&leaf, legacy_frame(&leaf), linear).address);
        }
        let (root, level) = wide_root(self, linear).ok()?;
        let leaf = walk(&Wide::of(self), tables, root, level, linear.0).ok()?;
        Some(Walk::new(&leaf, leaf.entry & entry::ADDRESS, linear).address)
    }
}

/// The entry at an index into RAM, through which a page was found, tells that it has been used.
#[cold]
fn note_use(cpu: &mut Cpu, bus: &mut Bus<'_>, at: usize, is_write: bool) {
    let Some(place) = bus.memory.address(at as u64) else { return };
    let entry = cpu.read_entry(bus, place, Wide::ENTRY_BYTES) | entry::ACCESSED;
    let dirty = if is_write { entry::DIRTY } else { 0 };
    cpu.write_entry(bus, place, entry | dirty, Wide::ENTRY_BYTES);
}

/// Walks once more, for what the walk rests on, if it led outside RAM.
#[cold]
fn remember_outside(
    cpu: &mut Cpu,
    memory: &GuestMemory,
    linear: Linear,
    set: usize,
    grants: (bool, bool, bool),
    walk: &Walk,
) {
    let page = walk.address.page();
    if memory.offset(page).is_some() {
        return;
    }
    let mut trail = Trail::default();
    let note = |at, raw| trail.note(at, raw);
    Walk::settled(&Wide::of(cpu), cpu.control.cr3, memory, linear, note);
    let end = End { page, grants, own: walk.own_rights() };
    cpu.translation.outside.remember(&cpu.control, linear.0, set, trail, end);
}

/// Whether the TLB has the translation now.
fn fill_tlb(
    cpu: &mut Cpu,
    bus: &Bus<'_>,
    set: usize,
    linear: Linear,
    place: Located,
    grants: (bool, bool, bool),
    is_large: bool,
) -> bool {
    if let Located::Memory(address) = place
        && let Some(offset) = bus.memory.offset(address.page())
        && !local_apic::overlays_ram(cpu, address)
    {
        let (write, execute) = cpu.nested_grants();
        let write = write && !bus.memory.is_read_only(offset);
        let grants = (grants.0, grants.1 && write, grants.2 && execute);
        cpu.translation.tlb.fill(set, linear.0, offset as u64, grants, is_large);
        return true;
    }
    false
}

fn page_fault(cpu: &mut Cpu, linear: Linear, error: u32, access: Access, set: usize) -> Stop {
    cpu.pending.set_fault_address(linear.0);
    Stop::exception_with(PAGE_FAULT, error | cpu.control.access_bits(access, set))
}

/// Walks the tables of the present mode, checks permissions, sets accessed and dirty.
fn walk_own(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: Linear,
    access: Access,
    set: usize,
) -> Result<Walk, Refusal> {
    if !cpu.control.cr4().contains(Cr4::PAE) {
        let format = Legacy::of(cpu);
        let root = cpu.control.cr3 & Legacy::FRAME;
        let leaf = walk(&format, &mut OwnTables { cpu, bus }, root, 2, linear.0)?;
        let found = Walk::new(&leaf, legacy_frame(&leaf), linear);
        return finish(cpu, bus, found, &leaf, access, set, Legacy::ENTRY_BYTES);
    }
    let format = Wide::of(cpu);
    let (root, level) = wide_root(cpu, linear).map_err(Refusal::Fault)?;
    let leaf = walk(&format, &mut OwnTables { cpu, bus }, root, level, linear.0)?;
    let found = Walk::new(&leaf, leaf.entry & entry::ADDRESS, linear);
    finish(cpu, bus, found, &leaf, access, set, Wide::ENTRY_BYTES)
}

/// The first table of eight-byte entries and its level: CR3's in long mode; under PAE that of
/// the register that holds the root's entry. `Err` holds bits of a page fault's error code.
fn wide_root(cpu: &Cpu, linear: Linear) -> Result<(u64, u32), u32> {
    if cpu.control.is_long_mode() {
        return Ok((cpu.control.cr3 & entry::ADDRESS, 4));
    }
    let pointer = cpu.control.pdpte[(linear.0 >> 30 & 3) as usize];
    if pointer & entry::PRESENT == 0 {
        return Err(0);
    }
    if pointer & cpu.model.pdpte_reserved() != 0 {
        return Err(fault::PRESENT | fault::RESERVED);
    }
    Ok((pointer & entry::ADDRESS, 2))
}

/// Checks permissions, then sets accessed and dirty.
fn finish(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    mut walk: Walk,
    leaf: &Leaf<OwnPlace>,
    access: Access,
    set: usize,
    bytes: u64,
) -> Result<Walk, Refusal> {
    cpu.control.permits(&walk, access, set).map_err(Refusal::Fault)?;
    let mut wanted = leaf.entry | entry::ACCESSED;
    if access == Access::Write {
        wanted |= entry::DIRTY;
        walk.is_dirty = true;
    }
    if wanted != leaf.entry {
        cpu.check_table_update(bus, leaf.place.at).map_err(Refusal::Exit)?;
        cpu.write_entry(bus, leaf.place.system, wanted, bytes);
    }
    Ok(walk)
}

impl Walk {
    /// Through four levels of entries that are in RAM, present, well formed and, above the last,
    /// accessed already; and the index into RAM of the last. What must hold of each entry is asked
    /// of all together: to follow one that is not present only reads, and whether a page is large
    /// decides the way. `note` hears of each entry: its index into RAM, and what it says.
    #[inline(always)]
    fn settled(
        format: &Wide,
        cr3: u64,
        memory: &GuestMemory,
        linear: Linear,
        mut note: impl FnMut(usize, u64),
    ) -> Option<(Self, usize)> {
        let mut read = |table: u64, page_bits: u32| {
            let index = linear.0 >> page_bits & ((1 << Wide::INDEX_BITS) - 1);
            let place = SystemPhysical((table & entry::ADDRESS) + index * Wide::ENTRY_BYTES);
            let at = memory.offset(place)?;
            let raw = u64::from_le_bytes(*memory.ram.get(at..)?.first_chunk()?);
            note(at, raw);
            Some((at, raw))
        };
        let (_, root) = read(cr3, 39)?;
        let (mut at, mut raw) = read(root, 30)?;
        let (mut page_bits, mut level) = (30, 3);
        let (mut above, mut any) = (root, root | raw);
        if !format.is_large(raw, level) {
            if format.is_malformed(raw, level, false) {
                return None;
            }
            above &= raw;
            (page_bits, level) = (21, 2);
            (at, raw) = read(raw, page_bits)?;
            any |= raw;
            if !format.is_large(raw, level) {
                above &= raw;
                (page_bits, level) = (12, 1);
                (at, raw) = read(raw, page_bits)?;
                any |= raw;
            }
        }
        let settled = entry::PRESENT | entry::ACCESSED;
        let is_settled = above & settled == settled && raw & entry::PRESENT != 0;
        let is_well_formed = any & format.reserved == 0
            && !format.is_malformed(root, 4, false)
            && !format.is_malformed(raw, level, true);
        if !is_settled || !is_well_formed {
            return None;
        }
        let rights = format.rights(above & raw & !entry::NO_EXECUTE | any & entry::NO_EXECUTE);
        let leaf = Leaf { place: (), entry: raw, page_bits, rights };
        Some((Self::new(&leaf, raw & entry::ADDRESS, linear), at))
    }

    fn new<P>(leaf: &Leaf<P>, frame: u64, linear: Linear) -> Self {
        let in_page = (1u64 << leaf.page_bits) - 1;
        Self {
            address: SystemPhysical(frame & !in_page | linear.0 & in_page),
            rights: leaf.rights,
            is_accessed: leaf.entry & entry::ACCESSED != 0,
            is_dirty: leaf.entry & entry::DIRTY != 0,
            page_bits: leaf.page_bits,
            protection_key: entry::protection_key(leaf.entry),
        }
    }

    fn is_user(&self) -> bool {
        self.rights & right::USER != 0
    }

    fn own_rights(&self) -> OwnRights {
        OwnRights {
            is_user: self.is_user(),
            is_writable: self.rights & right::WRITE != 0,
            is_executable: self.rights & right::EXECUTE != 0,
        }
    }
}

/// The page's address in an entry of four bytes; PSE-36 extends that of a large page.
fn legacy_frame<P>(leaf: &Leaf<P>) -> u64 {
    match leaf.page_bits {
        12 => leaf.entry & Legacy::FRAME,
        _ => leaf.entry & 0xFFC0_0000 | (leaf.entry >> 13 & 0xFF) << 32,
    }
}

/// Why a walk of the processor's own tables gives no page.
enum Refusal {
    /// Bits of a page fault's error code besides those of the access.
    Fault(u32),
    /// The guest leaves: its tables are not where it takes them to be.
    Exit(Stop),
}

impl From<Failure<Stop>> for Refusal {
    fn from(failure: Failure<Stop>) -> Self {
        match failure {
            Failure::Absent { .. } => Self::Fault(0),
            Failure::Malformed => Self::Fault(fault::PRESENT | fault::RESERVED),
            Failure::Tables(stop) => Self::Exit(stop),
        }
    }
}

/// The tables of the running software, in what it takes for physical memory.
struct OwnTables<'a, 'b> {
    cpu: &'a mut Cpu,
    bus: &'a mut Bus<'b>,
}

/// Where an entry of the running software's tables lies.
#[derive(Clone, Copy)]
struct OwnPlace {
    /// As the software has it.
    at: SystemPhysical,
    system: SystemPhysical,
}

impl Tables for OwnTables<'_, '_> {
    type Place = OwnPlace;
    type Error = Stop;

    #[inline(always)]
    fn read(&mut self, at: u64, bytes: u64) -> Result<(OwnPlace, u64), Stop> {
        let at = SystemPhysical(at);
        let system = self.cpu.table_to_system(self.bus, at)?;
        Ok((OwnPlace { at, system }, self.cpu.read_entry(self.bus, system, bytes)))
    }

    fn check_write(&mut self, place: OwnPlace) -> Result<(), Stop> {
        self.cpu.check_table_update(self.bus, place.at)
    }

    fn write(&mut self, place: OwnPlace, entry: u64, bytes: u64) {
        self.cpu.write_entry(self.bus, place.system, entry, bytes);
    }
}

/// Tables at the addresses of the machine, as nested paging has them.
pub(crate) struct SystemTables<'a, 'b> {
    pub cpu: &'a mut Cpu,
    pub bus: &'a mut Bus<'b>,
}

impl Tables for SystemTables<'_, '_> {
    type Place = SystemPhysical;
    type Error = std::convert::Infallible;

    #[inline(always)]
    fn read(&mut self, at: u64, bytes: u64) -> Result<(SystemPhysical, u64), Self::Error> {
        let place = SystemPhysical(at);
        Ok((place, self.cpu.read_entry(self.bus, place, bytes)))
    }

    fn write(&mut self, place: SystemPhysical, entry: u64, bytes: u64) {
        self.cpu.write_entry(self.bus, place, entry, bytes);
    }
}

/// Tables in RAM that are only looked at.
struct Untouched<'a>(&'a bus::GuestMemory);

impl Tables for Untouched<'_> {
    type Place = SystemPhysical;
    type Error = bus::OutOfRange;

    fn read(&mut self, at: u64, bytes: u64) -> Result<(SystemPhysical, u64), bus::OutOfRange> {
        let at = SystemPhysical(at);
        let entry = if bytes == 8 { self.0.read_u64(at)? } else { self.0.read_u32(at)?.into() };
        Ok((at, entry))
    }

    fn write(&mut self, _: SystemPhysical, _: u64, _: u64) {}
}

impl Control {
    /// I/D in the error code exists only where NX or SMEP is on.
    fn reports_fetches(&self) -> bool {
        self.cr4().contains(Cr4::SMEP)
            || self.cr4().contains(Cr4::PAE) && self.efer().contains(Efer::NO_EXECUTE)
    }
}

impl Control {
    fn access_bits(&self, access: Access, set: usize) -> u32 {
        let user = if set == tlb::USER { fault::USER } else { 0 };
        user | match access {
            Access::Read => 0,
            Access::Write => fault::WRITE,
            Access::Execute if self.reports_fetches() => fault::FETCH,
            Access::Execute => 0,
        }
    }

    /// The error code's bit for a protection key that forbids the access, whether anything else
    /// does or not. [APM2 "Memory Protection Keys (MPK) Bit"] [SDM3 "Page-Fault Exceptions"]
    #[inline(always)]
    fn key_violation(&self, walk: &Walk, access: Access, write_protects: bool) -> u32 {
        if !walk.is_user() || !self.cr4().contains(Cr4::PKE) || !self.is_long_mode() {
            return 0;
        }
        let rights = self.pkru >> (2 * walk.protection_key);
        let forbids_write = rights & 2 != 0 && access == Access::Write && write_protects;
        if rights & 1 != 0 || forbids_write { fault::PROTECTION_KEY } else { 0 }
    }
}

impl CpuModel {
    /// Bits of a present PDPTE that must be zero.
    pub(crate) fn pdpte_reserved(&self) -> u64 {
        0x1E6 | !((1u64 << self.physical_bits()) - 1)
    }
}

impl Control {
    /// [APM2 "Page-Protection Checks"], SMEP, SMAP and protection keys.
    #[inline(always)]
    fn permits(&self, walk: &Walk, access: Access, set: usize) -> Result<(), u32> {
        let denied = Err(fault::PRESENT);
        let is_user_access = set == tlb::USER;
        if access == Access::Execute {
            if walk.rights & right::EXECUTE == 0 {
                return denied;
            }
            return match (is_user_access, walk.is_user()) {
                (true, false) => denied,
                (false, true) if self.cr4().contains(Cr4::SMEP) => denied,
                _ => Ok(()),
            };
        }
        let smap = self.cr4().contains(Cr4::SMAP) && set == tlb::SUPERVISOR;
        let write_protects = is_user_access || self.cr0().contains(Cr0::WRITE_PROTECT);
        let is_denied = is_user_access && !walk.is_user()
            || !is_user_access && walk.is_user() && smap
            || access == Access::Write && walk.rights & right::WRITE == 0 && write_protects;
        let key = self.key_violation(walk, access, write_protects);
        if is_denied || key != 0 { Err(fault::PRESENT | key) } else { Ok(()) }
    }
}
