//! The first megabyte: vector table, BIOS data area, the place of searched-for tables, the reset
//! vector. [SMBIOS "Entry Point Structure"], and the IBM PC/AT's technical reference.

use super::memory_map::EBDA;
use arch::address::SystemPhysical;
use bus::{GuestMemory, OutOfRange};
use device::map;

/// Where the ACPI root pointer lies; kernels search E0000h to FFFFFh.
pub(super) const RSDP: u64 = 0xF_5A00;
/// Where the SMBIOS entry point lies; kernels search F0000h to FFFFFh.
pub(super) const SMBIOS_ENTRY: u64 = 0xF_5B00;
pub(super) const SMBIOS_TABLE: u64 = 0xE_0000;

const BIOS_SEGMENT: u16 = 0xF000;
/// Offsets in the BIOS segment: its traditional bare IRET, its entry and its reset vector.
const DUMMY_INTERRUPT: u16 = 0xFF53;
const POWER_ON: u16 = 0xE05B;
const RESET_VECTOR: u16 = 0xFFF0;

pub(super) fn install(memory: &mut GuestMemory) -> Result<(), OutOfRange> {
    let mut put = |address: u64, bytes: &[u8]| memory.write(SystemPhysical(address), bytes);
    let bios = |offset: u16| (u64::from(BIOS_SEGMENT) << 4) + u64::from(offset);
    let far = |offset: u16| [offset.to_le_bytes(), BIOS_SEGMENT.to_le_bytes()].concat();
    put(0, &far(DUMMY_INTERRUPT).repeat(256))?;

    put(0x400, &[map::SERIAL[0].to_le_bytes(), map::SERIAL[1].to_le_bytes()].concat())?;
    put(0x40E, &((EBDA >> 4) as u16).to_le_bytes())?;
    put(0x413, &((EBDA >> 10) as u16).to_le_bytes())?;
    // Text mode 3: 80 columns, a video controller at 3D4h.
    put(0x449, &[3, 80, 0])?;
    put(0x463, &0x3D4u16.to_le_bytes())?;
    // The first byte of the extended area is its size in KiB.
    put(EBDA, &[1])?;

    const IRET: u8 = 0xCF;
    put(bios(DUMMY_INTERRUPT), &[IRET])?;
    // A processor that starts here without a kernel stops: CLI; HLT; JMP to the HLT.
    put(bios(POWER_ON), &[0xFA, 0xF4, 0xEB, 0xFD])?;
    const JMP_FAR: u8 = 0xEA;
    put(bios(RESET_VECTOR), &[vec![JMP_FAR], far(POWER_ON)].concat())?;
    // The date and the model byte of an AT.
    put(bios(RESET_VECTOR) + 5, b"01/01/26\0\xFC")
}
