//! Where an operand lies after translation.

use super::access::Access;
use crate::costs::Step;
use crate::system::local_apic;
use crate::{Bus, Cpu};
use arch::address::SystemPhysical;
use bus::GuestMemory;

/// Where an operand of the running software lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Located {
    /// In RAM or in a device.
    Memory(SystemPhysical),
    /// In the page that the guest takes for its local APIC, at this offset: the access does not
    /// take the path of memory.
    VirtualApic(u16),
}

/// A translated operand of up to 8 bytes in RAM or a device, possibly in two pages.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    first: Part,
    first_size: u8,
    second: Option<Part>,
    second_size: u8,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    /// An index into RAM.
    Ram(u64),
    Device(SystemPhysical),
    /// In the page that a guest takes for its local APIC.
    VirtualApic(u16),
}

impl Part {
    fn new(memory: &GuestMemory, located: Located, access: Access) -> Self {
        let address = match located {
            Located::VirtualApic(offset) => return Self::VirtualApic(offset),
            Located::Memory(address) => address,
        };
        // What writes to read-only memory do is the platform's business.
        let offset = match access {
            Access::Write => memory.writable_offset(address),
            Access::Read | Access::Execute => memory.offset(address),
        };
        offset.map_or(Self::Device(address), |offset| Self::Ram(offset as u64))
    }
}

impl Place {
    #[inline(always)]
    pub fn ram(offset: u64, size: usize) -> Self {
        Self { first: Part::Ram(offset), first_size: size as u8, second: None, second_size: 0 }
    }

    pub(crate) fn whole(
        memory: &GuestMemory,
        address: Located,
        size: usize,
        access: Access,
    ) -> Self {
        Self {
            first: Part::new(memory, address, access),
            first_size: size as u8,
            second: None,
            second_size: 0,
        }
    }

    pub(crate) fn split(
        memory: &GuestMemory,
        (first, first_size): (Located, usize),
        (second, second_size): (Located, usize),
        access: Access,
    ) -> Self {
        Self {
            first: Part::new(memory, first, access),
            first_size: first_size as u8,
            second: Some(Part::new(memory, second, access)),
            second_size: second_size as u8,
        }
    }

    /// No part of the operand is outside RAM.
    pub(crate) fn is_ram(&self) -> bool {
        let is_ram = |part: &Part| matches!(part, Part::Ram(_));
        is_ram(&self.first) && self.second.as_ref().is_none_or(is_ram)
    }

    /// The whole operand is in one page outside RAM that is not taken for a local APIC.
    pub(super) fn is_plain_device(&self) -> bool {
        matches!(self.first, Part::Device(_)) && self.second.is_none()
    }

    /// The index into RAM if the operand is wholly in one page of RAM.
    #[inline(always)]
    pub fn ram_offset(&self) -> Option<usize> {
        match (self.first, self.second) {
            (Part::Ram(offset), None) => Some(offset as usize),
            _ => None,
        }
    }
}

impl Cpu {
    #[inline(always)]
    pub(crate) fn read_place(&mut self, bus: &mut Bus<'_>, place: Place) -> u64 {
        let low = read_part(self, bus, place.first, place.first_size);
        match place.second {
            None => low,
            Some(part) => {
                let high = read_part(self, bus, part, place.second_size);
                low | high << (8 * place.first_size)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn write_place(&mut self, bus: &mut Bus<'_>, place: Place, value: u64) {
        write_part(self, bus, place.first, place.first_size, value);
        if let Some(part) = place.second {
            write_part(self, bus, part, place.second_size, value >> (8 * place.first_size));
        }
    }
}

#[inline(always)]
fn read_part(cpu: &mut Cpu, bus: &mut Bus<'_>, part: Part, size: u8) -> u64 {
    match part {
        Part::Ram(offset) => {
            let (at, size) = (offset as usize, size as usize & 15);
            let ram = bus.memory.ram.get(at..at + size).unwrap_or(&[]);
            match size {
                1 => ram.first().copied().unwrap_or(0).into(),
                2 => ram.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes).into()),
                4 => ram.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into()),
                8 => ram.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
                _ => ram.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
            }
        }
        Part::Device(address) => device_read(cpu, bus, address, size),
        Part::VirtualApic(offset) => cpu.read_virtual_apic(bus, offset, size),
    }
}

