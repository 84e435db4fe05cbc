//! Devices' accesses.

use super::*;

/// In the page that entry 3 of the last table maps.
const ADDRESS: u64 = 1 << 30 | 2 << 21 | 3 << 12 | 0x123;
const LAST: u64 = TABLE + 0x2018;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.store(TABLE + 8, TABLE + 0x1000 | 3);
    bench.store(TABLE + 0x1010, TABLE + 0x2000 | 3);
    bench
}

#[test]
fn three_levels_lead_to_a_page_whatever_else_a_processors_table_says() {
    for others in [0, 0x7C, 0x700, 0x7FF0_0000_0000_0000, 1 << 63, 1 << 11] {
        let mut bench = bench();
        bench.store(LAST, 0xAB_C000 | 3 | others);
        let found = bench.translate(ADDRESS, Access::Write);
        assert_eq!(found, Some((0xAB_C123, 0xEDD)), "{others:#x}");
    }
}

#[test]
fn large_pages_end_the_walk() {
    for (at, entry, expected) in
        [(TABLE + 0x1010, 0x4020_0083, 0x4020_3123), (TABLE + 8, 0x4000_0083, 0x4040_3123)]
    {
        let mut bench = bench();
        bench.store(at, entry);
        let found = bench.translate(ADDRESS, Access::Read).map(|(address, _)| address);
        assert_eq!(found, Some(expected));
    }
}

#[test]
fn rights_are_those_of_all_entries() {
    for (of_table, of_leaf) in [(3, 3), (1, 3), (3, 1), (2, 3), (3, 2), (1, 2)] {
        let mut bench = bench();
        bench.store(TABLE + 8, TABLE + 0x1000 | of_table);
        bench.store(LAST, 0x9000 | of_leaf);
        let granted = of_table & of_leaf;
        for (access, right, reason) in [(Access::Read, 1, 6), (Access::Write, 2, 5)] {
            let is_granted = granted & right != 0;
            assert_eq!(bench.translate(ADDRESS, access).is_some(), is_granted);
            let fault = bench.fault().map(|fault| fault.0);
            assert_eq!(fault, (!is_granted).then_some(reason));
        }
    }
}

#[test]
fn faults_have_the_reasons_of_the_specification() {
    type Change = fn(&mut Bench);
    let rows: [(&str, Change, u8); 14] = [
        ("root absent", |bench| bench.store(ROOT, 0), 0x01),
        ("context absent", |bench| bench.set_context(ContextEntry::new()), 0x02),
        ("levels", |bench| bench.set_context(context().with_width(3)), 0x03),
        (
            "device cache",
            |bench| bench.set_context(context().with_kind(TranslationType::DeviceCache)),
            0x03,
        ),
        (
            "reserved type",
            |bench| bench.set_context(context().with_kind(TranslationType::Reserved)),
            0x03,
        ),
        ("page absent", |_| {}, 0x06),
        ("table unreachable", |bench| bench.store(TABLE + 8, MEMORY | 3), 0x07),
        ("context unreachable", |bench| bench.store(ROOT, MEMORY | 1), 0x09),
        ("root reserved", |bench| bench.store(ROOT, CONTEXTS | 3), 0x0A),
        ("root reserved high", |bench| bench.store(ROOT + 8, 1), 0x0A),
        ("context reserved", |bench| bench.set_context(context().with_reserved(1)), 0x0B),
        ("context reserved high", |bench| bench.set_context(context().with_reserved_high(1)), 0x0B),
        ("unaligned large page", |bench| bench.store(TABLE + 0x1010, 0x4000_1083), 0x0C),
        ("too large", |bench| bench.set_context(context().with_width(2)), 0x06),
    ];
    for (name, change, reason) in rows {
        let mut bench = bench();
        change(&mut bench);
        assert_eq!(bench.translate(ADDRESS, Access::Read), None, "{name}");
        assert_eq!(bench.fault(), Some((reason, ADDRESS & !0xFFF)), "{name}");
    }
    let mut bench = bench();
    assert_eq!(bench.translate(1 << 39, Access::Read), None);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(0x04));
    assert_eq!(bench.translate(0xFEE0_0000, Access::Read), None);
    assert_eq!(bench.fault().map(|fault| fault.0), Some(0x0E));
}

#[test]
fn accesses_pass_where_nothing_is_to_be_translated() {
    let mut bench = bench();
    bench.set_context(context().with_kind(TranslationType::PassThrough));
    assert_eq!(bench.translate(ADDRESS, Access::Write).map(|found| found.0), Some(ADDRESS));
    let mut bench = Bench::new();
    bench.write(at::GLOBAL_COMMAND, 4, 0);
    assert_eq!(bench.translate(ADDRESS, Access::Write).map(|found| found.0), Some(ADDRESS));
}

#[test]
fn qualified_faults_of_a_function_can_be_kept_out_of_the_record() {
    let mut bench = bench();
    bench.set_context(context().with_suppresses_faults(true));
    assert_eq!(bench.translate(ADDRESS, Access::Read), None);
    assert_eq!(bench.fault(), None);
}
