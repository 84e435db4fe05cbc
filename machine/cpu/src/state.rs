//! The state of a logical processor. All of it is plain data, so a snapshot is a copy.

mod branch_record;
mod clock;
pub(crate) mod component;
mod control;
mod debug;
mod event;
pub(crate) mod governor;
pub(crate) mod msr;
mod pending;
mod registers;
mod uintr;
pub(crate) mod x87;

pub use branch_record::BranchRecords;
pub use clock::{Clock, Spent};
pub use control::{Control, TableRegister};
pub use debug::Debug;
pub(crate) use debug::{EXECUTE, READ_WRITE, WRITE};
pub(crate) use event::{Event, Origin};
pub use pending::{Activity, Attention, Pending};
pub use registers::Registers;
pub use uintr::UserInterrupts;
pub use x87::X87;

use crate::CpuModel;
use crate::guest::Guest;
use crate::memory::{Translation, sets};
use arch::control::{Cr0, rflags};
use arch::identity::CpuIndex;
use arch::segment::SegmentRegister;
use arch::time::Picoseconds;
use bus::{Effect, Random};
use interrupt::local_apic::LocalApic;
use serde::{Deserialize, Serialize};

/// A logical processor.
#[derive(Clone, Serialize, Deserialize)]
pub struct Cpu {
    /// What instructions compute with.
    pub registers: Registers,
    /// Events on their way.
    pub pending: Pending,
    /// Its time, and what it has done in it.
    pub clock: Clock,
    /// The running and recent address spaces' translations.
    pub translation: Translation,
    /// What an operating system sets.
    pub control: Control,
    /// The debug registers.
    pub debug: Debug,
    /// Hardware virtualization's registers, and the guest while there is one.
    pub guest: Guest,
    /// The processor's own local APIC.
    pub apic: LocalApic,
    /// The board's number of it, from 0 without gaps; not the APIC ID.
    pub index: CpuIndex,
    /// What it implements, and what CPUID says of it.
    pub model: CpuModel,
    /// State of the generator behind RDRAND and RDSEED.
    pub(crate) random: Random,
    /// What its local APIC causes, on the way to the board: empty between two uses, which share its
    /// room.
    #[serde(skip)]
    pub(crate) effects: Vec<Effect>,
    /// Memory whose accesses a debugger wants to see; no part of the processor's state.
    #[serde(skip)]
    pub observation: crate::Observation,
    /// What others may see of it in between ends its turn, so that they can.
    #[serde(skip)]
    pub stands_apart: bool,
    /// The board says so at the start of a turn: until it ends, no other processor does anything
    /// but what this one causes.
    #[serde(skip)]
    pub is_only: bool,
    /// Where turns would have begun since that a processor that is the only one has joined to this.
    #[serde(skip)]
    pub turned_at: Picoseconds,
}

impl Cpu {
    /// A processor at power-on.
    pub fn new(index: CpuIndex, model: CpuModel, apic: LocalApic, seed: u64) -> Self {
        let mut cpu = Self {
            registers: Registers::default(),
            pending: Pending::default(),
            clock: Clock::new(&model),
            translation: Translation::default(),
            control: Control::default(),
            debug: Debug::default(),
            guest: Guest::new(&model),
            apic,
            index,
            model,
            random: Random(seed ^ (index.0 as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            effects: Vec::new(),
            observation: Default::default(),
            stands_apart: false,
            is_only: false,
            turned_at: Picoseconds::ZERO,
        };
        cpu.initialize();
        if !cpu.apic.model().is_bootstrap {
            cpu.pending.set_activity(Activity::WaitForStartup);
        }
        cpu
    }

    /// The state after INIT: caches, MSRs, FPU and TSC stay.
    /// [APM2 "Processor Initialization State"]
    pub fn initialize(&mut self) {
        self.registers.initialize(self.model.signature());
        self.control.initialize();
        self.debug = Debug::default();
        self.guest.initialize();
        self.pending.initialize();
        self.control.msr.debug_ctl = 0;
        self.translation.tlb.flush_all();
        self.update_access_mode();
    }

    /// Starts an application processor at `vector` × 4096. [APM2 "Startup Interrupt"]
    pub fn start_up(&mut self, vector: u8) {
        self.registers.enter_real((vector as u16) << 8, (vector as u64) << 12, 0);
        self.pending.set_activity(Activity::Running);
    }

    /// Others may look now, if this processor's steps are apart.
    #[inline(always)]
    pub(crate) fn let_others_look(&mut self) {
        if self.stands_apart {
            self.pending.raise(Attention::YIELD);
        }
    }

    /// RFLAGS.IF, and no interrupt shadow.
    pub(crate) fn own_interrupt_flag(&self) -> bool {
        self.registers.flags.has(rflags::IF) && !self.pending.has(Attention::SHADOW)
    }

    /// Protected mode without virtual-8086 mode; long mode is protected.
    pub fn is_protected(&self) -> bool {
        !self.control.is_real() && !self.registers.is_virtual_8086()
    }

    /// Long mode with a 64-bit code segment.
    pub fn is_64_bit(&self) -> bool {
        self.control.is_long_mode()
            && self.registers.segment(SegmentRegister::Cs).attributes.is_long()
    }

    pub(crate) fn checks_alignment(&self) -> bool {
        self.registers.cpl() == 3
            && self.control.cr0().contains(Cr0::ALIGNMENT_MASK)
            && self.registers.flags.has(rflags::AC)
    }

    /// Recomputes which set of the TLB data accesses use, after CPL, RFLAGS.AC, CR0.AM or DR7
    /// changed.
    pub fn update_access_mode(&mut self) {
        let is_checked = self.checks_alignment() || self.debug.has_data_breakpoints();
        let set = if is_checked { sets::CHECKED } else { self.registers.access_set() };
        self.translation.select(set);
    }

    /// How accesses outside RAM are signed.
    pub(crate) fn visit(&self) -> bus::Visit {
        bus::Visit { cpu: self.index, at: self.clock.now() }
    }
}

impl Registers {
    /// The TLB set of an access at the present privilege, alignment checks aside.
    pub(crate) fn access_set(&self) -> usize {
        match (self.cpl(), self.flags.has(rflags::AC)) {
            (3, _) => sets::USER,
            (_, false) => sets::SUPERVISOR,
            (_, true) => sets::SUPERVISOR_AC,
        }
    }
}
