//! Software that does not know what it is doing: registers, tables and commands at random.

use super::*;
use bus::Random;

/// Addresses in memory, bits by themselves, small numbers, and anything.
fn value(random: &mut Random) -> u64 {
    let next = random.next();
    match random.below(6) {
        0 => random.below(MEMORY / 4096) << 12,
        1 => random.below(MEMORY / 4096) << 12 | 0x6000_0000_0000_0003 | random.below(8) << 9,
        2 => 1 << (next % 64),
        3 => next % 0x1000,
        4 => u64::MAX << (next % 64),
        _ => next,
    }
}

const REGISTERS: [u64; 20] = [
    at::DEVICE_TABLE_BASE,
    at::COMMAND_BASE,
    at::EVENT_BASE,
    at::CONTROL,
    at::EXCLUSION_BASE,
    at::EXCLUSION_LIMIT,
    at::EXTENDED_FEATURE,
    at::GUEST_LOG_BASE,
    at::GUEST_LOG_TAIL_ADDRESS,
    at::EVENT_INTERRUPT,
    at::GUEST_LOG_INTERRUPT,
    at::EXTENDED_FEATURE_2,
    at::COMMAND_HEAD,
    at::COMMAND_TAIL,
    at::EVENT_HEAD,
    at::EVENT_TAIL,
    at::STATUS,
    at::GUEST_LOG_HEAD,
    at::GUEST_LOG_TAIL,
    0x1FFC,
];

fn step(bench: &mut Bench, random: &mut Random) {
    let requester = RequesterId(random.below(256) as u16);
    match random.below(8) {
        0 => {
            let offset = REGISTERS[random.below(20) as usize] + random.below(8);
            let size = 1 << random.below(4);
            bench.iommu.write(&mut bench.memory, offset, size, value(random));
        }
        1 => bench.write(at::CONTROL, running().into_bits() ^ 1 << random.below(64)),
        2..=4 => {
            let at = SystemPhysical(random.below(MEMORY / 8) * 8);
            let random = value(random);
            bench.memory.write_u64(at, random);
        }
        5 => bench.command(Command::from_quadwords([value(random), value(random)])),
        6 => {
            let access = if random.below(2) == 0 { Access::Read } else { Access::Write };
            let address = Device(value(random) >> 1);
            let found = bench.iommu.translate(&mut bench.memory, requester, address, access);
            assert!(found.is_err() || found.is_ok_and(|found| found.length > 0));
        }
        _ => {
            let data = random.next() as u32 & 0xFFFF;
            let message = MessageSignalled { address: Device(0xFEE0_0000), data };
            let remapped = bench.iommu.remap(&mut bench.memory, requester, message);
            if let Remapped::Posting(posting) = remapped {
                posting.run(&mut bench.iommu, &mut bench.memory);
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
        // A signal for each command of a ring, and one for what stopped it.
        assert!(bench.iommu.take_signals().len() <= 32_769);
        if i % 64 == 0 {
            for register in [at::COMMAND_HEAD, at::COMMAND_TAIL, at::EVENT_HEAD, at::EVENT_TAIL] {
                assert_eq!(bench.read(register) & !at::RING_OFFSET, 0, "{register:#x}");
            }
            let features = bench.iommu.model().features.into_bits();
            assert_eq!(bench.read(at::EXTENDED_FEATURE), features);
            assert!(Status::from_bits(bench.read(at::STATUS) as u32).is_some());
        }
        if i % 10_000 == 0 {
            bench = Bench::new();
            bench.set_entry(translation(3), remapping());
        }
    }
}

#[test]
fn refusals_of_a_sane_table_are_always_logged() {
    let mut random = Random(1);
    let mut bench = Bench::new();
    bench.set_entry(translation(3), remapping());
    for _ in 0..20_000 {
        let address = Device(value(&mut random));
        let read = bench.iommu.translate(&mut bench.memory, FUNCTION, address, Access::Read);
        assert!(read.is_err(), "the tables are empty");
        assert!(bench.event().is_some(), "the access is not logged");
        assert_eq!(bench.remap(random.next() as u32 & 0x1FF), Remapped::Aborted);
        assert!(bench.event().is_some(), "the interrupt is not logged");
        assert_eq!(bench.event(), None);
    }
}
