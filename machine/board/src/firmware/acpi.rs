//! The ACPI tables other than the DSDT, and where they lie.
//!
//! Not hardware-reduced: kernels find the PM timer, the power-off registers and the reset register
//! in the FADT. ACPI mode is always on (no SMI command port), as on a machine without system
//! management mode. Left out: SPCR, DBG2, TPM, power and thermal objects.

use super::dsdt;
use super::options::FirmwareOptions;
use super::table::{HEADER_SIZE, OEM, Table, checksum};
use arch::apic::{ApicBase, io_mmio};
use bus::MemoryLayout;
use device::map;

/// APIC identifiers from here on need the x2APIC structures; 255 is broadcast in the old ones.
const FIRST_X2APIC_ID: u32 = 255;
const NON_MASKABLE_INPUT: u8 = 1;
const ENABLED: u32 = 1;
/// Tables start at multiples of this; the FACS must.
const ALIGNMENT: usize = 64;
const PAGE: usize = 4096;

/// All tables but the RSDP, as they lie in memory from `base` on.
pub(super) struct Image {
    pub base: u64,
    pub bytes: Vec<u8>,
    /// The last bytes, which a kernel must not reclaim.
    pub nonvolatile: u64,
    pub rsdp: Vec<u8>,
    pub places: Places,
}

/// Where in an image tables begin that others point to, or that hold a place of the board's.
pub(super) struct Places {
    pub fadt: usize,
    pub rsdt: usize,
    pub xsdt: usize,
    pub mcfg: usize,
    /// All tables with a checksum, in the order in which they lie.
    pub all: Vec<usize>,
}

/// Where tables are to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// At the end of low RAM.
    LowRam,
    /// Where firmware finds room: addresses in tables count from the first table's.
    Anywhere,
}

/// Tables behind one another, each at its physical address.
struct Placed {
    base: u64,
    bytes: Vec<u8>,
}

impl Placed {
    fn append(&mut self, table: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let address = self.base + self.bytes.len() as u64;
        self.bytes.extend_from_slice(table);
        address
    }
}

/// Builds the tables.
pub(super) fn build(options: &FirmwareOptions, layout: MemoryLayout, home: Home) -> Image {
    let dsdt = dsdt::build(options);
    let tables = listed(options, layout);
    // Sizes do not depend on addresses, so the FADT and the roots can be measured first.
    let fadt_size = fadt(options, 0, 0).len();
    let roots = 2 * HEADER_SIZE + (4 + 8) * (tables.len() + 1);
    let sizes: usize = tables.iter().map(Vec::len).sum::<usize>() + dsdt.len() + fadt_size + roots;
    let size = (sizes + ALIGNMENT * (tables.len() + 4)).next_multiple_of(PAGE) + PAGE;
    let base = match home {
        Home::LowRam => layout.low.saturating_sub(size as u64),
        Home::Anywhere => 0,
    };
    let facs_address = base + (size - PAGE) as u64;

    let mut placed = Placed { base, bytes: Vec::with_capacity(size) };
    let dsdt = placed.append(&dsdt);
    let mut all = vec![dsdt];
    let mut addresses = vec![placed.append(&fadt(options, dsdt, facs_address))];
    addresses.extend(tables.iter().map(|table| placed.append(table)));
    let mut rsdt = Table::new(b"RSDT", 1);
    let mut xsdt = Table::new(b"XSDT", 1);
    for address in &addresses {
        rsdt.u32(*address as u32);
        xsdt.u64(*address);
    }
    let rsdt = placed.append(&rsdt.finish());
    let xsdt = placed.append(&xsdt.finish());
    let mut bytes = placed.bytes;
    bytes.resize(size - PAGE, 0);
    bytes.extend(facs());
    bytes.resize(size, 0);
    all.extend(&addresses);
    all.extend([rsdt, xsdt]);
    let at = |address: u64| (address - base) as usize;
    let places = Places {
        fadt: at(addresses[0]),
        rsdt: at(rsdt),
        xsdt: at(xsdt),
        mcfg: at(addresses[1 + MCFG]),
        all: all.into_iter().map(at).collect(),
    };
    Image { base, bytes, nonvolatile: PAGE as u64, rsdp: rsdp(rsdt as u32, xsdt), places }
}

/// The MCFG's place in [`listed`].
const MCFG: usize = 1;

/// The tables that the roots list, besides the FADT.
fn listed(options: &FirmwareOptions, layout: MemoryLayout) -> Vec<Vec<u8>> {
    let mut tables = vec![madt(options), mcfg()];
    if options.has_hpet {
        tables.push(hpet());
    }
    if options.topology.sockets() > 1 {
        tables.push(srat(options, layout));
        tables.push(slit(options.topology.sockets()));
    }
    tables.extend(options.extra_tables.iter().cloned());
    tables
}

