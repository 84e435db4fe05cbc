//! Devices' accesses.

use super::*;

fn table(address: u64, level: u8) -> u64 {
    leaf(address).with_next_level(level).into_bits()
}

fn leaf(address: u64) -> PageEntry {
    PageEntry::new()
        .with_is_present(true)
        .with_is_readable(true)
        .with_is_writable(true)
        .with_address(address)
}

/// Three levels: the root's entry 1 leads to a table at `ROOT + 1000h`, whose entry 2 to one at
/// `ROOT + 2000h`.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.set_entry(translation(3), remapping());
    for (at, entry) in
        [(ROOT + 8, table(ROOT + 0x1000, 2)), (ROOT + 0x1010, table(ROOT + 0x2000, 1))]
    {
        bench.memory.write_u64(SystemPhysical(at), entry);
    }
    bench
}

/// In the page that entry 3 of the last table maps.
const ADDRESS: u64 = 1 << 30 | 2 << 21 | 3 << 12 | 0x123;
const LAST: u64 = ROOT + 0x2018;

fn translate(bench: &mut Bench, address: u64, access: Access) -> Option<(u64, u64)> {
    let found = bench.iommu.translate(&mut bench.memory, FUNCTION, Device(address), access);
    found.ok().map(|found| (found.address.0, found.length))
}

#[test]
fn three_levels_lead_to_a_page() {
    let mut bench = bench();
    bench.memory.write_u64(SystemPhysical(LAST), leaf(0xAB_C000).into_bits());
    assert_eq!(translate(&mut bench, ADDRESS, Access::Read), Some((0xAB_C123, 0xEDD)));
    assert_eq!(translate(&mut bench, ADDRESS, Access::Write), Some((0xAB_C123, 0xEDD)));
    assert_eq!(bench.event(), None);
}

#[test]
fn leaves_have_the_size_of_their_level_or_the_one_that_their_address_says() {
    // Where the entry is, its next level and address, and what becomes of `ADDRESS`.
    let rows = [
        ("2 MiB", ROOT + 0x1010, 0, 0x1_4020_0000, 0x1_4020_3123),
        ("1 GiB", ROOT + 8, 0, 0x1_4000_0000, 0x1_4040_3123),
        ("64 KiB", LAST, 7, 0x7000, 0x3123),
        ("32 MiB", ROOT + 0x1010, 7, 0x80FF_F000, 0x8040_3123),
        ("8 KiB", LAST, 7, 0xAB_C000, 0xAB_D123),
    ];
    for (name, at, next, address, expected) in rows {
        let mut bench = bench();
        let entry = leaf(address).with_next_level(next).into_bits();
        bench.memory.write_u64(SystemPhysical(at), entry);
        let found = translate(&mut bench, ADDRESS, Access::Read).map(|(address, _)| address);
        assert_eq!(found, Some(expected), "{name}");
    }
}

#[test]
fn rights_are_those_of_all_entries_and_of_the_device() {
    let none = (false, false);
    for (of_device, of_table, of_leaf) in [
        ((true, true), (true, true), (true, true)),
        ((true, false), (true, true), (true, true)),
        ((true, true), (false, true), (true, true)),
        ((true, true), (true, true), (true, false)),
        (none, (true, true), (true, true)),
        ((true, true), none, (true, true)),
        ((true, true), (true, true), none),
    ] {
        let mut bench = bench();
        let device = translation(3).with_is_readable(of_device.0).with_is_writable(of_device.1);
        bench.set_entry(device, remapping());
        let with = |entry: u64, (read, write): (bool, bool)| {
            PageEntry::from_bits(entry).with_is_readable(read).with_is_writable(write).into_bits()
        };
        bench.memory.write_u64(SystemPhysical(ROOT + 8), with(table(ROOT + 0x1000, 2), of_table));
        bench.memory.write_u64(SystemPhysical(LAST), with(leaf(0x9000).into_bits(), of_leaf));
        let reads = of_device.0 && of_table.0 && of_leaf.0;
        let writes = of_device.1 && of_table.1 && of_leaf.1;
        assert_eq!(translate(&mut bench, ADDRESS, Access::Read).is_some(), reads);
        assert_eq!(bench.event().map(|event| event.0), (!reads).then_some(2));
        assert_eq!(translate(&mut bench, ADDRESS, Access::Write).is_some(), writes);
        // PR, RW and PE.
        assert_eq!(bench.event(), (!writes).then_some((2, 0x070, FUNCTION.0, ADDRESS)));
    }
}

