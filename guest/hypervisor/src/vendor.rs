//! The seam: what the two vendors' hardware does each in its own way. Everything else of this
//! hypervisor is written once, in words that both have.
//!
//! [`Vendor`] is what a machine has once (tables, permission maps, page tables), [`Control`] what a
//! vCPU has: a VMCB, or a VMCS. Neither knows the machine that uses it.

use crate::memory::Memory;
use crate::registers::Registers;
use crate::selection::Selection;
use crate::vapic::target::Target;
use arch::address::{GuestPhysical, Linear};
use arch::apic::{Icr, Mode};
use arch::control::Efer;

/// Bytes of the longest instruction.
pub const LONGEST_INSTRUCTION: usize = 15;

/// Why the guest was left.
#[derive(Clone, Copy, Debug)]
pub enum Exit {
    /// For something of the host's, which takes it by itself; or since the guest can take an
    /// interrupt now. What the guest shall take is decided before each entry.
    Interrupted,
    Cpuid,
    Halt,
    Hypercall,
    ReadMsr,
    WriteMsr,
    Port(PortAccess),
    /// An access to an address with nothing behind it, which is not carried out.
    Unmapped(GuestPhysical),
    /// An access to the register at this offset of the APIC page, which is not carried out.
    ApicAccess(u16),
    /// A write that is in the APIC page already, and in effect but for what we do.
    ApicWritten(u16),
    /// An interrupt command that the processor has not begun to carry out.
    CommandRefused(Icr),
    /// An interrupt command that is requested in the page of each target; those that do not run
    /// have to be woken.
    TargetsAsleep(Icr),
    /// Nothing can be done about it.
    Failed(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct PortAccess {
    pub port: u16,
    pub is_input: bool,
    /// The bits of RAX that take part.
    pub mask: u64,
}

/// What a failure report shows.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub code: u64,
    pub information: [u64; 2],
    pub rip: u64,
    pub cr0: u64,
    pub efer: u64,
}

/// How the guest's next instruction is found.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    pub rip: Linear,
    pub is_64_bit: bool,
    pub cr0: u64,
    pub cr3: u64,
    pub efer: u64,
    /// The bytes at RIP, where the processor reports them.
    pub bytes: Option<[u8; LONGEST_INSTRUCTION]>,
}

/// How an APIC register can be reached by its MSR.
#[derive(Clone, Copy, Debug)]
pub struct ApicMsr {
    pub is_readable: bool,
    /// The bits that a write may set.
    pub writable: Option<u64>,
}

/// An event that the guest shall take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Interrupt(u8),
    Nmi,
    Exception { vector: u8, error_code: Option<u32> },
}

/// Hardware virtualization of one vendor, as one machine uses it.
pub trait Vendor: Sized + Sync + 'static {
    /// What the processor can do, shown as members of the record `start`.
    type Features: Copy + core::fmt::Display;
    /// Tables of the machine, in memory that the processor reads.
    type Tables: Sync;
    type Control: Control<Self>;
    /// What senders write for a vCPU besides its APIC page.
    type Posted: Sync;

    /// What records and the command line call the interrupt virtualization.
    const ACCELERATION: &'static str;
    const WITHOUT_ACCELERATION: &'static str;
    /// The exits that statistics tell apart: names that KVM's users know, and codes.
    const REASONS: &'static [(&'static str, u64)];

    /// Refuses where what this hypervisor needs is missing, or firmware switched it off.
    fn features() -> Result<Self::Features, &'static str>;
    fn can_accelerate(features: &Self::Features) -> bool;

    /// Builds the tables of a machine in whose place nothing runs.
    fn prepare(
        features: Self::Features,
        selection: &Selection<'_>,
        is_accelerated: bool,
        memory: Memory,
        tables: &'static Self::Tables,
    ) -> Self;
    /// Makes a vCPU known to the tables; it does not run.
    fn admit(&self, target: &Target<Self::Posted>);

    /// Switches virtualization on, on this processor.
    fn enable(&self);
    /// Switches it off again.
    fn disable(&self);
    /// From here on nothing physical interrupts this processor but by leaving the guest.
    fn hold_off_interrupts();
    /// What has arrived meanwhile is taken now.
    fn hold_off_no_more();

    /// Whether the guest may have user interrupts.
    fn has_user_interrupts(&self) -> bool {
        false
    }
    /// Whether the processor stands in for an APIC in this mode.
    fn accelerates(&self, mode: Mode) -> bool;
    /// How the guest reaches an APIC register by its MSR; None for one that does not exist.
    fn apic_msr(msr: u32) -> Option<ApicMsr>;
    /// Says to senders on which physical processor a virtual one runs, or that it does not.
    fn set_running(&self, target: &Target<Self::Posted>, host: Option<u32>);
    /// Whether senders see it run.
    fn is_seen_running(&self, target: &Target<Self::Posted>) -> bool;
    /// Makes a request that the target finds when it looks.
    fn request(&self, target: &Target<Self::Posted>, vector: u8);
    /// The highest request that a target could take if it enabled interrupts.
    fn deliverable(&self, target: &Target<Self::Posted>) -> Option<u8> {
        target.page.deliverable()
    }
    /// Has a target look for requests while it stays in the guest; false if it has to leave.
    fn notify(&self, target: &Target<Self::Posted>, host: u32) -> bool;
    /// The same for a request that the processor made, and told nobody of since the target is not
    /// seen to run; false if it really does not.
    fn remind(&self, _host: u32) -> bool {
        false
    }
    /// The guest wrote the logical identifier or its format, in xAPIC mode.
    fn update_logical(&self, _target: &Target<Self::Posted>) {}
}

