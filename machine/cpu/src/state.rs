//! The state of a logical processor. All of it is plain data, so a snapshot is a copy.

use crate::memory::Tlb;
use crate::width::{CLEAR, Registers};
use crate::{CpuModel, Flags};
use arch::control::{Cr0, Cr4, Efer, debug, rflags};
use arch::identity::CpuIndex;
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use interrupt::local_apic::LocalApic;
use serde::{Deserialize, Serialize};

/// What the processor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
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
    /// What must be looked at before the next block runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attention: u32 {
        /// The local APIC or the 8259s may have an interrupt to deliver.
        const INTERRUPT = 1 << 0;
        const NMI = 1 << 1;
        const SMI = 1 << 2;
        const INIT = 1 << 3;
        /// RFLAGS.TF was set when the last instruction began.
        const SINGLE_STEP = 1 << 4;
        /// The next instruction runs before interrupts are considered (STI, MOV SS).
        const SHADOW = 1 << 5;
        /// The shadow of MOV SS also holds back debug traps, that of STI does not.
        const STACK_SHADOW = 1 << 15;
        /// Debug traps recorded in `pending_debug` wait for the instruction boundary.
        const DEBUG_TRAP = 1 << 6;
        /// DR7 enables a breakpoint on execution or on data.
        const BREAKPOINTS = 1 << 7;
        /// A timer of the local APIC was programmed: the run's limit must be computed anew.
        const TIMER = 1 << 8;
        /// The processor does not run instructions: see `activity`.
        const INACTIVE = 1 << 9;
        /// One instruction at a time, for a debugger or an instruction limit.
        const ONE_INSTRUCTION = 1 << 10;
        /// A virtual interrupt may be deliverable to the running guest.
        const VIRTUAL_INTERRUPT = 1 << 11;
        /// An NMI for the running guest.
        const VIRTUAL_NMI = 1 << 12;
        /// The run ends at this boundary: devices or other processors have something to do.
        const YIELD = 1 << 14;
        /// Branches are recorded.
        const BRANCH_RECORDS = 1 << 16;
        /// A VM exit is due at this instruction boundary.
        const GUEST_BOUNDARY = 1 << 13;
    }
}

/// A descriptor-table register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableRegister {
    pub base: u64,
    pub limit: u16,
}

/// SYSCALL's and SYSENTER's MSRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SystemCall {
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    pub kernel_gs_base: u64,
    pub sysenter_cs: u64,
    pub sysenter_esp: u64,
    pub sysenter_eip: u64,
}

/// A logical processor.
#[derive(Clone, Serialize, Deserialize)]
pub struct Cpu {
    pub index: CpuIndex,
    pub model: CpuModel,
    /// See [`Registers`].
    #[serde(with = "crate::width::stored")]
    pub gpr: Registers,
    /// The instruction pointer; up to date between blocks.
    pub ip: u64,
    pub flags: Flags,
    /// Bases of ES, CS, SS, DS, FS, GS, then two zeros for addresses without a base.
    pub segment_base: [u64; 8],
    pub segments: [Segment; 6],
    pub ldtr: Segment,
    pub tr: Segment,
    pub gdtr: TableRegister,
    pub idtr: TableRegister,
    pub cpl: u8,
    pub cr0: Cr0,
    pub cr2: u64,
    pub cr3: u64,
    pub cr4: Cr4,
    pub xcr0: u64,
    pub efer: Efer,
    pub pdpte: [u64; 4],
    pub pkru: u32,
    pub dr: [u64; 4],
    pub dr6: u64,
    pub dr7: u64,
    pub pending_debug: u64,
    pub syscall: SystemCall,
    pub msr: crate::system::MsrState,
    pub xmm: [u128; 16],
    pub mxcsr: u32,
    pub x87: crate::execute::x87::X87,
    pub apic: LocalApic,
    pub tlb: Tlb,
    /// The set of the TLB that data accesses use; see `update_access_mode`.
    pub tlb_set: usize,
    pub attention: Attention,
    pub activity: Activity,
    pub nmi_blocked: bool,
    /// An NMI waits behind the one that `attention` tells of.
    pub second_nmi: bool,
    /// The instruction that was executed alone has branched.
    pub(crate) has_branched: bool,
    /// Whether the running instruction is stepped has been decided: TF at its start does not count.
    pub(crate) step_is_settled: bool,
    /// SVM's registers, and the guest that runs under it.
    pub svm: crate::svm::Svm,
    /// The event being delivered: a VM exit on the way to its handler reports it.
    pub(crate) delivering: Option<crate::system::Event>,
    /// The address of the last page fault, until it is delivered and CR2 takes it.
    pub fault_address: u64,
    /// The line that MONITOR armed: an index into RAM and the page's generation then.
    pub monitored: Option<(u64, u32)>,
    /// MWAIT was told to wake for interrupts that RFLAGS.IF masks, too.
    pub masked_interrupts_wake: bool,
    /// A watched line was written by the running instruction.
    pub code_changed: bool,
    /// Virtual time of this processor: the start of the running block.
    pub clock: Picoseconds,
    /// Where the clock of the processor stands that is furthest behind of all others. The board
    /// says so at the start of a turn.
    pub others_clock: Picoseconds,
    pub tsc_offset: u64,
    /// Instructions completed since power-on.
    pub instructions: u64,
    /// Time that the running instruction takes beyond its class's cost.
    pub extra_cost: u64,
    /// Time that an access to a device's memory takes beyond its instruction's cost.
    pub device_access_cycles: u64,
    pub random: u64,
    /// Bytes of the software interrupt being delivered.
    pub software_length: u64,
    /// Memory whose accesses a debugger wants to see; no part of the processor's state.
    #[serde(skip)]
    pub observation: crate::Observation,
}

