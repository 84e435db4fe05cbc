//! Repeated string instructions of 32-bit code: where segments refuse nothing they are done in
//! bulk, and end as where they are done element by element.

use crate::bench::{Bench, run};
use crate::code::CODE;
use crate::narrow;
use crate::start::{self, DATA, LEAVES, RAM};
use arch::address::SystemPhysical;
use arch::segment::{Segment, SegmentRegister};
use arch::time::Picoseconds;
use bus::{GuestMemory, Random};
use cpu::Cpu;
use cpu::decode::Dialect;

/// Picoseconds, longer than any of the repetitions takes.
const TIME: u64 = 50_000_000;

/// Lets code run from a state to its end; whether it comes there.
fn finish(cpu: &mut Cpu, bench: &mut Bench, memory: &mut GuestMemory) -> bool {
    bench.interpreter.clear();
    let until = Picoseconds(cpu.clock.now().0 + TIME);
    run(cpu, &mut bench.interpreter, memory, until)
}

/// Nobody writes to code by a second name of its page: where it does, how much is written before
/// that is seen hangs on the goes.
fn hide_second_names(memory: &mut GuestMemory) {
    for page in DATA >> 12..RAM >> 12 {
        let at = (LEAVES + 8 * page) as usize;
        if memory.ram[at..at + 8] == (CODE | 7).to_le_bytes() {
            memory.ram[at..at + 8].fill(0);
        }
    }
}

#[test]
fn what_is_done_in_bulk_ends_as_what_is_done_element_by_element() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    let (mut completed, mut in_bulk) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed);
        let mut memory = GuestMemory::new(RAM);
        let mut cpu = bench.fresh.clone();
        start::set_up(&mut cpu, &mut memory, &mut random);
        narrow::make_flat(&mut cpu);
        hide_second_names(&mut memory);
        let prefix = random.pick(&[0x90, 0x90, 0x66, 0x67]);
        let string = random.pick(&[0xA4, 0xA5, 0xAA, 0xAB]);
        // Then a jump to itself.
        let code = [prefix, 0xF3, string, 0xEB, 0xFE];
        memory.write(SystemPhysical(CODE), &code).expect("RAM");
        cpu.registers.gpr[1] = random.next() << 32 | random.below(0x600);
        cpu.registers.gpr[7] = random.next() << 32 | cpu.registers.gpr[5] ^ random.below(64);
        let mut other = cpu.clone();
        let segment = other.registers.segment(SegmentRegister::Es);
        let almost = Segment { limit: u32::MAX - 1, ..segment };
        other.registers.set_segment(SegmentRegister::Es, almost);
        let mut other_memory = GuestMemory::new(RAM);
        other_memory.ram.copy_from_slice(&memory.ram);
        let ends = finish(&mut cpu, &mut bench, &mut memory);
        assert_eq!(ends, finish(&mut other, &mut bench, &mut other_memory), "seed {seed}");
        assert_eq!(cpu.registers.gpr[..16], other.registers.gpr[..16], "seed {seed}");
        assert!(memory.ram == other_memory.ram, "memory, seed {seed}");
        completed += u32::from(ends);
        // The jump to itself counts what is left of the time.
        in_bulk += u32::from(cpu.clock.instructions() > other.clock.instructions());
    }
    assert!(completed > 150 && in_bulk > 100, "{completed} completed, {in_bulk} in bulk");
}
