//! Interrupts take longer the farther they go, by what the cost profile says, and the sender's
//! software sees it.

use crate::program::{LOAD, MAIN, TRAMPOLINE, assemble, image};
use board::cost::CostProfile;
use board::load::Source;
use board::topology::{Distance, Topology};
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;
use iced_x86::code_asm::*;

/// Where the started processor says that it runs, and where the first one says how long that took.
const STARTED: u32 = 0x9000;
const TICKS: u32 = 0x9004;
/// 16-bit code: one into STARTED, and HLT.
const SECOND: [u8; 6] = [0xC6, 0x06, 0x00, 0x90, 0x01, 0xF4];

/// Starts a processor, and counts the time-stamp counter's ticks until that one's store is seen.
fn sender(a: &mut CodeAssembler, target: u32) -> Result<(), IcedError> {
    let mut wait = a.create_label();
    a.mov(esi, LOAD + TRAMPOLINE as u32)?;
    a.mov(edi, 0x8000)?;
    a.mov(ecx, SECOND.len() as u32)?;
    a.cld()?;
    a.rep().movsb()?;
    a.mov(edi, 0xFEE0_0310u32)?;
    a.mov(dword_ptr(edi), target << 24)?;
    a.mov(edi, 0xFEE0_0300u32)?;
    a.mov(dword_ptr(edi), 0x4500)?;
    a.rdtsc()?;
    a.mov(ebx, eax)?;
    a.mov(dword_ptr(edi), 0x4608)?;
    a.set_label(&mut wait)?;
    a.cmp(byte_ptr(STARTED), 0)?;
    a.je(wait)?;
    a.rdtsc()?;
    a.sub(eax, ebx)?;
    a.mov(dword_ptr(TICKS), eax)?;
    a.mov(dx, 0xF4)?;
    a.out(dx, al)?;
    a.hlt()
}

/// Nanoseconds from the start's sending until it shows, on a machine of two sockets of two
/// complexes of two cores of two threads.
fn nanoseconds(model: &CpuModel, target: u32) -> f64 {
    let topology: Topology = "sockets=2,ccx=2,cores=2,threads=2".parse().expect("a shape");
    let configuration = Configuration::of(model.clone(), topology, 8 << 20);
    let mut machine = Machine::new(&configuration).expect("the machine is possible");
    let program =
        image(&[(MAIN, assemble(MAIN, &|a| sender(a, target))), (TRAMPOLINE, SECOND.to_vec())]);
    let kernel = Source::of("program", &program);
    let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    let limits = Limits { until: arch::time::Picoseconds::MAX, instructions: 100_000 };
    assert!(matches!(machine.run(limits), Some(Outcome::DebugExit(_))), "target {target}");
    let at = TICKS as usize;
    let ticks = u32::from_le_bytes(machine.memory.ram[at..at + 4].try_into().expect("four bytes"));
    f64::from(ticks) * 1e9 / model.tsc_hertz() as f64
}

#[test]
fn a_start_takes_longer_by_what_the_message_takes_longer() {
    for name in ["zen2", "zen4", "skylake-sp", "sapphire-rapids"] {
        let model = CpuModel::named(name).expect("a model");
        let costs = CostProfile::named(model.costs()).expect("a profile");
        let message = |distance| costs.message(distance).0 as f64 / 1e3;
        let near = nanoseconds(&model, 1) - message(Distance::SameCore);
        // APIC identifiers have a bit for each level.
        let targets =
            [(2, Distance::SameComplex), (4, Distance::SameDie), (8, Distance::OtherSocket)];
        // A processor may run as far ahead of others' stores as the shortest message takes.
        let slack = message(Distance::SameCore) + 10.0;
        for (target, distance) in targets {
            let rest = nanoseconds(&model, target) - message(distance);
            assert!((rest - near).abs() <= slack, "{name} {distance:?}: {rest} and {near}");
        }
        let far = nanoseconds(&model, 8) - nanoseconds(&model, 2);
        assert!(far > 40.0, "{name}: to the other socket it takes {far} ns longer");
    }
}
