//! Who stands behind the seam: the questions of the flow, put to the vendor that runs the guest, or
//! answered for a processor without one.
//!
//! They are methods of the processor, not functions of this file: who asks lies below it, and the
//! vendors use those who ask, so that a path to this file would close a circle through all of them.

use super::arrival::{Arrival, Written};
use super::boundary;
use super::pause;
use super::rounds::Rounds;
use super::running::Running;
use super::sensitive::Sensitive;
use super::vendor::Vendor;
use crate::execute::Family;
use crate::memory::{Access, Located};
use crate::operation::Op;
use crate::svm::{self, Svm};
use crate::vmx::{self, Vmx};
use crate::{Attention, Bus, Cpu, RunEnd, Stop};
use arch::address::SystemPhysical;
use arch::control::{Cr4, Efer};
use arch::time::Picoseconds;
use arch::uintr::NotificationControl;

/// The vendors' own instructions.
pub(crate) const FAMILIES: &[Family] = &[svm::instruction::bind, vmx::instruction::bind];

/// What a question comes to: without a guest, or at the guest's vendor.
macro_rules! guest {
    ($cpu:expr, $bare:expr, $question:ident($($argument:expr),*)) => {
        match $cpu.guest.running {
            Running::Bare => $bare,
            Running::Svm(_) => Svm::$question($cpu $(, $argument)*),
            Running::Vmx(_) => Vmx::$question($cpu $(, $argument)*),
        }
    };
}

/// Instructions and events.
impl Cpu {
    /// Whether a guest runs.
    pub fn is_guest(&self) -> bool {
        self.guest.running.is_guest()
    }

    /// Whether the instruction goes on: `Err` is the exit of the guest that it runs in.
    #[inline(always)]
    pub(crate) fn before(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        what: Sensitive,
    ) -> Result<(), Stop> {
        guest!(self, Ok(()), before(bus, op, what))
    }

    /// As `before`, of an instruction whose operands `check` can refuse. Where that comes after the
    /// exit, or there is no guest, it is left to the instruction's work.
    #[inline(always)]
    pub(crate) fn before_checked(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        what: Sensitive,
        check: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let is_first = match self.guest.running {
            Running::Bare => return Ok(()),
            Running::Svm(_) => Svm::REFUSES_FIRST,
            Running::Vmx(_) => Vmx::REFUSES_FIRST,
        };
        if is_first {
            check(self)?;
        }
        self.before(bus, op, what)
    }

    /// The instruction lacks the privilege that it needs: `Err` is the exit that comes first.
    pub(crate) fn before_privilege(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        what: Sensitive,
    ) -> Result<(), Stop> {
        guest!(self, Ok(()), before_privilege(bus, op, what))
    }

    /// Whether the event is taken where the processor is: `Err` is the exit of the guest.
    #[inline]
    pub(crate) fn arrives(&mut self, event: Arrival) -> Result<(), Stop> {
        guest!(self, Ok(()), arrives(event))
    }

    /// Something has been written; a hypervisor may look after the instruction.
    #[inline]
    pub(crate) fn after_write(&mut self, what: Written) {
        guest!(self, (), after_write(what))
    }

    /// Leaves the guest for the reason recorded.
    pub(crate) fn leave_virtual_machine(&mut self, bus: &mut Bus<'_>) {
        bus.memory.publish_stores();
        guest!(self, (), leave(bus));
        self.let_others_look();
    }

    /// A VM exit interrupted the delivery of a software interrupt that returns to `next`.
    pub(crate) fn report_next_ip(&mut self, next: u64) {
        guest!(self, (), report_next_ip(next))
    }
}

/// The instruction boundary.
impl Cpu {
    /// Looks at everything that waits.
    pub(crate) fn attend(&mut self, bus: &mut Bus<'_>) -> Result<(), RunEnd> {
        match self.guest.vmx.capabilities {
            Some(_) => boundary::attend(self, bus, Vmx::ORDER),
            None => boundary::attend(self, bus, Svm::ORDER),
        }
    }

    /// What the last instruction, or an entry, left to be done; true while some of it is left.
    pub(crate) fn finish_instruction(&mut self, bus: &mut Bus<'_>) -> Result<bool, Stop> {
        if !self.is_guest() {
            self.pending.clear(Attention::GUEST_BOUNDARY);
        }
        guest!(self, Ok(false), finish_instruction(bus))
    }

