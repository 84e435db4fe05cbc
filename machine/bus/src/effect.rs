//! Effects: what one part causes in another, as values.

use arch::address::{Linear, SystemPhysical};
use arch::apic::{InterruptMessage, Scope};
use arch::identity::{ApicId, CpuIndex, RequesterId, Vector};
use arch::msi::MessageSignalled;
use arch::svm::consistency::Illegal;
use arch::time::Picoseconds;
use arch::vmx::AbortCode;
use arch::vmx::consistency::Broken;
use serde::{Deserialize, Serialize};

/// Who put an access or an effect on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Initiator {
    /// A processor.
    Cpu(CpuIndex),
    /// A function or a bridge, by the name that an IOMMU sees.
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
    Interrupt {
        /// What its receivers take, before its destination has been looked up.
        message: InterruptMessage,
        /// Whether the destination counts, or a set that follows from the sender.
        scope: Scope,
    },
    /// The level of a global system interrupt line (an I/O APIC pin; 0–15 also reach the 8259s).
    Line {
        /// 0–15 are the ISA lines.
        gsi: u8,
        /// Its level from now on, whatever the polarity.
        asserted: bool,
    },
    /// The level of the 8259 pair's INTR output, wired to LINT0 and ExtINT pins.
    LegacyInterrupt {
        /// INTR's level from now on.
        asserted: bool,
    },
    /// A local APIC finished a level-triggered vector; I/O APICs clear Remote IRR.
    EndOfInterrupt {
        /// The highest that was in service.
        vector: Vector,
    },
    /// A write to the AVIC doorbell MSR. [APM2 "AVIC Doorbell"]
    Doorbell {
        /// APIC ID of the core to be told.
        target: ApicId,
    },
    /// ACPI or device power-off.
    PowerOff,
    /// Reset requested through a port or by shutdown of a processor.
    Reset,
    /// A value written to the debug-exit port; the run ends with status `value * 2 + 1`.
    DebugExit {
        /// Doubled and plus one it is the exit status.
        value: u32,
    },
    /// Bytes for the console behind serial port `port`.
    Console {
        /// 0 is COM1.
        port: u8,
        /// As the guest sent it.
        byte: u8,
    },
    /// The guest wrote to port `port` of the console device that is the initiator; the bytes wait
    /// there.
    ChannelOutput {
        /// By the console device's own numbering.
        port: u8,
    },
}

