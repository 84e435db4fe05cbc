//! Independent transcriptions: the values of Linux' `amd_iommu_types.h` and `msidef.h`, and what
//! kernels' logs say of machines, typed here as literals.

use super::device_table::DeviceTableEntry;
use super::firmware::{Block, BlockType, Information, Special, device_flag, range, special};
use super::register::{DeviceTableBase, InterruptDestination, RingBase};
use super::*;
use crate::address::{Device, SystemPhysical};
use crate::apic::DestinationMode;
use crate::identity::{ApicId, RequesterId};

#[test]
fn registers_are_where_kernels_look_for_them() {
    use register as r;
    let rows = [
        ("DEV_TABLE", r::DEVICE_TABLE_BASE, 0x0000),
        ("CMD_BUF", r::COMMAND_BASE, 0x0008),
        ("EVT_BUF", r::EVENT_BASE, 0x0010),
        ("CONTROL", r::CONTROL, 0x0018),
        ("EXCL_BASE", r::EXCLUSION_BASE, 0x0020),
        ("EXCL_LIMIT", r::EXCLUSION_LIMIT, 0x0028),
        ("EXT_FEATURES", r::EXTENDED_FEATURE, 0x0030),
        ("PPR_LOG", r::PAGE_REQUEST_BASE, 0x0038),
        ("GA_LOG_BASE", r::GUEST_LOG_BASE, 0x00E0),
        ("GA_LOG_TAIL", r::GUEST_LOG_TAIL_ADDRESS, 0x00E8),
        ("INTCAPXT_EVT", r::EVENT_INTERRUPT, 0x0170),
        ("INTCAPXT_PPR", r::PAGE_REQUEST_INTERRUPT, 0x0178),
        ("INTCAPXT_GALOG", r::GUEST_LOG_INTERRUPT, 0x0180),
        ("EXT_FEATURES2", r::EXTENDED_FEATURE_2, 0x01A0),
        ("CMD_HEAD", r::COMMAND_HEAD, 0x2000),
        ("CMD_TAIL", r::COMMAND_TAIL, 0x2008),
        ("EVT_HEAD", r::EVENT_HEAD, 0x2010),
        ("EVT_TAIL", r::EVENT_TAIL, 0x2018),
        ("STATUS", r::STATUS, 0x2020),
        ("GA_HEAD", r::GUEST_LOG_HEAD, 0x2040),
        ("GA_TAIL", r::GUEST_LOG_TAIL, 0x2048),
    ];
    for (name, ours, literal) in rows {
        assert_eq!(ours, literal, "{name}");
    }
}

#[test]
fn control_bits() {
    let rows = [
        ("IOMMU_EN", Control::new().with_is_enabled(true), 0),
        ("HT_TUN_EN", Control::new().with_has_tunnel_translation(true), 1),
        ("EVT_LOG_EN", Control::new().with_logs_events(true), 2),
        ("EVT_INT_EN", Control::new().with_interrupts_for_events(true), 3),
        ("COMWAIT_INT_EN", Control::new().with_interrupts_for_completion(true), 4),
        ("INV_TIMEOUT", Control::new().with_invalidation_timeout(1), 5),
        ("PASSPW", Control::new().with_passes_posted_writes(true), 8),
        ("COHERENT", Control::new().with_is_coherent(true), 10),
        ("ISOC", Control::new().with_is_isochronous(true), 11),
        ("CMDBUF_EN", Control::new().with_processes_commands(true), 12),
        ("PPRLOG_EN", Control::new().with_logs_page_requests(true), 13),
        ("PPR_EN", Control::new().with_handles_page_requests(true), 15),
        ("GT_EN", Control::new().with_translates_guest_addresses(true), 16),
        ("GA_EN", Control::new().with_has_wide_remapping_entries(true), 17),
        ("GAM_EN", Control::new().with_guest_mode(Control::VIRTUAL_APIC), 25),
        ("GALOG_EN", Control::new().with_logs_guest_interrupts(true), 28),
        ("GAINT_EN", Control::new().with_interrupts_for_guest_log(true), 29),
        ("NUM_INT_REMAP_MODE", Control::new().with_remapping_table_mode(1), 43),
        ("EPH_EN", Control::new().with_has_enhanced_page_requests(true), 45),
        ("XT_EN", Control::new().with_has_x2apic_destinations(true), 50),
        ("INTCAPXT_EN", Control::new().with_has_x2apic_messages(true), 51),
        ("IRTCACHEDIS", Control::new().with_has_remapping_cache_disabled(true), 59),
        ("SNPAVIC_EN", Control::new().with_secure_avic(1), 61),
    ];
    for (name, ours, bit) in rows {
        assert_eq!(ours.into_bits(), 1 << bit, "{name}");
    }
}