#[inline(always)]
fn write_part(cpu: &mut Cpu, bus: &mut Bus<'_>, part: Part, size: u8, value: u64) {
    match part {
        Part::Ram(offset) => {
            let at = offset as usize;
            let size = size as usize & 15;
            if let Some(ram) = bus.memory.ram_mut(at, size) {
                ram.copy_from_slice(&value.to_le_bytes()[..size]);
                cpu.pending.note_ram_write(bus, at, size);
            }
        }
        Part::Device(address) => device_write(cpu, bus, address, size, value),
        Part::VirtualApic(offset) => cpu.write_virtual_apic(bus, offset, size, value),
    }
}

/// A read outside RAM: the processor's own APIC, or the platform in naturally aligned pieces.
#[cold]
fn device_read(cpu: &mut Cpu, bus: &mut Bus<'_>, address: SystemPhysical, size: u8) -> u64 {
    bus.memory.publish_stores();
    let mut value = 0;
    for (at, part) in pieces(size, address) {
        let here = address.offset(at as u64);
        let piece = match apic_offset(cpu, here) {
            Some(offset) => {
                let value = cpu.apic.read_mmio(offset, part, cpu.clock.now());
                cpu.clock.take(Step::ApicRead);
                value
            }
            None => {
                let value = bus.platform.read(bus.memory, cpu.visit(), here, part);
                cpu.clock.take(Step::DeviceRead);
                value
            }
        };
        value |= (piece & u64::MAX >> (64 - 8 * part)) << (8 * at);
    }
    value
}

#[cold]
fn device_write(cpu: &mut Cpu, bus: &mut Bus<'_>, address: SystemPhysical, size: u8, value: u64) {
    bus.memory.publish_stores();
    let mut is_own = true;
    for (at, part) in pieces(size, address) {
        let here = address.offset(at as u64);
        let piece = value >> (8 * at) & u64::MAX >> (64 - 8 * part);
        match apic_offset(cpu, here) {
            Some(offset) => {
                local_apic::apic_write(cpu, bus, offset, part, piece);
                cpu.clock.take(Step::ApicWrite);
            }
            None => {
                is_own = false;
                bus.platform.write(bus.memory, cpu.visit(), here, part, piece);
                cpu.clock.take(Step::DeviceWrite);
            }
        }
    }
    // The block ends here: the write may have made an interrupt due.
    cpu.pending.note_code_change();
    cpu.pending.after_device_access(is_own);
}

/// The offset in the local APIC's page, if `address` lies there and the page is decoded.
fn apic_offset(cpu: &Cpu, address: SystemPhysical) -> Option<u16> {
    let base = cpu.apic.base();
    let here = address.0 & !0xFFF == base & 0x000F_FFFF_FFFF_F000;
    (here && cpu.apic.is_enabled() && !cpu.apic.is_x2apic()).then_some((address.0 & 0xFFF) as u16)
}

/// Splits an access into naturally aligned pieces of 1, 2, 4 or 8 bytes: (offset, size).
#[inline(always)]
fn pieces(size: u8, address: SystemPhysical) -> impl Iterator<Item = (u8, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = size - at;
        if left == 4 && address.0 + u64::from(at) & 3 == 0 {
            // What registers are.
            return Some((std::mem::replace(&mut at, size), 4));
        }
        let piece = [8, 4, 2, 1].into_iter().find(|piece| {
            *piece <= left && (address.0 + at as u64).is_multiple_of(*piece as u64)
        })?;
        let here = at;
        at += piece;
        Some((here, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_naturally_aligned_and_cover_the_access() {
        let split = |size, at| pieces(size, SystemPhysical(at)).collect::<Vec<_>>();
        assert_eq!(split(8, 0x10), [(0, 8)]);
        assert_eq!(split(4, 0x12), [(0, 2), (2, 2)]);
        assert_eq!(split(8, 0x13), [(0, 1), (1, 4), (5, 2), (7, 1)]);
        assert_eq!(split(0, 0x13), []);
    }
}
