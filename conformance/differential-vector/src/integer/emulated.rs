//! The emulated side: CPL 3, 64-bit mode, the same pages at the same addresses.

use super::{CODE, CODE_BYTES, FS_BASE, Fault, GS_BASE, State, WINDOW, WINDOW_BYTES};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Activity, Bus, CodeCache, Cpu, CpuModel};
use interrupt::local_apic::{LocalApic, LocalApicModel};

const RAM: u64 = 0x4_0000;
/// Where the pages lie in RAM.
const CODE_FRAME: u64 = 0x1_0000;
const WINDOW_FRAME: u64 = 0x2_0000;
const TABLES: u64 = 0x1000;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const USER: u64 = 4;
const ACCESSED_DIRTY: u64 = 0x60;
const NO_EXECUTE: u64 = 1 << 63;

/// Notes the first exception; there is no device.
#[derive(Default)]
struct Witness {
    exception: Option<(u8, u32)>,
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
        if let Happening::Exception { vector, error, .. } = happening {
            self.exception.get_or_insert((vector, error));
        }
    }
}

pub struct Emulated {
    cpu: Cpu,
    cache: CodeCache,
    memory: GuestMemory,
}

impl Emulated {
    pub fn new(model: &str) -> Emulated {
        let costs = InstructionCosts([1; Cost::COUNT]);
        let mut memory = GuestMemory::new(RAM);
        map(&mut memory);
        Emulated { cpu: processor(model), cache: CodeCache::new(costs, Dialect::Amd), memory }
    }

    pub fn window(&mut self) -> &mut [u8] {
        &mut self.memory.ram[WINDOW_FRAME as usize..][..WINDOW_BYTES]
    }

    pub fn load(&mut self, at: u64, code: &[u8]) {
        let mut pages = [0xCC; CODE_BYTES];
        let offset = (at - CODE) as usize;
        pages[offset..offset + code.len()].copy_from_slice(code);
        self.memory.write(SystemPhysical(CODE_FRAME), &pages).expect("code is in RAM");
        self.cpu.pending.forget_code_change();
    }

    pub fn run(&mut self, state: &mut State, instructions: u64) -> Option<Fault> {
        let cpu = &mut self.cpu;
        cpu.registers.gpr[..16].copy_from_slice(&state.gpr);
        cpu.registers.flags.set_bits(state.flags);
        cpu.update_access_mode();
        cpu.registers.ip = state.ip;
        let mut witness = Witness::default();
        let mut bus = Bus { memory: &mut self.memory, platform: &mut witness };
        let until = Picoseconds(cpu.clock.now().0 + 1_000_000_000);
        cpu.run(&mut self.cache, &mut bus, until, instructions);
        state.gpr.copy_from_slice(&cpu.registers.gpr[..16]);
        state.flags = cpu.registers.flags.bits();
        state.ip = cpu.registers.ip;
        let (vector, error) = witness.exception?;
        // There is no interrupt table: the delivery ended in a shutdown, which is over now.
        cpu.pending.set_activity(Activity::Running);
        let is_page_fault = vector == arch::exception::PAGE_FAULT;
        let address = if is_page_fault { cpu.pending.fault_address() } else { 0 };
        Some(Fault { vector, error, address })
    }
}

fn map(memory: &mut GuestMemory) {
    let mut entry = |at: u64, value: u64| {
        memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("tables are in RAM");
    };
    let table = PRESENT | WRITABLE | USER | ACCESSED_DIRTY;
    let index = |level: u32| CODE >> (12 + 9 * level) & 0x1FF;
    for level in 1..4u32 {
        let here = TABLES + u64::from(3 - level) * 0x1000;
        entry(here + 8 * index(level), (here + 0x1000) | table);
    }
    let leaves = TABLES + 0x3000;
    let mut pages = |first: u64, bytes: usize, frame: u64, attributes: u64| {
        for page in (0..bytes as u64).step_by(0x1000) {
            let at = leaves + ((first + page) >> 12 & 0x1FF) * 8;
            entry(at, (frame + page) | PRESENT | USER | ACCESSED_DIRTY | attributes);
        }
    };
    pages(CODE, CODE_BYTES, CODE_FRAME, 0);
    pages(WINDOW, WINDOW_BYTES, WINDOW_FRAME, WRITABLE | NO_EXECUTE);
}

fn processor(model: &str) -> Cpu {
    let model = CpuModel::named(model).expect("a model that comes with the machine");
    let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
    let mut cpu = Cpu::new(CpuIndex(0), model, apic, 0);
    let segment = |selector: u16, attributes: u16, base: u64| Segment {
        selector,
        attributes: Attributes(attributes),
        limit: !0,
        base,
    };
    // The selectors of a Linux process.
    let null = segment(0, 0, 0);
    cpu.registers.set_segments([
        null,
        segment(0x33, 0xAFB, 0),
        segment(0x2B, 0xCF3, 0),
        null,
        segment(0, 0, FS_BASE),
        segment(0, 0, GS_BASE),
    ]);
    cpu.registers.set_cpl(3);
    cpu.control.set_cr0(
        Cr0::PROTECTION_ENABLE
            | Cr0::MONITOR_COPROCESSOR
            | Cr0::EXTENSION_TYPE
            | Cr0::NUMERIC_ERROR
            | Cr0::WRITE_PROTECT
            | Cr0::ALIGNMENT_MASK
            | Cr0::PAGING,
    );
    cpu.control.cr3 = TABLES;
    cpu.control.set_cr4(Cr4::PAE | Cr4::OSFXSR | Cr4::OSXMMEXCPT | Cr4::OSXSAVE | Cr4::FSGSBASE);
    cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::NO_EXECUTE);
    cpu.control.idtr.limit = 0;
    // No I/O permission map.
    cpu.control.tr.limit = 0;
    cpu.update_access_mode();
    cpu
}