/// What a processor did that nobody else needs to act upon, for traces and the run's hash. The
/// board turns it into records of the trace's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The handler of an external interrupt is entered; `ip` is what was interrupted.
    Interrupt {
        /// Of the handler.
        vector: Vector,
        /// Of the instruction that was to be next.
        ip: u64,
    },
    /// An exception is delivered.
    Exception {
        /// Below 32.
        vector: u8,
        /// 0 for vectors that have none.
        error: u32,
        /// What the handler finds on its stack.
        ip: u64,
    },
    /// HLT, or what else waits for an interrupt.
    Halt {
        /// Of the instruction behind it.
        ip: u64,
    },
    /// What the processor waited for has come.
    Wake {
        /// Of the instruction behind HLT.
        ip: u64,
    },
    /// A guest of the processor stops. [APM2 "#VMEXIT"] [SDM3 "VM Exits"]
    VmExit(VmExit),
    /// What a guest stopped for, if it is a model-specific register: right behind the exit. The
    /// value is what it would write, zero of one it would read.
    MsrAccess {
        /// The MSR's number.
        index: u32,
        /// WRMSR, not RDMSR.
        is_write: bool,
        /// EDX:EAX of WRMSR.
        value: u64,
    },
    /// A guest runs. [APM2 "VMRUN Instruction"] [SDM3 "VM Entries"]
    VmEntry {
        /// Whose.
        block: ControlBlock,
        /// Of the nested page tables, if it has them.
        nested_root: Option<SystemPhysical>,
        /// Whether the processor delivers interrupts of a virtual APIC to it.
        has_virtual_apic: bool,
        /// EVENTINJ; the VM-entry interruption information. 0 if none.
        injected: u64,
        /// Where the guest goes on.
        ip: u64,
    },
    /// VMRUN refuses a VMCB; the exit follows, which does not say the rule.
    EntryRefused {
        /// Its address.
        vmcb: SystemPhysical,
        /// The first that it was found to break.
        rule: Illegal,
    },
    /// VMLAUNCH or VMRESUME refuses a VMCS; what it reports does not say the rule.
    VmxEntryRefused {
        /// Its address.
        vmcs: SystemPhysical,
        /// The first that it was found to break.
        rule: Broken,
    },
    /// A VM exit cannot be completed, and the processor shuts down. [SDM3 "VMX Aborts"]
    VmxAbort {
        /// Its address.
        vmcs: SystemPhysical,
        /// What went wrong, as the VMX-abort indicator has it.
        code: AbortCode,
        /// The entry of the MSR list that stopped it, counted from 1; 0 where it was none.
        entry: u32,
    },
    /// A guest sends an IPI that its processor delivers by itself.
    VirtualIpi {
        /// The sender's.
        block: ControlBlock,
        /// All 64 bits, or what stands for them.
        icr: u64,
    },
    /// A vector is put where a vCPU finds it: the address of a backing page or of a
    /// posted-interrupt descriptor.
    Posted {
        /// Where the vector now is.
        place: SystemPhysical,
        /// The one.
        vector: Vector,
    },
    /// The requests of a posted-interrupt descriptor go to the virtual APIC of the guest that runs.
    /// [SDM3 "Posted-Interrupt Processing"]
    PostedTaken {
        /// Whose.
        block: ControlBlock,
        /// The descriptor's address.
        place: SystemPhysical,
        /// The highest that is requested now; 0 if none is.
        vector: Vector,
    },
    /// A vector of a virtual APIC goes from IRR to ISR.
    VirtualAccept {
        /// Whose.
        block: ControlBlock,
        /// The one.
        vector: Vector,
    },
    /// The handler of a virtual interrupt is entered without an exit; `ip` is what was interrupted.
    VirtualInterrupt {
        /// Whose.
        block: ControlBlock,
        /// Of the handler.
        vector: Vector,
        /// Of the instruction that was to be next.
        ip: u64,
    },
    /// A guest ends an interrupt of its virtual APIC without an exit.
    VirtualEndOfInterrupt {
        /// Whose.
        block: ControlBlock,
        /// The highest in service.
        vector: Vector,
    },
    /// SENDUIPI posts a user interrupt. [SDM2 "SENDUIPI"]
    UserPosted {
        /// Of the receiver's descriptor.
        descriptor: Linear,
        /// The user-interrupt vector.
        vector: u8,
        /// Whether a notification is sent.
        notifies: bool,
    },
    /// A notification of user interrupts is processed, in place of an interrupt's handler.
    /// [SDM3 "User-Interrupt Notification Processing"]
    UserNotification {
        /// Of the receiver's descriptor.
        descriptor: Linear,
        /// UIRR, a bit for each vector, with what was posted.
        requests: u64,
    },
    /// The handler of user interrupts is entered; `ip` is what was interrupted.
    /// [SDM3 "User-Interrupt Delivery"]
    UserInterrupt {
        /// The user-interrupt vector.
        vector: u8,
        /// Of the instruction that was to be next.
        ip: u64,
    },
}

/// The control block that names a vCPU, by the vendor whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlBlock {
    /// AMD's.
    Vmcb(SystemPhysical),
    /// Intel's.
    Vmcs(SystemPhysical),
}

impl ControlBlock {
    /// The block's physical address, which names it.
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
    /// Whose.
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
    /// Where the guest goes on if nothing changes that.
    pub ip: u64,
}

/// Effects in the order in which they were caused.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    effects: Vec<(Initiator, Picoseconds, Effect)>,
}

impl Outbox {
    /// Adds an effect that `initiator` causes at the time `at` on its clock.
    pub fn push(&mut self, initiator: Initiator, at: Picoseconds, effect: Effect) {
        self.effects.push((initiator, at, effect));
    }

    /// Whether nothing has been caused since the last [`Self::drain`].
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Removes the effect that is the only one.
    pub fn take_only(&mut self) -> Option<(Initiator, Picoseconds, Effect)> {
        if self.effects.len() == 1 { self.effects.pop() } else { None }
    }

    /// Removes and yields all effects, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, (Initiator, Picoseconds, Effect)> {
        self.effects.drain(..)
    }

    /// The effects so far, oldest first.
    pub fn as_slice(&self) -> &[(Initiator, Picoseconds, Effect)] {
        &self.effects
    }
}
