//! Which APICs a device's message reaches.

use crate::oracle::*;
use arch::address::Device;
use arch::apic::{DeliveryMode, Register, Scope};
use arch::msi::{DestinationWidth, MessageAddress, MessageData, MessageSignalled};

fn message(destination: u32, is_logical: bool, data: MessageData) -> MessageSignalled {
    let address = 0xFEE0_0000 | destination << 12 | u32::from(is_logical) << 2;
    MessageSignalled { address: Device(address.into()), data: data.into_bits() }
}

/// Sends on both sides and compares counts and vectors.
fn check(pair: &mut Pair, message: MessageSignalled) {
    let what = format!("{message:x?}");
    let interrupt = message.interrupt(DestinationWidth::Eight).expect("a message");
    let ours = pair.deliver(&interrupt, Scope::Destination, None);
    let theirs = pair.signal(message.address.0, message.data);
    assert_eq!(ours, theirs, "APICs that took {what}");
    pair.compare_vectors(&what);
}

fn check_all_destinations(pair: &mut Pair) {
    for is_logical in [false, true] {
        for destination in 0..=255 {
            for is_level in [false, true] {
                let data = MessageData::new()
                    .with_vector(vector(destination).0)
                    .with_is_asserted(true)
                    .with_is_level(is_level);
                check(pair, message(destination, is_logical, data));
            }
        }
        pair.forget_requests();
    }
}

fn set_logical(pair: &mut Pair, format: u32, ids: &[u32]) {
    for cpu in pair.cpus() {
        pair.write(cpu, Register::DestinationFormat, format);
        pair.write(cpu, Register::LogicalDestination, ids[cpu] << 24);
    }
}

#[test]
fn all_8_bit_destinations_with_flat_logical_identifiers() {
    let Some(mut pair) = Pair::new(&[0, 1, 2, 3], 0) else { return };
    for ids in [[1, 2, 4, 8], [0, 0, 0, 0], [1, 1, 0x80, 0x40]] {
        set_logical(&mut pair, 0xFFFF_FFFF, &ids);
        check_all_destinations(&mut pair);
    }
}

#[test]
fn all_8_bit_destinations_with_cluster_logical_identifiers() {
    let Some(mut pair) = Pair::new(&[0, 1, 2, 3], 0) else { return };
    for ids in [[0x01, 0x02, 0x11, 0x12], [0x31, 0x31, 0xE8, 0xE4], [0x21, 0x24, 0x41, 0x42]] {
        set_logical(&mut pair, 0x0FFF_FFFF, &ids);
        check_all_destinations(&mut pair);
    }
}

#[test]
fn all_8_bit_destinations_to_x2apic_mode() {
    let Some(mut pair) = Pair::new(&[0, 1, 5, 9], 0) else { return };
    for cpu in pair.cpus() {
        pair.enter_x2apic_mode(cpu);
    }
    check_all_destinations(&mut pair);
}

#[test]
fn identifiers_that_software_changed() {
    let Some(mut pair) = Pair::new(&[0, 1, 2, 3], 0) else { return };
    pair.write(2, Register::Id, 0x4200_0000);
    check_all_destinations(&mut pair);
}

#[test]
fn apics_disabled_by_software_take_no_vectors() {
    let Some(mut pair) = Pair::new(&[0, 1, 2], 0) else { return };
    pair.write(1, Register::SpuriousVector, 0xFF);
    set_logical(&mut pair, 0xFFFF_FFFF, &[1, 2, 4]);
    check_all_destinations(&mut pair);
}

/// KVM picks the target of a lowest-priority message by its vector among the addressed bits; so
/// the one that it chose must be one that we match. It may pick a bit that no APIC has and drop the
/// message, which is why only bits that exist are addressed here.
#[test]
fn lowest_priority_messages_have_one_target_among_those_addressed() {
    let Some(mut pair) = Pair::new(&[0, 1, 2, 3], 0) else { return };
    set_logical(&mut pair, 0xFFFF_FFFF, &[1, 2, 4, 8]);
    for destination in (0..16).chain([0xFF]) {
        let data = MessageData::new()
            .with_vector(0x51)
            .with_is_asserted(true)
            .with_delivery_mode(DeliveryMode::LowestPriority);
        let sent = message(destination, true, data);
        let interrupt = sent.interrupt(DestinationWidth::Eight).expect("a message");
        let matching: Vec<bool> = pair.ours.iter().map(|apic| apic.matches(&interrupt)).collect();
        let ours = pair.deliver(&interrupt, Scope::Destination, None);
        assert_eq!(pair.signal(sent.address.0, sent.data), ours, "destination {destination:x}");
        let took = |cpu: &usize| pair.read_kvm(*cpu, Register::Request(2)) != 0;
        let chosen: Vec<usize> = pair.cpus().filter(took).collect();
        assert_eq!(chosen.len(), ours);
        assert!(chosen.iter().all(|cpu| matching[*cpu]), "{chosen:?} of {matching:?}");
        pair.forget_requests();
    }
}

/// KVM's interface has the upper bits of a wide destination elsewhere than the message that a guest
/// writes, so each side gets its own form.
#[test]
fn fifteen_bit_destinations_to_x2apic_mode() {
    let ids = [0, 1, 255, 256, 300];
    let Some(mut pair) = Pair::new(&ids, WIDE_IDS | WIDE_BROADCAST) else { return };
    for cpu in pair.cpus() {
        pair.enter_x2apic_mode(cpu);
    }
    for destination in (0..0x140u32).chain([0x7F00, 0x7FFF]) {
        let data = MessageData::new().with_vector(vector(destination).0).with_is_asserted(true);
        let address = MessageAddress::new()
            .with_window(0xFEE)
            .with_destination_low(destination as u8)
            .with_destination_high((destination >> 8) as u8);
        let sent = MessageSignalled {
            address: Device(address.into_bits().into()),
            data: data.into_bits(),
        };
        let interrupt = sent.interrupt(DestinationWidth::Fifteen).expect("a message");
        let ours = pair.deliver(&interrupt, Scope::Destination, None);
        let low = u64::from(address.with_destination_high(0).into_bits());
        let theirs = pair.signal(u64::from(destination & !0xFF) << 32 | low, sent.data);
        assert_eq!(ours, theirs, "destination {destination:x}");
        pair.compare_vectors(&format!("destination {destination:x}"));
    }
}
