//! What a hypervisor may intercept of the events, and of what instructions have written.
//! [APM2 "Exception Intercepts"] [APM2 "Interrupt Intercepts"] [SDM3 "Other Causes of VM Exits"]

use crate::state::{Event, Origin};
use crate::stop::SoftwareSource;
use crate::{Cpu, Stop};

/// An event about to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A maskable interrupt of the local APIC or the 8259s.
    Interrupt,
    Nmi,
    Smi,
    Init,
    /// The fault on the way to the double-fault handler.
    TripleFault,
    /// `next_ip` only where a software interrupt raised it. A page fault has not reached CR2.
    Exception {
        vector: u8,
        error: Option<u32>,
        next_ip: u64,
    },
    /// `error` is that of the exception whose gate is a task's.
    TaskSwitch {
        selector: u16,
        is_iret: bool,
        is_far_jump: bool,
        error: Option<u32>,
    },
}

/// What an instruction has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Control { number: u8, value: u64 },
    Efer,
}

impl Cpu {
    /// INT3, INTO and INT1 are intercepted as the exceptions they raise: the first two at the
    /// instruction, INT1 behind it as the trap that it is. [APM2 "Exception Intercepts"]
    #[inline]
    pub(crate) fn software_arrives(&mut self, event: Event, this: u64) -> Result<(), Stop> {
        if !self.is_guest() || event.origin == Origin::Software(SoftwareSource::Int) {
            return Ok(());
        }
        let next_ip = self.registers.ip;
        self.arrives(Arrival::Exception { vector: event.vector, error: None, next_ip }).inspect_err(
            |_| {
                if event.origin != Origin::Software(SoftwareSource::Int1) {
                    self.registers.ip = this;
                }
            },
        )
    }
}