/// [ACPI "Root System Description Pointer"]
fn rsdp(rsdt: u32, xsdt: u64) -> Vec<u8> {
    let mut bytes = Vec::from(b"RSD PTR \0");
    bytes.extend(OEM);
    bytes.push(2);
    bytes.extend(rsdt.to_le_bytes());
    bytes.extend(36u32.to_le_bytes());
    bytes.extend(xsdt.to_le_bytes());
    bytes.extend([0; 4]);
    bytes[8] = checksum(&bytes[..20]);
    bytes[32] = checksum(&bytes);
    bytes
}

/// [ACPI "Firmware ACPI Control Structure"]
fn facs() -> Vec<u8> {
    const VERSION: usize = 32;
    let mut bytes = Vec::from(b"FACS");
    bytes.extend(64u32.to_le_bytes());
    bytes.resize(64, 0);
    bytes[VERSION] = 2;
    bytes
}

/// [ACPI "Fixed ACPI Description Table"]
fn fadt(options: &FirmwareOptions, dsdt: u64, facs: u64) -> Vec<u8> {
    const PROFILE_ENTERPRISE_SERVER: u8 = 4;
    const NO_C2: u16 = 101;
    const NO_C3: u16 = 1001;
    const CENTURY: u8 = 0x32;
    const MINOR_VERSION: u8 = 4;

    let mut table = Table::new(b"FACP", 6);
    table.u32(facs as u32).u32(dsdt as u32).u8(0).u8(PROFILE_ENTERPRISE_SERVER);
    table.u16(map::ACPI_LINE.into());
    // No SMI command port, so no commands.
    table.u32(0).put(&[0; 4]);
    table.u32(map::PM1A_EVENT.into()).u32(0).u32(map::PM1A_CONTROL.into()).u32(0).u32(0);
    table.u32(map::PM_TIMER.into()).u32(map::GPE0.into()).u32(0);
    table.u8(map::PM1_EVENT_LENGTH).u8(map::PM1_CONTROL_LENGTH).u8(0).u8(map::PM_TIMER_LENGTH);
    table.u8(map::GPE0_LENGTH).u8(0).u8(0).u8(0);
    table.u16(NO_C2).u16(NO_C3).u16(0).u16(0).u8(0).u8(0);
    // No alarm by day or month.
    table.u8(0).u8(0).u8(CENTURY);
    table.u16(boot_architecture(options)).u8(0).u32(fadt_flags());
    table.port(map::RESET_CONTROL, 1, 1).u8(map::RESET_VALUE);
    table.u16(0).u8(MINOR_VERSION);
    // FIRMWARE_CTRL above holds the FACS, so X_FIRMWARE_CTRL is zero.
    table.u64(0).u64(dsdt);
    table.port(map::PM1A_EVENT, map::PM1_EVENT_LENGTH, 2).no_register();
    table.port(map::PM1A_CONTROL, map::PM1_CONTROL_LENGTH, 2).no_register().no_register();
    table.port(map::PM_TIMER, map::PM_TIMER_LENGTH, 4);
    table.port(map::GPE0, map::GPE0_LENGTH, 1).no_register();
    table.no_register().no_register().u64(0);
    table.finish()
}

/// [ACPI "IA-PC Boot Architecture Flags"] The RTC is there: bit 5 stays clear.
fn boot_architecture(options: &FirmwareOptions) -> u16 {
    const LEGACY_DEVICES: u16 = 1 << 0;
    const KEYBOARD_CONTROLLER: u16 = 1 << 1;
    const NO_VGA: u16 = 1 << 2;
    const NO_PCIE_ASPM: u16 = 1 << 4;
    let legacy = if options.serial_ports > 0 { LEGACY_DEVICES } else { 0 };
    let keyboard = if options.has_keyboard_controller { KEYBOARD_CONTROLLER } else { 0 };
    legacy | keyboard | NO_VGA | NO_PCIE_ASPM
}

/// [ACPI "Fixed ACPI Description Table Fixed Feature Flags"]
fn fadt_flags() -> u32 {
    const WBINVD: u32 = 1 << 0;
    const C1_ON_ALL: u32 = 1 << 2;
    const NO_FIXED_SLEEP_BUTTON: u32 = 1 << 5;
    const NO_FIXED_RTC_WAKE: u32 = 1 << 6;
    const TIMER_HAS_32_BITS: u32 = 1 << 8;
    const HAS_RESET_REGISTER: u32 = 1 << 10;
    WBINVD
        | C1_ON_ALL
        | NO_FIXED_SLEEP_BUTTON
        | NO_FIXED_RTC_WAKE
        | TIMER_HAS_32_BITS
        | HAS_RESET_REGISTER
}

