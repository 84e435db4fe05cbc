//! What waits for an instruction boundary, and what the running instruction has left for it.

use super::event::Event;
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
    /// What must be looked at before the next block.
    pub attention: Attention,
    /// What it is doing; `attention` has INACTIVE unless it is running.
    pub activity: Activity,
    /// NMIs wait for the IRET of the one in service.
    pub nmi_blocked: bool,
    /// An NMI waits behind the one that `attention` tells of.
    pub second_nmi: bool,
    /// The line that MONITOR armed: an index into RAM and the page's generation then.
    pub monitored: Option<(u64, u32)>,
    /// MWAIT was told to wake for interrupts that RFLAGS.IF masks, too.
    pub masked_interrupts_wake: bool,
    /// The event being delivered: a VM exit on the way to its handler reports it.
    pub(crate) delivering: Option<Event>,
    /// The address of the last page fault, until it is delivered and CR2 takes it.
    pub fault_address: u64,
    /// The running instruction is the one behind a load of SS.
    pub is_in_stack_shadow: bool,
    /// Bytes of the software interrupt being delivered.
    pub software_length: u64,
    /// A watched line was written by the running instruction.
    pub code_changed: bool,
    /// The running instruction stands in the shadow of STI, MOV SS or POP SS: an exit at it reports
    /// the shadow, which is over only when the instruction has completed.
    pub(crate) in_shadow: bool,
    /// The instruction that was executed alone has branched.
    pub(crate) has_branched: bool,
    /// Whether the running instruction is stepped has been decided: TF at its start does not count.
    pub(crate) step_is_settled: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            attention: Attention::empty(),
            activity: Activity::Running,
            nmi_blocked: false,
            second_nmi: false,
            monitored: None,
            masked_interrupts_wake: false,
            delivering: None,
            fault_address: 0,
            is_in_stack_shadow: false,
            software_length: 0,
            code_changed: false,
            in_shadow: false,
            has_branched: false,
            step_is_settled: false,
        }
    }
}

impl Pending {
    /// Changes what it does, and the attention that goes with it.
    pub fn set_activity(&mut self, activity: Activity) {
        self.activity = activity;
        self.attention.set(Attention::INACTIVE, activity != Activity::Running);
    }
}
