//! What hardware virtualization has to answer, a vendor each.
//!
//! The questions about a guest are put to the vendor that runs it; what they come to without a
//! guest stands in [`super::dispatch`]. Those about the processor itself are put to every vendor:
//! one that the model does not have answers as if it were not there, which is what the defaults
//! say.

use super::arrival::{Arrival, Written};
use super::rounds::{Apart, Stamps};
use super::row::Row;
use super::sensitive::Sensitive;
use crate::memory::{Access, Located};
use crate::operation::Op;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::control::{Cr4, Efer};
use arch::time::Picoseconds;
use arch::uintr::NotificationControl;

/// A vendor's hardware virtualization.
pub(crate) trait Vendor {
    /// What counts or times a guest's PAUSEs.
    type Pauses: Copy;

    /// What waits at an instruction boundary, the highest priority first.
    const ORDER: &'static [Row];

    /// Whether an instruction's operands are refused before its exit is looked at.
    const REFUSES_FIRST: bool;

    /// An instruction is about to do its work: `Err` is the exit of the guest that it runs in.
    fn before(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, what: Sensitive) -> Result<(), Stop>;
    /// An instruction lacks the privilege that it needs: `Err` is the exit that comes before its
    /// exception.
    fn before_privilege(_: &mut Cpu, _: &mut Bus<'_>, _: &Op, _: Sensitive) -> Result<(), Stop> {
        Ok(())
    }
    /// An event is about to be taken: `Err` is the exit of the guest.
    fn arrives(cpu: &mut Cpu, event: Arrival) -> Result<(), Stop>;
    /// Something has been written; a hypervisor may look after the instruction.
    fn after_write(_: &mut Cpu, _: Written) {}
    /// Leaves the guest for the reason recorded.
    fn leave(cpu: &mut Cpu, bus: &mut Bus<'_>);
    /// A VM exit interrupted the delivery of a software interrupt that returns to `next`.
    fn report_next_ip(_: &mut Cpu, _next: u64) {}

    /// What the last instruction, or the entry, left to be done. True while some of it is left,
    /// which comes before the next instruction.
    fn finish_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<bool, Stop>;
    /// Whether a maskable interrupt may be taken; `own` is what RFLAGS.IF and the shadow say.
    fn accepts_interrupts(cpu: &Cpu, own: bool) -> bool;
    /// Whether an interrupt that leaves the guest is acknowledged on the way.
    fn acknowledges(_: &Cpu) -> bool {
        false
    }
    /// An interrupt was acknowledged on the way out of the guest, or to be taken within it.
    fn acknowledged(cpu: &mut Cpu, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop>;
    /// Events of the guest that no physical event stands for, after all physical ones.
    fn take_virtual(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop>;
    /// The exit that an event's delivery at this boundary has made due.
    fn exit_after_delivery(_: &mut Cpu) -> Result<(), Stop> {
        Ok(())
    }
    /// An event has been delivered.
    fn note_delivery(_: &mut Cpu) {}
    /// Whether an event of the guest would end HLT now.
    fn has_virtual_event(cpu: &mut Cpu, bus: &mut Bus<'_>) -> bool;
    /// Whether a guest that waits has a reason to leave that is not an event.
    fn wakes(_: &Cpu) -> bool {
        false
    }
    /// The guest is woken.
    fn note_wake(_: &mut Cpu) {}
    /// A startup message has come to a guest that waits for one.
    fn startup(_: &mut Cpu, _vector: u8) {}
    /// When the guest is going to leave by itself.
    fn deadline(_: &Cpu) -> Option<Picoseconds> {
        None
    }
    /// IRET ends the blocking of NMIs, or of those that are virtual.
    fn unblock_nmis(cpu: &mut Cpu);

    /// Translates the place of an operand or of code.
    fn operand_to_system(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
    ) -> Result<Located, Stop>;
    /// Translates the place of an entry of the guest's own page tables.
    fn table_to_system(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<SystemPhysical, Stop>;
    /// Whether accessed and dirty flags may be set in an entry of the guest's tables, where reads
    /// of them do not count as writes already.
    fn check_table_update(_: &mut Cpu, _: &mut Bus<'_>, _: SystemPhysical) -> Result<(), Stop> {
        Ok(())
    }
    /// Whether writes and fetches through the translation made last need no further walk.
    fn nested_grants(cpu: &Cpu) -> (bool, bool);

    /// The exit of an access to the guest's APIC page, before anything is read or written.
    fn check_apic_page(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop>;
    /// A read that has been checked.
    fn read_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64;
    /// A write that has been checked.
    fn write_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64);

    /// SENDUIPI's notification to `receiver`: true if the guest's APIC is virtual.
    fn notify(_: &mut Cpu, _: &mut Bus<'_>, _receiver: NotificationControl) -> bool {
        false
    }

    /// The time-stamp counter as the guest reads it.
    fn tsc(cpu: &Cpu) -> u64;
    /// CR8 of a guest whose task priority is virtual; `None` where it is the processor's.
    fn read_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Option<u64>;
    /// True if CR8 was virtual.
    fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> bool;
    /// CR0 as the guest reads it.
    fn shown_cr0(_: &Cpu, actual: u64) -> u64 {
        actual
    }
    /// CR4 as the guest reads it.
    fn shown_cr4(_: &Cpu, actual: u64) -> u64 {
        actual
    }
    /// What the guest's write of `value` makes of CR0.
    fn resulting_cr0(_: &Cpu, value: u64) -> u64 {
        value
    }
    /// What the guest's write of `value` makes of CR4.
    fn resulting_cr4(_: &Cpu, value: u64) -> u64 {
        value
    }

    /// The guest's PAUSEs so far.
    fn pauses(cpu: &Cpu) -> Option<Self::Pauses>;
    /// As they were.
    fn set_pauses(cpu: &mut Cpu, pauses: Self::Pauses);
    /// Counts a PAUSE of the guest now; false if it exits.
    fn passes_pause(cpu: &mut Cpu) -> bool;
    /// Counts rounds of PAUSEs that come after one that has passed, `most` at most: how many pass;
    /// `None` if each PAUSE must be looked at.
    fn pass_rounds(cpu: &mut Cpu, apart: Apart, stamps: Stamps<'_>, most: u64) -> Option<u64>;

    /// Whether events of the platform reach the processor at all, its own masks aside.
    fn admits_events(_: &Cpu) -> bool {
        true
    }
    /// Whether an INIT waits for the instruction boundary.
    fn holds_init(cpu: &Cpu) -> bool;
    /// Whether an INIT goes on waiting there.
    fn blocks_init(_: &Cpu) -> bool {
        false
    }
    /// The exception that an INIT becomes, where it does: vector and error code.
    fn init_becomes(_: &Cpu) -> Option<(u8, u32)> {
        None
    }
    /// Whether CR0 may become `value`.
    fn permits_cr0(_: &Cpu, _value: u64) -> bool {
        true
    }
    /// Whether CR4 may become `value`.
    fn permits_cr4(_: &Cpu, _value: Cr4) -> bool {
        true
    }
    /// Whether EFER may become `value`.
    fn permits_efer(_: &Cpu, _value: Efer) -> bool {
        true
    }
    /// RDMSR of one of the vendor's own MSRs, or of one that the guest sees in another form; `None`
    /// for any other.
    fn read_msr(cpu: &mut Cpu, bus: &mut Bus<'_>, number: u32) -> Option<Result<u64, Stop>>;
    /// As `read_msr`, for WRMSR.
    fn write_msr(
        cpu: &mut Cpu,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>>;
}
