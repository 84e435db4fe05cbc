//! The configuration space that a guest sees of a given function.

use crate::error::BenchError;
use crate::vfio::{Function, Region};
use arch::pci::{MsixControl, MsixPlace, base_address, capability, header, msix};
use device::map;
use device::pci::{BAR_COUNT, Bar, Configuration, Express, Identity, Msix, Room};
use std::io;

/// A list of capabilities that is longer leads in a circle: each takes four bytes at least.
const MOST_CAPABILITIES: usize = 48;

/// The guest's view, and what is behind it.
pub(super) struct Space {
    pub configuration: Configuration,
    pub msix: Msix,
    pub express: Option<Express>,
    pub table: MsixPlace,
    pub pending: MsixPlace,
    pub vectors: u16,
    /// By base address register.
    pub regions: [Option<Region>; BAR_COUNT],
}

/// Makes the view: the function's identity, its memory regions at places of the guest's bus, MSI-X
/// where the function has it, and the PCI Express capability of a function that can be reset.
pub(super) fn of(function: &Function, room: &mut Room) -> Result<Space, BenchError> {
    let has_not = |what: &str| function.refused(what, io::ErrorKind::NotFound.into());
    let mut configuration = Configuration::new(identity(function)?);
    let regions = place_regions(function, room, &mut configuration)?;
    let mut found = None;
    let mut express = None;
    for (id, at) in capabilities(function)? {
        match id {
            capability::MSI_X => found = Some(at),
            capability::EXPRESS => express = Express::add(&mut configuration),
            _ => {}
        }
    }
    let at = found.ok_or_else(|| has_not("its MSI-X capability"))?;
    let control = function.read_configuration(at + msix::CONTROL, 2)? as u16;
    let vectors = MsixControl::from_bits(control).last_entry() + 1;
    let place = |offset| {
        let place = function.read_configuration(at + offset, 4)?;
        Ok::<MsixPlace, BenchError>(MsixPlace::from_bits(place))
    };
    let (table, pending) = (place(msix::TABLE)?, place(msix::PENDING)?);
    let msix = Msix::add_at(&mut configuration, vectors, table, pending)
        .ok_or_else(|| has_not("room for its capabilities"))?;
    Ok(Space { configuration, msix, express, table, pending, vectors, regions })
}

fn identity(function: &Function) -> Result<Identity, BenchError> {
    let word = |offset| Ok::<u16, BenchError>(function.read_configuration(offset, 2)? as u16);
    let byte = |offset| Ok::<u8, BenchError>(function.read_configuration(offset, 1)? as u8);
    Ok(Identity {
        vendor: word(header::VENDOR)?,
        device: word(header::DEVICE)?,
        revision: byte(header::REVISION)?,
        class: word(header::SUBCLASS)?,
        programming_interface: byte(header::PROGRAMMING_INTERFACE)?,
        subsystem_vendor: word(header::SUBSYSTEM_VENDOR)?,
        subsystem: word(header::SUBSYSTEM)?,
    })
}

/// Declares the memory regions, at addresses as firmware would give them.
fn place_regions(
    function: &Function,
    room: &mut Room,
    configuration: &mut Configuration,
) -> Result<[Option<Region>; BAR_COUNT], BenchError> {
    let mut regions = [None; BAR_COUNT];
    let mut next = 0;
    while next < BAR_COUNT {
        let bar = next;
        let register = header::BASE_ADDRESS + 4 * bar as u16;
        let low = function.read_configuration(register, 4)?;
        let region = function.region(bar as u32)?;
        let is_wide = low & (base_address::IO | base_address::WIDTH) == base_address::WIDTH_64;
        next += if is_wide && region.bytes > 0 { 2 } else { 1 };
        let kind = match u32::try_from(region.bytes) {
            _ if region.bytes == 0 || low & base_address::IO != 0 => continue,
            _ if is_wide => Bar::Memory64 { size: region.bytes },
            Ok(size) => Bar::Memory32 { size },
            Err(_) => continue,
        };
        let address = room.allocate(kind);
        if address + region.bytes > map::PCI_MEMORY_END.0 {
            let room = map::PCI_MEMORY_END.0 - map::PCI_MEMORY_START.0;
            let error = format!("{} bytes, where the guest's bus has {room}", region.bytes);
            return Err(function.refused("a region of its own", io::Error::other(error)));
        }
        configuration.set_bar(bar, kind, address);
        regions[bar] = Some(region);
    }
    Ok(regions)
}

/// Identifiers and offsets.
fn capabilities(function: &Function) -> Result<Vec<(u8, u16)>, BenchError> {
    let mut all = Vec::new();
    let mut at = function.read_configuration(header::CAPABILITIES, 1)? as u16;
    while at >= header::FIRST_CAPABILITY && all.len() < MOST_CAPABILITIES {
        let head = function.read_configuration(at, 2)?;
        all.push((head as u8, at));
        at = (head >> 8) as u16;
    }
    Ok(all)
}
