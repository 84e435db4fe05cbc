//! Devices' interrupts for the host.

use super::*;
use arch::apic::{DeliveryMode, DestinationMode};

#[test]
fn an_entry_says_vector_destination_and_mode() {
    for (is_x2apic, destination, expected) in [(true, 0x0100_0005, 0x0100_0005), (false, 0x0500, 5)]
    {
        let mut bench = Bench::with(Model::server(true), is_x2apic);
        let entry = remapped()
            .with_destination(destination)
            .with_destination_mode(DestinationMode::Logical)
            .with_delivery_mode(DeliveryMode::LowestPriority);
        bench.set_entry(7, entry.into_bits());
        let Remapped::Interrupt(message) = bench.remap(7) else { panic!("no interrupt") };
        assert_eq!((message.destination, message.is_x2apic), (expected, is_x2apic));
        assert_eq!(message.destination_mode, DestinationMode::Logical);
        assert_eq!(message.delivery_mode, DeliveryMode::LowestPriority);
        assert_eq!(message.vector.0, 0x31);
    }
}

#[test]
fn interrupts_without_an_entry_are_dropped_with_the_reason_of_the_specification() {
    let no_posting = Model::server(false);
    let good = remapped().into_bits();
    let rows = [
        ("beyond the table", Model::server(true), 256, good, 0x21),
        ("not present", Model::server(true), 7, good & !1, 0x22),
        ("reserved bit", Model::server(true), 7, good | 1 << 12, 0x24),
        ("reserved mode", Model::server(true), 7, good | 3 << 5, 0x24),
        ("posted without posting", no_posting, 7, posted().into_bits(), 0x24),
        ("posted, reserved bit", Model::server(true), 7, posted().into_bits() | 1 << 2, 0x24),
        ("another's", Model::server(true), 7, good ^ 1 << 64, 0x26),
    ];
    for (name, model, index, entry, reason) in rows {
        let mut bench = Bench::with(model, true);
        bench.set_entry(u64::from(index), entry);
        assert_eq!(bench.remap(index), Remapped::Aborted, "{name}");
        assert_eq!(bench.fault(), Some((reason, u64::from(index) << 48)), "{name}");
    }
}

#[test]
fn faults_of_an_entry_can_be_kept_out_of_the_record() {
    let mut bench = Bench::new();
    let entry = remapped().with_suppresses_faults(true).with_source(0x5_0000);
    bench.set_entry(7, entry.into_bits());
    assert_eq!(bench.remap(7), Remapped::Aborted);
    assert_eq!(bench.fault(), None);
}

#[test]
fn compatibility_format_passes_only_where_it_may() {
    let message = MessageSignalled { address: Device(0xFEE0_1000), data: 0x31 };
    for (is_x2apic, allows, passes) in
        [(false, false, false), (false, true, true), (true, true, false)]
    {
        let mut bench = Bench::with(Model::server(true), is_x2apic);
        let command = if allows { 0x8680_0000 } else { 0x8600_0000 };
        bench.write(at::GLOBAL_COMMAND, 4, command);
        let found = bench.unit.remap(&mut bench.memory, FUNCTION, message);
        let expected = if passes { Remapped::Unchanged } else { Remapped::Aborted };
        assert_eq!(found, expected);
        assert_eq!(bench.fault().map(|fault| fault.0), (!passes).then_some(0x25));
    }
}

#[test]
fn a_subhandle_has_sixteen_bits() {
    let mut bench = Bench::new();
    bench.set_entry(10, remapped().into_bits());
    let with = |data| MessageSignalled { address: Device(0xFEE0_00F8), data };
    let found = bench.unit.remap(&mut bench.memory, FUNCTION, with(3));
    assert!(matches!(found, Remapped::Interrupt(_)));
    let found = bench.unit.remap(&mut bench.memory, FUNCTION, with(0x1_0003));
    assert_eq!(found, Remapped::Aborted);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(0x20));
}

#[test]
fn a_table_without_memory_and_a_unit_that_is_off() {
    let mut bench = Bench::new();
    bench.write(at::REMAPPING_TABLE_ADDRESS, 8, MEMORY | 7);
    bench.write(at::GLOBAL_COMMAND, 4, 0x8700_0000);
    assert_eq!(bench.remap(0), Remapped::Aborted);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(0x23));
    bench.write(at::GLOBAL_COMMAND, 4, 0);
    assert_eq!(bench.remap(0), Remapped::Unchanged);
}
