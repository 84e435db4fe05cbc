//! What UEFI firmware looks for on a board with flash: the host bridge of Intel's Q35 and the LPC
//! bridge of its ICH9, of which it knows where the registers of power management and the
//! configuration window are. [MCH "PCIEXBAR—PCI Express Register Range Base Address"]
//! [ICH "LPC Interface Bridge Registers"]
//!
//! DEVIATION(ICH "LPC Interface Bridge Registers"): PMBASE and ACPI_CNTL are read-only, and as
//! firmware would leave them; routing of interrupts, decoding of ports and the root complex's
//! registers are not there.
//!
//! DEVIATION(MCH "Host Bridge/DRAM Registers"): of the registers PCIEXBAR is there, and its window
//! always has 256 buses.

use crate::map;
use crate::registry::Bus;
use arch::pci::{FunctionAddress, header};

const INTEL: u16 = 0x8086;
const HOST_BRIDGE: u16 = 0x29C0;
const LPC_BRIDGE: u16 = 0x2918;

/// PCIEXBAR: bit 0 enables the window, bits 35:28 are its base.
const WINDOW_LOW: u16 = 0x60;
const WINDOW_HIGH: u16 = 0x64;
const WINDOW_ENABLE: u32 = 1;
const WINDOW_BASE_LOW: u32 = 0xF000_0000;
const WINDOW_BASE_HIGH: u32 = 0xF;

/// PMBASE: bits 15:7 are the base, bit 0 says that it is among the ports.
const PM_BASE: u16 = 0x40;
const IS_PORT: u32 = 1;
/// ACPI_CNTL: bit 7 enables the ports, and zero in bits 2:0 is line 9 for the ACPI interrupt.
const ACPI_CONTROL: u16 = 0x44;
const ACPI_ENABLE: u32 = 1 << 7;
const _: () = assert!(map::ACPI_LINE == 9 && map::PM_TIMER == map::PM1A_EVENT + 8);

/// Makes Intel's bridges of the board's.
pub(crate) fn identify(pci: &mut Bus) {
    rename(pci, map::HOST_BRIDGE, HOST_BRIDGE);
    rename(pci, map::ISA_BRIDGE, LPC_BRIDGE);
    if let Some(bridge) = pci.function_mut(map::HOST_BRIDGE) {
        let configuration = &mut bridge.configuration;
        configuration.set(WINDOW_LOW, 4, map::ECAM.0 as u32);
        configuration.allow(WINDOW_LOW, 4, WINDOW_BASE_LOW | WINDOW_ENABLE);
        configuration.allow(WINDOW_HIGH, 4, WINDOW_BASE_HIGH);
    }
    if let Some(bridge) = pci.function_mut(map::ISA_BRIDGE) {
        let configuration = &mut bridge.configuration;
        configuration.set(PM_BASE, 4, u32::from(map::PM1A_EVENT) | IS_PORT);
        configuration.set(ACPI_CONTROL, 1, ACPI_ENABLE);
    }
}

fn rename(pci: &mut Bus, at: FunctionAddress, device: u16) {
    if let Some(function) = pci.function_mut(at) {
        function.configuration.set(header::VENDOR, 2, INTEL.into());
        function.configuration.set(header::DEVICE, 2, device.into());
    }
}

/// Where the host bridge has the configuration window, if it is decoded.
pub(crate) fn window(pci: &Bus) -> Option<u64> {
    let bridge = &pci.function(map::HOST_BRIDGE)?.configuration;
    let (low, high) = (bridge.get(WINDOW_LOW, 4), bridge.get(WINDOW_HIGH, 4));
    let base = u64::from(high & WINDOW_BASE_HIGH) << 32 | u64::from(low & WINDOW_BASE_LOW);
    (low & WINDOW_ENABLE != 0).then_some(base)
}
