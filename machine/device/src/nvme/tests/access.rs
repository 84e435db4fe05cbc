//! Commands of I/O queues: data, where it goes, and when.

use super::*;
use arch::address::SystemPhysical;

#[test]
fn data_goes_to_the_pages_that_entries_and_lists_name() {
    // Bytes, offset in the first page, offset of the list in its page.
    for (count, offset, list_offset) in [
        (1, 0, 0),
        (1, 0xF00, 0),
        (8, 0, 0),
        (9, 0, 0),
        (16, 4, 0),
        (40, 0xFFC, 8),
        (1024, 0, 0xFE0),
    ] {
        let mut driver = Driver::ready(WriteMode::Overlay);
        let length = count as usize * SECTOR_SIZE;
        let first = (0x1000 - offset).min(length as u64);
        let pages = (length as u64 - first).div_ceil(0x1000);
        // Every second page, backwards.
        let place = |page: u64| DATA + 0x2000 * (1 + (pages - page) % 60);
        let mut list = LISTS + list_offset;
        let mut left = pages;
        for page in 0..pages {
            if list % 0x1000 == 0xFF8 && left > 1 {
                driver.store(list, &(LISTS + 0x1000).to_le_bytes());
                list = LISTS + 0x1000;
            }
            driver.store(list, &place(page).to_le_bytes());
            list += 8;
            left -= 1;
        }
        let prp2 = if pages > 1 { LISTS + list_offset } else { place(0) };
        let command = Submission { prp1: DATA + offset, prp2, ..blocks(io::READ, 100, count) };
        assert_eq!(driver.status(1, command), Status::SUCCESS, "{count} blocks");
        let expected: Vec<u8> =
            (100..100 + count).flat_map(|sector| [sector as u8; SECTOR_SIZE]).collect();
        let mut pieces = vec![(DATA + offset, first as usize)];
        let mut rest = length - first as usize;
        for page in 0..pages {
            pieces.push((place(page), rest.min(0x1000)));
            rest -= rest.min(0x1000);
        }
        // Later pages lie over earlier ones where there are more than 60.
        let mut at = 0;
        for (index, (from, length)) in pieces.iter().enumerate() {
            let is_last_there = !pieces[index + 1..].iter().any(|(other, _)| other == from);
            if is_last_there {
                assert_eq!(driver.load(*from, *length), expected[at..at + length], "{count}: {at}");
            }
            at += length;
        }
    }
}

#[test]
fn entries_that_do_not_begin_a_page_are_refused() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    for (prp1, prp2, count) in
        [(DATA + 2, 0, 1), (DATA, DATA + 0x1200, 16), (DATA, LISTS + 4, 24), (DATA, LISTS, 24)]
    {
        driver.store(LISTS, &(DATA + 0x1004).to_le_bytes());
        let command = Submission { prp1, prp2, ..blocks(io::READ, 0, count) };
        assert_eq!(driver.status(1, command), Status::PRP_OFFSET_INVALID, "{prp1:#x}, {prp2:#x}");
    }
}

#[test]
fn memory_that_refuses_data_ends_the_command_and_not_the_controller() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    for opcode in [io::READ, io::WRITE] {
        for (prp1, prp2, count) in [(NOWHERE, 0, 1), (DATA, NOWHERE, 16), (DATA, NOWHERE, 24)] {
            let command = Submission { prp1, prp2, ..blocks(opcode, 0, count) };
            assert_eq!(driver.status(1, command), Status::DATA_TRANSFER_ERROR);
        }
    }
    let command = Submission { prp1: NOWHERE, ..identify(1, 0) };
    assert_eq!(driver.status(0, command), Status::DATA_TRANSFER_ERROR);
    assert_eq!(driver.status(1, blocks(io::READ, 0, 1)), Status::SUCCESS);
}

#[test]
fn memory_that_refuses_a_command_or_a_completion_fails_the_controller() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.pci.write_configuration(&mut driver.bench.context(), PLACE, header::COMMAND, 2, 2);
    driver.ring(1);
    assert_eq!(driver.read(register::STATUS), 3);
    assert_eq!(driver.pci.next_deadline(), None);
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.ring(1);
    driver.pci.write_configuration(&mut driver.bench.context(), PLACE, header::COMMAND, 2, 2);
    driver.wait();
    assert_eq!(driver.read(register::STATUS), 3);
    assert!(driver.messages().is_empty());
}

#[test]
fn reads_give_what_writes_and_zeroes_left() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.store(DATA, &[0xAB; 0x2000]);
    assert_eq!(driver.status(1, blocks(io::WRITE, 7, 16)), Status::SUCCESS);
    assert_eq!(driver.status(2, blocks(io::WRITE_ZEROES, 8, 2)), Status::SUCCESS);
    assert_eq!(driver.status(1, blocks(io::FLUSH, 0, 1)), Status::SUCCESS);
    assert_eq!(driver.status(2, blocks(io::READ, 6, 16)), Status::SUCCESS);
    let seen: Vec<u8> = driver.load(DATA, 0x2000).chunks(SECTOR_SIZE).map(|s| s[0]).collect();
    let mut expected = vec![6, 0xAB, 0, 0];
    expected.extend([0xAB; 12]);
    assert_eq!(seen, expected);
}