    /// Whether a maskable interrupt may be taken now.
    pub(crate) fn accepts_physical_interrupts(&self) -> bool {
        let own = self.own_interrupt_flag();
        guest!(self, own && self.admits_events(), accepts_interrupts(own))
    }

    /// Whether an interrupt that leaves the guest is acknowledged on the way.
    pub(crate) fn acknowledges_for_exit(&self) -> bool {
        guest!(self, false, acknowledges())
    }

    /// The interrupt was acknowledged on the way out.
    pub(crate) fn acknowledged(&mut self, bus: &mut Bus<'_>, vector: u8) -> Result<(), Stop> {
        guest!(self, Ok(()), acknowledged(bus, vector))
    }

    /// Events of the running guest that no physical event stands for.
    pub(crate) fn take_virtual(&mut self, bus: &mut Bus<'_>) -> Result<(), Stop> {
        if !self.is_guest() {
            // STI and kin raise the flag whether there is a guest or not.
            self.pending.clear(Attention::VIRTUAL);
        }
        guest!(self, Ok(()), take_virtual(bus))
    }

    /// The exit that an event's delivery at this boundary has made due.
    pub(crate) fn exit_after_delivery(&mut self) -> Result<(), Stop> {
        guest!(self, Ok(()), exit_after_delivery())
    }

    /// An event has been delivered.
    pub(crate) fn note_delivery(&mut self) {
        guest!(self, (), note_delivery())
    }

    /// Whether an event of the running guest would end HLT now.
    pub(crate) fn has_virtual_event(&mut self, bus: &mut Bus<'_>) -> bool {
        if !self.is_guest() {
            self.pending.clear(Attention::VIRTUAL);
        }
        guest!(self, false, has_virtual_event(bus))
    }

    /// Whether a guest that waits has a reason to leave that is not an event.
    pub(crate) fn guest_wakes(&self) -> bool {
        guest!(self, false, wakes())
    }

    /// The processor wakes, with its guest if it has one.
    pub(crate) fn note_wake(&mut self) {
        self.pending.raise(Attention::VIRTUAL_INTERRUPT);
        guest!(self, (), note_wake())
    }

    /// A startup message has come to a processor that waits for one.
    pub(crate) fn startup(&mut self, vector: u8) {
        guest!(self, self.start_up(vector), startup(vector))
    }

    /// When a guest is going to leave by itself.
    pub(crate) fn guest_deadline(&self) -> Option<Picoseconds> {
        guest!(self, None, deadline())
    }

    /// IRET ends the blocking of NMIs, or of those that are virtual.
    pub(crate) fn unblock_nmis(&mut self) {
        guest!(self, self.pending.set_blocks_nmis(false), unblock_nmis())
    }

    /// Of so many rounds of a loop that waits, those whose PAUSEs all pass; they are counted.
    pub(crate) fn pass_rounds(&mut self, rounds: Rounds<'_>, most: u64) -> u64 {
        match self.guest.running {
            Running::Bare => most,
            Running::Svm(_) => pause::pass_rounds::<Svm>(self, rounds, most),
            Running::Vmx(_) => pause::pass_rounds::<Vmx>(self, rounds, most),
        }
    }
}

/// Memory.
impl Cpu {
    /// Translates the place of an operand or of code; outside a guest it is the address itself.
    #[inline(always)]
    pub(crate) fn operand_to_system(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
    ) -> Result<Located, Stop> {
        guest!(self, Ok(Located::Memory(address)), operand_to_system(bus, address, access))
    }