impl Cpu {
    /// A processor at power-on.
    pub fn new(index: CpuIndex, model: CpuModel, apic: LocalApic, seed: u64) -> Self {
        let svm = crate::svm::Svm::new(&model);
        let mut cpu = Self {
            index,
            model,
            gpr: CLEAR,
            ip: 0xFFF0,
            flags: Flags::default(),
            segment_base: [0; 8],
            segments: [Segment::real(0); 6],
            ldtr: Segment::default(),
            tr: Segment::default(),
            gdtr: TableRegister::default(),
            idtr: TableRegister::default(),
            cpl: 0,
            cr0: Cr0::empty(),
            cr2: 0,
            cr3: 0,
            cr4: Cr4::empty(),
            xcr0: 1,
            efer: Efer::empty(),
            pdpte: [0; 4],
            pkru: 0,
            dr: [0; 4],
            dr6: debug::DR6_RESET,
            dr7: debug::DR7_RESET,
            pending_debug: 0,
            syscall: SystemCall::default(),
            msr: crate::system::MsrState::default(),
            xmm: [0; 16],
            mxcsr: 0x1F80,
            x87: Default::default(),
            apic,
            tlb: Tlb::default(),
            tlb_set: 0,
            attention: Attention::empty(),
            activity: Activity::Running,
            nmi_blocked: false,
            second_nmi: false,
            has_branched: false,
            step_is_settled: false,
            svm,
            delivering: None,
            fault_address: 0,
            monitored: None,
            masked_interrupts_wake: false,
            code_changed: false,
            clock: Picoseconds::ZERO,
            others_clock: Picoseconds::MAX,
            tsc_offset: 0,
            instructions: 0,
            extra_cost: 0,
            device_access_cycles: 0,
            software_length: 0,
            observation: Default::default(),
            random: seed ^ (index.0 as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        cpu.initialize();
        if !cpu.apic.model().is_bootstrap {
            cpu.set_activity(Activity::WaitForStartup);
        }
        cpu
    }

    /// The state after INIT: caches, MSRs, FPU and TSC stay. [APM2 "Processor Initialization State"]
    pub fn initialize(&mut self) {
        self.gpr = CLEAR;
        self.gpr[crate::width::RDX] = self.model.signature() as u64;
        self.flags.set_bits(rflags::FIXED);
        self.segments = [Segment::real(0); 6];
        self.segments[1] = Segment {
            selector: 0xF000,
            attributes: Attributes(0x9B),
            limit: 0xFFFF,
            base: 0xFFFF_0000,
        };
        self.ldtr = Segment { attributes: Attributes(0x82), limit: 0xFFFF, ..Segment::default() };
        self.tr = Segment { attributes: Attributes(0x8B), limit: 0xFFFF, ..Segment::default() };
        self.gdtr = TableRegister { base: 0, limit: 0xFFFF };
        self.idtr = TableRegister { base: 0, limit: 0xFFFF };
        self.ip = 0xFFF0;
        self.cpl = 0;
        let keep = Cr0::CACHE_DISABLE | Cr0::NOT_WRITETHROUGH;
        self.cr0 = self.cr0 & keep | Cr0::EXTENSION_TYPE;
        self.cr2 = 0;
        self.cr3 = 0;
        self.cr4 = Cr4::empty();
        self.efer = Efer::empty();
        self.dr = [0; 4];
        self.dr6 = debug::DR6_RESET;
        self.dr7 = debug::DR7_RESET;
        self.pending_debug = 0;
        self.nmi_blocked = false;
        self.second_nmi = false;
        self.svm.guest = None;
        self.svm.global_interrupts = true;
        self.delivering = None;
        self.monitored = None;
        self.attention = Attention::INTERRUPT | Attention::TIMER;
        self.write_debug_control(0);
        self.set_activity(Activity::Running);
        self.tlb.flush_all();
        self.refresh_segments();
        self.update_access_mode();
    }

    /// Starts an application processor at `vector` × 4096. [APM2 "Startup Interrupt"]
    pub fn start_up(&mut self, vector: u8) {
        self.segments[1] = Segment {
            selector: (vector as u16) << 8,
            attributes: Attributes(0x9B),
            limit: 0xFFFF,
            base: (vector as u64) << 12,
        };
        self.ip = 0;
        self.refresh_segments();
        self.set_activity(Activity::Running);
    }

    pub fn set_activity(&mut self, activity: Activity) {
        self.activity = activity;
        self.attention.set(Attention::INACTIVE, activity != Activity::Running);
    }

    pub fn is_protected(&self) -> bool {
        self.cr0.contains(Cr0::PROTECTION_ENABLE) && !self.flags.has(rflags::VM)
    }

    pub fn is_virtual_8086(&self) -> bool {
        self.flags.has(rflags::VM)
    }

    pub fn is_real(&self) -> bool {
        !self.cr0.contains(Cr0::PROTECTION_ENABLE)
    }

    #[inline(always)]
    pub fn is_long_mode(&self) -> bool {
        self.efer.contains(Efer::LONG_MODE_ACTIVE)
    }

    /// Long mode with a 64-bit code segment.
    pub fn is_64_bit(&self) -> bool {
        self.is_long_mode() && self.segments[1].attributes.is_long()
    }

    pub fn checks_alignment(&self) -> bool {
        self.cpl == 3 && self.cr0.contains(Cr0::ALIGNMENT_MASK) && self.flags.has(rflags::AC)
    }

    /// Copies what the fast path needs out of the segment registers.
    pub fn refresh_segments(&mut self) {
        for (base, segment) in self.segment_base.iter_mut().zip(&self.segments) {
            *base = segment.base;
        }
    }

    /// The TLB set of an access at the present privilege, alignment checks aside.
    pub(crate) fn access_set(&self) -> usize {
        use crate::memory::sets;
        match (self.cpl, self.flags.has(rflags::AC)) {
            (3, _) => sets::USER,
            (_, false) => sets::SUPERVISOR,
            (_, true) => sets::SUPERVISOR_AC,
        }
    }

    /// Recomputes which set of the TLB data accesses use, after CPL, RFLAGS.AC, CR0.AM or DR7
    /// changed.
    pub fn update_access_mode(&mut self) {
        use crate::memory::sets;
        self.tlb_set = if self.checks_alignment()
            || self.has_data_breakpoints()
            || !self.observation.is_empty()
        {
            sets::CHECKED
        } else {
            self.access_set()
        };
    }

    /// The next number of the processor's seeded generator (RDRAND, RDSEED). splitmix64.
    pub fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// How accesses outside RAM are signed.
    pub(crate) fn visit(&self) -> bus::Visit {
        bus::Visit { cpu: self.index, at: self.clock }
    }

    /// The time-stamp counter at the start of the running block.
    pub fn tsc(&self) -> u64 {
        self.clock.ticks(self.model.tsc_hertz()).wrapping_add(self.tsc_offset)
    }
}
