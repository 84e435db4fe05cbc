//! A driver that does not know what it is doing: registers, doorbells, commands and lists of pages
//! at random.

use super::*;
use bus::Random;

/// Memory of [`Bench`].
const MEMORY: u64 = 1 << 20;
const STEPS: u32 = 1_000_000;

fn address(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.next(),
        1 => NOWHERE + random.below(0x1_0000),
        2 => random.below(MEMORY),
        3 => LISTS + random.below(0x200) * 8,
        _ => random.below(MEMORY / 4096) << 12,
    }
}

fn word(random: &mut Random) -> u32 {
    match random.below(5) {
        0 => random.next() as u32,
        1 => 1 << random.below(32),
        2 => (random.below(4) << 16 | random.below(4)) as u32,
        3 => (random.below(16) << 16 | random.below(256)) as u32,
        _ => random.below(16) as u32,
    }
}

fn command(random: &mut Random) -> Submission {
    let is_known = random.below(8) != 0;
    let mut command = Submission {
        opcode: if is_known { random.below(0x10) as u8 } else { random.next() as u8 },
        flags: if random.below(16) == 0 { random.next() as u8 } else { 0 },
        identifier: random.below(64) as u16,
        namespace: if random.below(4) == 0 { word(random) } else { 1 },
        metadata: random.next(),
        prp1: address(random),
        prp2: address(random),
        arguments: core::array::from_fn(|_| word(random)),
    };
    if random.below(2) == 0 {
        (command.arguments[1], command.arguments[2]) = (0, random.below(1200) as u32);
    }
    command
}

fn step(driver: &mut Driver, random: &mut Random) {
    match random.below(16) {
        0 => driver.write(random.below(0x14) * 4, word(random)),
        1 => driver.write(register::CONFIGURATION, ENABLED ^ word(random) & word(random)),
        2 => {
            let at = driver.region(REGISTERS_BAR) + random.below(REGION_SIZE);
            let size = 1 << random.below(4);
            let value = random.next();
            driver.pci.write(&mut driver.bench.context(), at, true, size, value);
            driver.pci.read(&mut driver.bench.context(), at, true, size);
        }
        3 => {
            let entry = address(random).to_le_bytes();
            let at = LISTS + random.below(0x400) * 8;
            driver.store(at, &entry);
        }
        4..9 => {
            let queue = random.below(3) as u16;
            let identifier = random.below(0x1_0000) as u16;
            let command = Submission { identifier, ..command(random) };
            driver.next = identifier % 64;
            driver.put(queue, command);
            driver.ring(queue);
        }
        9..12 => {
            let doorbell = register::DOORBELLS + random.below(8) * 4;
            let value = random.below(u64::from(ENTRIES) + 1) as u32;
            driver.write(doorbell, value);
        }
        12 => {
            let command = if random.below(64) == 0 { random.below(8) } else { 6 };
            let cx = &mut driver.bench.context();
            driver.pci.write_configuration(cx, PLACE, header::COMMAND, 2, command as u32);
        }
        13 => {
            let queue = random.below(3) as u16;
            while driver.take(queue).is_some() {}
            driver.release(queue);
        }
        _ => {
            if let Some(at) = driver.pci.next_deadline() {
                driver.bench.now = driver.bench.now.max(at);
                driver.pci.advance(&mut driver.bench.context());
            }
        }
    }
}

#[test]
fn a_million_random_steps_neither_panic_nor_hang() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let mut driver = Driver::ready(WriteMode::Overlay);
    let (mut done, mut failed) = (0, 0);
    for index in 0..STEPS {
        if index % 200 == 0 {
            driver = Driver::ready(WriteMode::Overlay);
        }
        if driver.pci.function(PLACE).unwrap().configuration.mapped(REGISTERS_BAR).is_none() {
            driver.pci.write_configuration(
                &mut driver.bench.context(),
                PLACE,
                header::COMMAND,
                2,
                6,
            );
        }
        step(&mut driver, &mut random);
        done += driver.bench.effects().len();
        failed += usize::from(driver.controller().state.has_failed());
        assert!(driver.controller().in_flight.len() <= MAXIMUM_IN_FLIGHT);
        let now = driver.bench.now;
        assert!(driver.pci.next_deadline().is_none_or(|at| at > now), "what is due is done");
    }
    assert!(done > 10_000 && failed > 1_000, "{done} interrupts, {failed} steps after a failure");
}
