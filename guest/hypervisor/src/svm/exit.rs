//! What #VMEXIT says. [APM2 "#VMEXIT"] [APM2 "SVM Intercept Exit Codes"]

use crate::vendor::{Exit, PortAccess};
use arch::address::GuestPhysical;
use arch::apic::Icr;
use arch::svm::ExitCode;
use arch::svm::avic::{IncompleteIpi, IncompleteIpiReason, NoAcceleration, WriteRule, rule};
use arch::svm::exit::{IoPortInfo, MSR_WRITE};

/// The reasons that are told apart, with the names that KVM's users know them by.
pub const REASONS: [(&str, u64); 15] = [
    ("interrupt", ExitCode::Intr.into_bits()),
    ("nmi", ExitCode::Nmi.into_bits()),
    ("vintr", ExitCode::VirtualInterrupt.into_bits()),
    ("cpuid", ExitCode::Cpuid.into_bits()),
    ("hlt", ExitCode::Hlt.into_bits()),
    ("pause", ExitCode::Pause.into_bits()),
    ("io", ExitCode::IoPort.into_bits()),
    ("msr", ExitCode::Msr.into_bits()),
    ("hypercall", ExitCode::Vmmcall.into_bits()),
    ("npf", ExitCode::NestedPageFault.into_bits()),
    ("avic_incomplete_ipi", ExitCode::AvicIncompleteIpi.into_bits()),
    ("avic_unaccelerated_access", ExitCode::AvicNoAcceleration.into_bits()),
    ("shutdown", ExitCode::Shutdown.into_bits()),
    ("invalid", ExitCode::Invalid.into_bits()),
    ("init", ExitCode::Init.into_bits()),
];

/// What an exit code means, with EXITINFO1 and EXITINFO2.
pub fn decode(code: ExitCode, information: [u64; 2]) -> Exit {
    match code {
        ExitCode::Intr | ExitCode::Nmi | ExitCode::Init => Exit::Interrupted,
        // The window is open.
        ExitCode::VirtualInterrupt => Exit::Interrupted,
        ExitCode::Cpuid => Exit::Cpuid,
        ExitCode::Msr if information[0] == MSR_WRITE => Exit::WriteMsr,
        ExitCode::Msr => Exit::ReadMsr,
        ExitCode::IoPort => Exit::Port(port_access(IoPortInfo::from_bits(information[0]))),
        ExitCode::Hlt => Exit::Halt,
        ExitCode::Vmmcall => Exit::Hypercall,
        ExitCode::NestedPageFault => Exit::Unmapped(GuestPhysical(information[1])),
        ExitCode::AvicIncompleteIpi => incomplete_ipi(IncompleteIpi::from_exit_info(information)),
        ExitCode::AvicNoAcceleration => {
            no_acceleration(NoAcceleration::from_exit_info(information))
        }
        _ => Exit::Failed("an exit that nothing can be done about"),
    }
}

fn port_access(information: IoPortInfo) -> PortAccess {
    let mask = match (information.is_8_bit(), information.is_16_bit()) {
        (true, _) => 0xFF,
        (_, true) => 0xFFFF,
        _ => 0xFFFF_FFFF,
    };
    PortAccess { port: information.port(), is_input: information.is_input(), mask }
}

/// AVIC_INCOMPLETE_IPI: the ICR is written, RIP is past the instruction.
/// [APM2 "AVIC IPI Delivery Not Completed"]
fn incomplete_ipi(exit: IncompleteIpi) -> Exit {
    let icr = Icr::from_dwords(exit.command, exit.destination);
    match exit.reason {
        // INIT, startup, NMI and level-triggered ones; and none is delivered if one target is
        // missing: all of the message is ours to send.
        IncompleteIpiReason::InvalidInterruptType | IncompleteIpiReason::InvalidTarget => {
            Exit::CommandRefused(icr)
        }
        IncompleteIpiReason::TargetNotRunning => Exit::TargetsAsleep(icr),
        // A vector below 16 goes nowhere.
        IncompleteIpiReason::InvalidVector => Exit::Interrupted,
        _ => Exit::Failed("an entry of the physical table is wrong"),
    }
}

/// AVIC_NOACCEL: a trap after a write, or a fault before an access, as the register's rule says.
/// [APM2 "AVIC Access to Un-accelerated vAPIC Register"]
fn no_acceleration(exit: NoAcceleration) -> Exit {
    let is_trap = exit.is_write
        && matches!(rule(exit.offset, false).write, WriteRule::Trap | WriteRule::EndOfInterrupt);
    if is_trap { Exit::ApicWritten(exit.offset) } else { Exit::ApicAccess(exit.offset) }
}
