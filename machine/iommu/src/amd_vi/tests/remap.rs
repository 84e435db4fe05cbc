//! Devices' interrupts for the host.

use super::*;
use arch::amd_vi::{InterruptType, LegacyEntry, RemappedEntry};
use arch::apic::DestinationMode;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.set_entry(translation(0), remapping());
    bench
}

fn wide() -> RemappedEntry {
    RemappedEntry::new().with_is_enabled(true).with_vector(0x31).with_destination(0x0100_0005)
}

#[test]
fn a_wide_entry_says_vector_destination_and_arbitration() {
    for (kind, mode, expected) in [
        (InterruptType::Fixed, DestinationMode::Physical, DeliveryMode::Fixed),
        (InterruptType::Arbitrated, DestinationMode::Logical, DeliveryMode::LowestPriority),
    ] {
        let mut bench = bench();
        let entry = wide().with_kind(kind).with_destination_mode(mode);
        bench.set_wide(0x12, entry.into_bits());
        let Remapped::Interrupt(message) = bench.remap(0x12) else { panic!("no interrupt") };
        assert_eq!((message.delivery_mode, message.destination_mode), (expected, mode));
        assert_eq!((message.vector, message.destination), (Vector(0x31), 0x0100_0005));
        assert!(message.is_x2apic && message.is_asserted && !message.is_level);
    }
}

#[test]
fn without_x2apic_destinations_have_eight_bits() {
    let mut bench = bench();
    bench.write(at::CONTROL, running().with_has_x2apic_destinations(false).into_bits());
    bench.set_wide(0x12, wide().into_bits());
    let Remapped::Interrupt(message) = bench.remap(0x12) else { panic!("no interrupt") };
    assert_eq!((message.destination, message.is_x2apic), (5, false));
}

#[test]
fn an_entry_of_32_bits_serves_where_wide_ones_are_off() {
    let mut bench = bench();
    bench.write(at::CONTROL, running().with_has_wide_remapping_entries(false).into_bits());
    let entry = LegacyEntry::new().with_is_enabled(true).with_vector(0x44).with_destination(9);
    bench.memory.write_u32(SystemPhysical(REMAPPING_TABLE + 4 * 0x1FF), entry.into_bits());
    let Remapped::Interrupt(message) = bench.remap(0x1FF) else { panic!("no interrupt") };
    assert_eq!((message.vector, message.destination), (Vector(0x44), 9));
    let guest = entry.with_is_guest(true);
    bench.memory.write_u32(SystemPhysical(REMAPPING_TABLE + 4 * 0x1FF), guest.into_bits());
    assert_eq!(bench.remap(0x1FF), Remapped::Aborted);
}

#[test]
fn a_level_triggered_message_stays_one() {
    let mut bench = bench();
    bench.set_wide(0x12, wide().into_bits());
    let Remapped::Interrupt(message) = bench.remap(0xC012) else { panic!("no interrupt") };
    assert!(message.is_level && message.is_asserted);
}

#[test]
fn interrupts_without_an_entry_are_aborted_and_logged() {
    let wrong_kind = wide().with_kind(InterruptType::Reserved(5)).into_bits();
    let short = remapping().with_table_length(4);
    let rows = [
        ("beyond the table", short, 0x10, wide().into_bits(), Some(0x028)),
        ("not enabled", remapping(), 0x10, wide().with_is_enabled(false).into_bits(), Some(0x028)),
        ("reserved type", remapping(), 0x10, wrong_kind, Some(0x0B8)),
        ("silent", remapping(), 0x10, 2, None),
        ("silent function", remapping().with_suppresses_events(true), 0x10, 0, None),
        ("abort", remapping().with_control(InterruptControl::Abort), 0x10, 1, Some(0x028)),
        ("startup", remapping(), 0x610, 1, Some(0x028)),
    ];
    for (name, interrupts, data, entry, flags) in rows {
        let mut bench = bench();
        bench.set_entry(translation(0), interrupts);
        bench.set_wide(0x10, entry);
        assert_eq!(bench.remap(data), Remapped::Aborted, "{name}");
        let expected = flags.map(|flags| (2, flags, FUNCTION.0, 0xFEE0_0000));
        assert_eq!(bench.event(), expected, "{name}");
    }
}

#[test]
fn guest_entries_need_guest_mode() {
    let mut bench = bench();
    bench.set_wide(0x10, guest().into_bits());
    assert!(matches!(bench.remap(0x10), Remapped::Posting(_)));
    bench.write(at::CONTROL, running().with_guest_mode(0).into_bits());
    assert_eq!(bench.remap(0x10), Remapped::Aborted);
    assert_eq!(bench.event(), Some((2, 0x0B8, FUNCTION.0, 0xFEE0_0000)));
}

#[test]
fn what_is_not_to_be_remapped_passes() {
    let rows = [
        ("not valid", InterruptHalf::new(), 0x31, true),
        ("pass", remapping().with_control(InterruptControl::Pass), 0x31, true),
        ("NMI", remapping(), 0x431, false),
        ("NMI passes", remapping().with_passes_nmi(true), 0x431, true),
        ("INIT", remapping(), 0x500, false),
        ("INIT passes", remapping().with_passes_init(true), 0x500, true),
        ("ExtINT", remapping(), 0x700, false),
        ("ExtINT passes", remapping().with_passes_ext_int(true), 0x700, true),
    ];
    for (name, interrupts, data, passes) in rows {
        let mut bench = bench();
        bench.set_entry(translation(0), interrupts);
        let expected = if passes { Remapped::Unchanged } else { Remapped::Aborted };
        assert_eq!(bench.remap(data), expected, "{name}");
    }
    let mut bench = bench();
    bench.write(at::CONTROL, running().with_is_enabled(false).into_bits());
    assert_eq!(bench.remap(0x31), Remapped::Unchanged);
}

#[test]
fn a_table_without_memory_is_a_hardware_error() {
    let mut bench = bench();
    bench.set_entry(translation(0), remapping().with_table(SystemPhysical(MEMORY)));
    assert_eq!(bench.remap(0), Remapped::Aborted);
    assert_eq!(bench.event(), Some((4, 0x028, FUNCTION.0, 0xFEE0_0000)));
}

#[test]
fn its_own_function_is_never_looked_up() {
    let mut bench = bench();
    let own = bench.iommu.model().requester;
    let message = MessageSignalled { address: Device(0xFEE0_0000), data: 0x31 };
    assert_eq!(bench.iommu.remap(&mut bench.memory, own, message), Remapped::Unchanged);
}
