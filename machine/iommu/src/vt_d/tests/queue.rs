//! Registers, commands and the invalidation queue.

use super::*;

fn push(bench: &mut Bench, raw: [u64; 2]) {
    let tail = bench.read(at::QUEUE_TAIL, 8);
    bench.store(QUEUE + tail, raw[0]);
    bench.store(QUEUE + tail + 8, raw[1]);
    bench.write(at::QUEUE_TAIL, 8, (tail + 16) % 0x1000);
}

/// Stores `data` at [`STORE`].
const fn wait(data: u64) -> [u64; 2] {
    [data << 32 | 1 << 5 | 5, STORE]
}

#[test]
fn a_wait_stores_behind_all_descriptors_before_it() {
    let mut bench = Bench::new();
    for raw in [[0x11, 0], [0x12, 0], [0x04, 0], wait(2)] {
        push(&mut bench, raw);
    }
    assert_eq!(bench.memory.read_u32(SystemPhysical(STORE)), Ok(2));
    assert_eq!(bench.read(at::QUEUE_HEAD, 8), 64);
    assert_eq!(bench.read(at::FAULT_STATUS, 4), 0);
}

#[test]
fn the_queue_wraps() {
    let mut bench = Bench::new();
    for data in 1..=600 {
        push(&mut bench, wait(data));
        assert_eq!(bench.memory.read_u32(SystemPhysical(STORE)), Ok(data as u32));
    }
}

#[test]
fn what_is_no_descriptor_stops_the_queue_until_the_error_is_cleared() {
    for bad in [[0x0F, 0], [0x01, 0], [0x02, 0], [0x03, 0]] {
        let mut bench = Bench::new();
        push(&mut bench, bad);
        push(&mut bench, wait(1));
        assert_eq!(bench.read(at::QUEUE_HEAD, 8), 0);
        assert_eq!(bench.read(at::FAULT_STATUS, 4), 1 << 4);
        let message = MessageSignalled { address: Device(0xFEE0_1000), data: 0x21 };
        assert_eq!(bench.unit.take_signals(), [Signal::Message(message)]);
        bench.store(QUEUE, 0x11);
        bench.write(at::FAULT_STATUS, 4, 1 << 4);
        assert_eq!(bench.memory.read_u32(SystemPhysical(STORE)), Ok(1));
    }
}

#[test]
fn a_wait_may_interrupt_and_a_masked_message_waits() {
    let mut bench = Bench::new();
    bench.write(at::INVALIDATION_EVENT_DATA, 4, 0x22);
    push(&mut bench, [1 << 4 | 5, 0]);
    assert_eq!(bench.read(at::INVALIDATION_COMPLETION, 4), 1);
    assert_eq!(bench.read(at::INVALIDATION_EVENT_CONTROL, 4), 0xC000_0000);
    assert_eq!(bench.unit.take_signals(), []);
    bench.write(at::INVALIDATION_EVENT_CONTROL, 4, 0);
    let message = MessageSignalled { address: Device(0), data: 0x22 };
    assert_eq!(bench.unit.take_signals(), [Signal::Message(message)]);
    bench.write(at::INVALIDATION_COMPLETION, 4, 1);
    assert_eq!(bench.read(at::INVALIDATION_COMPLETION, 4), 0);
}

/// Some systems write back the whole status together with a command.
#[test]
fn levels_follow_and_what_was_set_may_be_set_again() {
    let mut bench = Bench::new();
    let all = bench.read(at::GLOBAL_STATUS, 4);
    assert_eq!(all, 0xC700_0000);
    bench.write(at::GLOBAL_COMMAND, 4, all);
    assert_eq!(bench.read(at::GLOBAL_STATUS, 4), all);
    bench.write(at::GLOBAL_COMMAND, 4, 0);
    assert_eq!(bench.read(at::GLOBAL_STATUS, 4), 0x4100_0000);
}

#[test]
fn a_new_table_counts_from_its_command_on() {
    let mut bench = Bench::new();
    bench.write(at::ROOT_TABLE_ADDRESS, 8, MEMORY);
    assert_eq!(bench.translate(0, Access::Read), None);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(6), "the old table has no page");
    bench.write(at::GLOBAL_COMMAND, 4, 0xC600_0000);
    assert_eq!(bench.translate(0, Access::Read), None);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(8), "the new one is nowhere");
}

#[test]
fn invalidation_by_registers_is_done_at_once() {
    let mut bench = Bench::new();
    bench.write(at::CONTEXT_COMMAND, 8, 1 << 63 | 1 << 61);
    assert_eq!(bench.read(at::CONTEXT_COMMAND, 8), 1 << 61 | 1 << 59);
    bench.write(unit::INVALIDATION + 8, 8, 1 << 63 | 2 << 60);
    assert_eq!(bench.read(unit::INVALIDATION + 8, 8), 2 << 60 | 2 << 57);
}

#[test]
fn a_second_fault_finds_no_record() {
    let mut bench = Bench::new();
    assert_eq!(bench.translate(0x1000, Access::Read), None);
    assert_eq!(bench.translate(0x2000, Access::Write), None);
    // PPF and PFO.
    assert_eq!(bench.read(at::FAULT_STATUS, 4), 3);
    assert_eq!(bench.fault(), Some((6, 0x1000)));
    bench.write(at::FAULT_STATUS, 4, 1);
    assert_eq!(bench.read(at::FAULT_STATUS, 4), 0);
    assert_eq!(bench.translate(0x2000, Access::Write), None);
    assert_eq!(bench.fault(), Some((5, 0x2000)));
}
