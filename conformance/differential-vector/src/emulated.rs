//! The emulated processor in 64-bit mode over identity-mapped memory, running one instruction from
//! the state of a [`Block`].

use crate::{Block, Image, Signal};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Bus, CodeCache, Cpu, CpuModel};
use interrupt::local_apic::{LocalApic, LocalApicModel};

const TABLES: u64 = 0x1000;
const CODE: u64 = 0x1_0000;
/// Where RSI points.
pub const OPERANDS: u64 = 0x2_0000;
/// All that is mapped: one large page.
const RAM: u64 = 0x20_0000;
const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 0x80;

/// Notes the exception that an instruction raised; there is no device.
#[derive(Default)]
struct Witness {
    vector: Option<u8>,
}

impl Platform for Witness {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, size: u8) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(size))
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        u32::MAX
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8, _: u32) {}
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, happening: Happening) {
        if let Happening::Exception { vector, .. } = happening {
            self.vector.get_or_insert(vector);
        }
    }
}

/// A processor ready to run single instructions.
pub struct Emulated {
    fresh: Cpu,
    cache: CodeCache,
    memory: GuestMemory,
}

impl Emulated {
    /// Of the host's vendor.
    pub fn of_host() -> Self {
        Self::new(if crate::integer::is_amd() { "zen4" } else { "sapphire-rapids" })
    }

    pub fn new(model: &str) -> Emulated {
        let model = CpuModel::named(model).expect("a model that comes with the machine");
        let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
        let mut cpu = Cpu::new(CpuIndex(0), model, apic, 0);
        let code = Segment { selector: 8, attributes: Attributes(0xA9B), limit: !0, base: 0 };
        let data = Segment { selector: 16, attributes: Attributes(0xC93), limit: !0, base: 0 };
        cpu.registers.set_segments([data, code, data, data, data, data]);
        cpu.control.set_cr0(
            Cr0::PROTECTION_ENABLE
                | Cr0::MONITOR_COPROCESSOR
                | Cr0::EXTENSION_TYPE
                | Cr0::NUMERIC_ERROR
                | Cr0::PAGING,
        );
        cpu.control.cr3 = TABLES;
        cpu.control.set_cr4(Cr4::PAE | Cr4::OSFXSR | Cr4::OSXMMEXCPT | Cr4::OSXSAVE);
        cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE);
        cpu.control.xcr0 = 7;
        cpu.update_access_mode();
        let mut memory = GuestMemory::new(RAM);
        let mut entry = |at: u64, value: u64| {
            memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("tables are in RAM");
        };
        entry(TABLES, (TABLES + 0x1000) | PRESENT_WRITABLE);
        entry(TABLES + 0x1000, (TABLES + 0x2000) | PRESENT_WRITABLE);
        entry(TABLES + 0x2000, LARGE | PRESENT_WRITABLE);
        let costs = InstructionCosts([1000; Cost::COUNT]);
        Emulated { fresh: cpu, cache: CodeCache::new(costs, Dialect::Amd), memory }
    }

    /// The processor that every run starts from; its control registers may be changed.
    pub fn processor(&mut self) -> &mut Cpu {
        &mut self.fresh
    }

    /// RAM, whose last byte is the last that is mapped.
    pub fn memory(&mut self) -> &mut GuestMemory {
        &mut self.memory
    }

    /// Puts an instruction where runs begin.
    pub fn load(&mut self, instruction: &[u8]) {
        let mut code = [0xF4; 32];
        code[..instruction.len()].copy_from_slice(instruction);
        self.memory.write(SystemPhysical(CODE), &code).expect("code is in RAM");
        self.cache.clear();
    }

    /// Runs the loaded instruction; gives the exception it raised.
    pub fn run(&mut self, block: &mut Block) -> Option<u8> {
        self.run_many(block, 1)
    }

    pub fn run_many(&mut self, block: &mut Block, instructions: u64) -> Option<u8> {
        let mut cpu = self.fresh.clone();
        self.memory.write(SystemPhysical(OPERANDS), &block.memory).expect("operands are in RAM");
        load_image(&mut cpu, &block.image);
        cpu.registers.ymm_high = block.high.map(u128::from_le_bytes);
        cpu.registers.gpr[0] = block.rax;
        cpu.registers.gpr[1] = block.rcx;
        cpu.registers.gpr[2] = block.rdx;
        cpu.registers.gpr[6] = OPERANDS;
        cpu.registers.flags.set_bits(block.flags & !0x300);
        cpu.registers.ip = CODE;
        let mut witness = Witness::default();
        let mut bus = Bus { memory: &mut self.memory, platform: &mut witness };
        cpu.run(&mut self.cache, &mut bus, Picoseconds(1 << 40), instructions);
        block.rax = cpu.registers.gpr[0];
        block.rcx = cpu.registers.gpr[1];
        block.rdx = cpu.registers.gpr[2];
        block.flags = cpu.registers.flags.bits();
        store_image(&cpu, &mut block.image);
        block.high = cpu.registers.ymm_high.map(u128::to_le_bytes);
        self.memory.read(SystemPhysical(OPERANDS), &mut block.memory).expect("operands are in RAM");
        witness.vector
    }
}

/// The signal by which Linux reports an exception.
pub fn signal(vector: Option<u8>) -> Signal {
    match vector {
        None => Signal::None,
        Some(arch::exception::X87 | arch::exception::SIMD) => Signal::FloatingPoint,
        Some(arch::exception::INVALID_OPCODE) => Signal::Illegal,
        Some(_) => Signal::Segmentation,
    }
}

fn load_image(cpu: &mut Cpu, image: &Image) {
    cpu.registers.x87.control = image.control_word();
    cpu.registers.x87.status = image.status_word();
    cpu.registers.x87.valid = image.tags();
    let top = usize::from(cpu.registers.x87.top());
    for index in 0..8 {
        cpu.registers.x87.registers[(top + index) % 8] = image.st(index);
    }
    if cpu.registers.x87.status & !cpu.registers.x87.control & 0x3F != 0 {
        cpu.registers.x87.status |= 0x8080;
    }
    cpu.registers.mxcsr = image.mxcsr();
    for (index, register) in cpu.registers.xmm.iter_mut().enumerate() {
        *register = image.xmm(index);
    }
}

fn store_image(cpu: &Cpu, image: &mut Image) {
    image.set_control_word(cpu.registers.x87.control);
    image.set_status_word(cpu.registers.x87.status);
    image.set_tags(cpu.registers.x87.valid);
    (0..8).for_each(|index| image.set_st(index, cpu.registers.x87.st(index as u8)));
    image.set_mxcsr(cpu.registers.mxcsr);
    for (index, register) in cpu.registers.xmm.iter().enumerate() {
        image.set_xmm(index, *register);
    }
}
