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
/// Bytes of the configuration window.
pub const ECAM_SIZE: u64 = ECAM_BUSES << 20;
/// First address after the configuration window.
pub const ECAM_END: SystemPhysical = SystemPhysical(ECAM.0 + ECAM_SIZE);
/// Registers of the IOMMU, where the board has one.
pub const IOMMU: SystemPhysical = SystemPhysical(0xFD20_0000);
/// The block of HPET registers.
pub const HPET: SystemPhysical = SystemPhysical(0xFED0_0000);
/// Decoded bytes from [`HPET`] on.
pub const HPET_SIZE: u64 = 0x400;
/// RAM on the device bus, for tests of instruction emulation.
pub const TEST_RAM: SystemPhysical = SystemPhysical(0xFF00_0000);
/// Bytes of [`TEST_RAM`].
pub const TEST_RAM_SIZE: u64 = 0x1_0000;

/// The ports that PCI I/O BARs are assigned from, up to FFFFh.
pub const PCI_IO_START: u16 = 0xC000;
/// Firmware of others, which asks no table where ports may be, gives them from here on.
pub const FIRMWARE_PCI_IO_START: u16 = 0x6000;

/// The PIT's counters 0 to 2 and its control register.
pub const PIT: u16 = 0x40;
/// First port after the PIT's.
pub const PIT_END: u16 = PIT + 4;
/// The 8042's data port.
pub const KEYBOARD_DATA: u16 = 0x60;
/// Port 61h: gate and output of PIT counter 2, the refresh toggle.
pub const SYSTEM_CONTROL_B: u16 = 0x61;
/// The 8042's status (reads) and command (writes) port.
pub const KEYBOARD_COMMAND: u16 = 0x64;
/// Selects the register or NVRAM byte that [`RTC_DATA`] reaches.
pub const RTC_INDEX: u16 = 0x70;
/// The register or NVRAM byte that [`RTC_INDEX`] selected.
pub const RTC_DATA: u16 = 0x71;
/// The NVRAM byte of the century (the FADT says so).
pub const RTC_CENTURY: u8 = 0x32;
/// Keeps the last power-on self-test code.
pub const POST_CODE: u16 = 0x80;
/// Port 92h: A20 gate and fast reset.
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
/// Ends the run with a status that the value written gives.
pub const DEBUG_EXIT: u16 = 0xF4;
/// First port after [`DEBUG_EXIT`]'s four.
pub const DEBUG_EXIT_END: u16 = DEBUG_EXIT + 4;
/// First ports of COM1 to COM4, eight registers each.
pub const SERIAL: [u16; 4] = [0x3F8, 0x2F8, 0x3E8, 0x2E8];
/// fw_cfg's selector register, 16 bits wide.
pub const FIRMWARE_CONFIGURATION: u16 = 0x510;
/// fw_cfg's data register: the next byte of the selected item.
pub const FIRMWARE_CONFIGURATION_DATA: u16 = 0x511;
/// fw_cfg's DMA address register, 64 bits, big-endian; the write of its low half starts the
/// transfer.
pub const FIRMWARE_CONFIGURATION_DMA: u16 = 0x514;
/// First port after fw_cfg's.
pub const FIRMWARE_CONFIGURATION_END: u16 = FIRMWARE_CONFIGURATION_DMA + 8;
/// PM1a_EVT_BLK, four bytes: status, enable. [ACPI "PM1 Event Grouping"]
pub const PM1A_EVENT: u16 = 0x600;
/// Bytes of PM1a_EVT_BLK, as the FADT states them.
pub const PM1_EVENT_LENGTH: u8 = 4;
/// PM1a_CNT_BLK, two bytes. [ACPI "PM1 Control Grouping"]
pub const PM1A_CONTROL: u16 = 0x604;
/// Bytes of PM1a_CNT_BLK, as the FADT states them.
pub const PM1_CONTROL_LENGTH: u8 = 2;
/// PM_TMR_BLK, four bytes; the counter has 32 bits. [ACPI "Power Management Timer"]
pub const PM_TIMER: u16 = 0x608;
/// Bytes of PM_TMR_BLK, as the FADT states them.
pub const PM_TIMER_LENGTH: u8 = 4;
/// First port after the PM timer.
pub const PM_TIMER_END: u16 = PM_TIMER + PM_TIMER_LENGTH as u16;
/// GPE0_BLK: two status bytes, two enable bytes. [ACPI "General-Purpose Event Register Blocks"]
pub const GPE0: u16 = 0x620;
/// Bytes of GPE0_BLK, as the FADT states them.
pub const GPE0_LENGTH: u8 = 4;
/// First port after GPE0_BLK.
pub const GPE0_END: u16 = GPE0 + GPE0_LENGTH as u16;
/// SLP_TYP value that the DSDT's \_S5 package must name.
pub const SLEEP_TYPE_S5: u8 = 5;
/// SLP_TYP value that UEFI firmware writes to power off.
pub const FIRMWARE_SLEEP_TYPE_S5: u8 = 0;
/// CONFIG_ADDRESS of configuration mechanism 1; decoded only by accesses of four bytes.
pub const PCI_CONFIGURATION_ADDRESS: u16 = 0xCF8;
/// The reset register, one byte amid CONFIG_ADDRESS.
pub const RESET_CONTROL: u16 = 0xCF9;
/// CONFIG_DATA: the double word that CONFIG_ADDRESS selected.
pub const PCI_CONFIGURATION_DATA: u16 = 0xCFC;
/// First port after CONFIG_DATA.
pub const PCI_CONFIGURATION_END: u16 = PCI_CONFIGURATION_DATA + 4;
/// What to write to [`RESET_CONTROL`] to reset (the FADT's RESET_VALUE).
pub const RESET_VALUE: u8 = 0x06;
/// 2000h + n takes the level of line n.
pub const TEST_LINES: u16 = 0x2000;
/// Interrupt lines that [`TEST_LINES`] reaches, the pins of one I/O APIC.
pub const TEST_LINE_COUNT: u16 = 24;
/// First port after [`TEST_LINES`].
pub const TEST_LINES_END: u16 = TEST_LINES + TEST_LINE_COUNT;
/// Powers off once the text "Shutdown" was written, a byte at a time.
pub const SHUTDOWN: u16 = 0x8900;

