//! The Differentiated System Description Table: processors, the PCI root with its windows and
//! interrupt routing, and the legacy devices. [ACPI "Differentiated System Description Table"]
//! [PCI-FIRMWARE "_OSC Interface for PCI Host Bridge Devices"]
//!
//! Left out: power states other than S0 and S5, hot plug, thermal zones.

use super::options::FirmwareOptions;
use super::performance;
use super::table::Table;
use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, And, Arg, CreateDWordField, Device, EISAName, IO,
    Interrupt, Memory32Fixed, Method, Name, Or, PackageBuilder, Path, ResourceTemplate, Return,
    Scope, ZERO,
};
use acpi_tables::{Aml, AmlSink};
use arch::identity::CpuIndex;
use device::map;

/// Device numbers on bus 0 and interrupt pins of each.
const DEVICES: u8 = 32;
const PINS: u8 = 4;

pub(super) fn build(options: &FirmwareOptions) -> Vec<u8> {
    let mut aml = Vec::new();
    sleep_state().to_aml_bytes(&mut aml);
    let p_states = options.model.map_or(Vec::new(), |model| model.p_states());
    let performance = performance::objects(&p_states);
    let processors: Vec<_> =
        options.topology.cpus().map(|cpu| Processor { cpu, performance: &performance }).collect();
    let root = PciRoot { options };
    let mut devices: Vec<&dyn Aml> = processors.iter().map(|cpu| cpu as &dyn Aml).collect();
    devices.extend([&BoardResources as &dyn Aml, &root]);
    Scope::new("\\_SB_".into(), devices).to_aml_bytes(&mut aml);
    let mut table = Table::new(b"DSDT", 2);
    table.put(&aml);
    table.finish()
}

/// \_S5: what to write to PM1 control for power-off.
fn sleep_state() -> Name {
    let mut package = PackageBuilder::new();
    for value in [map::SLEEP_TYPE_S5, map::SLEEP_TYPE_S5, 0, 0] {
        package.add_element(&value);
    }
    Name::new(Path::new("\\_S5_"), &package)
}

/// A processor device; its _UID is the one in the MADT.
struct Processor<'a> {
    cpu: CpuIndex,
    /// What is said of its P-states.
    performance: &'a [Name],
}

impl Aml for Processor<'_> {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        let hid = Name::new("_HID".into(), &"ACPI0007");
        let uid = Name::new("_UID".into(), &self.cpu.0);
        let name = format!("C{:03X}", self.cpu.0);
        let mut children: Vec<&dyn Aml> = vec![&hid, &uid];
        children.extend(self.performance.iter().map(|one| one as &dyn Aml));
        Device::new(name.as_str().into(), children).to_aml_bytes(sink);
    }
}

fn ports(first: u16, count: u8) -> IO {
    IO::new(first, first, 1, count)
}

/// Addresses that no PCI device may be given.
struct BoardResources;

impl Aml for BoardResources {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        const POWER_PORTS: u8 = 0x30;
        const CONFIGURATION_PORTS: u8 = 12;
        let hid = Name::new("_HID".into(), &EISAName::new("PNP0C02"));
        let uid = Name::new("_UID".into(), &ZERO);
        let size = (map::ECAM_END.0 - map::ECAM.0) as u32;
        let window = Memory32Fixed::new(true, map::ECAM.0 as u32, size);
        let power = ports(map::PM1A_EVENT, POWER_PORTS);
        let configuration = ports(map::FIRMWARE_CONFIGURATION, CONFIGURATION_PORTS);
        let resources = ResourceTemplate::new(vec![&window, &power, &configuration]);
        let resources = Name::new("_CRS".into(), &resources);
        Device::new("MBRD".into(), vec![&hid, &uid, &resources]).to_aml_bytes(sink);
    }
}

struct PciRoot<'a> {
    options: &'a FirmwareOptions<'a>,
}

impl Aml for PciRoot<'_> {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        let hid = Name::new("_HID".into(), &EISAName::new("PNP0A08"));
        let cid = Name::new("_CID".into(), &EISAName::new("PNP0A03"));
        let zeros = ["_UID", "_SEG", "_BBN"].map(|name| Name::new(name.into(), &ZERO));
        let [uid, segment, bus] = &zeros;
        let windows = Name::new("_CRS".into(), &RootWindows);
        let routing = Name::new("_PRT".into(), &interrupt_routing());
        let isa = isa_bridge(self.options);
        let mut children: Vec<&dyn Aml> =
            vec![&hid, &cid, uid, segment, bus, &windows, &routing, &FeatureControl, &isa];
        if self.options.has_hpet {
            children.push(&Hpet);
        }
        Device::new("PCI0".into(), children).to_aml_bytes(sink);
    }
}

/// Buses, ports and memory that the root passes on.
struct RootWindows;

