//! The processor alone, with RAM and ports that remember what was written to them. Every handler
//! halts, so that a test sees which event came, with what error code and from where.

use crate::layout::*;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::exception::has_error_code;
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::Cost;
use cpu::operation::InstructionCosts;
use cpu::{Activity, Attention, Bus, CodeCache, Cpu, CpuModel, RunEnd};
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;

pub type Code = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// Ports that keep what was written; reads yield zero.
#[derive(Default)]
pub struct Ports(pub Vec<(u16, u32)>);

impl Platform for Ports {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8) -> u64 {
        0
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        0
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, port: u16, _: u8, value: u32) {
        self.0.push((port, value));
    }
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 64-bit, in ring 0 or 3.
    Long,
    User,
    /// A 32-bit code segment under a 64-bit system.
    Compatibility,
    /// 32-bit without paging.
    Protected,
}

impl Mode {
    fn is_long(self) -> bool {
        self != Mode::Protected
    }

    fn bits(self) -> u32 {
        if matches!(self, Mode::Long | Mode::User) { 64 } else { 32 }
    }
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The code reached its end.
    Done,
    /// HLT in the test's own code.
    Halt,
    Event {
        vector: u8,
        error: Option<u32>,
        /// Of the instruction that faulted, or of the one after a trap; from the start of the code.
        offset: i64,
    },
    Shutdown,
}

pub struct Subject {
    pub cpu: Cpu,
    pub memory: GuestMemory,
    pub ports: Ports,
    pub mode: Mode,
    cache: CodeCache,
}

impl Subject {
    pub fn new(model: &str, mode: Mode) -> Self {
        let model = CpuModel::named(model).expect("the model exists");
        let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
        let mut cache = CodeCache::new(InstructionCosts([1000; Cost::COUNT]), model.dialect());
        cache.translate_as_wanted();
        let mut subject = Self {
            cpu: Cpu::new(CpuIndex(0), model, apic, 1),
            memory: GuestMemory::new(RAM),
            ports: Ports::default(),
            mode,
            cache,
        };
        write_tables(&mut subject.memory);
        (0..=255).for_each(|vector| write_gate(&mut subject.memory, vector, mode.is_long()));
        subject.enter(mode);
        subject
    }

    /// A subject that is about to execute `code`, which ends by calling `DONE`'s gate.
    pub fn with(model: &str, mode: Mode, code: Code) -> Self {
        let mut subject = Self::new(model, mode);
        subject.assemble(CODE, code);
        subject
    }

