//! What happens in the machine, one value per happening.
//!
//! Every field is one 64-bit word at the edge (`Word`), so that one description of an event
//! serves the file format, the running hash, the text and the exports. Kinds keep their numbers for
//! good: files and hashes contain them; numbers that are not there (4, 9, 10, 15, 16, 23, 24, 34
//! to 36) were once reserved and never written. Each that exists is made by a part, which `xtask
//! tidy` checks. Events of KVM's tracepoints have a vocabulary of their own, because a kernel's
//! fields mean what that kernel says they mean.

mod columns;

pub use columns::{Column, Value};

use crate::virtual_cpu::VirtualCpu;
use crate::word::Word;
use arch::address::{Device, Linear, SystemPhysical};
use arch::apic::{DeliveryMode, DestinationMode, Scope};
use arch::identity::{ApicId, CpuIndex, RequesterId, Vector};
use arch::svm::consistency::Illegal;
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use arch::vmx::AbortCode;
use arch::vmx::consistency::Broken;
use serde::{Deserialize, Serialize};

/// One happening on one processor. Records of one processor are in order of time; those of
/// different processors are in the order in which the board caused them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Since power-on.
    pub at: Picoseconds,
    /// The processor on which it happened; the first for lines and messages of devices, which may
    /// stand before or behind what that one did at the time.
    pub cpu: CpuIndex,
    /// What it was.
    pub event: Event,
}

/// The most fields that an event has.
pub const MOST_FIELDS: usize = 8;

macro_rules! events {
    ($($(#[$doc:meta])* $number:literal $name:ident $label:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
    })*) => {
        /// See the variants; each carries what the manual's own words name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Event {
            $(
                $(#[$doc])*
                $name {
                    $($(#[$field_doc])* $field: $type),*
                },
            )*
        }

        impl Event {
            /// Every kind's number, label and field names.
            pub const KINDS: &'static [(u8, &'static str, &'static [&'static str])] =
                &[$(($number, $label, &[$(stringify!($field)),*])),*];

            /// The number in files and hashes.
            pub const fn kind(&self) -> u8 {
                match self {
                    $(Self::$name { .. } => $number,)*
                }
            }

            /// Whether it says nothing that happened, but something about it.
            pub const fn is_remark(&self) -> bool {
                matches!(self, Self::NestedRoot { .. } | Self::VirtualApic { .. })
            }

            /// The name in texts and exports.
            pub const fn label(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $label,)*
                }
            }

            /// The fields of a kind of event, by its number; none if there is no such kind.
            pub fn columns_of(kind: u8) -> Vec<Column> {
                match kind {
                    $($number => vec![$(
                        Column {
                            name: stringify!($field),
                            is_named: <$type as Word>::is_named_of(),
                        }
                    ),*],)*
                    _ => Vec::new(),
                }
            }

            /// Calls `visit` with the name, the word and the text of each field, in order.
            pub(crate) fn fields(&self, mut visit: impl FnMut(&'static str, &dyn Word)) {
                match self {
                    $(Self::$name { $($field),* } => {
                        $(visit(stringify!($field), $field);)*
                        let _ = &mut visit;
                    })*
                }
            }

            /// Builds the event of a kind, taking a word per field. `None` if there is no such
            /// kind, or if a word is not a value of its field.
            pub(crate) fn from_words<E>(
                kind: u8,
                mut next: impl FnMut(bool) -> Result<u64, E>,
            ) -> Result<Option<Self>, E> {
                match kind {
                    $($number => {
                        $(
                            let word = next(<$type as Word>::is_address_of())?;
                            let Some($field) = <$type as Word>::from_word(word) else {
                                return Ok(None);
                            };
                        )*
                        Ok(Some(Self::$name { $($field),* }))
                    })*
                    _ => {
                        let _ = &mut next;
                        Ok(None)
                    }
                }
            }
        }
    };
}

