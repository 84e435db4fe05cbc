//! [SDM3 "Determining IPI Destination"] [APM2 "Interrupt Destination"]

use crate::subject::*;
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage, Register};
use interrupt::{Acceptance, LocalApic};

fn physical(destination: u32) -> InterruptMessage {
    InterruptMessage { destination, ..fixed(0x41) }
}

fn logical(destination: u32) -> InterruptMessage {
    InterruptMessage { destination_mode: DestinationMode::Logical, ..physical(destination) }
}

fn from_x2apic(message: InterruptMessage) -> InterruptMessage {
    InterruptMessage { is_x2apic: true, ..message }
}

fn with_logical_id(format: u32, logical_id: u32) -> LocalApic {
    let mut apic = xapic(amd(3));
    write(&mut apic, Register::DestinationFormat, format << 28);
    write(&mut apic, Register::LogicalDestination, logical_id << 24);
    apic
}

#[test]
fn physical_over_all_identifiers_and_destinations() {
    for id in 0..=255 {
        let apic = xapic(amd(id));
        for destination in 0..=255 {
            let expected = destination == id || destination == 0xFF;
            assert_eq!(apic.matches(&physical(destination)), expected, "{destination} to {id}");
        }
    }
}

#[test]
fn flat_over_all_logical_identifiers_and_destinations() {
    for logical_id in 0..=255 {
        let apic = with_logical_id(0xF, logical_id);
        for destination in 0..=255 {
            let expected = destination & logical_id != 0 || destination == 0xFF;
            assert_eq!(apic.matches(&logical(destination)), expected);
        }
    }
}

#[test]
fn cluster_over_all_logical_identifiers_and_destinations() {
    for logical_id in 0..=255u32 {
        let apic = with_logical_id(0, logical_id);
        for destination in 0..=255u32 {
            let same_cluster = destination / 16 == logical_id / 16;
            let member = destination & logical_id & 0xF != 0;
            let expected = same_cluster && member || destination == 0xFF;
            assert_eq!(apic.matches(&logical(destination)), expected);
        }
    }
}

#[test]
fn undefined_formats_match_only_broadcast() {
    for format in 1..0xF {
        let apic = with_logical_id(format, 0xFF);
        for destination in 0..=255 {
            assert_eq!(apic.matches(&logical(destination)), destination == 0xFF);
        }
    }
}

#[test]
fn x2apic_logical_over_clusters_and_members() {
    for id in [0, 1, 15, 16, 0x2F, 0xFF, 0x100, 0x3FE, 0x1234, 0xF_FFFE] {
        let apic = x2apic(intel(id));
        for cluster in [0, 1, 2, 0xF, 0x10, 0x3F, 0x123, 0xFFFF] {
            for members in (0..16).map(|bit| 1u32 << bit).chain([0, 0xFFFF, 0xAAAA, 0x5555]) {
                let destination = cluster << 16 | members;
                let member = members >> (id & 15) & 1 != 0;
                let expected = cluster == id >> 4 & 0xFFFF && member || destination == u32::MAX;
                let message = from_x2apic(logical(destination));
                assert_eq!(apic.matches(&message), expected, "{destination:x} to {id:x}");
            }
        }
    }
}

#[test]
fn broadcast_is_all_ones_in_the_senders_width() {
    for (destination, sender_is_x2apic, is_broadcast) in
        [(0xFF, false, true), (0xFF, true, false), (0xFFFF_FFFF, true, true), (0xFFFF, true, false)]
    {
        for mut message in [physical(destination), logical(destination)] {
            message.is_x2apic = sender_is_x2apic;
            // Outside any cluster and flat mask that the logical destinations name.
            for apic in [with_logical_id(0xF, 0), x2apic(amd(0xF_0003))] {
                assert_eq!(apic.matches(&message), is_broadcast, "{message:?}");
            }
        }
    }
}

#[test]
fn apic_255_has_an_address_of_its_own_in_32_bits() {
    for (id, expected) in [(0xFF, true), (0x1FF, false), (0, false)] {
        assert_eq!(x2apic(intel(id)).matches(&from_x2apic(physical(0xFF))), expected);
    }
}

#[test]
fn xapic_identifier_is_what_software_wrote() {
    let mut apic = xapic(amd(3));
    write(&mut apic, Register::Id, 0x0900_0000);
    assert!(apic.matches(&physical(9)));
    assert!(!apic.matches(&physical(3)));
}

#[test]
fn wide_destination_does_not_alias_a_narrow_identifier() {
    let apic = xapic(amd(3));
    assert!(apic.matches(&from_x2apic(physical(3))));
    assert!(!apic.matches(&from_x2apic(physical(0x103))));
    assert!(!with_logical_id(0xF, 1).matches(&from_x2apic(logical(0x1_0001))));
}

#[test]
fn what_each_state_of_enabling_accepts() {
    use Acceptance::*;
    for (delivery_mode, when_enabled, when_software_disabled) in [
        (DeliveryMode::Fixed, Queued, Ignored),
        (DeliveryMode::LowestPriority, Queued, Ignored),
        (DeliveryMode::Smi, Smi, Smi),
        (DeliveryMode::RemoteRead, Ignored, Ignored),
        (DeliveryMode::Nmi, Nmi, Nmi),
        (DeliveryMode::Init, Init, Init),
        (DeliveryMode::Startup, Startup(0x41), Startup(0x41)),
        (DeliveryMode::ExtInt, ExtInt, Ignored),
    ] {
        let message = InterruptMessage { delivery_mode, ..physical(3) };
        for model in models(3) {
            let mut apic = xapic(model);
            assert_eq!(apic.accept(&message), when_enabled);
            write(&mut apic, Register::SpuriousVector, 0xFF);
            assert_eq!(apic.matches(&message), when_software_disabled != Ignored);
            assert_eq!(apic.accept(&message), when_software_disabled);
            apic.write_base(DISABLED, NOW, PHYSICAL_BITS).unwrap();
            assert!(!apic.matches(&message));
            assert_eq!(apic.accept(&message), Ignored);
        }
    }
}
