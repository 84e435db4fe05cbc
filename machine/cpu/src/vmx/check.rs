//! The checks of VM entry, in the manual's order: controls, host state, guest state.
//! [SDM3 "VM Entries"]
//!
//! Each check is named by what it demands, so that a refused entry can say why.

mod control;
mod event;
mod guest;
mod host;
mod segment;

pub use control::{check_controls, is_legal_ept_pointer};
pub use guest::check_guest;
pub use host::check_host;

use super::vmcs::Vmcs;
use arch::vmx::consistency::Broken;
use arch::vmx::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
};
use arch::vmx::field::{Field, control as fields};
use arch::vmx::{InterruptionInfo, VmxCapabilities};
use serde::{Deserialize, Serialize};

/// Demands `holds`.
fn require(holds: bool, rule: Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(rule) }
}

/// What the checks look at beside the VMCS.
pub struct Processor<'a> {
    pub capabilities: &'a VmxCapabilities,
    pub physical_bits: u8,
    pub linear_bits: u8,
    /// Bits that CR4 and EFER can hold.
    pub cr4_permitted: u64,
    pub efer_permitted: u64,
    /// EFER.LMA at VM entry.
    pub is_long_mode: bool,
    /// The current VMCS's address.
    pub vmcs: u64,
    /// Reads four bytes of memory.
    pub read_u32: &'a dyn Fn(u64) -> u32,
    /// Reads eight bytes of memory.
    pub read_u64: &'a dyn Fn(u64) -> u64,
}

impl Processor<'_> {
    /// No bit above the physical-address width.
    fn is_physical(&self, address: u64) -> bool {
        address >> self.physical_bits == 0
    }

    fn is_aligned_physical(&self, address: u64, alignment: u64) -> bool {
        address & (alignment - 1) == 0 && self.is_physical(address)
    }

    fn is_page(&self, address: u64) -> bool {
        self.is_aligned_physical(address, 0x1000)
    }

    fn is_canonical(&self, address: u64) -> bool {
        let shift = 64 - u32::from(self.linear_bits);
        (address << shift) as i64 >> shift == address as i64
    }
}

/// The control vectors of a VMCS; those that are not activated read 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controls {
    pub pin: PinControls,
    pub primary: PrimaryControls,
    pub secondary: SecondaryControls,
    pub tertiary: TertiaryControls,
    pub exit: ExitControls,
    pub entry: EntryControls,
    pub injection: InterruptionInfo,
}

impl Controls {
    pub fn of<B: AsRef<[u8]>>(vmcs: &Vmcs<B>) -> Self {
        let get = |field: Field| vmcs.get(field) as u32;
        let primary = PrimaryControls::from_bits_retain(get(fields::PRIMARY));
        let secondary = if primary.contains(PrimaryControls::SECONDARY_CONTROLS) {
            get(fields::SECONDARY)
        } else {
            0
        };
        let tertiary = if primary.contains(PrimaryControls::TERTIARY_CONTROLS) {
            vmcs.get(fields::TERTIARY)
        } else {
            0
        };
        Self {
            pin: PinControls::from_bits_retain(get(fields::PIN)),
            primary,
            secondary: SecondaryControls::from_bits_retain(secondary),
            tertiary: TertiaryControls::from_bits_retain(tertiary),
            exit: ExitControls::from_bits_retain(get(fields::EXIT)),
            entry: EntryControls::from_bits_retain(get(fields::ENTRY)),
            injection: InterruptionInfo::from_bits(get(fields::ENTRY_INTERRUPTION_INFO)),
        }
    }

    pub fn is_unrestricted(&self) -> bool {
        self.secondary.contains(SecondaryControls::UNRESTRICTED_GUEST)
    }

    pub fn is_long_mode_guest(&self) -> bool {
        self.entry.contains(EntryControls::IA32E_MODE_GUEST)
    }
}
