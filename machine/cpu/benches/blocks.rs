//! Instructions per second of small loops in 64-bit mode, for comparing two versions of the
//! dispatch. `cargo bench -p avicenna-cpu`; criterion keeps the last run and prints the change.

use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Bus, CodeCache, Cpu, CpuModel, RunEnd};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;

const CODE: u64 = 0x1_0000;
const STACK: u64 = 0x2_0000;
const TABLES: u64 = 0x3_0000;
const DATA: u64 = 0x20_0000;
const RAM: u64 = 16 << 20;
/// Instructions of one measured run.
const INSTRUCTIONS: u64 = 1_000_000;

struct NoDevices;

impl Platform for NoDevices {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8) -> u64 {
        0
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        0
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8, _: u32) {}
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

/// Identity-mapped 4 KiB pages, so that the TLB matters.
fn tables(memory: &mut GuestMemory) {
    let mut write = |at: u64, value: u64| {
        memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
    };
    write(TABLES, (TABLES + 0x1000) | 3);
    write(TABLES + 0x1000, (TABLES + 0x2000) | 3);
    for page in 0..RAM >> 12 {
        let table = TABLES + 0x3000 + (page >> 9 << 12);
        write(TABLES + 0x2000 + 8 * (page >> 9), table | 3);
        write(table + 8 * (page & 511), page << 12 | 3);
    }
}

fn processor() -> Cpu {
    let model = CpuModel::named("zen4").expect("model");
    let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
    let mut cpu = Cpu::new(CpuIndex(0), model, apic, 1);
    cpu.control.set_cr0(Cr0::PROTECTION_ENABLE | Cr0::PAGING | Cr0::WRITE_PROTECT);
    cpu.control.set_cr4(Cr4::PAE);
    cpu.control.cr3 = TABLES;
    cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE);
    let segment = |selector, attributes| Segment {
        selector,
        attributes: Attributes(attributes),
        limit: 0xFFFF_FFFF,
        base: 0,
    };
    let data = segment(0x10, 0xC93);
    cpu.registers.set_segments([data, segment(0x08, 0xA9B), data, data, data, data]);
    cpu.registers.gpr[4] = STACK;
    cpu.registers.gpr[6] = DATA;
    cpu.registers.ip = CODE;
    cpu.translation.tlb.flush_all();
    cpu.update_access_mode();
    cpu
}

type Program = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// Arithmetic of registers, and a branch that is always taken.
fn registers(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.add(rax, rbx)?;
    a.xor(rcx, rax)?;
    a.shl(rdx, 3)?;
    a.mov(r8, rcx)?;
    a.sub(r8d, 7)?;
    a.lea(rbx, qword_ptr(rax + rcx * 4 + 8))?;
    a.test(r8, r8)?;
    a.jne(again)?;
    a.jmp(again)
}

/// Loads, stores and read-modify-writes of one page.
fn one_page(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.mov(rax, qword_ptr(rsi + 8))?;
    a.add(rax, qword_ptr(rsi + 16))?;
    a.mov(qword_ptr(rsi + 24), rax)?;
    a.add(dword_ptr(rsi + 32), 1)?;
    a.movzx(ecx, byte_ptr(rsi + rax * 1))?;
    a.and(eax, 255)?;
    a.cmp(dword_ptr(rsi + 40), 1)?;
    a.jne(again)?;
    a.jmp(again)
}

/// Calls and returns that save registers.
fn calls(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut again, mut function) = (a.create_label(), a.create_label());
    a.set_label(&mut again)?;
    a.call(function)?;
    a.jmp(again)?;
    a.set_label(&mut function)?;
    a.push(rbx)?;
    a.push(rbp)?;
    a.inc(rax)?;
    a.pop(rbp)?;
    a.pop(rbx)?;
    a.ret()
}

/// Every load misses the TLB: pages that share an entry in turn.
fn page_walks(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.mov(rax, qword_ptr(rsi))?;
    a.mov(rax, qword_ptr(rsi + 0x40_0000))?;
    a.mov(rax, qword_ptr(rsi + 0x80_0000))?;
    a.jmp(again)
}

fn loops(criterion: &mut Criterion) {
    let programs: [(&str, Program); 4] = [
        ("registers", registers),
        ("one_page", one_page),
        ("calls", calls),
        ("page_walks", page_walks),
    ];
    let mut group = criterion.benchmark_group("loops");
    group.throughput(Throughput::Elements(INSTRUCTIONS)).sample_size(20);
    for (name, program) in programs {
        let mut memory = GuestMemory::new(RAM);
        tables(&mut memory);
        let mut assembler = CodeAssembler::new(64).expect("64 bits");
        program(&mut assembler).expect("a program");
        let code = assembler.assemble(CODE).expect("code");
        memory.write(SystemPhysical(CODE), &code).expect("RAM");
        let mut cache = CodeCache::new(InstructionCosts([1; Cost::COUNT]), Dialect::Amd);
        let mut cpu = processor();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut bus = Bus { memory: &mut memory, platform: &mut NoDevices };
                let end = cpu.run(&mut cache, &mut bus, Picoseconds(u64::MAX), INSTRUCTIONS);
                assert_eq!(end, RunEnd::Instructions, "the loop goes on");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, loops);
criterion_main!(benches);
