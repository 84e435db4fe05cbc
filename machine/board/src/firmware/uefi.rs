//! UEFI firmware that others wrote: what an image has to be, and the files by which it learns of
//! RAM, of the ACPI tables and of SMBIOS structures. OVMF is what is meant.
//! [UEFI-PI "Firmware Volume Header"] [FWCFG "QEMU Firmware Configuration (fw_cfg) Device"]
//!
//! Of OVMF's files these are left out: `bootorder`, so that it tries disks as its variables say,
//! and what asks for system management mode or sleep states.

use super::acpi::{self, Home};
use super::memory_map::{MemoryKind, MemoryRegion};
use super::options::FirmwareOptions;
use super::table_loader::{self, ROOT_POINTER, TABLES};
use super::{File, NotFirmware, smbios};
use arch::address::{PAGE_SIZE, SystemPhysical};
use bus::MemoryLayout;

/// What code and variables may take below 4 GiB.
const MOST: usize = 8 << 20;
/// What OVMF and its work need.
const NEEDED: u64 = 64 << 20;
/// A volume's header: which file system it has, how long it is, and what tells it from other bytes.
const SIGNATURE: (usize, &[u8]) = (40, b"_FVH");
const LENGTH: usize = 32;
const KIND: usize = 16;
/// The kind of a volume of variables: EFI_SYSTEM_NV_DATA_FV_GUID.
const OF_VARIABLES: [u8; 16] = [
    0x8D, 0x2B, 0xF1, 0xFF, 0x96, 0x76, 0x8B, 0x4C, 0xA9, 0x85, 0x27, 0x47, 0x07, 0x5B, 0x4F, 0x50,
];

/// An image, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uefi<'a> {
    /// What ends at 4 GiB.
    pub code: &'a [u8],
    /// What lies below it and can be changed; may be nothing.
    pub variables: &'a [u8],
}

impl<'a> Uefi<'a> {
    /// An image with the variables in front of its code or, if they are given, in another file.
    /// Nothing if it is none.
    pub fn parse(
        image: &'a [u8],
        variables: Option<&'a [u8]>,
    ) -> Result<Option<Self>, NotFirmware> {
        if !is_volume(image) {
            return match variables {
                Some(_) => Err(NotFirmware::NoUse),
                None => Ok(None),
            };
        }
        let (own, code) = image.split_at(length_of_variables(image).unwrap_or(0));
        if let Some(given) = variables
            && length_of_variables(given).is_none()
        {
            return Err(NotFirmware::Variables);
        }
        let variables = variables.unwrap_or(own);
        let size = code.len() + variables.len();
        let is_whole = |bytes: &[u8]| bytes.len().is_multiple_of(PAGE_SIZE as usize);
        if code.is_empty() || size > MOST || !is_whole(code) || !is_whole(variables) {
            return Err(NotFirmware::Flash { size, most: MOST });
        }
        Ok(Some(Self { code, variables }))
    }

    /// Where RAM lies beside it.
    pub fn layout(&self, ram: u64) -> Result<MemoryLayout, NotFirmware> {
        let layout = MemoryLayout::with_read_only(ram, self.code.len() as u64);
        match layout.low < NEEDED {
            true => Err(NotFirmware::Ram { ram, needed: NEEDED }),
            false => Ok(layout),
        }
    }

    /// Where its variables lie.
    pub fn place_of_variables(&self) -> SystemPhysical {
        SystemPhysical(bus::HOLE_END - (self.code.len() + self.variables.len()) as u64)
    }
}

fn is_volume(bytes: &[u8]) -> bool {
    let (at, signature) = SIGNATURE;
    bytes.get(at..).is_some_and(|rest| rest.starts_with(signature))
}

/// The length of a volume of variables, if these bytes begin with one and hold all of it.
fn length_of_variables(bytes: &[u8]) -> Option<usize> {
    if !is_volume(bytes) || !bytes[KIND..].starts_with(&OF_VARIABLES) {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(*bytes[LENGTH..].first_chunk()?)).ok()?;
    (length <= bytes.len()).then_some(length)
}

