//! The flow: what needs attention → run blocks → deliver what stopped them.

use super::blocks::Blocks;
use super::cache::CodeCache;
use super::room::Room;
use crate::guest::Arrival;
use crate::guest::boundary::{HELD, VIRTUAL};
use crate::operation::decode::Cost;
use crate::state::Origin;
use crate::stop::{Kind, SoftwareSource, Stop};
use crate::{Activity, Attention, Bus, Cpu, RunEnd};
use arch::control::rflags;
use arch::time::Picoseconds;
use bus::Happening;
use interrupt::local_apic::Acceptance;

/// An attribute that keeps a processor from running blocks freely.
const ONE_AT_A_TIME: Attention = Attention::SINGLE_STEP
    .union(Attention::SHADOW)
    .union(Attention::BREAKPOINTS)
    .union(Attention::BRANCH_RECORDS)
    .union(Attention::ONE_INSTRUCTION);

impl Cpu {
    /// Runs until the clock reaches `until`, `instructions` more have completed, or there is reason
    /// to stop before. No instruction begins at or after `until`.
    pub fn run(
        &mut self,
        cache: &mut CodeCache,
        bus: &mut Bus<'_>,
        until: Picoseconds,
        instructions: u64,
    ) -> RunEnd {
        let last = self.instructions.saturating_add(instructions);
        let mut limit = self.limit(until);
        self.pending.attention.remove(Attention::YIELD);
        loop {
            if !self.pending.attention.is_empty() {
                if self.pending.attention.contains(Attention::TIMER) {
                    self.pending.attention.remove(Attention::TIMER);
                    limit = self.limit(until);
                }
                match self.attend(bus) {
                    Ok(()) => {}
                    Err(end) => return end,
                }
                if self.pending.attention.contains(Attention::INACTIVE) {
                    // What was attended to has shut the processor down.
                    continue;
                }
            }
            if self.clock >= limit {
                self.advance_apic(bus);
                limit = self.limit(until);
                if self.clock >= until {
                    return RunEnd::Time;
                }
                continue;
            }
            if self.instructions >= last {
                return RunEnd::Instructions;
            }
            if self.pending.attention.intersects(ONE_AT_A_TIME) {
                // What a shadow suspends for one instruction holds again for the next.
                let others = self.others_clock;
                self.run_one(&mut cache.blocks, bus);
                self.others_clock = others;
            } else {
                let room = Room { clock: limit, instructions: last };
                let CodeCache { blocks, native } = cache;
                self.run_blocks(blocks, native.as_deref_mut(), bus, room);
                if let Some(native) = native {
                    self.skip_rounds(blocks, native, bus, room);
                }
            }
        }
    }

    fn limit(&self, until: Picoseconds) -> Picoseconds {
        self.next_deadline().map_or(until, |deadline| deadline.min(until))
    }

    /// Whether an inactive processor has reason to run again; it then does.
    pub(crate) fn wakes(&mut self, bus: &mut Bus<'_>) -> bool {
        let woken = match self.pending.activity {
            Activity::Running => true,
            Activity::WaitForStartup | Activity::Shutdown => false,
            Activity::Halted => {
                self.has_wake_event() || self.has_virtual_event(bus) || self.guest_wakes()
            }
            Activity::Waiting => {
                self.ends_wait()
                    || self.has_virtual_event(bus)
                    || self.guest_wakes()
                    || !self.pending.monitor_is_armed(bus.memory)
            }
        };
        if woken {
            bus.platform.record(self.visit(), Happening::Wake { ip: self.registers.ip });
            self.pending.monitored = None;
            self.note_wake();
            self.pending.set_activity(Activity::Running);
        }
        woken
    }

    /// RFLAGS.IF, and no interrupt shadow.
    pub(crate) fn own_interrupt_flag(&self) -> bool {
        self.registers.flags.has(rflags::IF) && !self.pending.attention.contains(Attention::SHADOW)
    }

