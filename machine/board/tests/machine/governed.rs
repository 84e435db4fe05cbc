//! Software that changes its core's clock takes as much longer as the clock is slower, translated
//! or not, and the time-stamp counter keeps its rate.

use crate::program::{MAIN, assemble, image};
use board::load::Source;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;
use iced_x86::code_asm::*;

/// Where the program says how many ticks each of its loops took.
const TICKS: u32 = 0x9000;

/// A loop at each of these values of the register, with the ticks that it took.
fn program(a: &mut CodeAssembler, register: u32, values: &[u32]) -> Result<(), IcedError> {
    for (place, value) in (0u32..).zip(values) {
        let mut again = a.create_label();
        a.mov(ecx, register)?;
        a.mov(eax, *value)?;
        a.xor(edx, edx)?;
        a.wrmsr()?;
        a.rdtsc()?;
        a.mov(ebx, eax)?;
        a.mov(ecx, 100_000)?;
        a.set_label(&mut again)?;
        a.add(esi, ecx)?;
        a.dec(ecx)?;
        a.jne(again)?;
        a.rdtsc()?;
        a.sub(eax, ebx)?;
        a.mov(dword_ptr(TICKS + 4 * place), eax)?;
    }
    a.mov(dx, 0xF4)?;
    a.out(dx, al)?;
    a.hlt()
}

fn ran(model: &CpuModel, register: u32, values: &[u32], is_interpreted: bool) -> Vec<u32> {
    let topology = Topology::of_cores(1).expect("one core");
    let configuration = Configuration::of(model.clone(), topology, 8 << 20);
    let mut machine = Machine::new(&configuration).expect("the machine is possible");
    if is_interpreted {
        machine.interpret();
    }
    let program = image(&[(MAIN, assemble(MAIN, &|a| program(a, register, values)))]);
    let kernel = Source::of("program", &program);
    let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    let limits = Limits { until: arch::time::Picoseconds::MAX, instructions: 10_000_000 };
    assert!(matches!(machine.run(limits), Some(Outcome::DebugExit(_))), "{register:#x}");
    let at = TICKS as usize;
    let words = machine.memory.ram[at..at + 4 * values.len()].chunks_exact(4);
    words.map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

#[test]
fn a_loop_takes_longer_by_the_ratio_of_the_clocks() {
    for (name, register, values, gigahertz) in [
        ("zen4", 0xC001_0062, [0, 2, 1, 0], [3.7, 1.5, 1.95, 3.7]),
        ("haswell-ep", 0x199, [0xFF00, 0x0C00, 0x1400, 0xFF00], [3.8, 1.2, 2.0, 3.8]),
    ] {
        let mut model = CpuModel::named(name).expect("a model");
        model.let_software_clock().expect("its features are known");
        let highest = model.core_hertz() as f64 / 1e9;
        let ticks = ran(&model, register, &values, false);
        assert_eq!(ticks, ran(&model, register, &values, true), "{name}: interpreted");
        for (one, gigahertz) in ticks.iter().zip(gigahertz) {
            let found = f64::from(*one) / f64::from(ticks[0]);
            let expected = highest / f64::min(gigahertz, highest);
            assert!((found / expected - 1.0).abs() < 0.002, "{name} {gigahertz}: {found}");
        }
    }
}