/// A vCPU, as the vendor's processor knows it.
pub trait Control<V: Vendor>: Send {
    /// As after INIT, for a processor that starts at a startup vector.
    fn reset(&mut self, vendor: &V, target: &Target<V::Posted>, mode: Mode, startup_vector: u8);
    /// The state in which a Multiboot loader leaves a processor: flat 32-bit protected mode.
    fn start_in_protected_mode(&mut self, rip: u32);
    /// Follows the mode of the guest's APIC.
    fn set_apic_mode(&mut self, vendor: &V, target: &Target<V::Posted>, mode: Mode);
    /// Makes ready to be entered on this physical processor, where others may have been.
    fn make_current(&mut self, vendor: &V, has_company: bool);

    /// Is not made ready on this physical processor any more.
    fn release(&mut self) {}

    /// Enters the guest, until its next exit.
    fn run(&mut self, vendor: &V, registers: &mut Registers);
    /// The raw reason of the last exit, by which it is counted.
    fn reason(&self) -> u64;
    fn exit(&self) -> Exit;
    fn report(&self) -> Report;

    /// Moves past the instruction that exited.
    fn skip(&mut self, vendor: &V);
    /// Moves past an instruction of this length that has been emulated.
    fn advance(&mut self, length: u8);
    fn fetch(&self, vendor: &V) -> Fetch;
    /// EFER as the guest sees it.
    fn efer(&self) -> Efer;
    fn set_efer(&mut self, value: Efer);

    /// Whether RFLAGS.IF is set.
    fn enables_interrupts(&self) -> bool;
    /// Whether the guest would take an interrupt at its next instruction.
    fn accepts_interrupts(&self) -> bool;
    /// Whether the processor processes `vector` as a notification of user interrupts.
    fn takes_as_notification(&self, _vector: u8) -> bool {
        false
    }
    /// Brings what the processor holds of the APIC into step with its page, and with what has
    /// been posted.
    fn load_apic(&mut self, target: &Target<V::Posted>);
    /// The other way round, where the processor has not written the page itself.
    fn store_apic(&mut self, target: &Target<V::Posted>);
    /// Has the next entry bring an event, at once.
    fn inject(&mut self, event: Event);
    /// Has the next entry bring an exception, before anything else.
    fn raise(&mut self, vector: u8, error_code: Option<u32>);
    /// Whether the last exit interrupted an event, or one was raised since.
    fn has_unfinished_event(&self) -> bool;
    /// Has the next entry bring that; false if there is none.
    fn resume_event(&mut self) -> bool;
    /// Asks for an exit as soon as the guest could take `vector`, or for none.
    fn request_window(&mut self, vector: Option<u8>, task_priority: u8);
}
