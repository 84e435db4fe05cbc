//! A guest in 64-bit mode with tables of its own, and what its attacks have in common.

use crate::program::{LOAD, MAIN, TRAMPOLINE, image, start_second};
use arch::address::SystemPhysical;
use board::topology::Topology;
use board::{Configuration, Machine};
use bus::{Platform, Visit};
use cpu::CpuModel;
use device::map;
use device::request::Images;
use device::storage::{Disk, WriteMode};
use iced_x86::code_asm::*;

pub const RAM: u64 = 8 << 20;
const PROGRAM: u64 = 0x11_0000;
const STUBS: u64 = 0x11_8000;
const GDT: u64 = 0x12_1000;
const IDT: u64 = 0x12_2000;
const GDT_REGISTER: u64 = 0x12_3000;
const IDT_REGISTER: u64 = 0x12_3010;
const FIRST_OF_INTERRUPT_STACKS: u64 = 0x24;
const TABLES: u64 = 0x20_0000;
/// Frames for code that is attacked.
pub const FRAME: u64 = 0x30_0000;
pub const OTHER: u64 = 0x30_1000;
/// What is mapped as the last page of all addresses, and below those that are not canonical.
pub const TOP: u64 = 0x31_0000;
pub const MIDDLE: u64 = 0x31_1000;
pub const PRISTINE: u64 = 0x31_2000;
pub const SCRATCH: u64 = 0x32_0000;
pub const STACK: u64 = 0x40_0000;
/// Code that the second processor changes.
pub const SHARED: u64 = 0x9100;
/// Behind the end of RAM: pages with names of their own.
const WINDOW: u64 = RAM;
/// The entry of [`Page::Remapped`].
pub const REMAPPED_ENTRY: u64 = table(7) + 8 * Page::Remapped as u64;
/// Present, writable, for everybody.
pub const ALL: u64 = 7;
/// CS of compatibility mode.
pub const COMPATIBILITY: i32 = 0x18;
const LARGE: u64 = 1 << 7;
const ROUNDS: i32 = 10;

/// Pages of the window, by number.
#[derive(Clone, Copy)]
pub enum Page {
    /// Behind the last byte of RAM.
    Hole,
    /// [`FRAME`] once more.
    Alias,
    Remapped,
    /// RAM before a device, before nothing.
    BeforeDevice,
    Device,
    BeforeNothing,
    Nothing,
}

impl Page {
    pub const fn address(self) -> u64 {
        WINDOW + 0x1000 * self as u64
    }
}

const fn table(number: u64) -> u64 {
    TABLES + 0x1000 * number
}

pub type Code = fn(&mut CodeAssembler, &Place) -> Result<(), IcedError>;

/// What an attack has to know of its machine.
pub struct Place {
    /// Registers of the DMA engine.
    pub engine: u64,
}

/// What runs once, what runs in rounds, and what lies in memory.
pub struct Attack {
    pub name: &'static str,
    pub before: Code,
    pub round: Code,
    pub memory: fn() -> Vec<(u64, Vec<u8>)>,
}

pub fn assemble_at(
    at: u64,
    write: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).expect("64 bits are a mode");
    write(&mut a).expect("the program is well-formed");
    a.assemble(at).expect("the program assembles")
}

/// Puts RAX into the sum of what was seen.
pub fn note(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.rol(rbx, 7)?;
    a.xor(rbx, rax)
}