#[test]
fn status_bits() {
    let rows = [
        ("EVT_OVERFLOW", Status::EVENT_OVERFLOW, 0),
        ("EVT_INT", Status::EVENT_INTERRUPT, 1),
        ("COM_WAIT_INT", Status::COMPLETION_INTERRUPT, 2),
        ("EVT_RUN", Status::EVENT_LOG_RUN, 3),
        ("CMD_BUF_RUN", Status::COMMAND_RUN, 4),
        ("PPR_OVERFLOW", Status::PAGE_REQUEST_OVERFLOW, 5),
        ("PPR_INT", Status::PAGE_REQUEST_INTERRUPT, 6),
        ("PPR_RUN", Status::PAGE_REQUEST_RUN, 7),
        ("GALOG_RUN", Status::GUEST_LOG_RUN, 8),
        ("GALOG_OVERFLOW", Status::GUEST_LOG_OVERFLOW, 9),
        ("GALOG_INT", Status::GUEST_LOG_INTERRUPT, 10),
    ];
    for (name, ours, bit) in rows {
        assert_eq!(ours.bits(), 1 << bit, "{name}");
    }
    assert_eq!(Status::WRITE_1_CLEAR.bits(), 0b110_0110_0111);
}

#[test]
fn tables_and_rings_have_the_lengths_of_their_codes() {
    let table = DeviceTableBase::from_bits(0x1234_5000 | 0x1FF);
    assert_eq!((table.base(), table.bytes()), (SystemPhysical(0x1234_5000), 2 << 20));
    for (code, bytes) in [(8, 4 << 10), (9, 8 << 10), (15, 512 << 10), (0, 4 << 10), (7, 4 << 10)] {
        assert_eq!(RingBase::from_bits(code << 56 | 0x5000).bytes(), bytes, "code {code}");
    }
}

/// The features of parts, as logs of kernels show them: servers of Zen 2, Zen 4, and desktop parts.
const ZEN_2: ExtendedFeatures = ExtendedFeatures::from_bits(0x058F_77EF_2229_4ADE);
const ZEN_4: ExtendedFeatures = ExtendedFeatures::from_bits(0x25BF_732F_A229_5AFE);
const DESKTOP: ExtendedFeatures = ExtendedFeatures::from_bits(0x2465_77EF_A225_4AFA);

/// What `Extended features` lines of kernels' logs spell out: x2APIC, guest APIC, virtual APIC,
/// levels of tables.
#[test]
fn features_of_parts_say_what_kernels_print() {
    for (name, features, has_x2apic, host_levels) in
        [("zen2", ZEN_2, true, 2), ("zen4", ZEN_4, true, 2), ("desktop", DESKTOP, false, 2)]
    {
        assert_eq!(features.has_x2apic(), has_x2apic, "{name}");
        assert!(features.has_guest_apic() && features.has_invalidate_all(), "{name}");
        assert!(features.has_page_requests() && features.has_no_execute(), "{name}");
        assert!(features.has_guest_translation() && features.has_counters(), "{name}");
        assert_eq!(features.guest_apic_modes(), ExtendedFeatures::VIRTUAL_APIC, "{name}");
        assert_eq!(features.host_levels(), host_levels, "{name}");
        assert!(!features.has_prefetch() && !features.has_secure_nested_paging(), "{name}");
    }
    assert!(ZEN_4.has_posted_physical_interrupts());
    assert!(!ZEN_2.has_posted_physical_interrupts());
    assert!(ZEN_4.has_guest_update_disable());
    assert_eq!(ZEN_4.process_bits(), 15);
}

