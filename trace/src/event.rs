//! What happens in the machine, one value per happening.
//!
//! Every field is one 64-bit word at the edge ([`Word`]), so that one description of an event
//! serves the file format, the running hash, the text and the exports. Kinds keep their numbers for
//! good: files and hashes contain them; numbers that are not there (4, 9, 10, 15, 16, 23, 24, 34
//! to 36) were once reserved and never written. What exists is made by somebody, which `xtask tidy`
//! checks. Events of KVM's tracepoints have a vocabulary of their own, because a kernel's fields
//! mean what that kernel says they mean.

use crate::word::Word;
use arch::address::{Device, Linear, SystemPhysical};
use arch::apic::{DeliveryMode, DestinationMode, Scope};
use arch::identity::{ApicId, CpuIndex, RequesterId, Vector};
use arch::svm::consistency::Illegal;
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// A virtual processor of a guest hypervisor, named by the physical address of its VMCB or VMCS.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct VirtualCpu(pub SystemPhysical);

/// One happening on one processor. Records of one processor are in order of time; those of
/// different processors are in the order in which the board caused them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub at: Picoseconds,
    /// The processor on which it happened; the first for lines and messages of devices, which may
    /// stand before or behind what that one did at the time.
    pub cpu: CpuIndex,
    pub event: Event,
}

/// The most fields that an event has.
pub const MOST_FIELDS: usize = 8;

macro_rules! events {
    ($($(#[$doc:meta])* $number:literal $name:ident $label:literal {
        $($field:ident: $type:ty),* $(,)?
    })*) => {
        /// See the variants; each carries what the manual's own words name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Event {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl Event {
            /// Every kind's number, label and field names.
            pub const KINDS: &'static [(u8, &'static str, &'static [&'static str])] =
                &[$(($number, $label, &[$(stringify!($field)),*])),*];

            pub const fn kind(&self) -> u8 {
                match self {
                    $(Self::$name { .. } => $number,)*
                }
            }

            /// Whether it says nothing that happened, but something about it.
            pub const fn is_remark(&self) -> bool {
                matches!(self, Self::NestedRoot { .. })
            }

            /// The name in texts and exports.
            pub const fn label(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $label,)*
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
        vcpu: VirtualCpu,
        code: ExitCode,
        info1: u64,
        info2: u64,
        interrupt_info: u64,
        rip: Linear,
    }
    /// A virtual machine's exit. Error codes are in bits 63:32 of what they belong to, the
    /// instruction's length is in 31:0 of `instruction`, its information above. [SDM3 "VM Exits"]
    2 VmxExit "vm-exit" {
        vcpu: VirtualCpu,
        reason: u32,
        qualification: u64,
        guest_physical: u64,
        interruption: u64,
        vectoring: u64,
        instruction: u64,
        rip: Linear,
    }
    /// A virtual machine runs from `rip` on; `injected` is EVENTINJ or the entry
    /// interruption information.
    3 Entry "vm-entry" { vcpu: VirtualCpu, injected: u64, rip: Linear }
    /// A local APIC sent an interprocessor interrupt.
    5 InterruptSent "ipi" {
        destination: u32,
        destination_mode: DestinationMode,
        delivery_mode: DeliveryMode,
        vector: Vector,
        scope: Scope,
        is_level: bool,
    }
    /// A local APIC took a message in.
    6 InterruptAccepted "accept" { delivery_mode: DeliveryMode, vector: Vector, is_level: bool }
    /// A processor enters the handler of an external interrupt.
    7 InterruptDelivered "deliver" { vector: Vector, rip: Linear }
    8 EndOfInterrupt "eoi" { vector: Vector }
    /// The handler of a virtual interrupt is entered, without an exit. `rip` is what was
    /// interrupted.
    11 VirtualInterruptDelivered "virtual-deliver" { vcpu: VirtualCpu, vector: Vector, rip: Linear }
    /// A guest ends a virtual interrupt, without an exit.
    12 VirtualEndOfInterrupt "virtual-eoi" { vcpu: VirtualCpu, vector: Vector }
    /// A processor rings another's doorbell. [APM2 "Doorbell Mechanism"]
    13 Doorbell "doorbell" { target: ApicId }
    /// A vector is put into a backing page by a virtual IPI, or into a posted-interrupt descriptor.
    14 Posted "post" { place: SystemPhysical, vector: Vector }
    17 PortRead "in" { port: u16, size: u8, value: u32 }
    18 PortWrite "out" { port: u16, size: u8, value: u32 }
    19 DeviceRead "read" { address: SystemPhysical, size: u8, value: u64 }
    20 DeviceWrite "write" { address: SystemPhysical, size: u8, value: u64 }
    21 Halt "halt" { rip: Linear }
    22 Wake "wake" {}
    25 Exception "exception" { vector: Vector, error_code: u32, address: Linear, rip: Linear }
    /// A device writes into the interrupt window.
    26 MessageSignalled "msi" { requester: RequesterId, address: Device, data: u32 }
    27 Line "line" { gsi: u8, is_asserted: bool }
    /// The output of the 8259 pair.
    28 LegacyInterrupt "intr" { is_asserted: bool }
    29 PowerOff "power-off" {}
    30 Reset "reset" {}
    31 DebugExit "debug-exit" { value: u32 }
    /// The access that a virtual machine exited for, right behind its exit. What it would read is
    /// not known and zero.
    32 MsrRead "rdmsr" { index: u32, value: u64 }
    /// The same of a write, with the value that it would write.
    33 MsrWrite "wrmsr" { index: u32, value: u64 }
    /// A processor stops for good after a fault that it could not deliver.
    37 Shutdown "shutdown" { rip: Linear }
    /// A remark for readers of a file, and no part of the hash, since only a run that is traced has
    /// it: from the next entry on, a virtual machine has nested page tables at `root`.
    38 NestedRoot "nested-root" { vcpu: VirtualCpu, root: SystemPhysical }
    /// A guest sends an IPI that its processor delivers without an exit, or begins to.
    39 VirtualIpiSent "virtual-ipi" { vcpu: VirtualCpu, icr: u64 }
    /// A processor takes a vector of a virtual APIC from IRR into ISR.
    40 VirtualInterruptAccepted "virtual-accept" { vcpu: VirtualCpu, vector: Vector }
    /// VMRUN refuses a VMCB: what the exit behind it does not say.
    41 EntryRefused "entry-refused" { vcpu: VirtualCpu, rule: Illegal }
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
