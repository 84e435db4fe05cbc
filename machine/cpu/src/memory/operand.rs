//! Reads and writes of operands: the fast path through the TLB to RAM, and the slow path.

use super::access::Access;
use super::place::{Located, Place};
use super::tlb;
use crate::state::Control;
use crate::state::Registers;
use crate::system::debug;
use crate::width::Width;
use crate::{Bus, Cpu, Op, Stop};
use arch::address::{Linear, SystemPhysical};
use arch::exception;

impl Cpu {
    /// The linear address of the operation's memory operand of `size` bytes.
    #[inline(always)]
    pub(crate) fn operand(&self, op: &Op, size: usize, access: Access) -> Result<u64, Stop> {
        let offset = self.registers.effective_address(op);
        self.operand_at(op, offset, size, access)
    }

    /// As `operand`, for an offset computed by the caller (bit tests, string instructions).
    #[inline(always)]
    pub(crate) fn operand_at(
        &self,
        op: &Op,
        offset: u64,
        size: usize,
        access: Access,
    ) -> Result<u64, Stop> {
        if op.has(Op::SEGMENTED) {
            self.segmented(op.segment, offset, size, access)
        } else {
            Ok(self.registers.bases()[(op.segment & 7) as usize].wrapping_add(offset))
        }
    }

    /// The operation's memory operand.
    #[inline(always)]
    pub(crate) fn read<W: Width>(&mut self, bus: &mut Bus<'_>, op: &Op) -> Result<W, Stop> {
        let linear = self.operand(op, W::BYTES, Access::Read)?;
        read_linear_as(self, bus, linear, op.segment)
    }