#[test]
fn a_feature_is_at_its_bit() {
    let rows = [
        (ExtendedFeatures::new().with_has_x2apic(true), 2),
        (ExtendedFeatures::new().with_has_invalidate_all(true), 6),
        (ExtendedFeatures::new().with_has_guest_apic(true), 7),
        (ExtendedFeatures::new().with_host_levels(1), 10),
        (ExtendedFeatures::new().with_guest_apic_modes(1), 21),
        (ExtendedFeatures::new().with_has_mirrored_msi(true), 46),
        (ExtendedFeatures::new().with_has_host_accessed(true), 49),
        (ExtendedFeatures::new().with_has_host_dirty(true), 52),
        (ExtendedFeatures::new().with_has_secure_nested_paging(true), 63),
    ];
    for (ours, bit) in rows {
        assert_eq!(ours.into_bits(), 1 << bit);
    }
    assert_eq!(ExtendedFeatures2::new().with_secure_avic(1).into_bits(), 1 << 5);
    assert_eq!(ExtendedFeatures2::new().with_remapping_table_mode(1).into_bits(), 1 << 8);
}

#[test]
fn device_table_entries_as_kernels_write_them() {
    let root = SystemPhysical(0x0008_1234_5000);
    let translation = TranslationHalf::new()
        .with_is_valid(true)
        .with_has_translation(true)
        .with_levels(3)
        .with_root(root)
        .with_is_readable(true)
        .with_is_writable(true)
        .with_domain(0x1A);
    let interrupts = InterruptHalf::new()
        .with_is_valid(true)
        .with_table_length(9)
        .with_control(InterruptControl::Remap)
        .with_table(SystemPhysical(0x0009_8765_4080));
    let entry = DeviceTableEntry { translation, interrupts };
    let literal = [0x6000_0008_1234_5603, 0x1A, 0x2000_0009_8765_4093, 0];
    assert_eq!(entry.into_quadwords(), literal);
    assert_eq!(DeviceTableEntry::from_quadwords(literal), entry);
    assert_eq!((translation.root(), interrupts.table().0), (root, 0x0009_8765_4080));
    // Bits by number: the passes for INIT, ExtINT, NMI, LINT0 and LINT1.
    let passes = InterruptHalf::new()
        .with_passes_init(true)
        .with_passes_ext_int(true)
        .with_passes_nmi(true)
        .with_passes_lint0(true)
        .with_passes_lint1(true);
    let bits = [0xB8, 0xB9, 0xBA, 0xBE, 0xBF].map(|bit| 1u128 << (bit - 128));
    assert_eq!(passes.into_bits(), bits.iter().sum::<u128>());
    let others = TranslationHalf::new()
        .with_has_page_requests(true)
        .with_suppresses_all_events(true)
        .with_allows_exclusion(true)
        .with_system_management(3);
    let bits = [0x34, 0x62, 0x67, 0x68, 0x69].map(|bit| 1u128 << bit);
    assert_eq!(others.into_bits(), bits.iter().sum::<u128>());
}

