//! What waits for an instruction boundary, and what the running instruction has left for it.

use super::event::Event;
use crate::{Bus, Stop};
use serde::{Deserialize, Serialize};

/// What the processor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// It executes instructions.
    Running,
    /// HLT: an interrupt wakes.
    Halted,
    /// MWAIT: an interrupt or a write to the monitored line wakes.
    Waiting,
    /// After INIT on an application processor: only a startup message wakes.
    WaitForStartup,
    /// After a triple fault.
    Shutdown,
}

bitflags::bitflags! {
    /// What must be looked at before the next block runs, in the order in which it is looked at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attention: u32 {
        /// A timer of the local APIC was programmed: the run's limit must be computed again.
        const TIMER = 1 << 0;
        /// The run ends at this boundary: devices or other processors have something to do.
        const YIELD = 1 << 1;
        /// The guest of a hypervisor has something due at this boundary.
        const GUEST_BOUNDARY = 1 << 2;
        /// The processor does not run instructions: see `activity`.
        const INACTIVE = 1 << 3;
        /// Debug traps recorded in `debug.pending` wait for the instruction boundary.
        const DEBUG_TRAP = 1 << 4;
        /// A system-management interrupt has come; without such a mode only a hypervisor sees it.
        const SMI = 1 << 5;
        /// An INIT has come.
        const INIT = 1 << 6;
        /// The next instruction runs before interrupts are considered (STI, MOV SS).
        const SHADOW = 1 << 7;
        /// The shadow of MOV SS also holds back debug traps, that of STI does not.
        const STACK_SHADOW = 1 << 8;
        /// A non-maskable interrupt has come.
        const NMI = 1 << 9;
        /// The local APIC or the 8259s may have an interrupt to deliver.
        const INTERRUPT = 1 << 10;
        /// A virtual interrupt may be deliverable to the running guest.
        const VIRTUAL_INTERRUPT = 1 << 11;
        /// An NMI for the running guest.
        const VIRTUAL_NMI = 1 << 12;
        /// RFLAGS.TF was set when the last instruction began.
        const SINGLE_STEP = 1 << 13;
        /// DR7 enables a breakpoint on execution or on data.
        const BREAKPOINTS = 1 << 14;
        /// Branches are recorded.
        const BRANCH_RECORDS = 1 << 15;
        /// One instruction at a time, for a debugger or an instruction limit.
        const ONE_INSTRUCTION = 1 << 16;
        /// A hypervisor wants to be told of something as soon as the guest lets it: the monitor
        /// trap flag, the preemption timer, an interrupt window.
        const WINDOW = 1 << 17;
        /// A user interrupt may be deliverable.
        const USER_INTERRUPT = 1 << 18;
        /// The next instruction reaches something outside RAM, which answers by the time.
        const BY_ITSELF = 1 << 19;
        /// The processor has written to its own APIC: the run ends at this boundary, unless nobody
        /// else has anything to do.
        const OWN_APIC = 1 << 20;
    }
}

impl Attention {
    /// What GIF holds back and a hypervisor may intercept, besides interrupts.
    pub(crate) const HELD: Self = Self::INIT.union(Self::SMI);
    /// Events of the running guest that no physical event stands for.
    pub(crate) const VIRTUAL: Self = Self::VIRTUAL_INTERRUPT.union(Self::VIRTUAL_NMI);
}

/// Events on their way, and the state of waiting for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    attention: Attention,
    /// `attention` has INACTIVE unless it is running.
    activity: Activity,
    /// NMIs wait for the IRET of the one in service.
    blocks_nmis: bool,
    /// An NMI waits behind the one that `attention` tells of.
    second_nmi: bool,
    /// The line that MONITOR armed: an index into RAM and the page's generation then.
    monitored: Option<(u64, u32)>,
    masked_interrupts_wake: bool,
    delivering: Option<Event>,
    fault_address: u64,
    is_in_stack_shadow: bool,
    software_length: u64,
    code_changed: bool,
    is_in_shadow: bool,
    has_branched: bool,
    step_is_settled: bool,
    /// The running instruction is not part of a block.
    #[serde(skip)]
    is_alone: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            attention: Attention::empty(),
            activity: Activity::Running,
            blocks_nmis: false,
            second_nmi: false,
            monitored: None,
            masked_interrupts_wake: false,
            delivering: None,
            fault_address: 0,
            is_in_stack_shadow: false,
            software_length: 0,
            code_changed: false,
            is_in_shadow: false,
            has_branched: false,
            step_is_settled: false,
            is_alone: false,
        }
    }
}