/// Code that may fault, which is noted; what follows goes on in either case.
pub fn guarded(
    a: &mut CodeAssembler,
    code: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Result<(), IcedError> {
    let mut next = a.create_label();
    a.lea(r15, ptr(next))?;
    code(a)?;
    note(a)?;
    a.set_label(&mut next)?;
    a.mov(rsp, STACK)
}

/// Calls a guarded address.
pub fn call(a: &mut CodeAssembler, at: u64) -> Result<(), IcedError> {
    guarded(a, |a| {
        a.mov(rcx, at)?;
        a.call(rcx)
    })
}

/// MOV AL, `value` and RET.
pub fn answering(value: u8) -> Vec<u8> {
    vec![0xB0, value, 0xC3]
}

/// Into 64-bit mode.
fn entry(has_second: bool, second: usize) -> Vec<u8> {
    crate::program::assemble(MAIN, &|a| {
        if has_second {
            start_second(a, second)?;
        }
        a.mov(eax, cr4)?;
        a.or(eax, 1 << 5 | 1 << 9)?;
        a.mov(cr4, eax)?;
        a.mov(eax, TABLES as u32)?;
        a.mov(cr3, eax)?;
        a.mov(ecx, 0xC000_0080u32)?;
        a.rdmsr()?;
        a.or(eax, 1 << 8 | 1 << 11)?;
        a.wrmsr()?;
        a.mov(eax, cr0)?;
        a.or(eax, 0x8001_0000u32 as i32)?;
        a.mov(cr0, eax)?;
        a.lgdt(ptr(GDT_REGISTER))?;
        a.lidt(ptr(IDT_REGISTER))?;
        a.mov(esp, STACK as u32)?;
        a.push(8)?;
        a.push(PROGRAM as i32)?;
        a.retf()
    })
}

fn program(attack: &Attack, place: &Place) -> Vec<u8> {
    assemble_at(PROGRAM, |a| {
        a.mov(eax, 0x10)?;
        a.mov(ss, eax)?;
        a.mov(ds, eax)?;
        a.mov(es, eax)?;
        a.mov(rsp, STACK)?;
        a.xor(ebx, ebx)?;
        (attack.before)(a, place)?;
        a.mov(r14d, ROUNDS)?;
        let mut again = a.create_label();
        a.set_label(&mut again)?;
        a.xor(eax, eax)?;
        (attack.round)(a, place)?;
        a.dec(r14d)?;
        a.jne(again)?;
        a.mov(eax, ebx)?;
        a.out(0xE0, eax)?;
        a.shr(rbx, 32)?;
        a.mov(eax, ebx)?;
        a.out(0xF4, eax)?;
        a.hlt()
    })
}

/// A gate's target for each vector: notes the vector, its error code, where it was and CR2, and
/// goes on where R15 says.
fn stubs() -> Vec<(u64, Vec<u8>)> {
    let common = STUBS + 0x1000;
    let mut parts: Vec<_> = (0..32u64)
        .map(|vector| {
            let at = STUBS + 16 * vector;
            let has_error = matches!(vector, 8 | 10..=14 | 17);
            let code = assemble_at(at, |a| {
                if !has_error {
                    a.push(0)?;
                }
                a.push(vector as i32)?;
                a.jmp(common)
            });
            (at, code)
        })
        .collect();
    let handler = assemble_at(common, |a| {
        a.pop(rax)?;
        a.shl(rax, 32)?;
        a.add(rax, qword_ptr(rsp))?;
        note(a)?;
        a.mov(rax, qword_ptr(rsp + 8))?;
        note(a)?;
        a.mov(rax, cr2)?;
        note(a)?;
        a.mov(rsp, STACK)?;
        a.jmp(r15)
    });
    parts.push((common, handler));
    parts
}

/// Tables, gates and pages.
fn tables() -> Vec<(u64, Vec<u8>)> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entry = |table: u64, index: u64, value: u64| {
        (table + 8 * index, (value | ALL).to_le_bytes().to_vec())
    };
    let mut parts = vec![
        entry(table(0), 0, table(1)),
        entry(table(1), 0, table(2)),
        entry(table(2), 4, table(7)),
        entry(table(1), 3, table(8)),
        // The last page of all, and the last of the lower half.
        entry(table(0), 511, table(9)),
        entry(table(9), 511, table(10)),
        entry(table(10), 511, table(11)),
        entry(table(11), 511, TOP),
        entry(table(0), 255, table(12)),
        entry(table(12), 511, table(13)),
        entry(table(13), 511, table(14)),
        entry(table(14), 511, MIDDLE),
    ];
    for number in 0..4 {
        parts.push(entry(table(2), number, table(3 + number)));
        let pages: Vec<u64> = (0..512).map(|page| (512 * number + page) << 12 | ALL).collect();
        parts.push((table(3 + number), words(&pages)));
    }
    let large: Vec<u64> = (0..512).map(|page| 0xC000_0000 + (page << 21) | LARGE | ALL).collect();
    parts.push((table(8), words(&large)));
    for (page, frame) in [
        (Page::Hole, RAM),
        (Page::Alias, FRAME),
        (Page::Remapped, FRAME),
        (Page::BeforeDevice, OTHER),
        (Page::Device, 0xFEE0_0000),
        (Page::BeforeNothing, OTHER),
    ] {
        parts.push(entry(table(7), page as u64, frame));
    }
    let code = 0x00AF_9A00_0000_FFFF;
    parts.push((GDT, words(&[0, code, 0x00CF_9200_0000_FFFF, 0x00CF_9A00_0000_FFFF])));
    let gate = |vector: u64| {
        let at = STUBS + 16 * vector;
        [at & 0xFFFF | 8 << 16 | 0x8E01 << 32 | at >> 16 << 48, at >> 32]
    };
    // The loader's task has its segment at 0: faults have a stack of their own.
    parts.push((FIRST_OF_INTERRUPT_STACKS, words(&[STACK + 0x8000])));
    parts.push((IDT, words(&(0..32).flat_map(gate).collect::<Vec<_>>())));
    parts.push((GDT_REGISTER, words(&[GDT << 16 | 0x1F, 0])));
    parts.push((IDT_REGISTER, words(&[IDT << 16 | 0x1FF, 0])));
    parts
}