    /// Writes the operation's memory operand. On a fault nothing is written.
    #[inline(always)]
    pub(crate) fn write<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        value: W,
    ) -> Result<(), Stop> {
        let linear = self.operand(op, W::BYTES, Access::Write)?;
        write_linear_as(self, bus, linear, value, op.segment)
    }

    #[inline(always)]
    pub(crate) fn read_linear<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
    ) -> Result<W, Stop> {
        read_linear_as(self, bus, linear, crate::operation::FLAT)
    }

    #[inline(always)]
    pub(crate) fn write_linear<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        value: W,
    ) -> Result<(), Stop> {
        write_linear_as(self, bus, linear, value, crate::operation::FLAT)
    }

    /// Has the TLB know `[linear, linear + size)` for a data access of 64-bit code that is going to
    /// be made, if all that takes is a settled walk; whether it does then.
    pub(crate) fn fill_settled(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        access: Access,
    ) -> bool {
        let is_canonical = (linear as i64) << 16 >> 16 == linear as i64;
        if !is_canonical || (linear & 0xFFF) + size as u64 > 0x1000 || self.translation.is_checked()
        {
            return false;
        }
        let (set, at) = (self.translation.set(), Linear(linear));
        if self.translation.tlb.withheld(set, linear, access).is_some() {
            return false;
        }
        if self.translate_settled(bus, at, access, set).is_none() {
            return false;
        }
        self.translation.begin(Some(linear));
        self.translation.ram_known(linear, size, access).is_some()
    }

    /// Finds the operand of an operation that reads and then writes it.
    #[inline(always)]
    pub(crate) fn locate<W: Width>(&mut self, bus: &mut Bus<'_>, op: &Op) -> Result<Place, Stop> {
        let linear = self.operand(op, W::BYTES, Access::Write)?;
        self.locate_linear(bus, linear, W::BYTES, Access::Write, op.segment)
    }

    /// Translates `[linear, linear + size)` for `access`, in RAM or in a device.
    #[inline(always)]
    pub(crate) fn locate_linear(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        access: Access,
        segment: u8,
    ) -> Result<Place, Stop> {
        let entry = self.translation.entry(linear);
        let in_page = linear & 0xFFF;
        let tag = if access == Access::Write { entry.write } else { entry.read };
        if tag == self.translation.tlb.tag(linear) && in_page <= 0x1000 - size as u64 {
            return Ok(Place::ram(entry.offset + in_page, size));
        }
        self.locate_slow(bus, linear, size, access, segment)
    }

    /// What is outside RAM answers by the time, and is reached by one instruction at a time.
    #[cold]
    #[inline(never)]
    pub(super) fn locate_slow(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        access: Access,
        segment: u8,
    ) -> Result<Place, Stop> {
        if let Some(place) = self.withheld(self.translation.set(), linear, size, access) {
            debug::note_data_breakpoints(self, bus.memory, (linear, size), access);
            return Ok(place);
        }
        let is_alone = self.pending.is_alone();
        if is_alone && let Some(place) = self.translation.take_asked(linear, size, access) {
            return Ok(place);
        }
        let last = linear.wrapping_add(size as u64 - 1);
        self.control.check_canonical(linear, segment)?;
        self.control.check_canonical(last, segment)?;
        if self.translation.is_checked() {
            check_alignment(self, linear, size)?;
        }
        if is_alone
            && linear >> 12 == last >> 12
            && let Some(address) = self.recall_outside(bus.memory, linear, access)
            && let place = Place::whole(bus.memory, Located::Memory(address), size, access)
            && place.is_plain_device()
        {
            debug::note_data_breakpoints(self, bus.memory, (linear, size), access);
            return Ok(place);
        }
        self.translation.read_device = false;
        let place = locate_in(self, bus, linear, size, access, self.registers.access_set())?;
        if !is_alone && !place.is_ram() {
            // What a device says of a table it may say otherwise the next time.
            let is_sure = !self.translation.is_checked() && !self.translation.read_device;
            if place.is_plain_device() && is_sure {
                self.translation.ask(linear, size, access, place);
            }
            return Err(Stop::ALONE);
        }
        debug::note_data_breakpoints(self, bus.memory, (linear, size), access);
        Ok(place)
    }

    /// Where an access lies that the TLB knows and does not show.
    fn withheld(&self, set: usize, linear: u64, size: usize, access: Access) -> Option<Place> {
        let in_page = linear & 0xFFF;
        let offset = self.translation.tlb.withheld(set, linear, access)?;
        (in_page + size as u64 <= 0x1000).then(|| Place::ram(offset + in_page, size))
    }

    /// An implicit supervisor access (descriptor tables, TSS) of up to 8 bytes.
    pub(crate) fn read_system(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
    ) -> Result<u64, Stop> {
        if size == size_of::<u64>()
            && let Some(at) =
                self.translation.ram_known_in(tlb::SUPERVISOR, linear, size, Access::Read)
            && let Some(bytes) = bus.memory.ram.get(at..).and_then(|ram| ram.first_chunk())
        {
            return Ok(u64::from_le_bytes(*bytes));
        }
        let place = self.locate_system(bus, linear, size, Access::Read)?;
        Ok(self.read_place(bus, place))
    }

    /// An implicit supervisor write.
    pub(crate) fn write_system(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        value: u64,
    ) -> Result<(), Stop> {
        let place = self.locate_system(bus, linear, size, Access::Write)?;
        self.write_place(bus, place, value);
        Ok(())
    }

    /// Where an access of event delivery or of descriptor tables lies, if the TLB has its page.
    #[inline(always)]
    fn known(&self, linear: u64, size: usize, access: Access, set: usize) -> Option<Place> {
        match self.translation.ram_known_in(set, linear, size, access) {
            Some(at) => Some(Place::ram(at as u64, size)),
            None => self.withheld(set, linear, size, access),
        }
    }

    /// Translates for an implicit supervisor access.
    pub(crate) fn locate_system(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        access: Access,
    ) -> Result<Place, Stop> {
        let linear = self.control.wrap_linear(linear);
        if let Some(place) = self.known(linear, size, access, tlb::SUPERVISOR) {
            return Ok(place);
        }
        self.control.check_canonical(linear, crate::operation::FLAT)?;
        locate_in(self, bus, linear, size, access, tlb::SUPERVISOR)
    }

    /// Translates one address for a fetch, giving the index into RAM of its page if it is RAM.
    pub(crate) fn locate_fetch(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
    ) -> Result<Option<u64>, Stop> {
        let set = self.registers.access_set();
        let entry = self.translation.tlb.entry(set, linear);
        if entry.execute == self.translation.tlb.tag(linear) {
            return Ok(Some(entry.offset));
        }
        if let Some(offset) = self.translation.tlb.withheld(set, linear, Access::Execute) {
            return Ok(Some(offset));
        }
        // Faults and exits tell the address of the instruction, not of its page.
        match self.translate(bus, Linear(linear), Access::Execute, set)? {
            Located::Memory(at) => Ok(bus.memory.offset(at.page()).map(|offset| offset as u64)),
            Located::VirtualApic(_) => Ok(None),
        }
    }

    /// Translates as the processor would, without faults or side effects, for debuggers.
    pub fn peek(&self, memory: &bus::GuestMemory, linear: Linear) -> Option<SystemPhysical> {
        self.walk_silently(memory, linear)
    }
}

impl Cpu {
    /// A read from the stack: faults that are not page faults are #SS.
    #[inline(always)]
    pub(crate) fn read_stack<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
    ) -> Result<W, Stop> {
        read_linear_as(self, bus, linear, crate::operation::FLAT_STACK)
    }

    /// A write to the stack.
    #[inline(always)]
    pub(crate) fn write_stack<W: Width>(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        value: W,
    ) -> Result<(), Stop> {
        write_linear_as(self, bus, linear, value, crate::operation::FLAT_STACK)
    }
}

