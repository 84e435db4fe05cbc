//! What all VMCSs of a machine share.

use crate::vmx::apicv::PidPointers;
use crate::vmx::ept::EptTables;
use crate::vmx::feature::Features;
use crate::vmx::permission::PermissionMaps;
use arch::apic::Mode;

/// A machine's VMX: what the processor can do, what of it is used, and the tables.
pub struct Vmx {
    pub features: Features,
    /// Whether APICv is wanted, and there.
    pub is_accelerated: bool,
    /// Of the table of posted-interrupt descriptors.
    pub last_index: u16,
    pub tables: &'static Tables,
}

pub struct Tables {
    pub pointers: PidPointers,
    pub permissions: PermissionMaps,
    pub ept: EptTables,
}

impl Tables {
    pub const fn new() -> Self {
        Self {
            pointers: PidPointers::new(),
            permissions: PermissionMaps::new(),
            ept: EptTables::new(),
        }
    }
}

impl Vmx {
    /// Whether APICv can stand in for an APIC in this mode.
    pub fn accelerates(&self, mode: Mode) -> bool {
        self.is_accelerated && self.features.apicv && matches!(mode, Mode::XApic | Mode::X2Apic)
    }
}