#[test]
fn page_entries_as_kernels_write_them() {
    // IR, IW, FC, U and PR of a leaf, and a table of level 2.
    let leaf = PageEntry::from_bits(0x7800_0000_1234_5001);
    assert!(leaf.is_present() && leaf.is_readable() && leaf.is_writable());
    assert!(leaf.is_coherent() && leaf.is_untranslated());
    assert_eq!((leaf.next_level(), leaf.address()), (0, 0x1234_5000));
    let table = PageEntry::new()
        .with_is_present(true)
        .with_next_level(2)
        .with_address(0x5000)
        .with_is_readable(true)
        .with_is_writable(true);
    assert_eq!(table.into_bits(), 0x6000_0000_0000_5401);
}

#[test]
fn a_sized_leaf_says_its_size_by_the_lowest_zero_of_its_address() {
    for (address, bits) in [
        (0x0000_0000, 13),
        (0x0000_7000, 16),
        (0x000F_F000, 21),
        (0x1234_7000, 16),
        (0x7FFF_F000, 32),
        (0x000F_FFFF_FFFF_F000, 52),
    ] {
        assert_eq!(PageEntry::new().with_address(address).sized_page_bits(), bits, "{address:#x}");
    }
}

#[test]
fn remapping_entries_as_kernels_write_them() {
    let legacy = LegacyEntry::from_bits(0x0031_0541);
    assert!(legacy.is_enabled() && !legacy.is_guest());
    assert_eq!(legacy.destination_mode(), DestinationMode::Logical);
    assert_eq!((legacy.destination(), legacy.vector()), (5, 0x31));
    let wide = RemappedEntry::new()
        .with_is_enabled(true)
        .with_kind(InterruptType::Arbitrated)
        .with_destination(0x1234_5678)
        .with_vector(0x31);
    assert_eq!(wide.into_bits(), 0x1200_0000_0000_0031_0000_0000_3456_7805);
    assert_eq!(wide.destination(), 0x1234_5678);
    let guest = GuestEntry::new()
        .with_is_enabled(true)
        .with_logs(true)
        .with_is_running(true)
        .with_is_guest(true)
        .with_destination(ApicId(0x0100_0003))
        .with_tag(0xDEAD_BEEF)
        .with_vector(0x45)
        .with_backing_page(SystemPhysical(0x0003_2100_0000));
    assert_eq!(guest.into_bits(), 0x0100_0003_2100_0045_DEAD_BEEF_0000_03C5);
    assert_eq!(guest.backing_page(), SystemPhysical(0x0003_2100_0000));
    assert_eq!(guest.destination(), ApicId(0x0100_0003));
    let all = GuestEntry::new()
        .with_logs(true)
        .with_posts_no_physical_interrupt(true)
        .with_is_running(true)
        .with_destination(ApicId(u32::MAX))
        .with_tag(u32::MAX);
    assert_eq!(all.into_bits(), GuestEntry::NEVER_CACHED);
}

#[test]
fn log_entries_as_kernels_read_them() {
    let entry = GuestLogEntry::interrupt(RequesterId(0x0108), 0x0000_1003);
    assert_eq!(entry.into_bits(), 0x1000_0108_0000_1003);
    let event = Event {
        kind: EventKind::PageFault,
        device: RequesterId(0x0008),
        domain: 0x0A,
        flags: EventFlags::WRITE | EventFlags::PRESENT,
        address: 0xFFFF_F000,
    };
    assert_eq!(event.into_quadwords(), [0x2030_000A_0000_0008, 0xFFFF_F000]);
    assert_eq!(EventFlags::INTERRUPT.bits(), 0x008);
    assert_eq!(EventFlags::WRITE.bits(), 0x020);
}

