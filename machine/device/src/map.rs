//! Where everything is: memory-mapped windows, ports, interrupt lines and PCI functions. Devices,
//! the board and the firmware tables take their addresses from here and nowhere else.

use arch::address::SystemPhysical;
use arch::pci::FunctionAddress;

/// The window that PCI memory BARs are assigned from.
pub const PCI_MEMORY_START: SystemPhysical = SystemPhysical(0xC000_0000);
/// First address after the PCI memory window.
pub const PCI_MEMORY_END: SystemPhysical = SystemPhysical(0xE000_0000);
/// PCI configuration space, 1 MiB per bus. [PCIE "ECAM"]
pub const ECAM: SystemPhysical = SystemPhysical(0xE000_0000);
/// Buses that the window decodes; only bus 0 has functions.
pub const ECAM_BUSES: u64 = 256;
/// First address after the configuration window.
pub const ECAM_END: SystemPhysical = SystemPhysical(ECAM.0 + (ECAM_BUSES << 20));
pub const HPET: SystemPhysical = SystemPhysical(0xFED0_0000);
pub const HPET_SIZE: u64 = 0x400;
/// RAM on the device bus, for tests of instruction emulation.
pub const TEST_RAM: SystemPhysical = SystemPhysical(0xFF00_0000);
pub const TEST_RAM_SIZE: u64 = 0x1_0000;

/// The ports that PCI I/O BARs are assigned from, up to FFFFh.
pub const PCI_IO_START: u16 = 0xC000;

pub const PIT: u16 = 0x40;
pub const PIT_END: u16 = PIT + 4;
pub const KEYBOARD_DATA: u16 = 0x60;
pub const SYSTEM_CONTROL_B: u16 = 0x61;
pub const KEYBOARD_COMMAND: u16 = 0x64;
pub const RTC_INDEX: u16 = 0x70;
pub const RTC_DATA: u16 = 0x71;
/// The NVRAM byte of the century (the FADT says so).
pub const RTC_CENTURY: u8 = 0x32;
pub const POST_CODE: u16 = 0x80;
pub const SYSTEM_CONTROL_A: u16 = 0x92;
/// Ports that answer what was last written, E0h to E3h.
pub const TEST_ECHO: u16 = 0xE0;
/// Unmaps and maps a page behind the guest's back where there is a hypervisor below; here it only
/// accepts writes.
pub const TEST_FLUSH: u16 = 0xE4;
/// Takes the address of a text for the console: its length in four bytes, then the bytes.
pub const TEST_TEXT: u16 = 0xE8;
/// Longest text that [`TEST_TEXT`] takes.
pub const TEST_TEXT_LIMIT: u32 = 4096;
/// Prints bytes on the console, and reads its own number so that programs find it.
pub const DEBUG_CONSOLE: u16 = 0xE9;
pub const DEBUG_EXIT: u16 = 0xF4;
pub const DEBUG_EXIT_END: u16 = DEBUG_EXIT + 4;
pub const SERIAL: [u16; 4] = [0x3F8, 0x2F8, 0x3E8, 0x2E8];
pub const FIRMWARE_CONFIGURATION: u16 = 0x510;
pub const FIRMWARE_CONFIGURATION_DATA: u16 = 0x511;
pub const FIRMWARE_CONFIGURATION_DMA: u16 = 0x514;
pub const FIRMWARE_CONFIGURATION_END: u16 = FIRMWARE_CONFIGURATION_DMA + 8;
/// PM1a_EVT_BLK, four bytes: status, enable. [ACPI "PM1 Event Grouping"]
pub const PM1A_EVENT: u16 = 0x600;
pub const PM1_EVENT_LENGTH: u8 = 4;
/// PM1a_CNT_BLK, two bytes. [ACPI "PM1 Control Grouping"]
pub const PM1A_CONTROL: u16 = 0x604;
pub const PM1_CONTROL_LENGTH: u8 = 2;
/// PM_TMR_BLK, four bytes; the counter has 32 bits. [ACPI "Power Management Timer"]
pub const PM_TIMER: u16 = 0x608;
pub const PM_TIMER_LENGTH: u8 = 4;
pub const PM_TIMER_END: u16 = PM_TIMER + PM_TIMER_LENGTH as u16;
/// GPE0_BLK: two status bytes, two enable bytes. [ACPI "General-Purpose Event Register Blocks"]
pub const GPE0: u16 = 0x620;
pub const GPE0_LENGTH: u8 = 4;
pub const GPE0_END: u16 = GPE0 + GPE0_LENGTH as u16;
/// SLP_TYP value that the DSDT's \_S5 package must name.
pub const SLEEP_TYPE_S5: u8 = 5;
pub const PCI_CONFIGURATION_ADDRESS: u16 = 0xCF8;
pub const RESET_CONTROL: u16 = 0xCF9;
pub const PCI_CONFIGURATION_DATA: u16 = 0xCFC;
pub const PCI_CONFIGURATION_END: u16 = PCI_CONFIGURATION_DATA + 4;
/// What to write to [`RESET_CONTROL`] to reset (the FADT's RESET_VALUE).
pub const RESET_VALUE: u8 = 0x06;
/// 2000h + n takes the level of line n.
pub const TEST_LINES: u16 = 0x2000;
pub const TEST_LINE_COUNT: u16 = 24;
pub const TEST_LINES_END: u16 = TEST_LINES + TEST_LINE_COUNT;
pub const SHUTDOWN: u16 = 0x8900;

/// The PIT's (or HPET timer 0's) line. It reaches input 0 of the 8259 and, as on every PC, pin 2
/// of the I/O APIC: the board wires line 0 so, and the MADT says it in a source override.
pub const PIT_LINE: u8 = 0;
pub const PIT_IO_APIC_PIN: u8 = 2;
pub const KEYBOARD_LINE: u8 = 1;
pub const AUXILIARY_LINE: u8 = 12;
pub const SERIAL_LINES: [u8; 4] = [4, 3, 4, 3];
pub const RTC_LINE: u8 = 8;
/// The ACPI interrupt, level-triggered and active high here; the MADT says it in an override.
#[doc(alias = "SCI")]
pub const ACPI_LINE: u8 = 9;
/// The first of eight lines that PCI INTx pins are spread over.
pub const PCI_FIRST_LINE: u8 = 16;
pub const PCI_LINES: u8 = 8;

/// The line of a PCI pin (0 = INTA#): what the DSDT's _PRT must list.
pub const fn pci_line(device: u8, pin: u8) -> u8 {
    PCI_FIRST_LINE + (device.wrapping_add(pin)) % PCI_LINES
}

pub const HOST_BRIDGE: FunctionAddress = FunctionAddress::new(0, 0, 0);
/// Class SMBus at 00:14.0: kernels with an AMD IOMMU look there for the I/O APIC's requester.
pub const SMBUS: FunctionAddress = FunctionAddress::new(0, 0x14, 0);
pub const ISA_BRIDGE: FunctionAddress = FunctionAddress::new(0, 0x1F, 0);
/// The first device number that virtio functions take, upwards.
pub const FIRST_VIRTIO_DEVICE: u8 = 1;
pub const PCI_TEST_DEVICE: FunctionAddress = FunctionAddress::new(0, 0x1E, 0);
