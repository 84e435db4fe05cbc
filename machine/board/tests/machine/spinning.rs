//! Processors that spin together are passed over until something reaches them, and nothing but the
//! host's time shows it.

use crate::program::{
    HANDLER, LOAD, MAIN, SUBROUTINE, TRAMPOLINE, assemble, configuration, image, start_others,
};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use bus::Random;
use cpu::CpuModel;
use iced_x86::code_asm::*;

const CPUS: u32 = 5;
const ROUNDS: u32 = 60;
/// A line for each processor: what it waits for, and what it answers.
const WORDS: u32 = 0x2_0000;
const ANSWERS: u32 = 0x2_1000;
/// How many interrupts were taken.
const TAKEN: u32 = 0x2_2000;
/// An interrupt gate for vector 40h, and where LIDT finds the table.
const GATES: u32 = 0x7000;
const POINTER: u32 = 0x6FF0;

/// From real mode into flat 32-bit code at SUBROUTINE.
fn trampoline() -> Vec<u8> {
    let mut code = vec![
        0xFA, // cli
        0x2E, 0x66, 0x0F, 0x01, 0x16, 0x20, 0x00, // lgdt cs:[20h]
        0x0F, 0x20, 0xC0, 0x0C, 0x01, 0x0F, 0x22,
        0xC0, // mov eax, cr0; or al, 1; mov cr0, eax
        0x66, 0xEA, // jmp 8:SUBROUTINE
    ];
    code.extend((LOAD + SUBROUTINE as u32).to_le_bytes());
    code.extend([8, 0]);
    code.resize(0x20, 0x90);
    code.extend([23, 0, 0x28, 0x80, 0, 0, 0, 0]);
    for descriptor in [0_u64, 0x00CF_9A00_0000_FFFF, 0x00CF_9200_0000_FFFF] {
        code.extend(descriptor.to_le_bytes());
    }
    code
}

/// Each of the others waits for every number in turn, and answers with it; where the loop's last
/// jump is taken out, without waiting.
fn others() -> Vec<u8> {
    assemble(SUBROUTINE, &|a| {
        a.mov(eax, 16)?;
        a.mov(ds, eax)?;
        a.mov(es, eax)?;
        a.mov(ss, eax)?;
        a.lidt(ptr(POINTER))?;
        a.mov(dword_ptr(0xFEE0_00F0_u32), 0x1FF)?;
        a.mov(ebx, dword_ptr(0xFEE0_0020_u32))?;
        a.shr(ebx, 24)?;
        a.mov(esp, ebx)?;
        a.shl(esp, 12)?;
        a.add(esp, 0x4_0000)?;
        a.shl(ebx, 6)?;
        a.xor(ecx, ecx)?;
        a.xor(edx, edx)?;
        a.sti()?;
        let (mut next, mut wait, mut go) = (a.create_label(), a.create_label(), a.create_label());
        a.set_label(&mut next)?;
        a.inc(ecx)?;
        a.set_label(&mut wait)?;
        a.mov(eax, dword_ptr(ebx + WORDS))?;
        // Turns end where either comparison's flags stand.
        a.cmp(eax, ecx)?;
        a.pause()?;
        a.je(go)?;
        a.test(edx, edx)?;
        a.pause()?;
        a.jmp(wait)?;
        a.set_label(&mut go)?;
        a.mov(dword_ptr(ebx + ANSWERS), ecx)?;
        a.jmp(next)
    })
}

fn handler() -> Vec<u8> {
    assemble(HANDLER, &|a| {
        a.lock().inc(dword_ptr(TAKEN))?;
        a.mov(dword_ptr(0xFEE0_00B0_u32), 0)?;
        a.iretd()
    })
}

/// For a time that the bits of EBP from `shift` on say.
fn delay(a: &mut CodeAssembler, shift: u32) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.mov(edx, ebp)?;
    a.shr(edx, shift)?;
    a.inc(edx)?;
    a.set_label(&mut again)?;
    a.dec(edx)?;
    a.jne(again)
}