/// What must be looked at before the next block.
impl Pending {
    /// Nothing must be.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.attention.is_empty()
    }

    /// One of these must be.
    #[inline(always)]
    pub fn has(&self, any: Attention) -> bool {
        self.attention.intersects(any)
    }

    /// Nothing else must be.
    #[inline(always)]
    pub(crate) fn has_nothing_but(&self, these: Attention) -> bool {
        these.contains(self.attention)
    }

    /// These must be.
    #[inline(always)]
    pub fn raise(&mut self, these: Attention) {
        self.attention |= these;
    }

    /// These need not be.
    #[inline(always)]
    pub fn clear(&mut self, these: Attention) {
        self.attention.remove(these);
    }

    /// These must be, or need not.
    #[inline(always)]
    pub fn set(&mut self, these: Attention, is_raised: bool) {
        self.attention.set(these, is_raised);
    }

    /// A device or APIC access may change what interrupts are pending and who must run next; one of
    /// the processor's own APIC, for others, by what it causes alone.
    pub(crate) fn after_device_access(&mut self, is_own: bool) {
        let others = if is_own { Attention::OWN_APIC } else { Attention::YIELD };
        self.raise(others | Attention::INTERRUPT | Attention::TIMER);
    }
}

/// What the processor does, and waits for.
impl Pending {
    /// After INIT. [APM2 "Processor Initialization State"]
    pub(crate) fn initialize(&mut self) {
        self.attention = Attention::INTERRUPT | Attention::TIMER;
        self.set_activity(Activity::Running);
        self.blocks_nmis = false;
        self.second_nmi = false;
        self.monitored = None;
        self.delivering = None;
    }

    /// What it is doing.
    #[inline(always)]
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// Changes what it does, and the attention that goes with it.
    pub fn set_activity(&mut self, activity: Activity) {
        self.activity = activity;
        self.attention.set(Attention::INACTIVE, activity != Activity::Running);
    }

    /// MWAIT, which may let interrupts wake it that RFLAGS.IF masks.
    pub(crate) fn wait(&mut self, masked_interrupts_wake: bool) {
        self.masked_interrupts_wake = masked_interrupts_wake;
        self.set_activity(Activity::Waiting);
    }

    /// MWAIT was told to wake for masked interrupts, too.
    pub(crate) fn masked_interrupts_wake(&self) -> bool {
        self.masked_interrupts_wake
    }

    /// MONITOR: writes to the line at `offset` in RAM end MWAIT; outside RAM nothing does.
    pub(crate) fn monitor(&mut self, memory: &mut bus::GuestMemory, offset: Option<usize>) {
        self.monitored = offset.map(|at| {
            memory.watch(at & !63, 64);
            (at as u64, memory.generation_to_remember(at >> 12))
        });
    }

    /// Nothing is monitored from now on.
    pub fn disarm(&mut self) {
        self.monitored = None;
    }

    /// A line is monitored, whether it has been written or not.
    pub fn has_monitor(&self) -> bool {
        self.monitored.is_some()
    }

    /// The monitored line has not been written since MONITOR.
    pub fn monitor_is_armed(&self, memory: &bus::GuestMemory) -> bool {
        self.monitored.is_some_and(|(at, generation)| {
            memory.generations.get((at >> 12) as usize) == Some(&generation)
        })
    }

    /// The line that is monitored counts as not written, whatever the number of its page is now.
    pub fn arm_monitor_again(&mut self, memory: &bus::GuestMemory) {
        if let Some((at, generation)) = &mut self.monitored
            && let Some(now) = memory.generations.get((*at >> 12) as usize)
        {
            *generation = *now;
        }
    }
}

/// Events.
impl Pending {
    /// An NMI has come. One waits behind the one that is being handled. Two that arrive between
    /// two blocks would have found different instructions, so the second waits as well.
    pub(crate) fn accept_nmi(&mut self) {
        if self.has(Attention::NMI) {
            self.second_nmi = !self.blocks_nmis;
        }
        self.raise(Attention::NMI);
    }

    /// The NMI leaves: the one behind it takes its place.
    pub(crate) fn take_nmi(&mut self) {
        let has_another = std::mem::take(&mut self.second_nmi);
        self.attention.set(Attention::NMI, has_another);
    }

    /// An NMI waits behind the one that attention was called to.
    pub fn has_second_nmi(&self) -> bool {
        self.second_nmi
    }

    /// NMIs wait for the IRET of the one in service.
    #[inline]
    pub fn blocks_nmis(&self) -> bool {
        self.blocks_nmis
    }

    /// NMIs wait from now on, or no longer.
    pub fn set_blocks_nmis(&mut self, blocks: bool) {
        self.blocks_nmis = blocks;
    }