impl Cpu {
    /// Translates for an access of event delivery or a task switch, at a stated privilege.
    pub(crate) fn locate_for(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        size: usize,
        access: Access,
        set: usize,
    ) -> Result<Place, Stop> {
        if let Some(place) = self.known(linear, size, access, set) {
            return Ok(place);
        }
        self.control.check_canonical(linear, crate::operation::FLAT_STACK)?;
        locate_in(self, bus, linear, size, access, set)
    }
}

#[inline(always)]
fn read_linear_as<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    segment: u8,
) -> Result<W, Stop> {
    let entry = cpu.translation.entry(linear);
    let in_page = linear & 0xFFF;
    if entry.read == cpu.translation.tlb.tag(linear) && in_page <= 0x1000 - W::BYTES as u64 {
        let at = (entry.offset + in_page) as usize;
        if let Some(bytes) = bus.memory.ram.get(at..at + W::BYTES) {
            return Ok(W::from_bytes(bytes));
        }
    }
    read_slow(cpu, bus, linear, W::BYTES, segment).map(W::truncate)
}

#[inline(always)]
fn write_linear_as<W: Width>(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    value: W,
    segment: u8,
) -> Result<(), Stop> {
    let entry = cpu.translation.entry(linear);
    let in_page = linear & 0xFFF;
    if entry.write == cpu.translation.tlb.tag(linear) && in_page <= 0x1000 - W::BYTES as u64 {
        let at = (entry.offset + in_page) as usize;
        if let Some(bytes) = bus.memory.ram_mut(at, W::BYTES) {
            value.to_bytes(bytes);
            cpu.pending.note_ram_write(bus, at, W::BYTES);
            return Ok(());
        }
    }
    write_slow(cpu, bus, linear, value.zero_extend(), W::BYTES, segment)
}

#[cold]
#[inline(never)]
fn read_slow(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    size: usize,
    segment: u8,
) -> Result<u64, Stop> {
    let place = cpu.locate_slow(bus, linear, size, Access::Read, segment)?;
    Ok(cpu.read_place(bus, place))
}

#[cold]
#[inline(never)]
fn write_slow(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    value: u64,
    size: usize,
    segment: u8,
) -> Result<(), Stop> {
    let place = cpu.locate_slow(bus, linear, size, Access::Write, segment)?;
    cpu.write_place(bus, place, value);
    Ok(())
}

fn locate_in(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    size: usize,
    access: Access,
    set: usize,
) -> Result<Place, Stop> {
    let last = linear.wrapping_add(size as u64 - 1);
    let first = cpu.translate(bus, Linear(linear), access, set)?;
    if let Located::VirtualApic(offset) = first {
        cpu.check_virtual_apic(bus, offset, size, access)?;
    }
    if linear >> 12 == last >> 12 {
        return Ok(Place::whole(bus.memory, first, size, access));
    }
    let boundary = cpu.control.wrap_linear(last & !0xFFF);
    let second = cpu.translate(bus, Linear(boundary), access, set)?;
    let head = (0x1000 - (linear & 0xFFF)) as usize;
    Ok(Place::split(bus.memory, (first, head), (second, size - head), access))
}

/// #AC at CPL 3 with CR0.AM and RFLAGS.AC. [APM2 "#AC—Alignment-Check Exception"]
fn check_alignment(cpu: &Cpu, linear: u64, size: usize) -> Result<(), Stop> {
    let aligned = match size {
        2 | 4 | 8 | 16 => linear & (size as u64 - 1) == 0,
        _ => true,
    };
    if aligned || !cpu.checks_alignment() {
        return Ok(());
    }
    Err(Stop::exception_with(exception::ALIGNMENT_CHECK, 0))
}

impl Registers {
    /// The offset of the operation's memory operand in its segment.
    #[inline(always)]
    pub(crate) fn effective_address(&self, op: &Op) -> u64 {
        let base = self.gpr[op.base as usize];
        let index = self.gpr[op.index as usize] << (op.scale & 3);
        base.wrapping_add(index).wrapping_add(op.displacement as i64 as u64) & op.address_mask()
    }
}

impl Control {
    /// Outside 64-bit mode linear addresses wrap at 4 GiB.
    fn wrap_linear(&self, linear: u64) -> u64 {
        if self.is_long_mode() { linear } else { linear & 0xFFFF_FFFF }
    }

    fn check_canonical(&self, linear: u64, segment: u8) -> Result<(), Stop> {
        if !self.is_long_mode() || (linear as i64) << 16 >> 16 == linear as i64 {
            return Ok(());
        }
        let is_stack = segment == crate::operation::FLAT_STACK || segment == 2;
        Err(if is_stack { Stop::STACK } else { Stop::GENERAL_PROTECTION })
    }
}
