//! APIC virtualization: the posted-interrupt descriptor, the table of IPI virtualization, and what
//! each register of the virtual-APIC page does.
//! [SDM3 "APIC Virtualization and Virtual Interrupts"]

mod access;
mod posted;
mod status;

pub use access::{MsrWriteRule, ReadRule, RegisterRule, WriteRule, msr_write_rule, rule};
pub use posted::{
    NotificationControl, PID_POINTER_SIZE, POSTED_CONTROL_OFFSET, POSTED_DESCRIPTOR_SIZE,
    PidPointer,
};
pub use status::GuestInterruptStatus;