    /// The event being delivered: a VM exit on the way to its handler reports it.
    #[inline]
    pub(crate) fn delivering(&self) -> Option<Event> {
        self.delivering
    }

    /// The way to the event's handler begins.
    #[inline]
    pub(crate) fn begin_delivery(&mut self, event: Event) {
        self.delivering = Some(event);
    }

    /// Its handler has been reached.
    #[inline]
    pub(crate) fn end_delivery(&mut self) {
        self.delivering = None;
    }

    /// A VM exit has the place of what is left of the way.
    pub(crate) fn take_delivering(&mut self) -> Option<Event> {
        self.delivering.take()
    }

    /// The address of the last page fault, until it is delivered and CR2 takes it.
    pub fn fault_address(&self) -> u64 {
        self.fault_address
    }

    /// An access to this address faults.
    pub(crate) fn set_fault_address(&mut self, linear: u64) {
        self.fault_address = linear;
    }

    /// Bytes of the software interrupt being delivered.
    pub(crate) fn software_length(&self) -> u64 {
        self.software_length
    }

    /// The instruction that may raise an event has so many bytes.
    #[inline(always)]
    pub(crate) fn set_software_length(&mut self, bytes: u64) {
        self.software_length = bytes;
    }
}

/// What the running instruction leaves for those that come after it.
impl Pending {
    /// Watched lines (decoded code, monitored addresses) learn of a write to RAM.
    #[inline(always)]
    pub(crate) fn note_ram_write(&mut self, bus: &mut Bus<'_>, at: usize, length: usize) {
        let (first, last) = (at >> 12, (at + length - 1) >> 12);
        let watched = &bus.memory.watched_lines;
        let is_watched = watched[first] != 0 || (last != first && watched[last] != 0);
        if is_watched && bus.memory.note_write(at, length) {
            self.code_changed = true;
            // It may have been the line that another processor monitors.
            self.raise(Attention::YIELD);
        }
    }

    /// A watched line was written.
    #[inline(always)]
    pub(crate) fn code_changed(&self) -> bool {
        self.code_changed
    }

    /// What follows shall be decoded again.
    pub(crate) fn note_code_change(&mut self) {
        self.code_changed = true;
    }

    /// What follows is looked at again anyway.
    #[inline(always)]
    pub fn forget_code_change(&mut self) {
        self.code_changed = false;
    }

    /// Ends the block after a store that changed decoded code, so that what follows is seen again.
    #[inline(always)]
    pub(crate) fn after_store(&mut self) -> Result<(), Stop> {
        if self.code_changed {
            self.code_changed = false;
            return Err(Stop::END_BLOCK);
        }
        Ok(())
    }

    /// The running instruction stands in the shadow of STI, MOV SS or POP SS: an exit at it reports
    /// the shadow, which is over only when the instruction has completed.
    pub(crate) fn is_in_shadow(&self) -> bool {
        self.is_in_shadow
    }

    /// The running instruction is the one behind a load of SS.
    pub(crate) fn is_in_stack_shadow(&self) -> bool {
        self.is_in_stack_shadow
    }

    /// An instruction begins alone, in the shadow of the one before it if that casts one, which
    /// covers no other.
    pub(crate) fn begin_alone(&mut self) {
        self.is_in_shadow = self.has(Attention::SHADOW);
        self.is_in_stack_shadow = self.has(Attention::STACK_SHADOW);
        self.clear(Attention::SHADOW | Attention::STACK_SHADOW | Attention::BY_ITSELF);
        self.has_branched = false;
        self.is_alone = true;
    }

    /// The clock stands where the running instruction begins, and not where its block does.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// It has ended.
    pub(crate) fn end_alone(&mut self) {
        self.is_alone = false;
        self.is_in_shadow = false;
        self.is_in_stack_shadow = false;
    }

    /// The instruction that was executed alone has branched.
    pub(crate) fn has_branched(&self) -> bool {
        self.has_branched
    }

    /// A branch is taken, if alone or in a block.
    #[inline(always)]
    pub(crate) fn note_branch(&mut self) {
        self.has_branched = true;
    }

    /// Translated code does not note branches; what compares it leaves them out.
    pub(crate) fn forget_branch(&mut self) {
        self.has_branched = false;
    }

    /// Whether the running instruction is stepped is decided: TF at its start does not count.
    pub(crate) fn settle_step(&mut self, is_settled: bool) {
        self.step_is_settled = is_settled;
    }

    /// Whether it was.
    pub(crate) fn take_settled_step(&mut self) -> bool {
        std::mem::take(&mut self.step_is_settled)
    }
}
