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
    /// Whether the event is taken where the processor is: `Err` is the exit of the guest.
    #[inline]
    pub(crate) fn arrives(&mut self, event: Arrival) -> Result<(), Stop> {
        if !self.guest.is_running() {
            return Ok(());
        }
        if self.guest.svm.current.is_some() {
            self.svm_arrives(event)
        } else {
            self.vmx_arrives(event)
        }
    }

    /// INT3, INTO and INT1 are intercepted as the exceptions they raise: the first two at the
    /// instruction, INT1 behind it as the trap that it is. [APM2 "Exception Intercepts"]
    #[inline]
    pub(crate) fn software_arrives(&mut self, event: Event, this: u64) -> Result<(), Stop> {
        if !self.guest.is_running() || event.origin == Origin::Software(SoftwareSource::Int) {
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

    /// Something has been written; a hypervisor may look after the instruction.
    #[inline]
    pub(crate) fn after_write(&mut self, what: Written) {
        if self.guest.svm.current.is_some() {
            self.svm_after_write(what);
        }
    }

    /// Whether events of the platform reach the processor at all, its own masks aside.
    /// [APM2 "Global Interrupt Flag, STGI and CLGI Instructions"]
    #[inline]
    pub(crate) fn admits_events(&self) -> bool {
        self.guest.svm.global_interrupts
    }

    /// Whether an INIT waits for the instruction boundary, since it may not come through as it is.
    pub(crate) fn holds_init(&self) -> bool {
        self.svm_holds_init() || self.guest.vmx.vmxon.is_some()
    }

    /// Whether an INIT goes on waiting. [SDM3 "Restrictions on VMX Operation"]
    pub(crate) fn blocks_init(&self) -> bool {
        self.guest.vmx.is_root()
    }

    /// The exception that an INIT becomes, where it does: vector and error code.
    pub(crate) fn init_becomes(&self) -> Option<(u8, u32)> {
        self.svm_init_becomes()
    }

    /// Whether a maskable interrupt may be taken now; `own` is what RFLAGS.IF and the interrupt
    /// shadow say.
    pub(crate) fn accepts_physical_interrupts(&self) -> bool {
        let own = self.own_interrupt_flag();
        if self.guest.vmx.current.is_some() {
            self.vmx_accepts_interrupts(own)
        } else {
            self.svm_accepts_interrupts(own)
        }
    }
}