/// The PIT's (or HPET timer 0's) line. It reaches input 0 of the 8259 and, as on every PC, pin 2
/// of the I/O APIC: the board wires line 0 so, and the MADT says it in a source override.
pub const PIT_LINE: u8 = 0;
/// The I/O APIC pin that line 0 reaches instead of pin 0.
pub const PIT_IO_APIC_PIN: u8 = 2;
/// The 8042's keyboard interrupt.
pub const KEYBOARD_LINE: u8 = 1;
/// The 8042's mouse interrupt, which has no device to raise it.
pub const AUXILIARY_LINE: u8 = 12;
/// Lines of COM1 to COM4; two ports share each, as on a PC.
pub const SERIAL_LINES: [u8; 4] = [4, 3, 4, 3];
/// The real-time clock's interrupt.
pub const RTC_LINE: u8 = 8;
/// The ACPI interrupt, level-triggered and active high here; the MADT says it in an override.
#[doc(alias = "SCI")]
pub const ACPI_LINE: u8 = 9;
/// The first of eight lines that PCI INTx pins are spread over.
pub const PCI_FIRST_LINE: u8 = 16;
/// How many lines PCI pins are spread over.
pub const PCI_LINES: u8 = 8;

/// The line of a PCI pin (0 = INTA#): what the DSDT's _PRT must list.
pub const fn pci_line(device: u8, pin: u8) -> u8 {
    PCI_FIRST_LINE + (device.wrapping_add(pin)) % PCI_LINES
}

/// Function 00:00.0, class host bridge.
pub const HOST_BRIDGE: FunctionAddress = FunctionAddress::new(0, 0, 0);
/// Function 00:00.2, class IOMMU, where the board has one.
pub const IOMMU_FUNCTION: FunctionAddress = FunctionAddress::new(0, 0, 2);
/// Class SMBus at 00:14.0: kernels with an AMD IOMMU look there for the I/O APIC's requester.
pub const SMBUS: FunctionAddress = FunctionAddress::new(0, 0x14, 0);
/// Function 00:1F.0, class ISA bridge; what sits on ports has its requester ID.
pub const ISA_BRIDGE: FunctionAddress = FunctionAddress::new(0, 0x1F, 0);
/// The first device number that virtio functions take, upwards.
pub const FIRST_VIRTIO_DEVICE: u8 = 1;
/// The first device number that virtual functions of a network controller take, upwards, and then
/// NVM Express controllers.
pub const FIRST_SERVER_DEVICE: u8 = 0x15;
/// The function for measuring interrupts, where the board has one.
pub const PULSE: FunctionAddress = FunctionAddress::new(0, 0x1D, 0);
/// The function for measuring accesses, where the board has test devices.
pub const PCI_TEST_DEVICE: FunctionAddress = FunctionAddress::new(0, 0x1E, 0);