/// The second processor's program at 8000h: it changes code of the first without end.
const SECOND: [u8; 10] = [
    0x31, 0xC0, 0x8E, 0xD8, // xor ax, ax; mov ds, ax
    0xFE, 0x06, 0x01, 0x91, // again: inc byte [9101h]
    0xEB, 0xFA, // jmp again
];

struct NoDisks;

impl Images for NoDisks {
    fn open(&self, path: &str, _: WriteMode) -> Result<Disk, String> {
        Err(path.into())
    }
}

pub fn configuration(model: &str) -> Configuration {
    let model = CpuModel::named(model).expect("the model exists");
    Configuration {
        seed: 7,
        functions: vec![device::Request::parse("ioat", &NoDisks).expect("an engine")],
        ..Configuration::of(model, Topology::of_cores(2).expect("two cores are possible"), RAM)
    }
}

/// A machine that will run an attack, with every page's generation where it is told.
pub fn started(model: &str, attack: &Attack, generation: u32) -> Machine {
    let mut machine = Machine::new(&configuration(model)).expect("the machine is possible");
    let has_second = attack.name == "another processor's writes";
    let program_of_second = if has_second { SECOND.to_vec() } else { vec![] };
    let image = image(&[(MAIN, entry(has_second, SECOND.len())), (TRAMPOLINE, program_of_second)]);
    let kernel = board::load::Source::of("attack", &image);
    let images = board::Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    let place = Place { engine: engine(&mut machine) };
    let mut parts = [tables(), stubs(), (attack.memory)()].concat();
    parts.push((PROGRAM, program(attack, &place)));
    assert!(parts.iter().all(|(at, _)| *at != u64::from(LOAD)));
    for (at, bytes) in parts {
        machine.memory.write(SystemPhysical(at), &bytes).expect("the machine has so much memory");
    }
    machine.memory.generations.fill(generation);
    machine
}

/// Lets the engine reach memory; where its registers are.
fn engine(machine: &mut Machine) -> u64 {
    let function = machine
        .state
        .wiring
        .chipset
        .pci
        .functions()
        .iter()
        .find(|function| function.configuration.read(0, 4) == 0x2021_8086);
    let function = function.expect("the engine");
    let (address, registers) = (function.address, function.configuration.mapped(0));
    let visit = Visit { cpu: arch::identity::CpuIndex(0), at: arch::time::Picoseconds::ZERO };
    let command = SystemPhysical(address.in_window(map::ECAM).0 + 4);
    machine.state.wiring.write(&mut machine.memory, visit, command, 2, 6);
    registers.expect("the region is where firmware put it")
}
