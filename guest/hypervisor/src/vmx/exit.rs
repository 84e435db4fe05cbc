//! What a VM exit says. [SDM3 "VM Exits"] [SDM3 "VMX Basic Exit Reasons"]

use crate::vendor::{Exit, PortAccess};
use crate::vmx::vmcs;
use arch::address::GuestPhysical;
use arch::vmx::ExitReason;
use arch::vmx::field::exit;
use arch::vmx::qualification::{ApicAccess, ApicAccessKind, IoInstruction};

/// The reasons that are told apart, with the names that KVM's users know them by.
pub const REASONS: [(&str, u64); 16] = [
    ("interrupt", ExitReason::ExternalInterrupt.into_bits() as u64),
    ("interrupt_window", ExitReason::InterruptWindow.into_bits() as u64),
    ("tpr_below_threshold", ExitReason::TprBelowThreshold.into_bits() as u64),
    ("cpuid", ExitReason::Cpuid.into_bits() as u64),
    ("hlt", ExitReason::Hlt.into_bits() as u64),
    ("pause", ExitReason::Pause.into_bits() as u64),
    ("io", ExitReason::IoInstruction.into_bits() as u64),
    ("msr_read", ExitReason::Rdmsr.into_bits() as u64),
    ("msr_write", ExitReason::Wrmsr.into_bits() as u64),
    ("hypercall", ExitReason::Vmcall.into_bits() as u64),
    ("ept_violation", ExitReason::EptViolation.into_bits() as u64),
    ("apic_access", ExitReason::ApicAccess.into_bits() as u64),
    ("apic_write", ExitReason::ApicWrite.into_bits() as u64),
    ("eoi_induced", ExitReason::VirtualizedEoi.into_bits() as u64),
    ("triple_fault", ExitReason::TripleFault.into_bits() as u64),
    ("invalid_state", ExitReason::InvalidGuestState.into_bits() as u64),
];

/// What the exit of the current VMCS means.
pub fn decode(reason: ExitReason) -> Exit {
    let qualification = vmcs::read(exit::QUALIFICATION);
    match reason {
        ExitReason::ExternalInterrupt => Exit::Interrupted,
        // The guest can take an interrupt now.
        ExitReason::InterruptWindow | ExitReason::TprBelowThreshold => Exit::Interrupted,
        ExitReason::Cpuid => Exit::Cpuid,
        ExitReason::Rdmsr => Exit::ReadMsr,
        ExitReason::Wrmsr => Exit::WriteMsr,
        ExitReason::IoInstruction => port_access(IoInstruction::from_bits(qualification)),
        ExitReason::Hlt => Exit::Halt,
        ExitReason::Vmcall => Exit::Hypercall,
        ExitReason::EptViolation => {
            Exit::Unmapped(GuestPhysical(vmcs::read(exit::GUEST_PHYSICAL_ADDRESS)))
        }
        ExitReason::ApicAccess => apic_access(ApicAccess::from_bits(qualification)),
        // Of the ICR too: what the processor does not send is ours to send, all of it.
        ExitReason::ApicWrite => Exit::ApicWritten(qualification as u16 & 0xFF0),
        _ => Exit::Failed("an exit that nothing can be done about"),
    }
}

fn port_access(access: IoInstruction) -> Exit {
    let mask = match access.size_less_one() {
        _ if access.is_string() => return Exit::Failed("a string instruction on a port"),
        0 => 0xFF,
        1 => 0xFFFF,
        _ => 0xFFFF_FFFF,
    };
    Exit::Port(PortAccess { port: access.port(), is_input: access.is_input(), mask })
}

/// A fault: nothing has been read or written. [SDM3 "Virtualizing Memory-Mapped APIC Accesses"]
fn apic_access(access: ApicAccess) -> Exit {
    match access.kind() {
        ApicAccessKind::LinearRead | ApicAccessKind::LinearWrite => {
            Exit::ApicAccess(access.offset() & 0xFF0)
        }
        _ => Exit::Failed("an access to the APIC page that is no load or store"),
    }
}
