//! Virtual-machine extensions: what Intel processors do between VM entry and VM exit.
//! [SDM3 "Introduction to Virtual Machine Extensions"]

mod apic;
mod behaviour;
mod boundary;
mod capability;
mod check;
mod entry;
mod exception;
mod exit;
mod function;
mod guest_area;
mod host;
mod information;
pub(crate) mod instruction;
mod intercept;
mod msr;
mod nested;
mod pause;
mod permission;
mod state;
mod variant;
mod vendor;
mod vmcs;

pub use arch::vmx::capability::VmxCapabilities as Capabilities;
pub use behaviour::VmxBehaviour;
pub use state::{Ept, Exit, Guest, Injection, MonitorTrap, PauseLoop, Shadowed, Shadowing, Vmx};
pub(crate) use variant::VARIANTS;
pub use virtual_apic::apicv;
pub use vmcs::{SIZE as VMCS_SIZE, Vmcs};