/// What firmware is told.
pub struct Told {
    /// The files.
    pub files: Vec<File>,
    /// The file, and the place in it, that says where the window to configuration space is.
    pub window: (&'static str, u64),
}

/// The files for firmware: RAM, ACPI tables and what to do with them, SMBIOS structures.
pub fn tell(options: &FirmwareOptions, layout: MemoryLayout) -> Told {
    const MCFG_BASE: usize = 44;
    let image = acpi::build(options, layout, Home::Anywhere);
    let window = (TABLES, (image.places.mcfg + MCFG_BASE) as u64);
    let script = table_loader::commands(&image);
    let (rsdp, tables) = table_loader::files(image);
    let structures = smbios::build(options.topology, layout.low, layout.high);
    let file = |name, content| File { name, content };
    let files = vec![
        file("etc/e820", address_map(layout)),
        file(ROOT_POINTER, rsdp),
        file(TABLES, tables),
        file("etc/table-loader", script),
        file("etc/smbios/smbios-anchor", smbios::entry_point(structures.len(), 0)),
        file("etc/smbios/smbios-tables", structures),
    ];
    Told { files, window }
}

/// RAM alone: firmware knows what it uses of it.
fn address_map(layout: MemoryLayout) -> Vec<u8> {
    let ranges = [(0, layout.low), (bus::HOLE_END, layout.high)];
    let ranges = ranges.into_iter().filter(|(_, length)| *length > 0);
    let region =
        |(start, length)| MemoryRegion { start, length, kind: MemoryKind::Usable }.to_e820();
    ranges.flat_map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume of variables, with code behind it.
    fn image(variables: usize, code: usize) -> Vec<u8> {
        let mut bytes = vec![0; variables + code];
        for (at, length, kind) in [(0, variables, &OF_VARIABLES), (variables, code, &[7; 16])] {
            if length > 0 {
                bytes[at + KIND..][..16].copy_from_slice(kind);
                bytes[at + LENGTH..][..8].copy_from_slice(&(length as u64).to_le_bytes());
                bytes[at + SIGNATURE.0..][..4].copy_from_slice(SIGNATURE.1);
            }
        }
        bytes
    }

    #[test]
    fn an_image_is_code_with_variables_in_front_or_in_a_file_of_their_own() {
        let (whole, code, own) = (image(0x8000, 0x10000), image(0, 0x10000), image(0x4000, 0));
        for (image, variables, expected) in [
            (&whole, None, (0x10000, 0x8000)),
            (&whole, Some(&own[..]), (0x10000, 0x4000)),
            (&code, None, (0x10000, 0)),
            (&code, Some(&own[..]), (0x10000, 0x4000)),
        ] {
            let uefi = Uefi::parse(image, variables).expect("well formed").expect("UEFI");
            assert_eq!((uefi.code.len(), uefi.variables.len()), expected);
            let base = bus::HOLE_END - expected.0 as u64 - expected.1 as u64;
            assert_eq!(uefi.place_of_variables().0, base);
            let error = uefi.layout(32 << 20).expect_err("too little RAM").to_string();
            assert_eq!(error, "0x2000000 bytes of RAM, UEFI firmware needs at least 0x4000000");
            assert!(uefi.layout(NEEDED).is_ok());
        }
        assert_eq!(Uefi::parse(&[0xEA; 0x10000], None), Ok(None), "a BIOS");
    }

    #[test]
    fn what_does_not_fit_below_4_gib_is_refused() {
        let (code, own) = (image(0, 0x10000), image(0x4000, 0));
        for (image, variables, expected) in [
            (&image(0, MOST + 0x1000), None, "at most 0x800000 bytes"),
            (&image(0, 0x10800), None, "whole pages"),
            (&own, None, "0x4000 bytes of code and variables"),
            (&code, Some(&code[..]), "no variables"),
            (&code, Some(&own[..0x2000]), "no variables"),
            (&vec![0xEA; 0x10000], Some(&own[..]), "has no use"),
        ] {
            let error = Uefi::parse(image, variables).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
