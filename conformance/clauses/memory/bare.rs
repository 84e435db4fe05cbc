//! A board whose processors stand at programs of their own, in 32-bit protected mode without
//! paging.

use arch::address::SystemPhysical;
use arch::control::Cr0;
use arch::segment::{Attributes, Segment, SegmentRegister};
use arch::time::Picoseconds;
use board::topology::Topology;
use board::{Configuration, Limits, Machine, Outcome};
use cpu::{Activity, CpuModel};
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

/// Where the program of the first processor is; the others' follow.
const PROGRAM: u64 = 0x1_0000;
const PROGRAM_SIZE: u64 = 0x1000;
/// The top of the first processor's stack; the others' follow.
const STACK: u64 = 0x3_1000;

pub struct Bare {
    pub machine: Machine,
}

impl Bare {
    pub fn new(model: &str, order: &str, seed: u64, processors: usize, memory: u64) -> Self {
        let mut model = CpuModel::named(model).expect("the model exists");
        model.choose(&format!("memory={order}")).expect("the variant exists");
        let topology = Topology::of_cores(processors as u16).expect("so many cores are possible");
        let configuration = Configuration { seed, ..Configuration::of(model, topology, memory) };
        let machine = Machine::new(&configuration).expect("the machine is possible");
        Self { machine }
    }

    /// A processor is about to execute this program.
    pub fn load(
        &mut self,
        number: usize,
        write: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>,
    ) {
        let at = PROGRAM + PROGRAM_SIZE * number as u64;
        let mut a = CodeAssembler::new(32).expect("32 bits are a mode");
        write(&mut a).expect("the program is well-formed");
        let bytes = a.assemble(at).expect("the program assembles");
        assert!(bytes.len() < PROGRAM_SIZE as usize);
        self.put(at, &bytes);
        let cpu = &mut self.machine.state.cpus[number];
        cpu.control.set_cr0(Cr0::PROTECTION_ENABLE | Cr0::EXTENSION_TYPE);
        for register in SegmentRegister::ALL {
            let is_code = register == SegmentRegister::Cs;
            let (selector, attributes) = if is_code { (8, 0xC9B) } else { (16, 0xC93) };
            let attributes = Attributes(attributes);
            cpu.registers.set_segment(
                register,
                Segment { selector, attributes, limit: 0xFFFF_FFFF, base: 0 },
            );
        }
        cpu.registers.gpr[4] = STACK + 0x1000 * number as u64;
        cpu.registers.ip = at;
        cpu.pending.set_activity(Activity::Running);
        cpu.update_access_mode();
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.machine.memory.write(SystemPhysical(at), bytes).expect("RAM");
    }

    pub fn get(&self, at: u64) -> u32 {
        self.machine.memory.read_u32(SystemPhysical(at)).expect("RAM")
    }

    /// Runs until all processors have halted, each with interrupts off.
    pub fn run(&mut self) {
        let until = Picoseconds::from_milliseconds(100_000);
        let outcome = self.machine.run(Limits { until, instructions: u64::MAX });
        assert_eq!(outcome, Some(Outcome::Deadlock));
    }
}
