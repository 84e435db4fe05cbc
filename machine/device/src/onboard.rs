//! What every board has on its bus: bridges, the SMBus controller, and the function of an AMD IOMMU
//! where there is one. They have no registers here.

use crate::map;
use crate::pci::{Configuration, Function, Identity, Msi, Passive, Room};
use crate::request::{Name, PciRequest, Places};
use arch::amd_vi::capability::{self as iommu, BaseLow, Miscellaneous};
use arch::pci::{FunctionAddress, capability, class, header};

/// Vendor of the emulated bridges.
const RED_HAT: u16 = 0x1B36;
const HOST_BRIDGE: u16 = 0x0008;
/// Identifiers that no driver claims: guests shall see the classes and look for nothing behind.
const SMBUS: u16 = 0x00F0;
const ISA_BRIDGE: u16 = 0x00F1;
const AMD: u16 = 0x1022;
/// Of Zen 2 and Zen 3; kernels go by the class.
const IOMMU: u16 = 0x1481;
/// Where its capability is: firmware's table says the same.
pub const IOMMU_CAPABILITY: u8 = header::FIRST_CAPABILITY as u8;

/// A function of the board's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onboard {
    /// Which processors reach the bus through.
    HostBridge,
    /// Kernels with an AMD IOMMU look there for the I/O APIC's requester.
    SmBus,
    /// What sits on ports has its requester ID.
    IsaBridge,
    /// The function of an AMD IOMMU; its registers are the board's.
    AmdIommu,
}

impl Onboard {
    /// What no board is without.
    pub const ALWAYS: [Self; 3] = [Self::HostBridge, Self::SmBus, Self::IsaBridge];

    fn bridge(device: u16, class: u16) -> Configuration {
        Configuration::new(Identity { vendor: RED_HAT, device, class, ..Identity::default() })
    }
}

impl PciRequest for Onboard {
    type Device = Passive;

    const NAMES: &'static [Name<Self>] = &[];

    fn places(&self) -> Places {
        Places::At(match self {
            Self::HostBridge => map::HOST_BRIDGE,
            Self::SmBus => map::SMBUS,
            Self::IsaBridge => map::ISA_BRIDGE,
            Self::AmdIommu => map::IOMMU_FUNCTION,
        })
    }

    fn functions(
        &self,
        _number: u8,
        at: &[FunctionAddress],
        _room: &mut Room,
    ) -> Vec<Function<Passive>> {
        let function = |configuration| Function::new(at[0], configuration, Passive);
        vec![match self {
            Self::HostBridge => function(Self::bridge(HOST_BRIDGE, class::HOST_BRIDGE)),
            Self::SmBus => function(Self::bridge(SMBUS, class::SMBUS)),
            Self::IsaBridge => function(Self::bridge(ISA_BRIDGE, class::ISA_BRIDGE)),
            Self::AmdIommu => {
                let (configuration, msi) = amd_iommu();
                function(configuration).with_msi(msi)
            }
        }]
    }

    fn digest(&self) -> String {
        format!("{self:?}")
    }
}

/// Firmware has enabled the registers, so that the capability's are read-only.
/// [IOMMU "IOMMU Capability Block Registers"]
fn amd_iommu() -> (Configuration, Option<Msi>) {
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
    (configuration, msi)
}