impl Aml for RootWindows {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        const CONFIGURATION_PORTS: u8 = 8;
        let first = map::PCI_CONFIGURATION_ADDRESS;
        let buses = AddressSpace::new_bus_number(0u16, (map::ECAM_BUSES - 1) as u16);
        let mechanism = ports(first, CONFIGURATION_PORTS);
        let below = AddressSpace::new_io(0u16, first - 1, None);
        let above = AddressSpace::new_io(first + u16::from(CONFIGURATION_PORTS), 0xFFFFu16, None);
        let memory = AddressSpace::new_memory(
            AddressSpaceCacheable::NotCacheable,
            true,
            map::PCI_MEMORY_START.0 as u32,
            (map::PCI_MEMORY_END.0 - 1) as u32,
            None,
        );
        ResourceTemplate::new(vec![&buses, &mechanism, &below, &above, &memory]).to_aml_bytes(sink);
    }
}

/// _PRT: every pin of every device number on bus 0, hard-wired to an I/O APIC input.
fn interrupt_routing() -> PackageBuilder {
    let mut table = PackageBuilder::new();
    for device in 0..DEVICES {
        for pin in 0..PINS {
            let mut entry = PackageBuilder::new();
            entry.add_element(&(u32::from(device) << 16 | 0xFFFF));
            entry.add_element(&pin);
            entry.add_element(&ZERO);
            entry.add_element(&map::pci_line(device, pin));
            table.add_element(&entry);
        }
    }
    table
}

/// _OSC: the kernel may control the PCI Express capability structure, and nothing else that
/// firmware would have to hand over.
struct FeatureControl;

impl Aml for FeatureControl {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        const CAPABILITIES_MASKED: u8 = 1 << 4;
        const CAPABILITY_STRUCTURE: u8 = 1 << 4;
        const CONTROL_OFFSET: u8 = 8;
        let buffer = Arg(3);
        let status = Path::new("CDW1");
        let control = Path::new("CDW3");
        let status_field = CreateDWordField::new(&status, &buffer, &ZERO);
        let control_field = CreateDWordField::new(&control, &buffer, &CONTROL_OFFSET);
        let grant = And::new(&control, &control, &CAPABILITY_STRUCTURE);
        let masked = Or::new(&status, &status, &CAPABILITIES_MASKED);
        let answer = Return::new(&buffer);
        let body: Vec<&dyn Aml> = vec![&status_field, &control_field, &grant, &masked, &answer];
        Method::new("_OSC".into(), 4, true, body).to_aml_bytes(sink);
    }
}

/// A device on the ISA bus.
struct Legacy {
    name: &'static str,
    id: &'static str,
    number: u8,
    /// First port and count.
    ports: Vec<(u16, u8)>,
    line: u8,
}

impl Aml for Legacy {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        let hid = Name::new("_HID".into(), &EISAName::new(self.id));
        let uid = Name::new("_UID".into(), &self.number);
        let ports: Vec<IO> = self.ports.iter().map(|&(first, count)| ports(first, count)).collect();
        let line = Interrupt::new(true, true, false, false, self.line.into());
        let mut resources: Vec<&dyn Aml> = ports.iter().map(|ports| ports as &dyn Aml).collect();
        resources.push(&line);
        let resources = Name::new("_CRS".into(), &ResourceTemplate::new(resources));
        Device::new(self.name.into(), vec![&hid, &uid, &resources]).to_aml_bytes(sink);
    }
}

/// The function that leads to the legacy devices.
struct IsaBridge {
    devices: Vec<Legacy>,
}

fn isa_bridge(options: &FirmwareOptions) -> IsaBridge {
    const SERIAL_NAMES: [&str; 4] = ["COM1", "COM2", "COM3", "COM4"];
    let mut devices = vec![Legacy {
        name: "RTC_",
        id: "PNP0B00",
        number: 0,
        ports: vec![(map::RTC_INDEX, 2)],
        line: map::RTC_LINE,
    }];
    if options.has_keyboard_controller {
        devices.push(Legacy {
            name: "KBD_",
            id: "PNP0303",
            number: 0,
            ports: vec![(map::KEYBOARD_DATA, 1), (map::KEYBOARD_COMMAND, 1)],
            line: map::KEYBOARD_LINE,
        });
    }
    for (index, name) in SERIAL_NAMES.iter().enumerate().take(options.serial_ports.into()) {
        devices.push(Legacy {
            name,
            id: "PNP0501",
            number: index as u8 + 1,
            ports: vec![(map::SERIAL[index], 8)],
            line: map::SERIAL_LINES[index],
        });
    }
    IsaBridge { devices }
}

impl Aml for IsaBridge {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        let at = map::ISA_BRIDGE;
        let address = u32::from(at.device) << 16 | u32::from(at.function);
        let address = Name::new("_ADR".into(), &address);
        let mut children: Vec<&dyn Aml> = vec![&address];
        children.extend(self.devices.iter().map(|device| device as &dyn Aml));
        Device::new("ISA_".into(), children).to_aml_bytes(sink);
    }
}

struct Hpet;

impl Aml for Hpet {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        let hid = Name::new("_HID".into(), &EISAName::new("PNP0103"));
        let uid = Name::new("_UID".into(), &ZERO);
        let memory = Memory32Fixed::new(false, map::HPET.0 as u32, map::HPET_SIZE as u32);
        let resources = Name::new("_CRS".into(), &ResourceTemplate::new(vec![&memory]));
        Device::new("HPET".into(), vec![&hid, &uid, &resources]).to_aml_bytes(sink);
    }
}
