//! The devices of a PC board, as plain state and pure reactions: an access or a moment in, values
//! and effects out. Nothing here knows a processor, an APIC or a host file.

#![warn(missing_docs)]

#[cfg(test)]
mod bench;
pub mod chipset;
pub mod firmware_configuration;
pub mod flash;
pub mod hpet;
pub mod intel_82599;
pub mod ioat;
mod keyboard;
mod lanes;
pub mod map;
pub mod nvme;
pub mod onboard;
mod packet;
pub mod packet_source;
pub mod pci;
mod pit;
pub mod power;
pub mod pulse;
mod q35;
pub mod registry;
pub mod request;
mod rtc;
pub mod serial;
pub mod storage;
mod test_device;
pub mod test_function;
pub mod virtio;

pub use chipset::{Chipset, ChipsetConfiguration};
pub use registry::{Bus, Device, Request};
pub use rtc::Date;
