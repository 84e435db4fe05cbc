//! What all VMCBs of a machine share.

use crate::svm::avic::AvicTables;
use crate::svm::feature::Features;
use crate::svm::nested::NestedTables;
use crate::svm::permission::PermissionMaps;
use arch::apic::Mode;
use arch::svm::avic::PhysicalTablePointer;

/// A machine's SVM: what the processor can do, what of it is used, and the tables.
pub struct Svm {
    pub features: Features,
    /// Whether AVIC is wanted, and there.
    pub is_accelerated: bool,
    /// Senders are never to see that a vCPU runs.
    pub hides_running: bool,
    /// Of the physical table.
    pub last_index: u16,
    pub tables: &'static Tables,
}

pub struct Tables {
    pub avic: AvicTables,
    pub permissions: PermissionMaps,
    pub nested: NestedTables,
}

impl Tables {
    pub const fn new() -> Self {
        Self {
            avic: AvicTables::new(),
            permissions: PermissionMaps::new(),
            nested: NestedTables::new(),
        }
    }
}

impl Svm {
    /// Whether AVIC can stand in for an APIC in this mode.
    pub fn accelerates(&self, mode: Mode) -> bool {
        self.is_accelerated
            && match mode {
                Mode::XApic => self.features.avic,
                Mode::X2Apic => self.features.x2avic,
                _ => false,
            }
    }

    /// Whether AVIC stands in for an APIC in x2APIC mode.
    pub fn is_x2avic(&self, mode: Mode) -> bool {
        mode == Mode::X2Apic && self.accelerates(mode)
    }

    pub fn physical_table(&self, mode: Mode) -> PhysicalTablePointer {
        self.tables.avic.physical_table(self.last_index, self.is_x2avic(mode))
    }
}
