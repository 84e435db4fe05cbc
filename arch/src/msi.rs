//! Message-signalled interrupts: the address and data of a device's write.
//! [SDM3 "Message Signalled Interrupts"] [APM2 "Interrupt Messages and Vector Allocation"]

use crate::address::Device;
use serde::{Deserialize, Serialize};

/// First address of the interrupt window.
pub const WINDOW_START: u64 = 0xFEE0_0000;
/// Last address of the interrupt window.
pub const WINDOW_END: u64 = 0xFEEF_FFFF;

/// A device's write into the interrupt window, before remapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageSignalled {
    pub address: Device,
    pub data: u32,
}
