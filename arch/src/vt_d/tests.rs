//! Independent transcriptions: the values of Linux' `iommu.h` and `dmar.h` of Intel's driver, and
//! those of public dumps, typed here as literals.

use super::descriptor::Granularity;
use super::firmware::{ScopeKind, scope, unit};
use super::register::*;
use super::*;
use crate::address::{Device, SystemPhysical};
use crate::identity::RequesterId;
use crate::pci::FunctionAddress;

#[test]
fn registers_are_where_kernels_look_for_them() {
    let rows = [
        ("VER", VERSION, 0x00),
        ("CAP", CAPABILITY, 0x08),
        ("ECAP", EXTENDED_CAPABILITY, 0x10),
        ("GCMD", GLOBAL_COMMAND, 0x18),
        ("GSTS", GLOBAL_STATUS, 0x1C),
        ("RTADDR", ROOT_TABLE_ADDRESS, 0x20),
        ("CCMD", CONTEXT_COMMAND, 0x28),
        ("FSTS", FAULT_STATUS, 0x34),
        ("FECTL", FAULT_EVENT_CONTROL, 0x38),
        ("FEDATA", FAULT_EVENT_DATA, 0x3C),
        ("FEADDR", FAULT_EVENT_ADDRESS, 0x40),
        ("FEUADDR", FAULT_EVENT_UPPER_ADDRESS, 0x44),
        ("PMEN", PROTECTED_MEMORY_ENABLE, 0x64),
        ("IQH", QUEUE_HEAD, 0x80),
        ("IQT", QUEUE_TAIL, 0x88),
        ("IQA", QUEUE_ADDRESS, 0x90),
        ("ICS", INVALIDATION_COMPLETION, 0x9C),
        ("IECTL", INVALIDATION_EVENT_CONTROL, 0xA0),
        ("IEDATA", INVALIDATION_EVENT_DATA, 0xA4),
        ("IEADDR", INVALIDATION_EVENT_ADDRESS, 0xA8),
        ("IEUADDR", INVALIDATION_EVENT_UPPER_ADDRESS, 0xAC),
        ("IRTA", REMAPPING_TABLE_ADDRESS, 0xB8),
    ];
    for (name, ours, literal) in rows {
        assert_eq!(ours, literal, "{name}");
    }
}

#[test]
fn commands_and_status_are_at_their_bits() {
    let rows = [
        (GlobalCommand::TRANSLATION_ENABLE, 31),
        (GlobalCommand::SET_ROOT_TABLE, 30),
        (GlobalCommand::SET_FAULT_LOG, 29),
        (GlobalCommand::FAULT_LOG_ENABLE, 28),
        (GlobalCommand::WRITE_BUFFER_FLUSH, 27),
        (GlobalCommand::QUEUE_ENABLE, 26),
        (GlobalCommand::REMAPPING_ENABLE, 25),
        (GlobalCommand::SET_REMAPPING_TABLE, 24),
        (GlobalCommand::COMPATIBILITY_FORMAT, 23),
    ];
    for (ours, bit) in rows {
        assert_eq!(ours.bits(), 1 << bit);
    }
    assert_eq!(GlobalCommand::ONE_SHOT.bits(), 0x6900_0000);
    assert_eq!(FaultStatus::WRITE_1_CLEAR.bits(), 0x71);
}

/// The constants of the most used emulator: 39 bits of address, one fault record, large pages.
#[test]
fn capabilities_decode_as_kernels_decode_them() {
    let capability = Capability::from_bits(0x00D2_008C_2226_0206);
    assert_eq!((capability.domains(), capability.levels()), (6, 0b10));
    assert_eq!((capability.address_bits(), capability.fault_records()), (38, 0x22));
    assert_eq!((capability.large_pages(), capability.most_mask()), (3, 18));
    assert!(capability.has_page_invalidation() && !capability.has_posting());
    assert!(capability.drains_reads() && capability.drains_writes());
    assert_eq!(Capability::new().with_has_posting(true).into_bits(), 1 << 59);
    let extended = ExtendedCapability::from_bits(0x00F0_0F5A);
    assert!(extended.has_queue() && extended.has_remapping() && extended.has_x2apic());
    assert!(extended.has_pass_through() && !extended.is_coherent());
    assert_eq!((extended.invalidation_registers(), extended.most_index_mask()), (0xF, 0xF));
    assert_eq!(ExtendedCapability::new().with_has_scalable_mode(true).into_bits(), 1 << 43);
}

#[test]
fn tables_have_the_sizes_of_their_codes() {
    let queue = QueueAddress::from_bits(0x1234_5000 | 7);
    assert_eq!((queue.base(), queue.bytes()), (SystemPhysical(0x1234_5000), 512 << 10));
    let table = RemappingTableAddress::from_bits(0x1234_580F);
    assert_eq!((table.table(), table.entries()), (SystemPhysical(0x1234_5000), 65_536));
    assert!(table.is_x2apic());
    assert_eq!(RootTableAddress::from_bits(0x1234_5C00).mode(), 3);
}

#[test]
fn entries_of_tables_as_kernels_write_them() {
    let root = RootEntry::from_bits(0x1234_5001);
    assert!(root.is_present());
    assert_eq!(root.table(), SystemPhysical(0x1234_5000));
    let context = ContextEntry::from_bits(0x0000_0000_0000_1A02_0000_0000_1234_5009);
    assert!(context.is_present() && !context.has_reserved_bits());
    assert_eq!(context.kind(), TranslationType::PassThrough);
    assert_eq!((context.width(), context.domain()), (2, 0x1A));
    let leaf = SecondLevelEntry::from_bits(0x1234_5883);
    assert!(leaf.is_readable() && leaf.is_writable() && leaf.is_large() && leaf.is_snooped());
    assert_eq!(leaf.frame(), 0x1_2345);
}