/// [ACPI "Multiple APIC Description Table"]
fn madt(options: &FirmwareOptions) -> Vec<u8> {
    const PC_AT_COMPATIBLE: u32 = 1;
    const ALL_PROCESSORS: u32 = u32::MAX;
    const ACTIVE_HIGH_LEVEL: u16 = 0b1101;

    let topology = options.topology;
    let mut table = Table::new(b"APIC", 5);
    table.u32(ApicBase::RESET_ADDRESS as u32).u32(PC_AT_COMPATIBLE);
    let mut has_x2apic_ids = false;
    for cpu in topology.cpus() {
        let id = topology.apic_id(cpu).0;
        if id < FIRST_X2APIC_ID {
            table.u8(0).u8(8).u8(cpu.0 as u8).u8(id as u8).u32(ENABLED);
        } else {
            has_x2apic_ids = true;
            table.u8(9).u8(16).u16(0).u32(id).u32(ENABLED).u32(cpu.0.into());
        }
    }
    table.u8(1).u8(12).u8(0).u8(0).u32(io_mmio::RESET_ADDRESS as u32).u32(0);
    // ISA interrupts are edge-triggered and active high unless an override says otherwise.
    table.u8(2).u8(10).u8(0).u8(map::PIT_LINE).u32(map::PIT_IO_APIC_PIN.into()).u16(0);
    table.u8(2).u8(10).u8(0).u8(map::ACPI_LINE).u32(map::ACPI_LINE.into()).u16(ACTIVE_HIGH_LEVEL);
    table.u8(4).u8(6).u8(ALL_PROCESSORS as u8).u16(0).u8(NON_MASKABLE_INPUT);
    if has_x2apic_ids {
        table.u8(10).u8(12).u16(0).u32(ALL_PROCESSORS).u8(NON_MASKABLE_INPUT).put(&[0; 3]);
    }
    table.finish()
}

/// [PCI-FIRMWARE "MCFG Table"]
fn mcfg() -> Vec<u8> {
    let mut table = Table::new(b"MCFG", 1);
    table.u64(0);
    table.u64(map::ECAM.0).u16(0).u8(0).u8((map::ECAM_BUSES - 1) as u8).u32(0);
    table.finish()
}

/// [HPET "ACPI 2.0 HPET Description Table"]
fn hpet() -> Vec<u8> {
    const SYSTEM_MEMORY: u8 = 0;
    const LEAST_PERIODIC_TICKS: u16 = 0x80;
    let mut table = Table::new(b"HPET", 1);
    table.u32(device::hpet::Hpet::event_timer_block_id());
    table.u8(SYSTEM_MEMORY).u8(64).u8(0).u8(0).u64(map::HPET.0);
    table.u8(0).u16(LEAST_PERIODIC_TICKS).u8(0);
    table.finish()
}

/// RAM is dealt to the sockets in equal parts. [ACPI "System Resource Affinity Table"]
fn srat(options: &FirmwareOptions, layout: MemoryLayout) -> Vec<u8> {
    let topology = options.topology;
    let mut table = Table::new(b"SRAT", 3);
    table.u32(1).u64(0);
    for cpu in topology.cpus() {
        let id = topology.apic_id(cpu).0;
        let domain = u32::from(topology.location(cpu).socket);
        if id < FIRST_X2APIC_ID && domain < 256 {
            table.u8(0).u8(16).u8(domain as u8).u8(id as u8).u32(ENABLED).u32(0).u32(0);
        } else {
            table.u8(2).u8(24).u16(0).u32(domain).u32(id).u32(ENABLED).u32(0).u32(0);
        }
    }
    for (domain, start, length) in memory_of_sockets(topology.sockets(), layout) {
        table.u8(1).u8(40).u32(domain).u16(0).u64(start).u64(length).u32(0).u32(ENABLED).u64(0);
    }
    table.finish()
}

/// Socket, start and length of contiguous RAM, in address order.
pub(super) fn memory_of_sockets(sockets: u16, layout: MemoryLayout) -> Vec<(u32, u64, u64)> {
    let total = layout.low + layout.high;
    let share = (total / u64::from(sockets)) & !(PAGE as u64 - 1);
    let mut regions = Vec::new();
    for socket in 0..sockets {
        let start = u64::from(socket) * share;
        let end = if socket + 1 == sockets { total } else { start + share };
        let below = (start, end.min(layout.low), 0);
        let above = (start.max(layout.low), end, bus::HOLE_END - layout.low);
        let parts = [below, above].into_iter().filter(|(start, end, _)| start < end);
        regions.extend(parts.map(|(start, end, hole)| (socket.into(), start + hole, end - start)));
    }
    regions
}

/// [ACPI "System Locality Information Table"]
fn slit(sockets: u16) -> Vec<u8> {
    const LOCAL: u8 = 10;
    const REMOTE: u8 = 32;
    let mut table = Table::new(b"SLIT", 1);
    table.u64(sockets.into());
    for from in 0..sockets {
        for to in 0..sockets {
            table.u8(if from == to { LOCAL } else { REMOTE });
        }
    }
    table.finish()
}