events! {
    /// A virtual machine's exit. [APM2 "#VMEXIT"]
    1 SvmExit "vm-exit" {
        /// Whose.
        vcpu: VirtualCpu,
        /// EXITCODE.
        code: ExitCode,
        /// EXITINFO1, by code.
        info1: u64,
        /// EXITINFO2, by code.
        info2: u64,
        /// EXITINTINFO: the event whose delivery the exit interrupted.
        interrupt_info: u64,
        /// Where the guest goes on if nothing changes that.
        rip: Linear,
    }
    /// A virtual machine's exit. Error codes are in bits 63:32 of what they belong to, the
    /// instruction's length is in 31:0 of `instruction`, its information above. [SDM3 "VM Exits"]
    2 VmxExit "vm-exit" {
        /// Whose.
        vcpu: VirtualCpu,
        /// The exit-reason field.
        reason: u32,
        /// By reason.
        qualification: u64,
        /// Of EPT violations and misconfigurations.
        guest_physical: u64,
        /// The VM-exit interruption information.
        interruption: u64,
        /// The IDT-vectoring information.
        vectoring: u64,
        /// Length and information of the instruction that exited.
        instruction: u64,
        /// Where the guest goes on if nothing changes that.
        rip: Linear,
    }
    /// A virtual machine runs from `rip` on; `injected` is EVENTINJ or the entry
    /// interruption information.
    3 Entry "vm-entry" {
        /// Whose.
        vcpu: VirtualCpu,
        /// 0 if none.
        injected: u64,
        /// Of the guest.
        rip: Linear,
    }
    /// A local APIC sent an interprocessor interrupt.
    5 InterruptSent "ipi" {
        /// An APIC ID or a logical mask.
        destination: u32,
        /// Which of the two.
        destination_mode: DestinationMode,
        /// As the ICR has it.
        delivery_mode: DeliveryMode,
        /// As the ICR has it.
        vector: Vector,
        /// The shorthand; `destination` counts under the first one alone.
        scope: Scope,
        /// Trigger mode: level, not edge.
        is_level: bool,
    }
    /// A local APIC took a message in.
    6 InterruptAccepted "accept" {
        /// Of the message.
        delivery_mode: DeliveryMode,
        /// Of the message.
        vector: Vector,
        /// Trigger mode: level, not edge.
        is_level: bool,
    }
    /// A processor enters the handler of an external interrupt.
    7 InterruptDelivered "deliver" {
        /// Of the handler.
        vector: Vector,
        /// What was interrupted.
        rip: Linear,
    }
    /// A local APIC ends a level-triggered vector, of which I/O APICs hear.
    8 EndOfInterrupt "eoi" {
        /// The highest in service.
        vector: Vector,
    }
    /// The handler of a virtual interrupt is entered, without an exit. `rip` is what was
    /// interrupted.
    11 VirtualInterruptDelivered "virtual-deliver" {
        /// Whose.
        vcpu: VirtualCpu,
        /// Of the handler.
        vector: Vector,
        /// What was interrupted.
        rip: Linear,
    }
    /// A guest ends a virtual interrupt, without an exit.
    12 VirtualEndOfInterrupt "virtual-eoi" {
        /// Whose.
        vcpu: VirtualCpu,
        /// The highest in service.
        vector: Vector,
    }
    /// A processor rings another's doorbell. [APM2 "Doorbell Mechanism"]
    13 Doorbell "doorbell" {
        /// The other's.
        target: ApicId,
    }
    /// A vector is put into a backing page by a virtual IPI, or into a posted-interrupt descriptor.
    14 Posted "post" {
        /// Address of the page or of the descriptor.
        place: SystemPhysical,
        /// Requested from now on.
        vector: Vector,
    }
    /// IN of a port of a device.
    17 PortRead "in" {
        /// I/O address.
        port: u16,
        /// Bytes: 1, 2 or 4.
        size: u8,
        /// Zero-extended.
        value: u32,
    }
    /// OUT to a port of a device.
    18 PortWrite "out" {
        /// I/O address.
        port: u16,
        /// Bytes: 1, 2 or 4.
        size: u8,
        /// Zero-extended.
        value: u32,
    }
    /// A read of a device's memory.
    19 DeviceRead "read" {
        /// Of the first byte.
        address: SystemPhysical,
        /// Bytes: 1, 2, 4 or 8.
        size: u8,
        /// Zero-extended.
        value: u64,
    }
    /// A write to a device's memory.
    20 DeviceWrite "write" {
        /// Of the first byte.
        address: SystemPhysical,
        /// Bytes: 1, 2, 4 or 8.
        size: u8,
        /// Zero-extended.
        value: u64,
    }
    /// HLT or the like: the processor waits for an interrupt.
    21 Halt "halt" {
        /// Behind the instruction.
        rip: Linear,
    }
    /// What the processor waited for came.
    22 Wake "wake" {}
    /// An exception is delivered.
    25 Exception "exception" {
        /// Below 32.
        vector: Vector,
        /// 0 for vectors that have none.
        error_code: u32,
        /// Always 0: CR2 is not told.
        address: Linear,
        /// What the handler finds on its stack.
        rip: Linear,
    }
    /// A device writes into the interrupt window.
    26 MessageSignalled "msi" {
        /// Who the bus says it is.
        requester: RequesterId,
        /// Of the write, before remapping.
        address: Device,
        /// Of the write, before remapping.
        data: u32,
    }
    /// A line into the interrupt controllers changes.
    27 Line "line" {
        /// Global system interrupt: the I/O APIC's pin.
        gsi: u8,
        /// The level from now on, whatever the polarity.
        is_asserted: bool,
    }
    /// The output of the 8259 pair.
    28 LegacyInterrupt "intr" {
        /// INTR from now on.
        is_asserted: bool,
    }
    /// Software switches the machine off, which ends the run.
    29 PowerOff "power-off" {}
    /// A port or a processor's shutdown resets the machine.
    30 Reset "reset" {}
    /// Software ends the run through the debug-exit port.
    31 DebugExit "debug-exit" {
        /// What it wrote; the exit status is this, doubled, plus one.
        value: u32,
    }
    /// The access that a virtual machine exited for, right behind its exit. What it would read is
    /// not known and zero.
    32 MsrRead "rdmsr" {
        /// The MSR's number.
        index: u32,
        /// 0.
        value: u64,
    }
    /// The same of a write, with the value that it would write.
    33 MsrWrite "wrmsr" {
        /// The MSR's number.
        index: u32,
        /// EDX:EAX.
        value: u64,
    }
    /// A processor stops for good after a fault that it could not deliver.
    37 Shutdown "shutdown" {
        /// Of the instruction that faulted last.
        rip: Linear,
    }
    /// A remark for readers of a file, and no part of the hash, since only a run that is traced has
    /// it: from the next entry on, a virtual machine has nested page tables at `root`.
    38 NestedRoot "nested-root" {
        /// Whose.
        vcpu: VirtualCpu,
        /// Address of the topmost table.
        root: SystemPhysical,
    }
    /// A guest sends an IPI that its processor delivers without an exit, or begins to.
    39 VirtualIpiSent "virtual-ipi" {
        /// Whose.
        vcpu: VirtualCpu,
        /// All 64 bits, or what stands for them.
        icr: u64,
    }
    /// A processor takes a vector of a virtual APIC from IRR into ISR.
    40 VirtualInterruptAccepted "virtual-accept" {
        /// Whose.
        vcpu: VirtualCpu,
        /// The one.
        vector: Vector,
    }
    /// VMRUN refuses a VMCB: what the exit behind it does not say.
    41 EntryRefused "entry-refused" {
        /// The VMCB.
        vcpu: VirtualCpu,
        /// The first that it was found to break.
        rule: Illegal,
    }
    /// A processor moves the requests of a posted-interrupt descriptor to the virtual APIC of the
    /// guest that it runs. [SDM3 "Posted-Interrupt Processing"]
    42 PostedTaken "post-taken" {
        /// Whose.
        vcpu: VirtualCpu,
        /// Address of the descriptor.
        place: SystemPhysical,
        /// The highest that is requested now; 0 if none is.
        vector: Vector,
    }
    /// An IOMMU logs an interrupt for a vCPU that does not run.
    /// [IOMMU "Guest Virtual APIC Log"]
    43 GuestLogged "ga-log" {
        /// Whose interrupt it is.
        requester: RequesterId,
        /// What the hypervisor gave the vCPU: GATag.
        tag: u32,
    }
    /// An IOMMU refuses an access or an interrupt of a function, or a command, whether or not its
    /// log has room for that. [IOMMU "Event Logging"]
    44 IommuEvent "iommu-event" {
        /// Whose access or interrupt it is; 0 for commands.
        requester: RequesterId,
        /// As the log has it: 2 is a page fault or an interrupt without an entry.
        kind: u8,
        /// As the log has them, bits 27:16 of its second dword.
        flags: u32,
        /// What was accessed, or where a command lies.
        address: Device,
    }
    /// A DMA remapping unit refuses an access or an interrupt of a function, whether or not its
    /// record has room for that. [VTD "Fault Recording Registers"]
    45 RemappingFault "dmar-fault" {
        /// Whose access or interrupt it is.
        requester: RequesterId,
        /// As the record has it: 05h is a write without a page, 22h an interrupt without an entry.
        reason: u8,
        /// The page of an access; bits 63:48 are the index of an interrupt.
        address: Device,
    }
    /// A remark like [`Event::NestedRoot`]: from the next entry on, the processor delivers
    /// interrupts of a virtual APIC to a guest by itself, or no longer, as a hypervisor that
    /// inhibits AVIC or APICv has it.
    46 VirtualApic "virtual-apic" {
        /// Whose.
        vcpu: VirtualCpu,
        /// Whether it does.
        is_on: bool,
    }
    /// VMLAUNCH or VMRESUME refuses a VMCS: what the instruction error or the exit behind it does
    /// not say.
    47 VmxEntryRefused "vmx-entry-refused" {
        /// The VMCS.
        vcpu: VirtualCpu,
        /// The first that it was found to break.
        rule: Broken,
    }
    /// A VM exit could not be completed: the processor shuts down. [SDM3 "VMX Aborts"]
    48 VmxAbort "vmx-abort" {
        /// The VMCS, whose abort indicator has the code too.
        vcpu: VirtualCpu,
        /// What went wrong.
        code: AbortCode,
        /// The entry of the MSR list that stopped it, counted from 1; 0 where it was none.
        entry: u32,
    }
    /// SENDUIPI posts a user interrupt. [SDM2 "SENDUIPI"]
    49 UserPosted "user-post" {
        /// The receiver's descriptor.
        descriptor: Linear,
        /// The user-interrupt vector.
        vector: u8,
        /// Whether a notification is sent.
        notifies: bool,
    }
    /// A processor takes what a notification announces out of its descriptor, in place of an
    /// interrupt's handler. [SDM3 "User-Interrupt Notification Processing"]
    50 UserNotification "user-notify" {
        /// The receiver's descriptor.
        descriptor: Linear,
        /// UIRR, a bit for each vector, with what was posted.
        requests: u64,
    }
    /// The handler of user interrupts is entered. [SDM3 "User-Interrupt Delivery"]
    51 UserInterruptDelivered "user-deliver" {
        /// The user-interrupt vector.
        vector: u8,
        /// What was interrupted.
        rip: Linear,
    }
}

impl Event {
    /// The address of code that it names.
    pub const fn rip(&self) -> Option<Linear> {
        match self {
            Self::SvmExit { rip, .. }
            | Self::VmxExit { rip, .. }
            | Self::Entry { rip, .. }
            | Self::InterruptDelivered { rip, .. }
            | Self::VirtualInterruptDelivered { rip, .. }
            | Self::UserInterruptDelivered { rip, .. }
            | Self::Halt { rip }
            | Self::Exception { rip, .. }
            | Self::Shutdown { rip } => Some(*rip),
            _ => None,
        }
    }
}

impl core::fmt::Display for Record {
    /// Time in nanoseconds to the picosecond, processor, event, fields.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (ns, ps) = (self.at.0 / 1000, self.at.0 % 1000);
        let label = self.event.label();
        write!(f, "{ns:>14}.{ps:03} cpu{:<4} {label:<16}", self.cpu.0)?;
        let mut result = Ok(());
        self.event.fields(|name, word| {
            if result.is_ok() {
                result = write!(f, " {name}={}", crate::word::Shown(word));
            }
        });
        result
    }
}