#[test]
fn what_has_no_page_is_a_page_fault() {
    let rows = [
        ("absent", LAST, 0, ADDRESS, 0x000),
        ("beyond the levels", LAST, leaf(0x9000).into_bits(), ADDRESS | 1 << 39, 0x000),
        ("reserved bit", LAST, leaf(0x9000).into_bits() | 1 << 63, ADDRESS, 0x090),
        ("table behind the last level", LAST, table(0x9000, 1), ADDRESS, 0x090),
        ("skipped level", ROOT + 8, table(ROOT + 0x2000, 1), ADDRESS, 0x090),
        ("its own level", ROOT + 8, table(ROOT, 3), ADDRESS, 0x090),
        ("too small for its level", ROOT + 8, table(0x7000, 7), ADDRESS, 0x090),
    ];
    for (name, at, entry, address, flags) in rows {
        let mut bench = bench();
        bench.memory.write_u64(SystemPhysical(at), entry);
        assert_eq!(translate(&mut bench, address, Access::Read), None, "{name}");
        assert_eq!(bench.event(), Some((2, flags, FUNCTION.0, address)), "{name}");
    }
}

#[test]
fn a_table_without_memory_is_a_hardware_error() {
    let mut bench = bench();
    bench.memory.write_u64(SystemPhysical(ROOT + 8), table(MEMORY, 2));
    assert_eq!(translate(&mut bench, ADDRESS, Access::Read), None);
    assert_eq!(bench.event(), Some((4, 0, FUNCTION.0, ADDRESS)));
    bench.write(at::DEVICE_TABLE_BASE, MEMORY);
    assert_eq!(translate(&mut bench, ADDRESS, Access::Read), None);
    assert_eq!(bench.event(), Some((3, 0, FUNCTION.0, ADDRESS)));
}

#[test]
fn accesses_pass_where_there_is_nothing_to_look_up() {
    let valid = TranslationHalf::new().with_is_valid(true);
    for (name, entry, is_enabled) in [
        ("disabled", translation(3), false),
        ("not valid", TranslationHalf::new(), true),
        ("no translation", valid, true),
        ("pass-through", translation(0), true),
    ] {
        let mut bench = Bench::new();
        bench.set_entry(entry, InterruptHalf::new());
        bench.write(at::CONTROL, running().with_is_enabled(is_enabled).into_bits());
        let found = translate(&mut bench, ADDRESS, Access::Write).map(|(address, _)| address);
        assert_eq!(found, Some(ADDRESS), "{name}");
    }
    // Rights hold in pass-through too.
    let mut bench = Bench::new();
    bench.set_entry(translation(0).with_is_writable(false), remapping());
    assert!(translate(&mut bench, ADDRESS, Access::Read).is_some());
    assert_eq!(translate(&mut bench, ADDRESS, Access::Write), None);
}

#[test]
fn illegal_entries_and_functions_beyond_the_table_are_refused() {
    for (name, entry, interrupts) in [
        ("too deep", translation(7), remapping()),
        ("guest tables", translation(3).with_has_guest_translation(true), remapping()),
        ("too long a table", translation(3), remapping().with_table_length(12)),
        ("reserved control", translation(3), remapping().with_control(InterruptControl::Reserved)),
    ] {
        let mut bench = bench();
        bench.set_entry(entry, interrupts);
        assert_eq!(translate(&mut bench, ADDRESS, Access::Read), None, "{name}");
        assert_eq!(bench.event(), Some((1, 0x080, FUNCTION.0, ADDRESS)), "{name}");
        assert_eq!(bench.remap(0), Remapped::Aborted, "{name}");
    }
    let mut bench = bench();
    let far = RequesterId(0x80);
    let read = bench.iommu.translate(&mut bench.memory, far, Device(0), Access::Read);
    assert!(read.is_err());
    assert_eq!(bench.event().map(|event| (event.0, event.2)), Some((1, 0x80)));
}

#[test]
fn faults_of_a_device_can_be_kept_out_of_the_log() {
    let mut bench = bench();
    bench.set_entry(translation(3).with_suppresses_all_events(true), remapping());
    assert_eq!(translate(&mut bench, ADDRESS, Access::Read), None);
    assert_eq!(bench.event(), None);
}

#[test]
fn the_interrupt_window_is_no_memory() {
    let mut bench = bench();
    assert_eq!(translate(&mut bench, 0xFEE0_0000, Access::Read), None);
    assert_eq!(bench.event().map(|event| event.0), Some(8));
}
