//! The local APIC and the I/O APIC against those inside KVM.
//!
//! No vCPU runs: KVM's APICs are set up through KVM_SET_LAPIC and MSRs, get messages
//! through KVM_SIGNAL_MSI, IPIs through MSR 830h and lines through KVM_IRQ_LINE, and are read back.
//! Where KVM does something else on purpose, the test that meets it says so.

mod command;
mod destination;
mod io_apic;
mod oracle;
mod register;
