//! The PCI functions that a board has: bridges, the SMBus controller, and what was asked for.

use super::ChipsetConfiguration;
use crate::intel_82599;
use crate::map;
use crate::nvme::Controller;
use crate::pci::pulse::Pulse;
use crate::pci::test_function::{MEMORY_BAR, MEMORY_SIZE, PORT_BAR, PORT_SIZE, TestFunction};
use crate::pci::{Bar, Configuration, Device, Function, Identity, Msi, PciBus};
use crate::virtio::{Model, Virtio};
use arch::amd_vi::capability::{self as iommu, BaseLow, Miscellaneous};
use arch::pci::{Command, FunctionAddress, capability, class, header};

/// Vendor of the emulated bridges and of the test function.
const RED_HAT: u16 = 0x1B36;
const HOST_BRIDGE: u16 = 0x0008;
const TEST_FUNCTION: u16 = 0x0005;
/// Identifiers that no driver claims: guests shall see the classes and look for nothing behind.
const SMBUS: u16 = 0x00F0;
const ISA_BRIDGE: u16 = 0x00F1;
const AMD: u16 = 0x1022;
/// Of Zen 2 and Zen 3; kernels go by the class.
const IOMMU: u16 = 0x1481;
/// Where its capability is: firmware's table says the same.
pub const IOMMU_CAPABILITY: u8 = header::FIRST_CAPABILITY as u8;

/// Virtio devices that find a place: device numbers 1 to 13h.
pub const MAXIMUM_VIRTIO_DEVICES: usize = (map::SMBUS.device - map::FIRST_VIRTIO_DEVICE) as usize;

/// Virtual functions and NVM Express controllers that find a place: device numbers 15h to 1Ch.
pub const MAXIMUM_SERVER_FUNCTIONS: usize = (map::PULSE.device - map::FIRST_SERVER_DEVICE) as usize;

pub(super) fn populate(pci: &mut PciBus, configuration: &ChipsetConfiguration) {
    let passive = [
        (map::HOST_BRIDGE, HOST_BRIDGE, class::HOST_BRIDGE),
        (map::SMBUS, SMBUS, class::SMBUS),
        (map::ISA_BRIDGE, ISA_BRIDGE, class::ISA_BRIDGE),
    ];
    for (address, device, class) in passive {
        let identity = Identity { vendor: RED_HAT, device, class, ..Identity::default() };
        add(pci, address, Configuration::new(identity), Device::Passive);
    }
    if configuration.has_amd_iommu {
        add_iommu(pci);
    }
    if configuration.has_pulse {
        let is_added = Pulse::default().attach(pci, map::PULSE);
        debug_assert!(is_added, "its place is free");
    }
    if configuration.has_test_devices {
        add_test_function(pci);
    }
    let models: &[Model] = &configuration.virtio;
    for (model, device) in
        models.iter().take(MAXIMUM_VIRTIO_DEVICES).zip(map::FIRST_VIRTIO_DEVICE..)
    {
        let address = FunctionAddress::new(0, device, 0);
        let is_added = Virtio::new(model.clone()).attach(pci, address);
        debug_assert!(is_added, "device {device:#x} is free");
    }
    let mut places = (map::FIRST_SERVER_DEVICE..map::PULSE.device)
        .map(|device| FunctionAddress::new(0, device, 0));
    for (address, function) in intel_82599::at_wires(&configuration.wires, &mut places) {
        let is_added = function.attach(pci, address);
        debug_assert!(is_added, "{address} is free");
    }
    for ((disk, address), number) in configuration.nvme.iter().zip(places).zip(0..) {
        let is_added = Controller::new(disk.clone(), number).attach(pci, address);
        debug_assert!(is_added, "{address} is free");
    }
}

/// Firmware has enabled the registers, so that the capability's are read-only.
/// [IOMMU "IOMMU Capability Block Registers"]
fn add_iommu(pci: &mut PciBus) {
    let mut configuration = Configuration::new(Identity {
        vendor: AMD,
        device: IOMMU,
        class: class::IOMMU,
        ..Identity::default()
    });
    let head = iommu::Header::new()
        .with_kind(iommu::KIND)
        .with_revision(1)
        .with_has_extended_features(true);
    let base = map::IOMMU.0;
    let low = BaseLow::new().with_is_enabled(true).into_bits() | base as u32;
    let miscellaneous = Miscellaneous::new()
        .with_guest_virtual_size(2)
        .with_physical_size(52)
        .with_virtual_size(64);
    let mut content = Vec::from(&head.into_bits().to_le_bytes()[2..]);
    for word in [low, (base >> 32) as u32, 0, miscellaneous.into_bits(), 0] {
        content.extend(word.to_le_bytes());
    }
    let at = configuration.add_capability(capability::SECURE_DEVICE, &content);
    debug_assert_eq!(at, Some(IOMMU_CAPABILITY), "it is the first");
    let msi = Msi::add(&mut configuration, 0);
    let mut function = Function::new(map::IOMMU_FUNCTION, configuration, Device::Passive);
    function.msi = msi;
    let is_added = pci.add(function);
    debug_assert!(is_added, "the map gives every function a place of its own");
    // It shares its device number with the host bridge.
    if let Some(bridge) = pci.function_mut(map::HOST_BRIDGE) {
        bridge.configuration.set(header::HEADER_TYPE, 1, header::MULTI_FUNCTION.into());
    }
}

fn add_test_function(pci: &mut PciBus) {
    let mut configuration = Configuration::new(Identity {
        vendor: RED_HAT,
        device: TEST_FUNCTION,
        class: class::UNDEFINED,
        ..Identity::default()
    });
    for (index, bar) in
        [(MEMORY_BAR, Bar::Memory32 { size: MEMORY_SIZE }), (PORT_BAR, Bar::Io { size: PORT_SIZE })]
    {
        configuration.set_bar(index, bar, pci.allocate(bar));
    }
    configuration.set_command(Command::IO_SPACE | Command::MEMORY_SPACE);
    let device = Device::Test(TestFunction::default());
    add(pci, map::PCI_TEST_DEVICE, configuration, device);
}

fn add(pci: &mut PciBus, address: FunctionAddress, configuration: Configuration, device: Device) {
    let is_added = pci.add(Function::new(address, configuration, device));
    debug_assert!(is_added, "the map gives every function a place of its own");
}