#[test]
fn commands_that_cannot_be_done_say_why() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    let end = SECTORS as u64;
    let read = blocks(io::READ, 0, 1);
    for (command, status) in [
        (Submission { opcode: 0x7F, ..read }, Status::INVALID_OPCODE),
        (Submission { namespace: 0, ..read }, Status::INVALID_NAMESPACE),
        (Submission { namespace: 2, ..read }, Status::INVALID_NAMESPACE),
        (Submission { namespace: ALL_NAMESPACES, ..read }, Status::INVALID_NAMESPACE),
        (Submission { flags: 1, ..read }, Status::INVALID_FIELD),
        (Submission { flags: 0x40, ..read }, Status::INVALID_FIELD),
        (blocks(io::READ, end, 1), Status::BLOCK_OUT_OF_RANGE),
        (blocks(io::READ, u64::MAX, 2), Status::BLOCK_OUT_OF_RANGE),
        (blocks(io::WRITE, end - 1, 2), Status::BLOCK_OUT_OF_RANGE),
        (blocks(io::WRITE_ZEROES, end - 1, 2), Status::BLOCK_OUT_OF_RANGE),
        (blocks(io::READ, 0, 1025), Status::INVALID_FIELD),
        (Submission { namespace: ALL_NAMESPACES, ..blocks(io::FLUSH, 0, 1) }, Status::SUCCESS),
    ] {
        assert_eq!(driver.status(1, command), status, "{command:?}");
    }
    for (opcode, status) in [(0x7F, Status::INVALID_OPCODE), (0x80, Status::INVALID_OPCODE)] {
        assert_eq!(driver.status(0, Submission { opcode, ..read }), status);
    }
}

#[test]
fn ranges_of_dataset_management_are_looked_at() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    let manage =
        Submission { arguments: [1, 4, 0, 0, 0, 0], ..blocks(io::DATASET_MANAGEMENT, 0, 1) };
    for (first, status) in [(0, Status::SUCCESS), (SECTORS as u64, Status::BLOCK_OUT_OF_RANGE)] {
        for at in [DATA, DATA + 16] {
            driver.store(at + 4, &8u32.to_le_bytes());
        }
        driver.store(DATA + 24, &first.to_le_bytes());
        assert_eq!(driver.status(1, manage), status);
    }
}

#[test]
fn a_namespace_that_is_protected_takes_no_writes() {
    let mut driver = Driver::ready(WriteMode::Refused);
    for opcode in [io::WRITE, io::WRITE_ZEROES] {
        assert_eq!(driver.status(1, blocks(opcode, 0, 1)), Status::WRITE_PROTECTED);
    }
    assert_eq!(driver.status(1, blocks(io::READ, 0, 1)), Status::SUCCESS);
    assert_eq!(driver.status(0, identify(0, 1)), Status::SUCCESS);
    assert_eq!(driver.load(DATA + namespace::ATTRIBUTES as u64, 1), [1]);
}

#[test]
fn each_queue_interrupts_with_its_vector_and_only_behind_its_completion() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    for queue in [2, 1] {
        driver.put(queue, blocks(io::READ, 0, 1));
        driver.ring(queue);
    }
    assert!(driver.messages().is_empty());
    driver.wait();
    assert_eq!(driver.messages(), [2, 1]);
    assert!(driver.take(1).is_some() && driver.take(2).is_some());
}

#[test]
fn a_command_takes_the_latency_and_the_time_of_its_data_behind_those_before() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    let start = driver.bench.now.0;
    driver.put(1, blocks(io::READ, 0, 8));
    driver.put(1, blocks(io::FLUSH, 0, 1));
    driver.put(1, blocks(io::READ, 0, 16));
    driver.ring(1);
    let dues: Vec<u64> =
        driver.controller().in_flight.iter().map(|one| one.due.0 - start).collect();
    assert_eq!(dues, [11_024_000, 11_024_000, 13_072_000]);
}

#[test]
fn a_full_completion_queue_holds_commands_back_until_it_is_read() {
    let mut driver = Driver::enabled(WriteMode::Overlay);
    assert_eq!(driver.create_completion(1, 2, 1), Status::SUCCESS);
    assert_eq!(driver.create_submission(1, ENTRIES, 1), Status::SUCCESS);
    for _ in 0..3 {
        driver.put(1, blocks(io::READ, 0, 1));
    }
    driver.ring(1);
    for (head, phase) in [(1, true), (0, true), (1, false)] {
        driver.wait();
        let at = COMPLETION + 0x1000 + u64::from(1 - head) * 16;
        assert_eq!(driver.dword(at + 12) >> 16 & 1 != 0, phase, "the next is posted");
        assert_eq!(driver.pci.next_deadline(), None, "and no more");
        driver.write(register::DOORBELLS + 12, head);
    }
    assert_eq!(driver.read(register::STATUS), 1);
}

#[test]
fn two_commands_of_one_name_conflict() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.next -= 1;
    driver.put(1, blocks(io::READ, 0, 1));
    driver.ring(1);
    driver.wait();
    let statuses = [driver.take(1), driver.take(1)].map(|seen| seen.unwrap().status);
    assert_eq!(statuses, [Status::SUCCESS, Status::IDENTIFIER_CONFLICT]);
}

#[test]
fn completions_lie_where_memory_was_asked_for() {
    let mut driver = Driver::ready(WriteMode::Overlay);
    driver.put(1, blocks(io::READ, 0, 1));
    driver.ring(1);
    driver.wait();
    let first = SystemPhysical(COMPLETION + 0x1000 + 8);
    assert_eq!(driver.bench.memory.read_u64(first).map(|word| word as u32), Ok(1 << 16 | 1));
}
