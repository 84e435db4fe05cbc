//! The PCI Express capability of a function, with function-level reset.
//! [PCIE "Function Level Reset"]

use super::Configuration;
use arch::pci::{capability, express};
use serde::{Deserialize, Serialize};

/// Where the capability is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Express {
    offset: u16,
}

impl Express {
    /// Adds the capability of an endpoint that can be reset by itself. Nothing if there is no room.
    pub fn add(configuration: &mut Configuration) -> Option<Self> {
        let mut content = [0; express::SIZE - 2];
        content[..2].copy_from_slice(&express::INTEGRATED_ENDPOINT.to_le_bytes());
        content[2..6].copy_from_slice(&express::FUNCTION_LEVEL_RESET.to_le_bytes());
        let offset = u16::from(configuration.add_capability(capability::EXPRESS, &content)?);
        // Error reporting, payload and read sizes are kept; the reset bit is taken at once.
        configuration.allow(offset + express::DEVICE_CONTROL, 2, 0xFFFF);
        Some(Self { offset })
    }

    /// Whether the driver has asked for a reset since the last call.
    pub fn take_reset(self, configuration: &mut Configuration) -> bool {
        let at = self.offset + express::DEVICE_CONTROL;
        let control = configuration.get(at, 2);
        let reset = u32::from(express::INITIATE_RESET);
        configuration.set(at, 2, control & !reset);
        control & reset != 0
    }
}