    /// The state in which a test's code begins.
    pub fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        let cpu = &mut self.cpu;
        let paging = if mode.is_long() { Cr0::PAGING } else { Cr0::empty() };
        cpu.control
            .set_cr0(Cr0::PROTECTION_ENABLE | Cr0::EXTENSION_TYPE | Cr0::NUMERIC_ERROR | paging);
        cpu.control.set_cr4(Cr4::OSFXSR | Cr4::OSXMMEXCPT);
        cpu.control.set_efer(Efer::SYSCALL | Efer::NO_EXECUTE);
        if mode.is_long() {
            cpu.control.switch_cr4(Cr4::PAE, true);
            cpu.control.switch_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE, true);
        }
        cpu.control.cr3 = ROOT;
        let (code, data) = match mode {
            Mode::Long => (segment(CODE_64, 0xA9B), segment(FLAT, 0xC93)),
            Mode::User => (segment(USER_CODE_64, 0xAFB), segment(USER_DATA, 0xCF3)),
            Mode::Compatibility => (segment(USER_CODE_32, 0xCFB), segment(USER_DATA, 0xCF3)),
            Mode::Protected => (segment(CODE_32, 0xC9B), segment(FLAT, 0xC93)),
        };
        cpu.registers.set_segments([data, code, data, data, data, data]);
        cpu.registers.set_cpl((code.selector & 3) as u8);
        (cpu.control.idtr.base, cpu.control.idtr.limit) =
            (IDT, if mode.is_long() { 0xFFF } else { 0x7FF });
        (cpu.control.gdtr.base, cpu.control.gdtr.limit) = (GDT, GDT_LIMIT);
        cpu.control.ldtr = Segment::default();
        let (task, base) = if mode.is_long() { (TASK_64, TSS) } else { (TASK_A, TSS_A) };
        cpu.control.tr =
            Segment { selector: task, attributes: Attributes(0x8B), limit: 0x67, base };
        cpu.registers.gpr[..16].fill(0);
        cpu.registers.gpr[4] = if cpu.registers.cpl() == 3 { USER_STACK } else { STACK };
        cpu.registers.ip = if cpu.registers.cpl() == 3 { USER + CODE } else { CODE };
        cpu.registers.flags.set_bits(2);
        cpu.pending.clear(Attention::all());
        cpu.pending.set_activity(Activity::Running);
        self.refresh();
    }

    /// After a test has changed registers behind the processor's back.
    pub fn refresh(&mut self) {
        self.cpu.translation.tlb.flush_all();
        self.cpu.update_access_mode();
        self.cpu.update_breakpoints();
    }

    /// The linear address of the test's code.
    pub fn start(&self) -> u64 {
        if self.cpu.registers.cpl() == 3 { USER + CODE } else { CODE }
    }

    /// Writes code, which ends by calling `DONE`'s gate.
    pub fn assemble(&mut self, at: u64, code: Code) {
        let mut assembler = CodeAssembler::new(self.mode.bits()).expect("a code size");
        code(&mut assembler).expect("the code is well-formed");
        assembler.int(i32::from(DONE)).expect("the code is well-formed");
        let linear = if self.cpu.registers.cpl() == 3 { USER + at } else { at };
        let bytes = assembler.assemble(linear).expect("the code assembles");
        self.memory.write(SystemPhysical(at), &bytes).expect("RAM");
    }

    pub fn put(&mut self, at: u64, value: u64) {
        put(&mut self.memory, at, value);
    }

    pub fn get(&self, at: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(at)).expect("RAM")
    }

    /// Runs until a handler, or the code itself, halts.
    pub fn run(&mut self) -> Outcome {
        for _ in 0..1000 {
            match self.turn() {
                RunEnd::Yield => {}
                RunEnd::Idle => return self.outcome(),
                RunEnd::Shutdown => return Outcome::Shutdown,
                end => panic!("{end:?} at {:#x}", self.cpu.registers.ip),
            }
        }
        panic!("does not halt");
    }

    /// Runs until there is reason to stop.
    pub fn turn(&mut self) -> RunEnd {
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.ports };
        let until = Picoseconds(self.cpu.clock.now().0 + 1_000_000_000);
        self.cpu.run(&mut self.cache, &mut bus, until, 10_000)
    }

    fn outcome(&self) -> Outcome {
        let place = self.cpu.registers.ip.wrapping_sub(HANDLERS);
        if place >= 16 * 256
            || self.cpu.registers.segment(arch::segment::SegmentRegister::Cs).selector & 3 != 0
        {
            return Outcome::Halt;
        }
        let vector = (place / 16) as u8;
        if vector == DONE {
            return Outcome::Done;
        }
        let has_error = has_error_code(vector);
        let error = has_error.then(|| self.frame(0) as u32);
        let ip = self.frame(usize::from(has_error));
        let start = if self.frame(usize::from(has_error) + 1) & 3 == 3 { USER } else { 0 } + CODE;
        Outcome::Event { vector, error, offset: ip.wrapping_sub(start) as i64 }
    }

    /// A word of the handler's stack frame, from the top: error code if there is one, instruction
    /// pointer, CS, flags, stack pointer, SS.
    pub fn frame(&self, place: usize) -> u64 {
        if self.cpu.control.is_long_mode() {
            // The users' view of the stack lies in the same RAM.
            self.get(self.cpu.registers.gpr[4] % USER + 8 * place as u64)
        } else {
            self.get((self.cpu.registers.gpr[4] & 0xFFFF_FFFF) + 4 * place as u64) & 0xFFFF_FFFF
        }
    }
}

fn segment(selector: u16, attributes: u16) -> Segment {
    Segment { selector, attributes: Attributes(attributes), limit: 0xFFFF_FFFF, base: 0 }
}

/// An event at an offset in the code.
pub fn event(vector: u8, error: Option<u32>, offset: i64) -> Outcome {
    Outcome::Event { vector, error, offset }
}

/// #GP(0) of the first instruction.
pub const PROTECTION: Outcome = Outcome::Event { vector: 13, error: Some(0), offset: 0 };
/// #UD of the first instruction.
pub const UNDEFINED: Outcome = Outcome::Event { vector: 6, error: None, offset: 0 };