    fn has_wake_event(&self) -> bool {
        self.has_interrupt() && self.accepts_physical_interrupts()
            || self.pending.attention.contains(Attention::NMI) && self.accepts_nmis()
            || self.pending.attention.intersects(HELD)
                && self.admits_events()
                && !self.blocks_init()
    }

    /// As `has_wake_event`, for MWAIT and its extension. [APM3 "MWAIT"]
    fn ends_wait(&self) -> bool {
        let breaks = self.pending.masked_interrupts_wake && self.admits_events();
        self.has_wake_event() || breaks && self.has_interrupt()
    }

    /// Whether a run would do anything now, for the board's schedule.
    pub fn is_runnable(&self, memory: &bus::GuestMemory) -> bool {
        match self.pending.activity {
            Activity::Running => true,
            Activity::WaitForStartup | Activity::Shutdown => false,
            Activity::Halted => {
                self.has_wake_event()
                    || self.pending.attention.intersects(VIRTUAL)
                    || self.guest_wakes()
            }
            Activity::Waiting => {
                self.ends_wait()
                    || self.pending.attention.intersects(VIRTUAL)
                    || !self.pending.monitor_is_armed(memory)
            }
        }
    }

    /// Something arrived at the local APIC.
    pub fn accepted(&mut self, acceptance: Acceptance) {
        match acceptance {
            Acceptance::Queued | Acceptance::ExtInt => {
                self.pending.attention |= Attention::INTERRUPT
            }
            // One NMI waits behind the one that is being handled. Two that arrive between two
            // blocks would have found different instructions, so the second waits as well.
            Acceptance::Nmi if self.pending.attention.contains(Attention::NMI) => {
                self.pending.second_nmi = !self.pending.nmi_blocked;
            }
            Acceptance::Nmi => self.pending.attention |= Attention::NMI,
            Acceptance::Init if self.holds_init() => self.pending.attention |= Attention::INIT,
            Acceptance::Init => self.take_init(),
            Acceptance::Startup(vector) => {
                if self.pending.activity == Activity::WaitForStartup {
                    self.startup(vector)
                }
            }
            Acceptance::Smi => self.pending.attention |= Attention::SMI,
            Acceptance::Ignored => {}
        }
    }

    pub(crate) fn take_init(&mut self) {
        self.apic.init();
        self.initialize();
        if !self.apic.model().is_bootstrap {
            self.pending.set_activity(Activity::WaitForStartup);
        }
    }

    /// Moves a halted processor's clock on, to the moment of an event.
    pub fn idle_until(&mut self, bus: &mut Bus<'_>, at: Picoseconds) {
        if at > self.clock {
            self.clock = at;
        }
        self.advance_apic(bus);
    }

    /// One instruction under single step, breakpoints or an interrupt shadow.
    fn run_one(&mut self, blocks: &mut Blocks, bus: &mut Bus<'_>) {
        self.pending.in_shadow = self.pending.attention.contains(Attention::SHADOW);
        self.run_alone(blocks, bus);
        self.pending.in_shadow = false;
    }