    /// Translates the place of an entry of the running software's own page tables.
    #[inline(always)]
    pub(crate) fn table_to_system(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<SystemPhysical, Stop> {
        guest!(self, Ok(address), table_to_system(bus, address))
    }

    /// Whether accessed and dirty flags may be set in an entry of the running software's tables,
    /// which it has at `address`: `Err` is the exit of the guest.
    #[inline(always)]
    pub(crate) fn check_table_update(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<(), Stop> {
        guest!(self, Ok(()), check_table_update(bus, address))
    }

    /// Whether writes and fetches through the translation made last need no further walk.
    pub(crate) fn nested_grants(&self) -> (bool, bool) {
        guest!(self, (true, true), nested_grants())
    }

    /// The exit of an access to the virtual APIC page that is refused before anything is read or
    /// written.
    pub(crate) fn check_virtual_apic(
        &mut self,
        bus: &mut Bus<'_>,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop> {
        guest!(self, Ok(()), check_apic_page(bus, offset, size, access))
    }

    /// A read that has been checked.
    pub(crate) fn read_virtual_apic(&mut self, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
        guest!(self, !0, read_apic_page(bus, offset, size))
    }

    /// A write that has been checked. What it causes comes before the next instruction.
    pub(crate) fn write_virtual_apic(
        &mut self,
        bus: &mut Bus<'_>,
        offset: u16,
        size: u8,
        value: u64,
    ) {
        guest!(self, (), write_apic_page(bus, offset, size, value))
    }

    /// SENDUIPI's notification to `receiver`: true if a virtual APIC sends it.
    pub(crate) fn notify_virtually(
        &mut self,
        bus: &mut Bus<'_>,
        receiver: NotificationControl,
    ) -> bool {
        guest!(self, false, notify(bus, receiver))
    }
}

/// Registers.
impl Cpu {
    /// The time-stamp counter as the running software reads it.
    pub(crate) fn guest_tsc(&self) -> u64 {
        guest!(self, self.clock.tsc(), tsc())
    }

    /// CR8 of a guest whose task priority is virtual; None where it is the processor's.
    pub(crate) fn read_virtual_cr8(&mut self, bus: &mut Bus<'_>) -> Option<u64> {
        guest!(self, None, read_cr8(bus))
    }

    /// True if CR8 was virtual, so that the processor's stays as it is.
    pub(crate) fn write_virtual_cr8(&mut self, bus: &mut Bus<'_>, value: u64) -> bool {
        guest!(self, false, write_cr8(bus, value))
    }

    /// CR0 as the running software reads it.
    pub(crate) fn shown_cr0(&self) -> u64 {
        let actual = self.control.cr0().bits();
        guest!(self, actual, shown_cr0(actual))
    }

    /// CR4 as the running software reads it.
    pub(crate) fn shown_cr4(&self) -> u64 {
        let actual = self.control.cr4().bits();
        guest!(self, actual, shown_cr4(actual))
    }

    /// What the running software's write of `value` makes of CR0.
    pub(crate) fn resulting_cr0(&self, value: u64) -> u64 {
        guest!(self, value, resulting_cr0(value))
    }

    /// What the running software's write of `value` makes of CR4.
    pub(crate) fn resulting_cr4(&self, value: u64) -> u64 {
        guest!(self, value, resulting_cr4(value))
    }
}

/// The processor itself, whether it has a guest or not.
impl Cpu {
    /// Whether events of the platform reach the processor at all, its own masks aside.
    #[inline]
    pub(crate) fn admits_events(&self) -> bool {
        Svm::admits_events(self) && Vmx::admits_events(self)
    }

    /// Whether an INIT waits for the instruction boundary, since it may not come through as it is.
    pub(crate) fn holds_init(&self) -> bool {
        Svm::holds_init(self) || Vmx::holds_init(self)
    }

    /// Whether an INIT goes on waiting there.
    pub(crate) fn blocks_init(&self) -> bool {
        Svm::blocks_init(self) || Vmx::blocks_init(self)
    }

    /// The exception that an INIT becomes, where it does: vector and error code.
    pub(crate) fn init_becomes(&self) -> Option<(u8, u32)> {
        Svm::init_becomes(self).or_else(|| Vmx::init_becomes(self))
    }

    /// Whether CR0 may become `value`.
    pub(crate) fn permits_cr0(&self, value: u64) -> bool {
        Svm::permits_cr0(self, value) && Vmx::permits_cr0(self, value)
    }

    /// Whether CR4 may become `value`.
    pub(crate) fn permits_cr4(&self, value: Cr4) -> bool {
        Svm::permits_cr4(self, value) && Vmx::permits_cr4(self, value)
    }

    /// Whether EFER may become `value`.
    pub(crate) fn permits_efer(&self, value: Efer) -> bool {
        Svm::permits_efer(self, value) && Vmx::permits_efer(self, value)
    }

    /// RDMSR of one of the vendor's own MSRs, or of one that the guest sees in another form; None
    /// for any other.
    pub(crate) fn read_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
    ) -> Option<Result<u64, Stop>> {
        Vmx::read_msr(self, bus, number).or_else(|| Svm::read_msr(self, bus, number))
    }

    /// As `read_virtualization_msr`, for WRMSR.
    pub(crate) fn write_virtualization_msr(
        &mut self,
        bus: &mut Bus<'_>,
        number: u32,
        value: u64,
    ) -> Option<Result<(), Stop>> {
        match Vmx::write_msr(self, bus, number, value) {
            None => Svm::write_msr(self, bus, number, value),
            written => written,
        }
    }
}
