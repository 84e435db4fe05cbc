//! Effects: what one part causes in another, as values.

use arch::address::SystemPhysical;
use arch::apic::{InterruptMessage, Scope};
use arch::identity::{ApicId, CpuIndex, RequesterId, Vector};
use arch::msi::MessageSignalled;
use arch::svm::consistency::Illegal;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// Who put an access or an effect on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Initiator {
    Cpu(CpuIndex),
    Device(RequesterId),
    /// The board itself: loaders, debugger, firmware tables.
    Board,
}

/// What one part causes in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// A write into the interrupt window by a device or an I/O APIC, before remapping.
    MessageSignalled(MessageSignalled),
    /// An interprocessor interrupt. The initiator is the sender that `scope` refers to; a message
    /// to the sender itself comes this way too.
    Interrupt { message: InterruptMessage, scope: Scope },
    /// The level of a global system interrupt line (an I/O APIC pin; 0–15 also reach the 8259s).
    Line { gsi: u8, asserted: bool },
    /// The level of the 8259 pair's INTR output, wired to LINT0 and ExtINT pins.
    LegacyInterrupt { asserted: bool },
    /// A local APIC finished a level-triggered vector; I/O APICs clear Remote IRR.
    EndOfInterrupt { vector: Vector },
    /// A write to the AVIC doorbell MSR. [APM2 "AVIC Doorbell"]
    Doorbell { target: ApicId },
    /// ACPI or device power-off.
    PowerOff,
    /// Reset requested through a port or by shutdown of a processor.
    Reset,
    /// A value written to the debug-exit port; the run ends with status `value * 2 + 1`.
    DebugExit { value: u32 },
    /// Bytes for the console behind serial port `port`.
    Console { port: u8, byte: u8 },
    /// The guest wrote to port `port` of the console device that is the initiator; the bytes wait
    /// there.
    ChannelOutput { port: u8 },
}

/// What a processor did that nobody else needs to act upon, for traces and the run's hash. The
/// board turns it into records of the trace's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The handler of an external interrupt is entered; `ip` is what was interrupted.
    Interrupt {
        vector: Vector,
        ip: u64,
    },
    /// An exception is delivered.
    Exception {
        vector: u8,
        error: u32,
        ip: u64,
    },
    Halt {
        ip: u64,
    },
    Wake {
        ip: u64,
    },
    /// A guest of the processor stops. [APM2 "#VMEXIT"] [SDM3 "VM Exits"]
    VmExit(VmExit),
    /// What a guest stopped for, if it is a model-specific register: right behind the exit. The
    /// value is what it would write, zero of one it would read.
    MsrAccess {
        index: u32,
        is_write: bool,
        value: u64,
    },
    /// A guest runs. [APM2 "VMRUN Instruction"] [SDM3 "VM Entries"]
    VmEntry {
        block: ControlBlock,
        /// Of the nested page tables, if it has them.
        nested_root: Option<SystemPhysical>,
        injected: u64,
        ip: u64,
    },
    /// VMRUN refuses a VMCB; the exit follows, which does not say the rule.
    EntryRefused {
        vmcb: SystemPhysical,
        rule: Illegal,
    },
    /// A guest sends an IPI that its processor delivers by itself.
    VirtualIpi {
        block: ControlBlock,
        icr: u64,
    },
    /// A vector is put where a virtual processor finds it: the address of a backing page or of a
    /// posted-interrupt descriptor.
    Posted {
        place: SystemPhysical,
        vector: Vector,
    },
    /// A vector of a virtual APIC goes from IRR to ISR.
    VirtualAccept {
        block: ControlBlock,
        vector: Vector,
    },
    /// The handler of a virtual interrupt is entered without an exit; `ip` is what was interrupted.
    VirtualInterrupt {
        block: ControlBlock,
        vector: Vector,
        ip: u64,
    },
    /// A guest ends an interrupt of its virtual APIC without an exit.
    VirtualEndOfInterrupt {
        block: ControlBlock,
        vector: Vector,
    },
}

/// The control block that names a virtual processor, by the vendor whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlBlock {
    Vmcb(SystemPhysical),
    Vmcs(SystemPhysical),
}

impl ControlBlock {
    pub const fn address(self) -> SystemPhysical {
        match self {
            Self::Vmcb(address) | Self::Vmcs(address) => address,
        }
    }
}

/// Why a guest stops, in the fields that both vendors have, under their own names where one has
/// more than the other. Error codes are in bits 63:32 of what they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmExit {
    pub block: ControlBlock,
    /// EXITCODE; the exit reason.
    pub code: u64,
    /// EXITINFO1; the exit qualification.
    pub qualification: u64,
    /// EXITINFO2; the guest-physical address.
    pub address: u64,
    /// The VM-exit interruption information. SVM's code says it.
    pub event: u64,
    /// EXITINTINFO; the IDT-vectoring information.
    pub delivering: u64,
    /// The instruction's length in 31:0, its information above. SVM has it in the VMCB alone.
    pub instruction: u64,
    pub ip: u64,
}

/// Effects in the order in which they were caused.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    effects: Vec<(Initiator, Picoseconds, Effect)>,
}

impl Outbox {
    pub fn push(&mut self, initiator: Initiator, at: Picoseconds, effect: Effect) {
        self.effects.push((initiator, at, effect));
    }

    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Removes and yields all effects, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (Initiator, Picoseconds, Effect)> {
        self.effects.drain(..)
    }

    pub fn as_slice(&self) -> &[(Initiator, Picoseconds, Effect)] {
        &self.effects
    }
}