/// In every round: a pause of some length, then an interrupt and a number for each of the others.
/// At the end the loop that they wait in is changed.
fn first() -> Vec<u8> {
    let last_jump = others().windows(3).position(|code| code == [0xF3, 0x90, 0xEB]);
    let last_jump = LOAD + (SUBROUTINE + last_jump.expect("pause; jmp") + 2) as u32;
    assemble(MAIN, &|a| {
        let gate = LOAD + HANDLER as u32;
        a.mov(dword_ptr(GATES + 0x40 * 8), 0x0008_0000 | (gate & 0xFFFF) as i32)?;
        a.mov(dword_ptr(GATES + 0x40 * 8 + 4), (gate & 0xFFFF_0000 | 0x8E00) as i32)?;
        a.mov(word_ptr(POINTER), 0x7FF)?;
        a.mov(dword_ptr(POINTER + 2), GATES)?;
        start_others(a, trampoline().len())?;
        a.mov(ebp, 12_345)?;
        a.xor(ecx, ecx)?;
        let mut next = a.create_label();
        a.set_label(&mut next)?;
        a.inc(ecx)?;
        for other in 1..CPUS {
            let (mut answered, mut wait) = (a.create_label(), a.create_label());
            a.imul_3(ebp, ebp, 1_103_515_245)?;
            a.add(ebp, 12_345)?;
            delay(a, 20)?;
            a.mov(dword_ptr(0xFEE0_0310_u32), (other << 24) as i32)?;
            a.mov(dword_ptr(0xFEE0_0300_u32), 0x4040)?;
            delay(a, 22)?;
            a.mov(dword_ptr(WORDS + other * 64), ecx)?;
            // Every other processor's answer is waited for; those before answer meanwhile.
            if other % 2 == 0 {
                a.set_label(&mut wait)?;
                a.cmp(dword_ptr(ANSWERS + other * 64), ecx)?;
                a.je(answered)?;
                a.pause()?;
                a.jmp(wait)?;
                a.set_label(&mut answered)?;
                a.nop()?;
            }
        }
        a.cmp(ecx, ROUNDS)?;
        a.jne(next)?;
        a.mov(edx, 2_000)?;
        let (mut delay, mut wait) = (a.create_label(), a.create_label());
        a.set_label(&mut delay)?;
        a.dec(edx)?;
        a.jne(delay)?;
        a.mov(word_ptr(last_jump), 0x9090)?;
        a.set_label(&mut wait)?;
        a.pause()?;
        a.cmp(dword_ptr(ANSWERS + 64 * (CPUS - 1)), ecx)?;
        a.je(wait)?;
        a.mov(eax, dword_ptr(TAKEN))?;
        a.out(0xF4, eax)?;
        a.hlt()
    })
}

fn machine(model: &str) -> Machine {
    let configuration = Configuration {
        model: CpuModel::named(model).expect("the model exists"),
        topology: Topology::of_cores(CPUS as u16).expect("so many cores are possible"),
        ..configuration()
    };
    let mut machine = Machine::new(&configuration).expect("the machine is possible");
    let parts =
        [(MAIN, first()), (SUBROUTINE, others()), (HANDLER, handler()), (TRAMPOLINE, trampoline())];
    let image = image(&parts);
    let kernel = board::load::Source::of("spinning", &image);
    let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    machine
}

/// Where each processor stands.
fn stands(machine: &Machine) -> Vec<(u64, Vec<u64>, u64, u64, u64, u64)> {
    let cpus = machine.state.cpus.iter();
    cpus.map(|cpu| {
        let registers = cpu.registers.gpr[..16].to_vec();
        let clock = &cpu.clock;
        let flags = cpu.registers.flags.bits();
        (cpu.registers.ip, registers, flags, clock.now().0, clock.instructions(), clock.others().0)
    })
    .collect()
}

#[test]
fn turns_of_processors_that_spin_are_passed_as_if_they_had_been_executed() {
    for model in ["zen4", "sapphire-rapids", "zen1"] {
        compare(model);
    }
}

fn compare(model: &str) {
    let (mut passing, mut executing) = (machine(model), machine(model));
    executing.execute_waits();
    [&mut passing, &mut executing].into_iter().for_each(Machine::count_composition);
    let mut random = Random(3);
    let mut until = Picoseconds::ZERO;
    let outcome = loop {
        until = Picoseconds(until.0 + random.below(3_000_000));
        let limits = Limits { until, instructions: u64::MAX };
        let (ends, executed) = (passing.run(limits), executing.run(limits));
        assert_eq!(ends, executed);
        assert_eq!(stands(&passing), stands(&executing), "at {until:?}");
        assert_eq!(passing.state.now, executing.state.now);
        assert!(passing.memory.ram == executing.memory.ram, "memory at {until:?}");
        if let Some(outcome) = ends {
            break outcome;
        }
    };
    for cpu in (0..CPUS as u16).map(CpuIndex) {
        let parts = passing.composition(cpu).expect("it is counted");
        assert_eq!(Some(parts), executing.composition(cpu), "{model}: what time was spent on");
    }
    assert_eq!(outcome, Outcome::DebugExit((CPUS - 1) * ROUNDS), "all interrupts are taken");
    let hashes = [&passing, &executing].map(|machine| machine.state.wiring.recorder.hash.value());
    assert_eq!(hashes[0], hashes[1]);
    assert_eq!(executing.passed_turns(), 0);
    assert!(passing.passed_turns() > 1_000, "{} turns were passed", passing.passed_turns());
}