#[test]
fn a_fault_has_its_page_or_its_index_where_kernels_read_it() {
    let source = RequesterId(0x0108);
    let read = FaultRecord::access(source, FaultReason::ReadRefused, 0xFFFF_F123, true);
    assert_eq!(read.into_bits(), 0xC000_0006_0000_0108_0000_0000_FFFF_F000);
    let interrupt = FaultRecord::interrupt(source, FaultReason::SourceRefused, 0x1234);
    assert_eq!(interrupt.into_bits(), 0x8000_0026_0000_0108_1234_0000_0000_0000);
}

#[test]
fn descriptors_as_kernels_write_them() {
    let rows = [
        (
            [0x0000_0000_0000_0011, 0],
            Descriptor::Context {
                granularity: Granularity::Global,
                domain: 0,
                source: RequesterId(0),
            },
        ),
        (
            [0x0000_0108_0005_0031, 0],
            Descriptor::Context {
                granularity: Granularity::Selective,
                domain: 5,
                source: RequesterId(0x108),
            },
        ),
        (
            [0x0000_0000_0005_00F2, 0xFFFF_F009],
            Descriptor::Translations {
                granularity: Granularity::Selective,
                domain: 5,
                address: Device(0xFFFF_F000),
                mask: 9,
            },
        ),
        ([0x0000_0000_0000_0004, 0], Descriptor::Interrupts { index: None, mask: 0 }),
        ([0x0000_0007_1000_0014, 0], Descriptor::Interrupts { index: Some(7), mask: 2 }),
        (
            [0x0000_0002_0000_0025, 0x1234_5678],
            Descriptor::Wait {
                store: Some(SystemPhysical(0x1234_5678)),
                data: 2,
                interrupts: false,
            },
        ),
        ([0x0000_0000_0000_000F, 0], Descriptor::Unknown(15)),
    ];
    for (raw, expected) in rows {
        assert_eq!(Descriptor::from_quadwords(raw), expected);
    }
}

#[test]
fn the_index_is_handle_and_subhandle() {
    for (address, data, index) in [
        (0xFEE0_0010, 0x0000, Some(0)),
        (0xFEE0_00F0, 0xFFFF_FFFF, Some(7)),
        (0xFEE0_00F8, 0x0003, Some(10)),
        (0xFEEF_FFFC, 0xFFFF, Some(0x1_FFFE)),
        (0xFEE0_00F8, 0x1_0003, None),
    ] {
        assert_eq!(RemappableAddress::from_bits(address).index(data), index, "{address:#x}");
    }
}

#[test]
fn an_entry_takes_the_interrupts_of_its_source_only() {
    let check = SourceCheck::new().with_source(0x0108).with_kind(1);
    for (qualifier, accepted) in [
        (0, [true, false, false, false]),
        (1, [true, false, false, true]),
        (2, [true, false, true, true]),
        (3, [true, true, true, true]),
    ] {
        let check = check.with_qualifier(qualifier);
        let found = [0x108, 0x109, 0x10A, 0x10C].map(|id| check.accepts(RequesterId(id)));
        assert_eq!(found, accepted, "SQ {qualifier}");
        assert!(!check.accepts(RequesterId(0x0208)));
    }
    let buses = SourceCheck::new().with_kind(2).with_source(0x0204);
    let found = [0x01FF, 0x0200, 0x04FF, 0x0500].map(|id| buses.accepts(RequesterId(id)));
    assert_eq!(found, [false, true, true, false]);
    assert!(SourceCheck::new().accepts(RequesterId(0xFFFF)));
    assert!(!SourceCheck::new().with_kind(3).accepts(RequesterId(0)));
}

#[test]
fn remapping_entries_as_kernels_write_them() {
    // P, RH, logical, vector 31h, destination 0001_0001h; SVT 1, SID 0108h.
    let raw = 0x0000_0000_0004_0108_0001_0001_0031_000D;
    let remapped = RemappedEntry::from_bits(raw);
    assert!(remapped.is_present() && remapped.is_redirectable() && !remapped.is_posted());
    assert_eq!((remapped.vector(), remapped.destination()), (0x31, 0x0001_0001));
    assert_eq!((remapped.check().kind(), remapped.check().source()), (1, 0x0108));
    assert!(!remapped.has_reserved_bits(true) && remapped.has_reserved_bits(false));
    let posted = PostedEntry::new()
        .with_is_present(true)
        .with_is_posted(true)
        .with_is_urgent(true)
        .with_vector(0x45)
        .with_descriptor(SystemPhysical(0x0000_0012_3456_7840));
    assert_eq!(posted.into_bits(), 0x0000_0012_0000_0000_3456_7840_0045_C001);
    assert_eq!(posted.descriptor(), SystemPhysical(0x0000_0012_3456_7840));
    assert!(!posted.has_reserved_bits());
    assert!(PostedEntry::from_bits(posted.into_bits() | 1 << 24).has_reserved_bits());
}

#[test]
fn a_unit_and_its_scopes_as_kernels_read_them() {
    assert_eq!(unit(0xFED9_0000, 8), [0, 0, 24, 0, 1, 0, 0, 0, 0, 0, 0xD9, 0xFE, 0, 0, 0, 0]);
    let place = FunctionAddress::new(0xF0, 0x1F, 0);
    assert_eq!(scope(ScopeKind::IoApic, 8, place), [3, 8, 0, 0, 8, 0xF0, 0x1F, 0]);
}