    fn run_alone(&mut self, blocks: &mut Blocks, bus: &mut Bus<'_>) {
        let steps = self.pending.attention.contains(Attention::SINGLE_STEP);
        if self.pending.in_shadow {
            // What the shadow covers is not split from the instruction before.
            self.others_clock = Picoseconds::MAX;
        }
        // Intel parts ignore breakpoints on the instruction behind a load of SS, AMD's do not.
        let is_shadowed =
            self.pending.attention.contains(Attention::STACK_SHADOW) && !self.model.is_amd();
        self.pending.is_in_stack_shadow = self.pending.attention.contains(Attention::STACK_SHADOW);
        self.pending.attention.remove(Attention::SHADOW | Attention::STACK_SHADOW);
        if self.pending.attention.contains(Attention::BREAKPOINTS) && !is_shadowed {
            let linear = self.registers.code_base().wrapping_add(self.registers.ip);
            match self.check_code_breakpoints(bus, linear) {
                Ok(false) => {}
                Ok(true) => return self.charge_delivery(blocks),
                Err(stop) => return self.fetch_failed(blocks, bus, stop),
            }
        }
        let resumed = self.registers.flags.has(rflags::RF);
        let from = self.registers.ip;
        self.pending.has_branched = false;
        let was_guest = self.is_guest();
        let before = self.instructions;
        let room = Room {
            clock: Picoseconds(u64::MAX),
            instructions: self.instructions.saturating_add(1),
        };
        self.run_part(blocks, bus, room);
        self.pending.is_in_stack_shadow = false;
        // A world switch belongs to neither side: the host's trap comes after its #VMEXIT.
        let completed = self.instructions != before && self.is_guest() == was_guest;
        if completed && self.pending.has_branched {
            self.record_branch(from);
        }
        if resumed && completed {
            self.registers.flags.system &= !rflags::RF;
            self.update_breakpoints();
        }
        let is_settled = std::mem::take(&mut self.pending.step_is_settled);
        // The trap of a load of SS is lost, not put off. [SDM3 "Masking Exceptions and Interrupts
        // When Switching Stacks"]
        let is_lost = self.pending.attention.contains(Attention::STACK_SHADOW);
        let is_between = self.control.steps_branches() && !self.pending.has_branched;
        if steps && completed && !is_settled && !is_lost && !is_between {
            self.pend_single_step();
        }
    }

    /// A fault before an instruction takes time as well: a handler that cannot be fetched must not
    /// fault for ever at one moment.
    #[cold]
    pub(crate) fn fetch_failed(&mut self, blocks: &Blocks, bus: &mut Bus<'_>, stop: Stop) {
        self.charge_delivery(blocks);
        self.stopped(bus, stop);
    }

    fn charge_delivery(&mut self, blocks: &Blocks) {
        self.clock.0 += blocks.cost(Cost::System).max(1);
    }

    /// Deals with a stop; `self.ip` is the next instruction, or this one if it did not complete.
    pub(crate) fn stopped(&mut self, bus: &mut Bus<'_>, stop: Stop) {
        let result = match stop.kind() {
            Kind::EndBlock
            | Kind::Branch
            | Kind::FusedBranch
            | Kind::FusedThrough
            | Kind::Repeat => Ok(()),
            Kind::Defer => {
                self.pending.attention |= Attention::YIELD;
                Ok(())
            }
            Kind::Halt => {
                bus.platform.record(self.visit(), Happening::Halt { ip: self.registers.ip });
                self.pending.set_activity(Activity::Halted);
                Ok(())
            }
            Kind::Exception { vector, error, .. } => self.raise_exception(bus, vector, error),
            Kind::Software { vector, source } => {
                // Delivery clears TF, and the trap goes with it.
                self.pending.step_is_settled =
                    self.pending.attention.contains(Attention::SINGLE_STEP);
                if source == SoftwareSource::Int1 {
                    self.merge_debug_traps();
                }
                let event =
                    crate::state::Event { vector, error: None, origin: Origin::Software(source) };
                self.raise_software(bus, event)
            }
            Kind::VmExit | Kind::Shutdown => Err(stop),
        };
        self.settle(bus, result);
    }

    /// The end of a delivery: a VM exit or a triple fault may have come of it.
    pub(crate) fn settle(&mut self, bus: &mut Bus<'_>, result: Result<(), Stop>) {
        let Err(stop) = result else { return };
        let is_exit = stop.kind() == Kind::VmExit || self.arrives(Arrival::TripleFault).is_err();
        if is_exit {
            self.leave_virtual_machine(bus);
        } else {
            self.pending.set_activity(Activity::Shutdown);
        }
    }
}
