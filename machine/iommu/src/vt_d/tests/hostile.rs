//! Software that does not know what it is doing: registers, tables and descriptors at random.

use super::*;
use bus::Random;

/// Addresses in memory, bits by themselves, small numbers, and anything.
fn value(random: &mut Random) -> u64 {
    let next = random.next();
    match random.below(5) {
        0 => random.below(MEMORY / 4096) << 12 | random.below(16),
        1 => 1 << (next % 64),
        2 => next % 0x1000,
        3 => u64::MAX << (next % 64),
        _ => next,
    }
}

fn step(bench: &mut Bench, random: &mut Random) {
    let requester = RequesterId(random.below(16) as u16);
    match random.below(7) {
        0 => {
            let (offset, size) = (random.below(0x240), 1 << random.below(4));
            bench.write(offset, size, value(random));
        }
        1 => bench.write(at::GLOBAL_COMMAND, 4, 0xC700_0000 ^ 1 << random.below(32)),
        2 | 3 => {
            let at = random.below(MEMORY / 8) * 8;
            bench.store(at, value(random));
        }
        4 => bench.write(at::QUEUE_TAIL, 8, random.below(0x1000)),
        5 => {
            let access = if random.below(2) == 0 { Access::Read } else { Access::Write };
            let address = Device(value(random));
            let found = bench.unit.translate(&mut bench.memory, requester, address, access);
            assert!(found.is_err() || found.is_ok_and(|found| found.length > 0));
        }
        _ => {
            let address = Device(0xFEE0_0000 | random.below(1 << 20));
            let message = MessageSignalled { address, data: random.below(1 << 17) as u32 };
            if let Remapped::Posting(mut posting) =
                bench.unit.remap(&mut bench.memory, requester, message)
            {
                while posting.step(&mut bench.unit, &mut bench.memory) != PostingStep::Complete {}
            }
        }
    }
}

#[test]
fn a_million_random_steps_leave_registers_within_their_bits() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut bench = Bench::new();
    for i in 0..1_000_000 {
        step(&mut bench, &mut random);
        // A signal for each descriptor of a queue, and one for what stopped it.
        assert!(bench.unit.take_signals().len() <= 32_769);
        if i % 64 == 0 {
            assert_eq!(bench.read(at::QUEUE_HEAD, 8) & !0x7_FFF0, 0);
            assert_eq!(bench.read(at::VERSION, 4), 0x10);
            assert_eq!(bench.read(at::FAULT_STATUS, 4) & !0x73, 0);
        }
        if i % 10_000 == 0 {
            bench = Bench::new();
        }
    }
}

#[test]
fn refusals_are_always_recorded() {
    let mut random = Random(1);
    let mut bench = Bench::new();
    for _ in 0..20_000 {
        let address = value(&mut random);
        assert_eq!(bench.translate(address, Access::Read), None, "the tables are empty");
        assert!(bench.fault().is_some(), "the access is not recorded");
        assert_eq!(bench.remap(random.next() as u32 & 0xFF), Remapped::Aborted);
        assert!(bench.fault().is_some(), "the interrupt is not recorded");
    }
}