#[test]
fn commands_survive_their_encoding() {
    let at = SystemPhysical(0x0001_2345_6788);
    let rows = [
        (
            Command::CompletionWait { store: Some(at), data: 7, interrupts: false },
            [0x1000_0001_2345_6789, 7],
        ),
        (
            Command::CompletionWait { store: None, data: 0, interrupts: true },
            [0x1000_0000_0000_0002, 0],
        ),
        (Command::InvalidateDevice(RequesterId(0x108)), [0x2000_0000_0000_0108, 0]),
        (
            Command::InvalidatePages { domain: 5, address: Device(0x1000), bits: 12 },
            [0x3000_0005_0000_0000, 0x1000],
        ),
        (
            Command::InvalidatePages { domain: 5, address: Device(0x20_0000), bits: 21 },
            [0x3000_0005_0000_0000, 0x2F_F001],
        ),
        (
            Command::InvalidatePages { domain: 5, address: Device(0), bits: 64 },
            [0x3000_0005_0000_0000, 0x7FFF_FFFF_FFFF_F001],
        ),
        (Command::InvalidateInterrupts(RequesterId(0xA0)), [0x5000_0000_0000_00A0, 0]),
        (Command::InvalidateAll, [0x8000_0000_0000_0000, 0]),
        (Command::Unknown(15), [0xF000_0000_0000_0000, 0]),
        (Command::Unknown(0), [0, 0]),
    ];
    for (command, raw) in rows {
        assert_eq!(command.into_quadwords(), raw, "{command:?}");
        assert_eq!(Command::from_quadwords(raw), command);
    }
}

#[test]
fn any_two_quadwords_are_a_command() {
    let values = [0, 1, 0xFFF, 0x1000, 1 << 52, 1 << 63, 0x7FFF_FFFF_FFFF_F001, u64::MAX];
    for number in 0..16 {
        for low in values {
            for high in values {
                let raw = [number << 60 | low >> 4, high];
                let command = Command::from_quadwords(raw);
                assert_eq!(Command::from_quadwords(command.into_quadwords()), command);
            }
        }
    }
}

#[test]
fn interrupts_of_the_unit_itself_have_32_bits_of_destination() {
    let destination = InterruptDestination::from_bits(0x1200_0031_3456_7804);
    assert_eq!(destination.destination(), 0x1234_5678);
    assert_eq!(destination.vector(), 0x31);
    assert_eq!(destination.destination_mode(), DestinationMode::Logical);
}

#[test]
fn a_block_has_its_fields_where_kernels_read_them() {
    let block = Block {
        kind: BlockType::Extended,
        flags: Block::COHERENT,
        device: RequesterId(0x0002),
        capability: 0x40,
        base: 0xFD20_0000,
        features: DESKTOP,
        features2: ExtendedFeatures2::new(),
    };
    let bytes = block.header(16);
    assert_eq!(bytes[..8], [0x11, 0x20, 56, 0, 2, 0, 0x40, 0]);
    assert_eq!(bytes[8..16], 0xFD20_0000u64.to_le_bytes());
    assert_eq!(bytes[16..24], [0; 8]);
    assert_eq!(bytes[24..32], 0x2465_77EF_A225_4AFAu64.to_le_bytes());
    let basic = Block { kind: BlockType::Basic, ..block }.header(16);
    assert_eq!(basic[..4], [0x10, 0x20, 40, 0]);
    assert_ne!(basic[20] & 1 << 6, 0, "GASup");
    assert_eq!(basic[23] >> 6, 2, "HATS");
}

#[test]
fn device_entries_and_information_as_machines_have_them() {
    let flags = device_flag::LINT1
        | device_flag::LINT0
        | device_flag::NMI
        | device_flag::EXT_INT
        | device_flag::INIT;
    assert_eq!(flags, 0xC7);
    assert_eq!(
        special(Special::IoApic, 0x20, RequesterId(0x00A0), flags),
        [0x48, 0, 0, 0xC7, 0x20, 0xA0, 0, 1]
    );
    assert_eq!(range(RequesterId(0x0003), RequesterId(0xFFFE), 0), [3, 3, 0, 0, 4, 0xFE, 0xFF, 0]);
    let information = Information::from_bits(0x0020_3043);
    assert!(information.has_features() && information.protects_before_boot());
    assert_eq!((information.physical_size(), information.virtual_size()), (48, 64));
    assert_eq!(information.guest_virtual_size(), 2);
}
